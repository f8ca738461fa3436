//! `onedraw generate` with guesses, on the embedded model.

use std::path::Path;

use crate::support::onedraw;

const STORY: [&str; 6] = ["generate", "Once upon a time", "--seed", "7", "--max-tokens", "60"];

/// Standard output of the story with more flags.
fn story(flags: &[&str]) -> String {
    let run = onedraw(&[&STORY, flags].concat());
    assert_eq!(run.code, 0, "{flags:?}: {}", run.stderr);
    run.stdout
}

#[test]
fn guesses_change_no_letter() {
    let plain = story(&[]);
    for flags in [
        &["--draft"][..],
        &["--draft", "--speculate", "2"],
        &["--draft", "--tree", "2x3"],
        &["--early-exit", "2"],
        &["--early-exit", "3", "--threads", "1"],
        &["--eagle", "--tree", "4x4"],
        &["--eagle"],
        &["--ngram", "3"],
        &["--ngram", "1", "--verify", "exact"],
    ] {
        assert_eq!(story(flags), plain, "{flags:?}");
    }
    // Also where every token has its logprobs, and with a choice that a constraint leaves.
    let json = |flags: &[&str]| {
        let line = story(&[&["--format", "json", "--logprobs", "2"], flags].concat());
        let mut line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let guessed = line.as_object_mut().and_then(|line| line.remove("speculation"));
        line["timings"] = serde_json::Value::Null;
        (line, guessed)
    };
    let (plain, none) = json(&["--regex", "( [a-z]{2,8}){3,20}\\."]);
    assert_eq!(none, None);
    for flags in [&["--draft"][..], &["--eagle"], &["--early-exit", "2"]] {
        let (line, guessed) = json(&[flags, &["--regex", "( [a-z]{2,8}){3,20}\\."]].concat());
        assert_eq!(line, plain, "{flags:?}");
        let guessed = guessed.expect("what became of guesses");
        // How many passes had guesses hangs on how long they took.
        let passes = |name: &str| guessed[name].as_u64().expect("a number");
        assert!(passes("passes") + passes("plain_passes") > 0, "{guessed}");
    }
}

/// What a schema forces is taken without a draw, and guesses go on after it.
#[test]
fn guesses_keep_to_a_schema() {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pet.json");
    for seed in ["1", "2", "3"] {
        let pet = |flags: &[&str]| {
            let run = onedraw(
                &[&["generate", "My pet: ", "--json-schema", schema, "--seed", seed], flags].concat(),
            );
            assert_eq!(run.code, 0, "{flags:?}: {}", run.stderr);
            run.stdout
        };
        let plain = pet(&[]);
        assert!(plain.starts_with("My pet: {"), "{plain}");
        for flags in [
            &["--draft"][..],
            &["--draft", "--tree", "3x4"],
            &["--early-exit", "2"],
            &["--eagle"],
            &["--ngram", "2"],
        ] {
            assert_eq!(pet(flags), plain, "{flags:?}");
        }
    }
}

#[test]
fn stats_tell_what_became_of_guesses() {
    // Guesses that are judged by rejection are always made; in exact mode the time that passes take decides.
    let run = onedraw(&[&STORY[..], &["--draft", "--stats", "--verify", "rejection"]].concat());
    let line = run.stderr.lines().last().unwrap_or_default();
    assert!(line.starts_with("guesses: "), "{}", run.stderr);
    for part in [" tokens a pass of the target with ", "held, by depth: ", "time: guessing "] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn other_modes_write_other_stories() {
    let plain = story(&[]);
    for flags in [
        &["--draft", "--verify", "rejection"][..],
        &["--draft", "--verify", "rejection", "--tree", "2x2"],
        &["--draft", "--verify", "block"],
        &["--draft", "--verify", "typical"],
        &["--ngram", "2", "--verify", "rejection"],
    ] {
        let text = story(flags);
        assert_ne!(text, plain, "{flags:?}");
        assert_eq!(story(flags), text, "one seed, one text: {flags:?}");
    }
    // What is certain is the same in every mode.
    let greedy = ["--temperature", "0"];
    for verify in ["rejection", "block"] {
        assert_eq!(story(&[&greedy[..], &["--draft", "--verify", verify]].concat()), story(&greedy));
    }
}

#[test]
fn what_cannot_be_done_is_an_error() {
    let fails = |flags: &[&str], message: &str| {
        let run = onedraw(&[&["generate", "x"], flags].concat());
        assert_eq!(run.code, 2, "{flags:?}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{flags:?}: {}", run.stderr);
    };
    fails(&["--draft", "--eagle"], "cannot be used with");
    fails(&["--verify", "block"], "required");
    fails(&["--draft", "--verify", "fast"], "must be one of exact, rejection, block, typical, not \"fast\"");
    fails(&["--draft", "--tree", "3"], "must be a width and a depth, such as 2x4");
    fails(&["--draft", "--tree", "9x2"], "--tree: a tree of guesses is at most 4 wide, not 9");
    fails(&["--draft", "--tree", "0x2"], "--tree: a tree of guesses is at least one wide and one deep");
    fails(
        &["--draft", "--speculate", "600"],
        "--speculate: a tree of 3x600 guesses is larger than the model's context of 512",
    );
    fails(
        &["--draft", "--verify", "rejection", "--tree", "4x5"],
        "--tree: a tree of 4x5 guesses is larger than",
    );
    fails(
        &["--draft", "--verify", "block", "--tree", "2x2"],
        "--tree: block verification judges a line of guesses",
    );
    fails(
        &["--early-exit", "6"],
        "--early-exit: the target has 6 layers, so an early exit is after 1 to 5, not 6",
    );
    fails(&["--early-exit", "0"], "--early-exit: the target has 6 layers");
    fails(&["--ngram", "0"], "--ngram: an n-gram has at least one token");
    fails(&["--draft=nowhere"], "nowhere");
    for flags in [&["--beams", "2"][..], &["--contrast"], &["--guidance", "2"], &["--dola"]] {
        fails(&[flags, &["--draft"]].concat(), "go with one model that draws");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../onedraw-lm/tests/transformers/qwen2");
    fails(&["--model", folder, "--draft"], "tokenizer");
    let stories = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories");
    fails(&["--model", stories, "--draft"], "has no folder `drafter`");
    let drafter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories-drafters/drafter");
    fails(&[&format!("--draft={drafter}")], "tokenizer.json");
}

/// A folder of a model may have a head in its folder `eagle`, and a smaller model in its folder `drafter`.
#[test]
fn a_folder_may_have_a_head_and_a_drafter() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let folder = tempfile::tempdir().expect("a folder");
    for (from, to) in
        [("stories", "."), ("stories-drafters/eagle", "eagle"), ("stories-drafters/drafter", "drafter")]
    {
        std::fs::create_dir_all(folder.path().join(to)).expect("a folder");
        for name in ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"] {
            let source = models.join(from).join(name);
            if source.exists() {
                std::fs::copy(source, folder.path().join(to).join(name)).expect(name);
            }
        }
    }
    let path = folder.path().to_str().expect("a path");
    for drafter in ["--eagle", "--draft"] {
        let flags = ["--model", path, drafter, "--preset", "balanced"];
        assert_eq!(story(&flags), story(&[]), "{drafter}");
    }
}
