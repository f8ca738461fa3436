//! `onedraw generate` with the model that is part of the program, and what may happen to its output.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{command, onedraw};

const PROMPT: &str = "Once upon a time";

fn json(arguments: &[&str]) -> Value {
    let line = [&["generate", PROMPT, "--seed", "7", "--format", "json"], arguments].concat();
    let mut lines = onedraw(&line).lines();
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

#[test]
fn a_story_needs_no_model_and_no_parameter() {
    let story = json(&[]);
    let text = story["text"].as_str().expect("a text");
    assert_eq!((&story["finish_reason"], &story["seed"]), (&"eos".into(), &7.into()));
    assert!(text.starts_with(", ") && text.split_whitespace().count() > 40, "{text}");
    // What it comes with is `balanced`.
    let same = [
        &["--preset", "balanced"][..],
        &["--temperature", "0.7", "--top-p", "0.9", "--top-k", "50", "--order", "vllm"],
        // The folder that is part of the program.
        &["--model", concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories")],
    ];
    for arguments in same {
        assert_eq!(json(arguments)["tokens"], story["tokens"], "{arguments:?}");
    }
    assert_ne!(json(&["--temperature", "1.5"])["tokens"], story["tokens"]);
    let shown = onedraw(&["generate", PROMPT, "--seed", "7", "--stats"]);
    assert_eq!((shown.code, shown.stdout), (0, format!("{PROMPT}{text}\n")));
    assert!(
        shown.stderr.starts_with("prompt 5 tokens, ") && shown.stderr.ends_with("time\n"),
        "{}",
        shown.stderr
    );
    assert_eq!(shown.stderr.lines().count(), 1);
}

#[test]
fn a_stage_that_the_models_order_lacks_can_be_asked_for() {
    let story = json(&["--xtc-probability", "1", "--max-tokens", "20"]);
    assert_eq!(story["tokens"].as_array().map(Vec::len), Some(20));
    assert_ne!(story["tokens"], json(&["--max-tokens", "20"])["tokens"]);
}

#[test]
fn logprobs_of_prompt_and_text_are_reported() {
    let story = json(&["--prompt-logprobs", "2", "--logprobs", "1", "--max-tokens", "3"]);
    let prompt = story["prompt_logprobs"].as_array().expect("logprobs of the prompt");
    assert_eq!(prompt.len(), 5);
    assert_eq!(prompt[0], Value::Null);
    for (entry, rest) in prompt[1..].iter().zip(["Once", " upon", " a", " time"]) {
        let listed = entry["logprobs"].as_array().expect("a list");
        assert!(listed.len() == 2 || listed.len() == 3, "{rest}: {entry}");
        assert_eq!((&listed[0]["token"], &listed[0]["rank"]), (&entry["token"], &entry["rank"]), "{rest}");
    }
    // After "Once upon a" nearly every story goes on with " time".
    assert!(prompt[4]["logprob"].as_f64().expect("a number") > -0.05, "{}", prompt[4]);
    assert_eq!(story["logprobs"].as_array().map(Vec::len), Some(3));
}

/// It was not trained on chats: its template is the text of the messages.
#[test]
fn a_chat_goes_on_with_its_message() {
    let text = |flags: &[&str]| {
        let run = onedraw(
            &[&["generate", PROMPT, "--seed", "7", "--max-tokens", "20", "--format", "json"], flags].concat(),
        );
        assert_eq!(run.code, 0, "{}", run.stderr);
        let line: serde_json::Value = serde_json::from_str(&run.stdout).expect("a line");
        line["text"].as_str().expect("a text").to_owned()
    };
    assert_eq!(text(&["--chat"]), text(&[]));
}

const LONG: [&str; 7] = ["generate", PROMPT, "--seed", "7", "--ignore-eos", "--max-tokens", "500"];

/// `head` has seen enough: that ends the text, and is no error.
#[test]
fn a_closed_pipe_is_the_end() {
    let mut child = command(&LONG).spawn().expect("started");
    drop(child.stdin.take());
    let mut begin = [0; 20];
    child.stdout.take().expect("piped").read_exact(&mut begin).expect("the beginning");
    assert_eq!(&begin[..16], PROMPT.as_bytes());
    let end = child.wait_with_output().expect("ended");
    assert_eq!((end.status.code(), String::from_utf8_lossy(&end.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: there is no /dev/full");
        return;
    };
    let mut child = command(&LONG).stdout(Stdio::from(full)).spawn().expect("started");
    drop(child.stdin.take());
    let end = child.wait_with_output().expect("ended");
    let message = String::from_utf8_lossy(&end.stderr);
    assert_eq!((end.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.starts_with("error: the results cannot be written: "), "{message}");
}

/// Starts the program and interrupts it once `ready` has seen enough of its output; what it wrote. Without an
/// instruction that multiplies and adds at once it takes many seconds, so it is not at its end before.
#[cfg(unix)]
fn interrupted(arguments: &[&str], ready: impl FnOnce(&mut std::process::ChildStdout) -> Vec<u8>) -> String {
    let slow = ["--kernel", "scalar", "--threads", "1"];
    let mut child = command(&[&LONG[..], &slow, arguments].concat()).spawn().expect("started");
    drop(child.stdin.take());
    let mut stdout = child.stdout.take().expect("piped");
    let mut text = ready(&mut stdout);
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    stdout.read_to_end(&mut text).expect("the rest");
    let end = child.wait_with_output().expect("ended");
    assert_eq!((end.status.code(), String::from_utf8_lossy(&end.stderr).as_ref()), (Some(0), ""));
    String::from_utf8(text).expect("UTF-8")
}

/// The text so far, a line end, and no error.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_with_what_there_is() {
    let whole = onedraw(&LONG).stdout;
    let text = interrupted(&[], |stdout| {
        let mut text = vec![0; PROMPT.len() + 2];
        stdout.read_exact(&mut text).expect("the beginning");
        text
    });
    let text = text.strip_suffix('\n').expect("a line end");
    assert!(whole.starts_with(text) && text.len() > PROMPT.len(), "{text}");
    assert!(text.len() < whole.len() - 1, "the text was written to its end");
}

/// JSON is a line a text, with what was held back for a stop string.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_line_for_each_text() {
    let whole = json(&["--ignore-eos", "--max-tokens", "60"])["text"].as_str().expect("a text").to_owned();
    let stop = format!("{whole}~~~");
    let arguments = ["--format", "json", "-n", "2", "--stop", &stop];
    let lines = interrupted(&arguments, |_| {
        // Nothing is written before the end, so there is nothing to wait for but time: a few tokens, or none.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        Vec::new()
    });
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!((&line["finish_reason"], &line["seed"]), (&Value::Null, &7.into()));
    }
    let (text, tokens) =
        (lines[0]["text"].as_str().expect("a text"), lines[0]["tokens"].as_array().expect("tokens"));
    assert!(whole.starts_with(text), "{text}");
    // Every token of these stories has text.
    assert_eq!(text.is_empty(), tokens.is_empty());
}
