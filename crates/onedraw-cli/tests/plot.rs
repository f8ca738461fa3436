//! `onedraw plot` on the embedded model and on files.

use crate::support::{self, Folder, PLAIN, onedraw};

fn error(arguments: &[&str]) -> String {
    let run = onedraw(&[&["plot"], arguments].concat());
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
    run.stderr
}

#[test]
fn a_distribution_in_the_terminal() {
    let folder = Folder::new();
    let file = folder.npy("row.npy", &[&PLAIN, &[0.0, 0.0, 0.0]]);
    let run = onedraw(&["plot", "--logits", &file, "--vary", "top-p=0.5,0.9,1", "--seed", "3"]);
    let expected = [
        &format!("Row 0 of {file}"),
        "",
        "                top_p 0.5                 top_p 0.9                 top_p 1",
        "                1 token                   2 tokens                  3 tokens",
        "                entropy 0.00 bits         entropy 0.92 bits         entropy 1.30 bits",
        "            #0  ████████████████ 100% ←   ██████████▋ 66.7% ←       █████████▋ 60.0% ←",
        "            #1  –                         █████▍ 33.3%              ████▊ 30.0%",
        "            #2  –                         –                         █▋ 10.0%",
    ];
    assert_eq!((run.code, run.stdout.lines().collect::<Vec<_>>()), (0, expected.to_vec()));
    // Lists, too, one item alone or in brackets.
    let banned = |values: &str| {
        let run = onedraw(&["plot", "--logits", &file, "--vary", &format!("stop_token_ids={values}")]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout.replace("[1]", "1")
    };
    assert_eq!(banned("1"), banned("[1]"));
    let second = onedraw(&["plot", "--logits", &file, "--row", "1", "--vary", "temperature=1"]);
    assert_eq!(second.stdout.matches(" 33.3%").count(), 3, "{}", second.stdout);
}

#[test]
fn the_pipeline_in_the_terminal() {
    let folder = Folder::new();
    let file = folder.npy("row.npy", &[&PLAIN]);
    let arguments =
        ["plot", "--logits", &file, "--pipeline", "--temperature", "0.5", "--top-k", "2", "--min-p", "0.1"];
    let run = onedraw(&[&arguments[..], &["--seed", "3"]].concat());
    let expected = [
        "                the model's row           temperature 0.5           min_p 0.1",
        "                3 tokens                  3 tokens                  2 tokens, 1 gone",
        "                entropy 1.30 bits         entropy 0.86 bits         entropy 0.72 bits",
        "                                                                    97.8% of the mass kept",
        "            #0  ████████████ 60.0%        ███████████████▋ 78.3%    ████████████████ 80.0%",
        "            #1  ██████ 30.0%              ███▉ 19.6%                ████ 20.0%",
        "            #2  ██ 10.0%                  ▍ 2.17%                   ░ gone",
    ];
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[2..9], expected);
    assert_eq!(lines[10].trim(), "top_k 2");
}

#[test]
fn a_generation_in_the_terminal() {
    let arguments =
        ["plot", "--generation", "--prompt", "Once upon a", "--max-tokens", "3", "--temperature", "0"];
    let run = onedraw(&arguments);
    let steps: Vec<&str> = run.stdout.lines().skip(3).collect();
    let expected = [
        "   0 ␣time           ████████████████ 100%                       0.00          1",
        "   1 ,               ████████████████ 100%                       0.00          1",
        "   2 ␣there          ████████████████ 100%                       0.00          1",
    ];
    assert_eq!(steps, expected);
}

/// The steps of a text are those of the text that `generate` writes, with the probabilities that it reports.
#[test]
fn a_generation_is_what_generate_writes() {
    let settings = ["--seed", "5", "--max-tokens", "12", "--top-p", "0.9", "--repetition-penalty", "1.2"];
    let generated =
        onedraw(&[&["generate", "Tom saw", "--format", "json", "--logprobs", "0"], &settings[..]].concat());
    let modes = ["--logprobs-mode", "processed_logprobs"];
    let reported = onedraw(
        &[&["generate", "Tom saw", "--format", "json", "--logprobs", "0"], &settings[..], &modes].concat(),
    );
    assert_eq!(generated.lines()[0]["tokens"], reported.lines()[0]["tokens"]);
    let run = onedraw(&[&["plot", "--generation", "--prompt", "Tom saw"], &settings[..]].concat());
    let shown: Vec<&str> = run.stdout.lines().skip(3).collect();
    let line = &reported.lines()[0];
    let logprobs = line["logprobs"].as_array().expect("logprobs");
    assert_eq!(shown.len(), logprobs.len());
    for (shown, entry) in shown.iter().zip(logprobs) {
        let percent = 100.0 * onedraw::math::exp(entry["logprob"].as_f64().expect("a number"));
        let words: Vec<&str> = shown.split_whitespace().collect();
        let found = words.iter().find_map(|word| word.strip_suffix('%')).expect(shown);
        let found: f64 = found.trim_start_matches('<').parse().expect(found);
        assert!((found - percent).abs() < 0.051, "{shown}: {percent}");
    }
}

#[test]
fn a_tree_in_the_terminal() {
    let run = onedraw(&["plot", "--prompt", "Tom saw a big", "--beams", "2", "--max-tokens", "3"]);
    let expected = "\
Beams after “Tom saw a big”

├─*␣truck -2.98
│  ├─*. -3.81
│  │  ├─*␣It -4.23 …
│  │  ├─ ␣The -5.24 …
│  │  └─·␣He -6.15
│  └─·␣in -4.94
├─ ␣red -3.06
│  ├─ ␣truck -4.93
│  │  └─·. -5.66
│  └─·␣car -5.00
├─·␣aeroplane -3.52
└─·␣boat -3.64

* on the best text   · dropped   ■ ended   … cut by max_tokens
";
    assert_eq!(run.stdout, expected);
}

/// A text that a stop string ends has another mark than one that `max_tokens` cuts.
#[test]
fn a_tree_tells_an_end_from_a_cut() {
    let tree = |max_tokens: &str| {
        let prompt = ["plot", "--prompt", "Once upon a time, there was a little"];
        let settings = ["--beams", "2", "--stop", ".", "--max-tokens", max_tokens];
        let run = onedraw(&[&prompt[..], &settings[..]].concat());
        let is_end = |line: &&str| line.ends_with(['■', '…']);
        let ends =
            run.stdout.lines().filter(is_end).map(|line| line.trim_start_matches(['│', '├', '└', ' ', '─']));
        ends.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(tree("6"), ["*. -0.47 ■", ". -1.92 ■"]);
    assert_eq!(tree("3"), ["*␣Lily -0.41 …", "␣Timmy -1.91 …"]);
}

/// The best way through the tree is what a search finds.
#[test]
fn the_marked_text_is_the_best() {
    let styles: [&[&str]; 4] = [
        &["--stochastic", "--seed", "4"],
        &["--diverse", "2"],
        &["--diverse", "4", "--diversity-penalty", "0.05"],
        &["--length-penalty", "0"],
    ];
    for style in styles {
        let settings = [&["--beams", "4", "--max-tokens", "5"], style].concat();
        let tree = onedraw(&[&["plot", "--prompt", "Tom saw a big"], &settings[..]].concat());
        let marked: String = tree
            .stdout
            .lines()
            .filter_map(|line| line.split_once("─*"))
            .map(|(_, words)| words.split(' ').next().unwrap_or_default().replace('␣', " "))
            .collect();
        let found = onedraw(&[&["generate", "Tom saw a big", "--format", "json"], &settings[..]].concat());
        assert_eq!(found.lines()[0]["text"], marked, "{style:?}");
    }
}

#[test]
fn a_constraint_and_a_contrast_can_be_seen() {
    let arguments = [
        "plot",
        "--prompt",
        "The sky is",
        "--choice",
        " blue",
        "--choice",
        " green",
        "--vary",
        "temperature=1",
    ];
    let run = onedraw(&arguments);
    assert!(run.stdout.contains("8 tokens") && run.stdout.contains("␣blue"), "{}", run.stdout);
    let run = onedraw(&["plot", "--contrast", "--vary", "beta=0,1", "--alpha", "1"]);
    // Only the best is plausible.
    assert_eq!(
        run.stdout.matches("1 token ").count() + run.stdout.matches("1 token\n").count(),
        2,
        "{}",
        run.stdout
    );
    let json = [
        "plot",
        "--generation",
        "--json-schema",
        "examples/pet.json",
        "--prompt",
        "My pet: ",
        "--max-tokens",
        "8",
    ];
    let schema = support::repository().join("examples/pet.json");
    let schema = schema.to_str().expect("a name");
    let run = onedraw(&json.map(|word| if word == "examples/pet.json" { schema } else { word }));
    let steps: Vec<&str> = run.stdout.lines().skip(3).collect();
    assert!(
        steps[..7].iter().all(|step| step.ends_with("100%                       0.00          1")),
        "{steps:?}"
    );
}

#[test]
fn pictures_are_files() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    for (name, start) in [("a.svg", &b"<svg width="[..]), ("b.PNG", b"\x89PNG\r\n\x1a\n")] {
        let run = onedraw(&["plot", "--output", &path(name)]);
        let said = format!("wrote {}\n", path(name));
        assert_eq!((run.code, run.stdout.as_str(), run.stderr), (0, "", said));
        assert!(std::fs::read(path(name)).expect(name).starts_with(start), "{name}");
    }
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let folder = Folder::new();
    let file = folder.npy("row.npy", &[&PLAIN]);
    assert_eq!(error(&["--vary", "heat=1"]), "error: --vary: `heat` is not a parameter\n");
    assert_eq!(error(&["--vary", "top_p=2"]), "error: --vary top_p=2: top_p: must be in [0, 1], not 2\n");
    assert!(error(&["--vary", "top_p=1e400"]).starts_with("error: --vary top_p: 1e400 is too large"));
    assert_eq!(error(&["--vary", "beta=1"]), "error: --vary beta=1: needs --contrast\n");
    assert_eq!(error(&["--vary", "guidance=x"]), "error: --vary guidance=x: is not a number\n");
    assert_eq!(
        error(&["--logits", &file, "--vary", "alpha=1"]),
        "error: --vary alpha: a file has no model to set off\n"
    );
    let many = format!("top_k={}", ["1"; 17].join(","));
    assert_eq!(error(&["--vary", &many]), "error: --vary: 17 values; at most 16 fit a figure\n");
    assert!(error(&["--logits", &file, "--row", "1"]).contains("has rows 0 to 0, so 1 is not there"));
    assert!(error(&["--logits", "nowhere.npy"]).starts_with("error: nowhere.npy: cannot be opened"));
    assert!(error(&["--logits", &file, "--beams", "2"]).contains("cannot be used with"));
    assert!(error(&["--pipeline", "--generation"]).contains("cannot be used with"));
    assert_eq!(error(&["--beams", "0"]), "error: --beams: must be in [1, 4096], not 0\n");
    assert!(
        error(&["--output", "nowhere/at/all.svg"])
            .starts_with("error: --output nowhere/at/all.svg: No such file")
    );
    assert!(error(&["--output", "a.gif"]).ends_with("a picture is a .svg or a .png file\n"));
    assert_eq!(
        error(&["--vary", "stop=a,b"]),
        "error: --vary: stop does not change what can be drawn next\n"
    );
    assert_eq!(
        error(&["--contrast", "--beta", "1", "--vary", "amateur_temperature=1"]),
        "error: --vary amateur_temperature=1: cannot be used with --beta\n"
    );
    assert_eq!(error(&["--negative-prompt", "x"]), "error: --negative-prompt: needs --guidance\n");
    assert_eq!(error(&["--dola=0"]), "error: --dola: `0` is not the number of a layer\n");
    // A picture that cannot be drawn takes none away, and leaves none.
    let new = folder.path().join("new.svg");
    error(&["--vary", "top_p=2", "--output", new.to_str().expect("a name")]);
    assert!(!new.exists());
    let there = folder.file("there.svg", b"kept");
    error(&["--vary", "top_p=2", "--output", &there]);
    assert_eq!(std::fs::read(&there).expect("still there"), b"kept");
}

/// The model's end of a text counts, as it does in `generate`.
#[test]
fn the_end_of_a_text_is_known() {
    let prompt = "They played all day and were very happy. The end.";
    let run = onedraw(&["plot", "--prompt", prompt, "--vary", "min_tokens=0,1"]);
    let end = run.stdout.lines().find(|line| line.contains("<|endoftext|>")).expect("the end");
    assert!(end.contains('%') && end.ends_with('–'), "{end}");
    let run = onedraw(&["plot", "--prompt", prompt, "--pipeline", "--min-tokens", "5"]);
    assert!(run.stdout.contains(" min_tokens 5 "), "{}", run.stdout);
}

/// A banned phrase is taken back, and what is drawn then comes from what is left.
#[test]
fn a_banned_token_is_not_among_what_was_drawn_from() {
    let arguments =
        ["plot", "--prompt", "Once upon a", "--generation", "--temperature", "0", "--max-tokens", "1"];
    let run = onedraw(&[&arguments[..], &["--banned-strings", " time"]].concat());
    let step = run.stdout.lines().nth(3).expect("a step");
    assert!(!step.contains("␣time") && step.contains("100%"), "{step}");
}

/// What is drawn is shown, and a bar that is longer than shown says so.
#[test]
fn what_is_drawn_is_shown() {
    let folder = Folder::new();
    let row: Vec<f32> = (0..200).map(|token| -0.001 * token as f32).collect();
    let file = folder.npy("flat.npy", &[&row]);
    let run = onedraw(&["plot", "--logits", &file, "--tokens", "3", "--vary", "seed=1,2"]);
    let drawn: Vec<&str> = run.stdout.lines().filter(|line| line.contains('←')).collect();
    assert!(
        !drawn.is_empty() && drawn.iter().all(|line| line.trim_start().starts_with('#')),
        "{}",
        run.stdout
    );
    let others = run.stdout.lines().find(|line| line.contains("others")).expect("others");
    assert_eq!(others.matches("╱╱ 98").count(), 2, "{others}");
}
