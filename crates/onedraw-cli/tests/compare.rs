//! `onedraw compare` on the embedded model.

use serde_json::Value;

use crate::support::{Folder, onedraw};

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name} of {line}"))
}

#[test]
fn the_usual_strategies_stand_side_by_side() {
    let folder = Folder::new();
    let page = folder.path().join("page.html").to_str().expect("a name").to_owned();
    let arguments = ["compare", "Once upon a time", "--max-tokens", "24", "--seed", "1"];
    let run = onedraw(&[&arguments[..], &["--html", &page]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("strategy ") && lines[0].ends_with("kept"), "{}", lines[0]);
    let names = [
        "greedy",
        "temperature 0.5",
        "temperature 1.0",
        "temperature 1.5",
        "top-k 50",
        "top-p 0.9",
        "min-p 0.05",
        "typical 0.9",
        "mirostat 2",
        "penalties",
        "beam 4",
        "diverse beam",
        "stochastic beam",
        "contrastive",
        "plain",
    ];
    for (line, name) in lines[1..].iter().zip(names) {
        assert!(line.starts_with(name), "{line}");
        assert_eq!(line.len(), lines[0].len(), "{line}");
    }
    for name in names {
        assert!(run.stdout.contains(&format!("\n--- {name} ---\nOnce upon a time")), "{name}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!((page.matches("<svg").count(), page.matches("<article>").count()), (6, 15));
    // It needs no other file.
    assert!(!page.contains("http") && !page.contains("src="), "{page}");
}

/// The numbers are those of the text, by other means.
#[test]
fn numbers_are_those_of_the_text() {
    let run = |strategy: &str, more: &[&str]| {
        let arguments =
            ["compare", "Once upon a time", "--max-tokens", "30", "--format", "json", "--strategy", strategy];
        onedraw(&[&arguments[..], more].concat()).lines().remove(0)
    };
    let greedy = run("greedy", &[]);
    let text = &greedy["texts"][0];
    let alone = [
        "generate",
        "Once upon a time",
        "--temperature",
        "0",
        "--max-tokens",
        "30",
        "--format",
        "json",
        "--logprobs",
        "0",
    ];
    let alone = onedraw(&alone).lines().remove(0);
    assert_eq!((&text["tokens"], &text["text"]), (&alone["tokens"], &alone["text"]));
    let logprobs: Vec<f64> =
        alone["logprobs"].as_array().expect("a list").iter().map(|entry| number(entry, "logprob")).collect();
    let mean = logprobs.iter().sum::<f64>() / logprobs.len() as f64;
    assert!((number(&greedy, "logprob") - mean).abs() < 1e-9, "{mean}");
    assert!((onedraw::math::ln(number(&greedy, "perplexity")) + mean).abs() < 1e-9);
    // Greedy draws from one token.
    assert_eq!((number(&greedy, "kept"), number(&greedy, "entropy")), (1.0, 0.0));
    // Five can be drawn at each step; of all tokens, more, with more entropy.
    let five = run(r#"five:{"top_k": 5}"#, &["-n", "3"]);
    assert_eq!((number(&five, "kept"), five["texts"].as_array().map(Vec::len)), (5.0, Some(3)));
    let all = run("plain", &[]);
    assert_eq!(number(&all, "kept"), 4096.0);
    assert!(number(&all, "entropy") > number(&five, "entropy"));
    // Mirostat learns from every draw: made again, the draws are those of the text.
    let mirostat = run("mirostat 2", &[]);
    assert!(number(&mirostat, "kept") > 1.0 && number(&mirostat, "kept") < 4096.0);
    // Beams are not drawn.
    let beams = run("beam 4", &["-n", "2"]);
    assert_eq!(
        (&beams["kept"], &beams["entropy"], beams["texts"].as_array().map(Vec::len)),
        (&Value::Null, &Value::Null, Some(2))
    );
    assert!(number(&beams, "logprob") >= number(&greedy, "logprob") - 1e-9);
    // The same seed, the same texts.
    assert_eq!(
        run("plain", &["--seed", "5"])["texts"],
        run("plain", &["--seed", "5", "--threads", "1"])["texts"]
    );
    assert_ne!(run("plain", &["--seed", "5"])["texts"], all["texts"]);
}

#[test]
fn what_cannot_be_compared_is_said_in_one_line() {
    let fails = |arguments: &[&str], message: &str| {
        let run = onedraw(&[&["compare"], arguments].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    };
    fails(&["--strategy", "warm"], "`warm` is no strategy");
    fails(&["--strategy", r#"x:{"top_p": 3}"#], "x: top_p: must be in [0, 1], not 3");
    fails(&["--strategy", r#"x:{"beams": 0}"#], "beams: must be in [1, 4096], not 0");
    fails(&["--html", "/no/such/folder/page.html"], "--html /no/such/folder/page.html: ");
    fails(&["--amateur", "/no/such/folder"], "/no/such/folder");
    fails(&[&"x ".repeat(600)], "more than the model's context of 512");
}
