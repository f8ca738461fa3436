//! Files of logits made for a test, and the program run on them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use half::{bf16, f16};
use serde_json::Value;
use tempfile::TempDir;

/// A folder that goes away with the test.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// Writes rows as a `.npy` of f32.
    pub fn npy(&self, name: &str, rows: &[&[f32]]) -> String {
        self.file(name, &npy(rows))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

fn concatenate<const N: usize>(rows: &[&[f32]], bytes: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
    rows.iter().flat_map(|row| row.iter()).flat_map(|&value| bytes(value)).collect()
}

/// A `.npy` of that dtype and shape, version 1.0.
pub fn npy_of(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// Rows as a `.npy` of f32 and shape `[B, V]`.
pub fn npy(rows: &[&[f32]]) -> Vec<u8> {
    let shape = format!("({}, {})", rows.len(), rows[0].len());
    npy_of("<f4", &shape, &concatenate(rows, f32::to_le_bytes))
}

/// As [`npy`], of f16.
pub fn npy_f16(rows: &[&[f32]]) -> Vec<u8> {
    let shape = format!("({}, {})", rows.len(), rows[0].len());
    npy_of("<f2", &shape, &concatenate(rows, |value| f16::from_f32(value).to_le_bytes()))
}

/// Rows as the tensor of that name in a `.safetensors`; the dtype is F32, F16 or BF16.
pub fn safetensors(name: &str, dtype: &str, rows: &[&[f32]]) -> Vec<u8> {
    let data = match dtype {
        "F32" => concatenate(rows, f32::to_le_bytes),
        "F16" => concatenate(rows, |value| f16::from_f32(value).to_le_bytes()),
        "BF16" => concatenate(rows, |value| bf16::from_f32(value).to_le_bytes()),
        other => panic!("no dtype {other}"),
    };
    let (height, width, length) = (rows.len(), rows[0].len(), data.len());
    let header = format!(
        r#"{{"{name}":{{"dtype":"{dtype}","shape":[{height},{width}],"data_offsets":[0,{length}]}}}}"#
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// What came of a run.
#[derive(Debug, PartialEq)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// The lines of JSON, after a run without any trouble.
    pub fn lines(&self) -> Vec<Value> {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""));
        self.lines_whatever_happened()
    }

    pub fn lines_whatever_happened(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The tokens, after a run without any trouble.
    pub fn tokens(&self) -> Vec<u64> {
        self.lines().iter().map(|line| line["token"].as_u64().expect("a token")).collect()
    }
}

/// Starts the program, with everything piped.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onedraw"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program with nothing on standard input.
pub fn onedraw(arguments: &[&str]) -> Run {
    onedraw_with_input(arguments, &[])
}

pub fn onedraw_with_input(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = command(arguments).spawn().expect("started");
    child.stdin.take().expect("piped").write_all(input).expect("input taken");
    let output = child.wait_with_output().expect("ended");
    Run {
        code: output.status.code().expect("not killed"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Three tokens of probability 0.6, 0.3 and 0.1.
pub const PLAIN: [f32; 3] = [-0.510_825_6, -1.203_972_8, -std::f32::consts::LN_10];

/// Numbers that f16 and bf16 hold exactly, spread over about ±4, with ties.
pub fn coarse(length: usize, salt: u32) -> Vec<f32> {
    let value = |i: u32| ((i ^ salt).wrapping_mul(2_654_435_761) >> 26) as f32 / 8.0 - 4.0;
    (0..length as u32).map(value).collect()
}

/// The repository, where the commands of documents run.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The lines of every shell block of a document, and what stands between backquotes in its tables, as far as
/// they call the program.
pub fn commands(document: &str) -> Vec<String> {
    let mut in_shell = false;
    let mut commands = Vec::new();
    for line in document.lines() {
        match line {
            "```sh" => in_shell = true,
            "```" => in_shell = false,
            _ if in_shell => commands.push(line.to_owned()),
            _ if line.starts_with('|') => {
                commands.extend(line.split('`').skip(1).step_by(2).map(str::to_owned))
            }
            _ => {}
        }
    }
    commands.retain(|command| command.starts_with("onedraw ") || command.starts_with("show '"));
    commands
}

/// Runs a command of a document as a reader would, after `definition`, with the program on the path. It must
/// print something; a picture that it writes must be the one that is there.
pub fn run_as_written(definition: &str, command: &str) {
    let folder = Folder::new();
    let program = Path::new(env!("CARGO_BIN_EXE_onedraw"));
    let programs = program.parent().expect("a folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
    let (before, picture) = match command.split_once(" --output ") {
        Some((before, picture)) => (before, Some(picture)),
        None => (command, None),
    };
    let written = picture.map(|picture| folder.path().join(picture.replace('/', "-")));
    let output = written.as_ref().map_or(String::new(), |path| format!(" --output {}", path.display()));
    let run = Command::new("sh")
        .arg("-c")
        .arg(format!("{definition}\n{before}{output}"))
        .current_dir(repository())
        .env("PATH", &path)
        .output()
        .expect("a shell");
    assert!(run.status.success(), "{command}\n{}", String::from_utf8_lossy(&run.stderr));
    match (picture, written) {
        (Some(picture), Some(written)) => {
            let there = std::fs::read(repository().join(picture)).expect(picture);
            assert!(there == std::fs::read(written).expect(command), "{command} paints another picture");
        }
        _ => assert!(!run.stdout.is_empty(), "{command} prints nothing"),
    }
}
