//! What somebody meets in their first ten minutes: the same parameters in all commands, nothing that is ignored
//! in silence, seeds that can be had again.

use serde_json::Value;

use crate::support::{Folder, PLAIN, Run, npy_of, onedraw, repository};

/// A text of the embedded model, of twelve tokens unless the arguments say otherwise.
fn generate(arguments: &[&str]) -> Run {
    let is_given = arguments.iter().any(|argument| argument.ends_with("-tokens"));
    let length = if is_given { &[][..] } else { &["--max-tokens", "12"] };
    onedraw(&[&["generate", "Once upon a time"], length, arguments].concat())
}

/// The lines of JSON, and what was said on standard error.
fn json(arguments: &[&str]) -> (Vec<Value>, String) {
    let run = generate(&[arguments, &["--format", "json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    (run.lines_whatever_happened(), run.stderr)
}

fn tokens(arguments: &[&str]) -> Value {
    json(&[&["--seed", "2"], arguments].concat()).0[0]["tokens"].clone()
}

#[test]
fn all_commands_take_parameters_in_one_way() {
    // A flag goes before --params, that before --preset, that before the model.
    let expected = tokens(&["--temperature", "1.2", "--top-p", "0.97", "--top-k", "7"]);
    assert_ne!(expected, tokens(&[]));
    let params = r#"{"top_p": 0.97, "top_k": 99}"#;
    assert_eq!(
        tokens(&["--preset", "creative", "--repetition-penalty", "1", "--params", params, "--top-k", "7"]),
        expected
    );
    let folder = Folder::new();
    let file = folder.file("params.json", br#"{"temperature": 1.2, "top_p": 0.97, "top_k": 7}"#);
    assert_eq!(tokens(&["--params", &format!("@{file}")]), expected);

    let logits = repository().join("examples/logits.npy");
    let logits = logits.to_str().expect("a path");
    let sample =
        |arguments: &[&str]| onedraw(&[&["sample", logits, "--seed", "5"], arguments].concat()).lines();
    let flags = ["--temperature", "1.2", "--top-p", "0.97", "--top-k", "7", "--repetition-penalty", "1.1"];
    let given = ["--preset", "creative", "--params", params, "--top-k", "7"];
    assert_eq!(sample(&flags), sample(&given));

    let plot = |arguments: &[&str]| {
        let run = onedraw(
            &[&["plot", "--prompt", "Tom saw a big", "--pipeline", "--tokens", "5"], arguments].concat(),
        );
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    };
    assert_eq!(plot(&flags), plot(&given));
    assert_ne!(plot(&flags), plot(&[]));

    let compare = |arguments: &[&str]| {
        let line = [
            "compare",
            "Once",
            "--strategy",
            "mine:{}",
            "--strategy",
            "greedy",
            "--max-tokens",
            "8",
            "--format",
            "json",
        ];
        let mut lines = onedraw(&[&line[..], arguments].concat()).lines();
        lines.iter_mut().for_each(|line| line["tokens_per_second"] = Value::Null);
        lines
    };
    let (base, flagged) = (compare(&[]), compare(&flags));
    assert_eq!(flagged, compare(&given));
    // What a strategy says goes before all of it; what it does not say comes from the command line.
    assert_ne!(base[0], flagged[0]);
    assert_eq!(compare(&["--temperature", "2"])[1]["texts"], base[1]["texts"]);
}

#[test]
fn unknown_names_are_named_with_what_was_meant() {
    let said = |arguments: &[&str]| {
        let run = generate(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        run.stderr
    };
    assert_eq!(
        said(&["--temperture", "1"]),
        "error: unexpected argument '--temperture' found; did you mean '--temperature'? See onedraw generate --help\n"
    );
    assert_eq!(
        said(&["--params", r#"{"tempreature": 1}"#]),
        "error: tempreature: unknown field `tempreature`; did you mean `temperature`? See onedraw generate --help\n"
    );
    assert_eq!(
        said(&["--params", r#"{"num_beams": 2}"#]),
        "error: num_beams: unknown field `num_beams`; a beam search is `--beams` of the program, and `Beams` in Rust and Python; see onedraw generate --help\n"
    );
    // Flags of equal meaning, and of no other name.
    assert_eq!(tokens(&["--max-new-tokens", "5"]), tokens(&["--max-tokens", "5"]));
    let beams = |flag: &str| json(&[flag, "3"]).0[0]["tokens"].clone();
    assert_eq!(beams("--num-beams"), beams("--beams"));
    assert!(said(&["--params", r#"{"max_new_tokens": 5}"#]).contains("did you mean `max_tokens`?"));
    assert_eq!(
        onedraw(&["compare", "--strategy", "x:{\"beta\":1}"]).stderr,
        "error: --strategy: x: contrast: is not set\n"
    );
    assert!(
        said(&["--top-k", "2.5"])
            .contains("--top-k: invalid type: floating point `2.5`, expected a whole number")
    );
}

#[test]
fn nothing_is_ignored_in_silence() {
    let (_, said) = json(&[
        "--beams",
        "2",
        "--temperature",
        "0.3",
        "--seed",
        "1",
        "--params",
        r#"{"top_p": 0.5}"#,
        "--preset",
        "creative",
    ]);
    assert_eq!(
        said,
        "note: beams make no use of --temperature, --seed, top_p, --preset but for its repetition_penalty\n"
    );
    assert_eq!(json(&["--beams", "2", "--repetition-penalty", "1.1"]).1, "");
    assert_eq!(
        json(&["--beams", "2", "--stochastic", "-n", "2", "--seed", "1"]).1,
        "note: beams make no use of --n\n"
    );
    assert_eq!(
        generate(&["--seed", "1", "--logprobs", "2"]).stderr,
        "note: text has no place for --logprobs: --format json shows it\n"
    );
    assert_eq!(json(&["--seed", "1", "--logprobs", "2"]).1, "");
    let mode = ["--seed", "1", "--logprobs-mode", "raw_logits"];
    assert_eq!(json(&mode).1, "note: --logprobs-mode has no effect without --logprobs\n");
    assert_eq!(json(&[&mode[..], &["--logprobs", "1"]].concat()).1, "");
    assert_eq!(
        json(&["--beams", "2", "--logprobs-mode", "raw_logits"]).1,
        "note: a text of beams has no place for --logprobs-mode: only the whole text has a logprob\n"
    );
    let params = ["--beams", "2", "--params", r#"{"logprobs": 1}"#];
    assert_eq!(generate(&params).stderr, "error: logprobs: beams report the logprob of a whole text alone\n");
    // A text that ended by its length before it was what it must be.
    let (lines, said) = json(&["--seed", "1", "--regex", "[a-z ]{400}"]);
    assert_eq!(lines[0]["finish_reason"], "length");
    assert_eq!(said, "note: the text ended after 12 tokens in the middle of what it must match\n");
    // Beams, too.
    let (_, said) = json(&["--regex", "[a-z ]{400}", "--beams", "2"]);
    assert_eq!(said, "note: the text ended after 12 tokens in the middle of what it must match\n");
    let plot =
        onedraw(&["plot", "--prompt", "Tom saw a", "--beams", "2", "--temperature", "2", "--logprobs", "3"]);
    assert_eq!(
        plot.stderr,
        "note: a picture has no place for --logprobs: onedraw generate --format json shows it\nnote: beams make no use of --temperature\n"
    );
    let compare = onedraw(&[
        "compare",
        "Once",
        "--max-tokens",
        "4",
        "--strategy",
        "beam 4",
        "--strategy",
        "plain",
        "--temperature",
        "2",
    ]);
    assert_eq!(compare.stderr, "note: beam 4: beams make no use of --temperature\n");
    let logits = repository().join("examples/logits.npy");
    let run = onedraw(&["sample", logits.to_str().expect("a path"), "--seed", "1", "--stop", "x"]);
    assert_eq!(run.stderr, "note: --stop has no effect: sample draws single tokens and writes no text\n");
    assert_eq!(run.code, 0);
}

#[test]
fn a_text_at_the_end_of_the_context_says_so() {
    let run = onedraw(&[
        "generate",
        "Once",
        "--ignore-eos",
        "--max-tokens",
        "5000",
        "--seed",
        "1",
        "--format",
        "json",
    ]);
    let line: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(line["finish_reason"], "length");
    let said = run
        .stderr
        .strip_prefix("note: the text ended at the end of the model's context of ")
        .expect("a note");
    assert!(said.ends_with(" tokens\n"), "{said}");
}

#[test]
fn a_seed_from_the_system_can_be_had_again() {
    let run = generate(&["--stats"]);
    let (_, seed) = run.stderr.trim_end().rsplit_once("; seed ").expect("a seed");
    let again = generate(&["--stats", "--seed", seed]);
    assert_eq!(run.stdout, again.stdout);
    // What --stats counts is what JSON has.
    let (lines, _) = json(&["--seed", seed]);
    let count = lines[0]["tokens"].as_array().expect("tokens").len();
    assert_eq!(lines[0]["timings"]["output_tokens"], count);
    assert!(again.stderr.contains(&format!("output {count} tokens, ")), "{}", again.stderr);
    assert_eq!(lines[0]["seed"].to_string(), seed);
}

#[test]
fn numbers_of_f64_are_read() {
    let folder = Folder::new();
    let doubles: Vec<u8> = PLAIN.iter().flat_map(|&x| (f64::from(x) + 1e-12).to_le_bytes()).collect();
    let wide = folder.file("wide.npy", &npy_of("<f8", "(3,)", &doubles));
    let narrow = folder.npy("narrow.npy", &[&PLAIN]);
    let run = onedraw(&["sample", &wide, "--seed", "1", "--draws", "20"]);
    assert_eq!(run.stderr, format!("note: {wide}: its f64 numbers are rounded to f32\n"));
    assert_eq!(run.stdout, onedraw(&["sample", &narrow, "--seed", "1", "--draws", "20"]).stdout);
}

#[test]
fn words_become_tokens_where_there_is_a_tokenizer() {
    let text =
        |arguments: &[&str]| json(&[&["--seed", "7", "--max-tokens", "40"], arguments].concat()).0.remove(0);
    let plain = text(&[]);
    let word = plain["text"]
        .as_str()
        .expect("a text")
        .split(' ')
        .find(|word| word.chars().count() > 3)
        .expect("a word")
        .to_owned();
    let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    let without = text(&["--bad-words", word]);
    assert!(
        !without["text"]
            .as_str()
            .expect("a text")
            .split(|letter: char| !letter.is_alphanumeric())
            .any(|other| other == word),
        "{without}"
    );
    // A special token's name stops at the token, which has no text.
    let ended = json(&[
        "--seed",
        "7",
        "--max-tokens",
        "200",
        "--ignore-eos",
        "--stop",
        "<|endoftext|>",
        "--stop",
        "</s>",
    ])
    .0
    .remove(0);
    let eos = json(&["--seed", "7", "--max-tokens", "200"]).0.remove(0);
    assert_eq!((&eos["finish_reason"], &ended["finish_reason"]), (&Value::from("eos"), &Value::from("stop")));
    assert_eq!(ended["text"], eos["text"]);
    let refused = generate(&["--bad-words", "dog", "--bad-words", " "]);
    assert_eq!(refused.stderr, "error: --bad-words[1]: has no tokens\n");
    let logits = repository().join("examples/logits.npy");
    let refused = onedraw(&["sample", logits.to_str().expect("a path"), "--bad-words", "x"]);
    assert_eq!(
        refused.stderr,
        "error: bad_words: words need a tokenizer, which a draw does not have; give bad_words_ids\n"
    );
}

#[test]
fn zeros_mean_what_they_say() {
    let greedy = tokens(&["--temperature", "0"]);
    assert_eq!(tokens(&["--top-p", "0"]), greedy);
    let (lines, said) = json(&["--max-tokens", "0", "--prompt-logprobs", "1", "-n", "2", "--seed", "1"]);
    assert_eq!((lines.len(), said.as_str()), (2, ""));
    for line in &lines {
        assert_eq!((&line["text"], &line["tokens"]), (&Value::from(""), &Value::from(Vec::<u32>::new())));
        assert_eq!(line["finish_reason"], "length");
        assert!(line["prompt_logprobs"].as_array().is_some_and(|entries| entries.len() > 2), "{line}");
    }
    for beams in [&["--beams", "2"][..], &["--beams", "2", "--stochastic", "--seed", "1"]] {
        let (lines, _) = json(&[&["--max-tokens", "0"], beams].concat());
        assert_eq!(
            (&lines[0]["text"], &lines[0]["finish_reason"]),
            (&Value::from(""), &Value::from("length"))
        );
    }
}

/// At T = 2 these three tokens have weights in proportion to the roots of 0.6, 0.3 and 0.1.
#[test]
fn the_probability_is_that_of_the_draw() {
    let folder = Folder::new();
    let file = folder.npy("x.npy", &[&PLAIN]);
    let line = |arguments: &[&str]| {
        onedraw(
            &[&["sample", &file, "--temperature", "2", "--seed", "4", "--draws", "30"], arguments].concat(),
        )
        .lines()
    };
    let roots = [0.6_f64, 0.3, 0.1].map(f64::sqrt);
    let total: f64 = roots.iter().sum();
    let number = |value: &Value| value.as_f64().expect("a number");
    for line in line(&[]) {
        let token = line["token"].as_u64().expect("a token") as usize;
        assert!((number(&line["probability"]) - roots[token] / total).abs() < 1e-6, "{line}");
        assert!(
            (number(&line["logprob"]) - onedraw::math::ln([0.6_f64, 0.3, 0.1][token])).abs() < 1e-6,
            "{line}"
        );
    }
    for line in line(&["--logprobs-mode", "processed_logprobs"]) {
        let probability = number(&line["probability"]);
        assert!((onedraw::math::exp(number(&line["logprob"])) - probability).abs() < 1e-12, "{line}");
    }
    let (lines, _) = json(&["--seed", "1", "--temperature", "2", "--probability", "--logprobs", "0"]);
    let first = &lines[0]["logprobs"][0];
    assert!(number(&first["probability"]) < 1.0 && number(&first["logprob"]) < 0.0, "{first}");
}

#[test]
fn a_picture_says_where_it_is() {
    let folder = Folder::new();
    let path = format!("{}/x.svg", folder.path().display());
    let run = onedraw(&["plot", "--prompt", "Tom saw a", "-o", &path]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr), (0, "", format!("wrote {path}\n")));
}

#[test]
fn shells_and_man_are_told() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let run = onedraw(&["completions", shell]);
        assert_eq!(run.code, 0, "{shell}");
        assert!(run.stdout.contains("repetition-penalty") && run.stdout.contains("generate"), "{shell}");
    }
    let page = onedraw(&["man"]).stdout;
    assert!(page.starts_with(".ie") && page.contains("onedraw\\-generate"), "{page}");
    let page = onedraw(&["man", "generate"]).stdout;
    assert!(page.contains("\\-\\-repetition\\-penalty") && page.contains("[default: 1.0]"), "{page}");
    let page = onedraw(&["man", "params", "import"]).stdout;
    let title =
        format!(".TH ONEDRAW-PARAMS-IMPORT 1  \"onedraw-params-import {}\"", env!("CARGO_PKG_VERSION"));
    assert!(page.contains(&title) && page.contains("\\-\\-from"), "{page}");
    assert_eq!(
        onedraw(&["man", "params", "draw"]).stderr,
        "error: `draw` is not a command; see onedraw params --help\n"
    );
    assert_eq!(onedraw(&["man", "draw"]).stderr, "error: `draw` is not a command; see onedraw --help\n");
}
