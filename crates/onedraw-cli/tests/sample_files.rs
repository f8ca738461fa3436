//! Where logits come from: the formats give the same tokens, and a bad file is named.

use crate::support::{Folder, PLAIN, coarse, npy, npy_f16, npy_of, onedraw, onedraw_with_input, safetensors};

const PARAMS: &str = r#"{"seed": 11, "temperature": 0.9, "top_p": 0.95}"#;

#[test]
fn every_format_and_dtype_gives_the_same() {
    let folder = Folder::new();
    let rows = [coarse(500, 1), coarse(500, 2)];
    let rows = [&rows[0][..], &rows[1]];
    let from_input = |bytes: &[u8]| {
        onedraw_with_input(&["sample", "-", "--params", PARAMS, "--draws", "5", "--logprobs", "3"], bytes)
    };
    let expected = from_input(&npy(&rows));
    assert_eq!(expected.lines().len(), 10);
    assert_eq!(from_input(&npy_f16(&rows)), expected);
    for (name, bytes) in [
        ("f32.npy", npy(&rows)),
        ("f16.npy", npy_f16(&rows)),
        ("F32.NPY", npy(&rows)),
        ("f32.safetensors", safetensors("logits", "F32", &rows)),
        ("f16.safetensors", safetensors("logits", "F16", &rows)),
        ("bf16.safetensors", safetensors("logits", "BF16", &rows)),
        ("npy.bin", npy(&rows)),
        ("npy", npy_f16(&rows)),
        ("safetensors.bin", safetensors("logits", "BF16", &rows)),
    ] {
        let logits = folder.file(name, &bytes);
        let run = onedraw(&["sample", &logits, "--params", PARAMS, "--draws", "5", "--logprobs", "3"]);
        assert_eq!(run, expected, "{name}");
    }
}

#[test]
fn one_dimension_is_one_row() {
    let folder = Folder::new();
    let data: Vec<u8> = PLAIN.iter().flat_map(|value| value.to_le_bytes()).collect();
    let one = folder.file("one.npy", &npy_of("<f4", "(3,)", &data));
    let two = folder.file("two.npy", &npy_of("<f4", "(1, 3)", &data));
    assert_eq!(
        onedraw(&["sample", &one, "--params", PARAMS]),
        onedraw(&["sample", &two, "--params", PARAMS])
    );
}

#[test]
fn a_bad_file_is_one_line() {
    let folder = Folder::new();
    let refused = |logits: &str| {
        let run = onedraw(&["sample", logits, "--params", PARAMS]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{logits}");
        run.stderr
    };
    let good = npy(&[&PLAIN]);
    for (name, bytes, problem) in [
        ("empty.npy", &b""[..], "not a .npy file: it is empty"),
        (
            "zip.npy",
            b"PK\x03\x04",
            "not a .npy file: it begins with 50 4b 03 04, not with 93 4e 55 4d 50 59 (\\x93NUMPY)",
        ),
        (
            "i8.npy",
            &npy_of("<i8", "(1,)", &[0; 8]),
            "dtype '<i8' is not read; allowed are '<f4' (f32), '<f2' (f16) and '<f8' (f64)",
        ),
        ("cut.npy", &good[..good.len() - 1], "the data is cut short: 11 bytes found, 12 needed by the shape"),
        ("cut.safetensors", b"{}", "not a .safetensors file: 2 bytes found, at least 8 needed"),
        (
            "other.safetensors",
            &safetensors("scores", "F32", &[&PLAIN]),
            "has no tensor `logits`; it has scores",
        ),
        (
            "logits.txt",
            b"1 2 3",
            "neither a .npy nor a .safetensors file; accepted are .npy (f32, f16, f64), .safetensors with a tensor \
             `logits` (f32, f16, bf16), and - for a .npy on standard input",
        ),
    ] {
        let path = folder.file(name, bytes);
        assert_eq!(refused(&path), format!("error: {path}: {problem}\n"));
    }
    let missing = format!("{}/none.npy", folder.path().display());
    assert!(refused(&missing).starts_with(&format!("error: {missing}: cannot be opened: ")));
    assert!(refused(folder.path().to_str().expect("UTF-8")).contains("cannot be "));
    let odd = folder.file("two\nlines.npy", b"");
    assert_eq!(refused(&odd), format!("error: {}: not a .npy file: it is empty\n", odd.replace('\n', "\\n")));
    let input = onedraw_with_input(&["sample", "-"], &good[..20]);
    assert_eq!((input.code, input.stdout.as_str()), (2, ""));
    let needed = good.len() - 12;
    let expected = format!(
        "error: standard input: the .npy header is cut short: 20 bytes found, at least {needed} needed\n"
    );
    assert_eq!(input.stderr, expected);
}
