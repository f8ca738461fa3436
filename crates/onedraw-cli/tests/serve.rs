//! `onedraw serve` as a process: its address, its log, its keys, its end. What it answers is tested in onedraw-serve.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Folder, onedraw};

/// A server that is told to end, and what it said.
struct Serving {
    process: Child,
    address: String,
}

/// Starts a server on a free port, with a key in the environment if there is one.
fn serve(flags: &[&str], key: Option<&str>) -> Serving {
    start("serve", flags, key)
}

fn start(name: &str, flags: &[&str], key: Option<&str>) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onedraw"));
    command.args([name, "--port", "0"]).args(flags).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("ONEDRAW_API_KEY");
    if let Some(key) = key {
        command.env("ONEDRAW_API_KEY", key);
    }
    let mut process = command.spawn().expect("a server");
    let mut line = String::new();
    let out = process.stdout.take().expect("standard output");
    BufReader::new(out).read_line(&mut line).expect("an address");
    let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line:?}")).to_owned();
    Serving { process, address }
}

impl Serving {
    /// Sends a request and reads the answer.
    fn ask(&self, path: &str, header: &str, body: &str) -> String {
        let port = self.address.rsplit(':').next().expect("a port");
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a connection");
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}content-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Tells it to end as service managers do. Returns what it said.
    fn end(mut self) -> String {
        let kill =
            Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().expect("kill");
        assert!(kill.success());
        let mut said = String::new();
        self.process.stderr.take().expect("standard error").read_to_string(&mut said).expect("UTF-8");
        assert_eq!(self.process.wait().expect("an end").code(), Some(0), "{said}");
        said
    }
}

const BODY: &str = r#"{"prompt": "Once upon a time", "seed": 7, "max_tokens": 20}"#;
const STORY: &str = ", there was a little girl named Lily. She loved to play outside in the park. One day";

/// The laboratory is a server on loopback, whose page asks what a shell can ask too. The code that it gives for a text
/// writes that text.
#[test]
fn the_laboratory_is_served_and_its_command_writes_its_text() {
    let server = start("lab", &[], None);
    assert!(server.address.starts_with("127.0.0.1:"), "{}", server.address);
    let question = r#"{"prompt": "Tom's \"big\" dog", "params": {"seed": "7", "max_tokens": 20, "min_p": 0.1, "stop": ["!"]}}"#;
    let lines = |answer: String| -> Vec<Value> {
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        // Between them are the lengths of the chunks.
        body.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
    };
    let written = lines(server.ask("/lab/write", "", question));
    let text = written.last().expect("lines")["text"].as_str().expect("a text").to_owned();
    let about = lines(server.ask("/lab/about", "", "{}")).remove(0);
    let drafters = about["drafters"].as_array().expect("drafters");
    let names: Vec<&str> = drafters.iter().map(|drafter| drafter["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["ngram", "early-exit", "draft", "eagle"]);
    let code = lines(server.ask("/lab/code", "", question)).remove(0);
    server.end();
    let command = code["program"].as_str().expect("a command");
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_onedraw")).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh").args(["-c", command]).env("PATH", path).output().expect("a shell");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(said, format!("Tom's \"big\" dog{text}\n"), "{command}");
}

#[test]
fn it_answers_until_it_is_told_to_end() {
    let server = serve(&["--log-format", "json"], None);
    assert!(server.address.starts_with("127.0.0.1:"), "{}", server.address);
    let answer = server.ask("/v1/completions", "", BODY);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(STORY), "{answer}");
    let said = server.end();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let line = lines.iter().find(|line| line["message"] == "request").expect("a line for the request");
    assert_eq!(
        (&line["method"], &line["path"], &line["status"]),
        (&"POST".into(), &"/v1/completions".into(), &200.into())
    );
    assert_eq!(
        (&line["prompt_tokens"], &line["output_tokens"], &line["seed"]),
        (&5.into(), &20.into(), &7.into())
    );
    assert!(line["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
    assert!(line["id"].as_str().is_some_and(|id| id.starts_with("req-") && answer.contains(id)), "{line}");
    // Nobody reads here what people write.
    assert!(!said.contains("Once upon a time") && !said.contains("Lily"), "{said}");
}

#[test]
fn prompts_are_logged_only_if_asked() {
    let server = serve(&["--log-prompts"], None);
    server.ask("/v1/completions", "", BODY);
    let said = server.end();
    assert!(said.contains("prompt=\"Once upon a time\"") && !said.contains("Lily"), "{said}");
}

#[test]
fn keys_come_from_flags_and_the_environment() {
    let server = serve(&["--api-key", "one"], Some("two"));
    for (key, status) in [("one", 200), ("two", 200), ("three", 401)] {
        let answer = server.ask("/v1/completions", &format!("authorization: Bearer {key}\r\n"), BODY);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{key}: {answer}");
    }
    assert!(!server.end().contains("key is needed"));
}

/// With a drafter, and with the prompt of a chat: the same text.
#[test]
fn guesses_and_traces_change_no_text() {
    let folder = Folder::new();
    let trace = folder.path().join("trace.jsonl");
    let trace = trace.to_str().expect("UTF-8");
    let server = serve(&["--draft", "--trace", trace], None);
    assert!(server.ask("/v1/completions", "", BODY).contains(STORY));
    server.end();
    let audit = onedraw(&["audit", trace]);
    assert_eq!(audit.code, 0, "{}", audit.stderr);
    assert!(
        audit.stdout.starts_with("line 1: same model and sampler; 20 of 20 tokens equal\n"),
        "{}",
        audit.stdout
    );
}

#[test]
fn an_open_address_without_a_key_is_warned_of() {
    let warning = "anybody who reaches this address can use the server";
    let open = serve(&["--host", "0.0.0.0"], None);
    assert!(open.ask("/v1/completions", "", BODY).contains(STORY));
    assert!(open.end().contains(warning));
    assert!(!serve(&["--host", "0.0.0.0", "--api-key", "k"], None).end().contains(warning));
}

#[test]
fn what_cannot_be_served_says_why() {
    let server = serve(&[], None);
    let port = server.address.rsplit(':').next().expect("a port").to_owned();
    for (flags, message) in [
        (&["--port", port.as_str()][..], "127.0.0.1:"),
        (&["--model", "/nowhere"], "/nowhere"),
        (&["--host", "localhost"], "--host"),
        (&["--max-running", "0"], "--max-running"),
        (&["--timeout", "soon"], "--timeout"),
        (&["--api-key", ""], "--api-key: a key must be of visible ASCII"),
        (&["--api-key", "two\nlines"], "--api-key: a key must be of visible ASCII"),
        (&["--trace", "/nowhere/t"], "the trace cannot be written"),
        (&["--early-exit", "99"], "--early-exit"),
        (&["--prot", "1"], "--port"),
    ] {
        let run = onedraw(&[&["serve"], flags].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{flags:?}");
        assert!(
            run.stderr.starts_with("error: ") && run.stderr.contains(message),
            "{flags:?}: {}",
            run.stderr
        );
    }
    server.end();
}
