//! What `onedraw sample` prints for good logits.

use serde_json::{Value, json};

use crate::support::{Folder, PLAIN, coarse, npy, onedraw, onedraw_with_input};

fn close(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-6)
}

#[test]
fn a_line_a_row_and_draw_with_its_keys_in_order() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let run =
        onedraw(&["sample", &logits, "--params", r#"{"seed": 42}"#, "--draws", "40", "--logprobs", "2"]);
    let lines = run.lines();
    assert_eq!(lines.len(), 40);
    let (probabilities, logprobs) = ([0.6, 0.3, 0.1], PLAIN.map(f64::from));
    for (draw, (line, text)) in lines.iter().zip(run.stdout.lines()).enumerate() {
        let token = line["token"].as_u64().expect("a token") as usize;
        assert_eq!(line["row"], 0);
        assert_eq!(line["draw"], draw);
        assert_eq!(line["position"], draw);
        assert_eq!(line["seed"], 42);
        assert_eq!(line["rank"], token + 1);
        assert!(close(&line["probability"], probabilities[token]), "{line}");
        assert!(close(&line["logprob"], logprobs[token]), "{line}");
        let keys = ["row", "draw", "token", "logprob", "probability", "rank", "seed", "position", "logprobs"];
        let places: Vec<_> = keys.iter().map(|key| text.find(&format!("\"{key}\":")).expect(key)).collect();
        assert!(places.is_sorted(), "{text}");
        assert_eq!(line.as_object().expect("an object").len(), keys.len());
        for entry in line["logprobs"].as_array().expect("a list") {
            let token = entry["token"].as_u64().expect("a token") as usize;
            assert_eq!(entry["rank"], token + 1);
            assert!(close(&entry["logprob"], logprobs[token]), "{entry}");
        }
    }
    let seen: std::collections::BTreeSet<_> = run.tokens().into_iter().collect();
    assert!(seen.len() > 1, "every draw has noise of its own");
}

#[test]
fn logprobs_are_listed_where_asked_for() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let listed = |params: &str, flags: &[&str]| {
        let mut arguments = vec!["sample", logits.as_str(), "--params", params];
        arguments.extend(flags);
        let line = onedraw(&arguments).lines().remove(0);
        line.get("logprobs").map(|list| list.as_array().expect("a list").len())
    };
    assert_eq!(listed(r#"{"temperature": 0}"#, &[]), None);
    assert_eq!(listed(r#"{"temperature": 0, "logprobs": null}"#, &[]), None);
    assert!(listed(r#"{"temperature": 0, "logprobs": 0}"#, &[]) == Some(1));
    assert_eq!(listed(r#"{"temperature": 0, "logprobs": 2}"#, &[]), Some(2));
    assert_eq!(listed(r#"{"temperature": 0, "logprobs": 1}"#, &["--logprobs", "3"]), Some(3));
    assert_eq!(listed(r#"{"temperature": 0}"#, &["--logprobs", "-1"]), Some(3));
    assert_eq!(listed(r#"{"temperature": 0}"#, &["--logprobs=-1"]), Some(3));
}

#[test]
fn modes_of_logprobs() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&[2.0, 1.0, f32::NEG_INFINITY]]);
    let line = |mode: &str, params: &str| {
        let flags = ["--logprobs", "-1", "--logprobs-mode", mode];
        let run = onedraw(&[&["sample", &logits, "--params", params], &flags[..]].concat());
        assert!(!run.stdout.contains("inf"), "{}", run.stdout);
        run.lines().remove(0)
    };
    let greedy = r#"{"temperature": 0, "logprobs_mode": "processed_logits"}"#;
    assert_eq!(line("raw_logits", greedy)["logprob"], 2.0);
    assert!(close(&line("raw_logprobs", greedy)["logprob"], -0.313_261_687));
    let only_best = line("processed_logprobs", r#"{"top_k": 1}"#);
    assert_eq!(only_best["logprob"], 0.0);
    // What was removed has no logprob and is not listed.
    assert_eq!(only_best["logprobs"], json!([{"token": 0, "logprob": 0.0, "rank": 1}]));
}

#[test]
fn draw_d_is_the_draw_of_d_more_tokens_of_output() {
    let folder = Folder::new();
    let row = coarse(300, 5);
    let logits = folder.npy("x.npy", &[&row]);
    let draws = onedraw(&[
        "sample",
        &logits,
        "--params",
        r#"{"seed": 9, "output_token_ids": [1, 2]}"#,
        "--draws",
        "4",
    ]);
    let positions: Vec<_> = draws.lines().iter().map(|line| line["position"].clone()).collect();
    assert_eq!(positions, [2, 3, 4, 5]);
    for (draw, token) in draws.tokens().into_iter().enumerate() {
        let output: Vec<u32> = vec![7; 2 + draw];
        let params = json!({"seed": 9, "output_token_ids": output}).to_string();
        assert_eq!(onedraw(&["sample", &logits, "--params", &params]).tokens(), [token]);
    }
}

#[test]
fn rows_then_draws_then_sequences() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN, &PLAIN]);
    let params = r#"[{"n": 2, "seed": 1}, {"n": 3, "seed": 1}]"#;
    let run = onedraw(&["sample", &logits, "--params", params, "--draws", "2"]);
    let lines = run.lines();
    let of = |key: &str| lines.iter().map(|line| line[key].as_u64().expect(key)).collect::<Vec<_>>();
    assert_eq!(of("row"), [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    assert_eq!(of("draw"), [0, 0, 1, 1, 0, 0, 0, 1, 1, 1]);
    assert_eq!(of("sequence"), [0, 1, 0, 1, 0, 1, 2, 0, 1, 2]);
    assert_eq!(of("seed"), [1; 10]);
    // Neither the row nor the number of sequences changes a token.
    let tokens = run.tokens();
    assert_eq!((&tokens[..2], &tokens[2..4]), (&tokens[4..6], &tokens[7..9]));
    assert!(run.stdout.starts_with(r#"{"row":0,"draw":0,"sequence":0,"token":"#), "{}", run.stdout);
    // The first sequence is what one sequence alone would be.
    let alone = onedraw(&["sample", &logits, "--params", r#"{"seed": 1}"#, "--draws", "2"]);
    assert_eq!(alone.tokens(), [tokens[0], tokens[2], tokens[0], tokens[2]]);
    assert!(!alone.stdout.contains("sequence"));
}

#[test]
fn each_row_its_own_parameters() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN[..]; 4]);
    let params = r#"[
        {"temperature": 0},
        {"allowed_token_ids": [2]},
        {"logit_bias": {"1": 50}, "top_k": 1},
        {"temperature": 0, "logprobs": 1}
    ]"#;
    let from_file = folder.file("params.json", params.as_bytes());
    for argument in [params.to_owned(), format!("@{from_file}")] {
        let run = onedraw(&["sample", &logits, "--params", &argument]);
        assert_eq!(run.tokens(), [0, 2, 1, 0]);
        let listed: Vec<_> = run.lines().iter().map(|line| line.get("logprobs").is_some()).collect();
        assert_eq!(listed, [false, false, false, true]);
    }
}

#[test]
fn a_seed_from_the_system_is_reported_and_gives_the_same_again() {
    let folder = Folder::new();
    let row = coarse(1000, 3);
    let logits = folder.npy("x.npy", &[&row, &row, &row]);
    for params in [r#"{"seed": -1}"#, r#"{"seed": null}"#, "{}"] {
        let first = onedraw(&["sample", &logits, "--params", params, "--draws", "3"]);
        let seeds: Vec<_> = first.lines().iter().map(|line| line["seed"].as_u64().expect("a seed")).collect();
        assert!(seeds[0] == seeds[1] && seeds[0] == seeds[2], "one seed a row: {seeds:?}");
        assert!(seeds[0] != seeds[3] && seeds[3] != seeds[6] && seeds[0] != seeds[6], "{seeds:?}");
        let fed = json!([{"seed": seeds[0]}, {"seed": seeds[3]}, {"seed": seeds[6]}]).to_string();
        let again = onedraw(&["sample", &logits, "--params", &fed, "--draws", "3"]);
        assert_eq!(again, first);
    }
    let largest = onedraw(&["sample", &logits, "--params", r#"{"seed": 18446744073709551615}"#]);
    assert_eq!(largest.lines()[0]["seed"], u64::MAX);
}

#[test]
fn threads_shards_kernels_and_neighbours_change_nothing() {
    let folder = Folder::new();
    let rows: Vec<_> = (0..70).map(|salt| coarse(1000, 31 * salt)).collect();
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
    let logits = folder.npy("x.npy", &rows);
    for params in [r#"{"seed": 7}"#, r#"{"seed": 7, "temperature": 0.8, "top_p": 0.9, "top_k": 40, "n": 2}"#]
    {
        let run = |flags: &[&str]| {
            onedraw(
                &[&["sample", &logits, "--params", params, "--draws", "2", "--logprobs", "2"], flags]
                    .concat(),
            )
        };
        let expected = run(&[]);
        assert_eq!(expected.lines().len(), 70 * 2 * if params.contains("\"n\"") { 2 } else { 1 });
        for flags in [
            ["--threads", "1"],
            ["--threads", "2"],
            ["--threads", "5"],
            ["--shards", "2"],
            ["--shards", "7"],
            ["--kernel", "auto"],
            ["--kernel", "scalar"],
        ] {
            assert_eq!(run(&flags), expected, "{flags:?}");
        }
        for kernel in ["sse", "avx2", "avx512", "neon"] {
            let run = run(&["--kernel", kernel]);
            assert!(
                run == expected || run.stderr.starts_with("error: --kernel: this CPU has no "),
                "{kernel}"
            );
        }
        let one = folder.npy("one.npy", &rows[69..]);
        let alone = onedraw(&["sample", &one, "--params", params, "--draws", "2"]);
        let tokens = expected.tokens();
        assert_eq!(alone.tokens(), tokens[tokens.len() - alone.tokens().len()..]);
    }
}

#[test]
fn a_distribution_is_what_is_left_best_first() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&[PLAIN[2], PLAIN[0], PLAIN[1]], &[1.0, 1.0, 1.0]]);
    // Draws and sequences do not change it.
    let run = onedraw(&["sample", &logits, "--distribution", "--draws", "3", "--params", r#"{"n": 2}"#]);
    let lines = run.lines();
    assert_eq!(lines.len(), 2);
    assert!(run.stdout.starts_with(r#"{"row":0,"tokens":[1,2,0],"probabilities":[0."#), "{}", run.stdout);
    for (line, probabilities) in lines.iter().zip([[0.6, 0.3, 0.1], [1.0 / 3.0; 3]]) {
        let of = |key: &str| line[key].as_array().expect(key).clone();
        for (i, expected) in probabilities.into_iter().enumerate() {
            assert!(close(&of("probabilities")[i], expected), "{line}");
        }
        let sum: f64 = of("probabilities").iter().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        assert_eq!(of("logprobs").len(), 3);
        assert_eq!(line.as_object().map(|line| line.len()), Some(4));
    }
    assert!(close(&lines[0]["logprobs"][0], PLAIN[0].into()));
    assert_eq!(lines[1]["tokens"], json!([0, 1, 2]));
    let two = onedraw(&["sample", &logits, "--distribution", "--params", r#"{"top_k": 2}"#]).lines();
    assert_eq!(two[0]["tokens"], json!([1, 2]));
    assert!(close(&two[0]["probabilities"][0], 2.0 / 3.0), "{}", two[0]);
}

#[test]
fn an_order_in_place_of_the_parameters_order() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let params = r#"{"top_k": 1, "order": "temperature,top_k"}"#;
    for order in ["vllm", "huggingface", "llama.cpp", "top_k,temperature", "top_k"] {
        assert_eq!(
            onedraw(&["sample", &logits, "--params", params, "--order", order]).tokens(),
            [0],
            "{order}"
        );
    }
    let run = onedraw(&["sample", &logits, "--params", params, "--order", "temperature"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert_eq!(run.stderr, "error: top_k: is set, but the order does not name its stage top_k\n");
}

#[test]
fn lengths_and_stops_do_not_matter() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let params = r#"{"temperature": 0, "max_tokens": 1, "output_token_ids": [0, 0], "stop_token_ids": [0],
        "eos_token_id": 0, "stop": "x"}"#;
    assert_eq!(onedraw(&["sample", &logits, "--params", params]).tokens(), [0]);
}

#[test]
fn five_hundred_rows() {
    let rows: Vec<Vec<f32>> = (0..512)
        .map(|row| (0..100).map(|token| if token == row % 100 { 30.0 } else { 0.0 }).collect())
        .collect();
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
    let run = onedraw_with_input(&["sample", "-", "--params", r#"{"temperature": 0}"#], &npy(&rows));
    assert_eq!(run.tokens(), (0..512).map(|row| row % 100).collect::<Vec<_>>());
    let numbers: Vec<_> = run.lines().iter().map(|line| line["row"].as_u64().expect("a row")).collect();
    assert_eq!(numbers, (0..512).collect::<Vec<_>>());
}

#[test]
fn many_draws_follow_the_distribution() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let run = onedraw(&["sample", &logits, "--params", r#"{"seed": 3}"#, "--draws", "4000"]);
    let mut counts = [0.0_f64; 3];
    run.tokens().into_iter().for_each(|token| counts[token as usize] += 1.0);
    for (count, p) in counts.into_iter().zip([0.6_f64, 0.3, 0.1]) {
        // Five standard deviations: a sound sampler fails for one seed in a million.
        let deviation = (4000.0 * p * (1.0 - p)).sqrt();
        assert!((count - 4000.0 * p).abs() < 5.0 * deviation, "{counts:?}");
    }
}

#[test]
fn a_table_to_read() {
    let folder = Folder::new();
    let masked = f32::NEG_INFINITY;
    let rows: [&[f32]; 3] = [&[masked, masked, 9.0], &[f32::NAN, 0.0, 0.0], &[masked, 9.0, masked]];
    let logits = folder.npy("x.npy", &rows);
    let flags = ["--format", "table", "--params", r#"{"seed": 42}"#, "--draws", "2"];
    let run = onedraw(&[&["sample", &logits], &flags[..]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let expected = [
        "   row    draw    token       logprob  probability     rank                  seed    position",
        "     0       0        2      0.000000     1.000000        1                    42           0",
        "     0       1        2      0.000000     1.000000        1                    42           1",
        "row 1: error nan_logit: the logit of token 0 is NaN; logits are finite or -inf (masked)",
        "     2       0        1      0.000000     1.000000        1                    42           0",
        "     2       1        1      0.000000     1.000000        1                    42           1",
    ];
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_distribution_as_a_table() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&[0.0, 0.0, 0.0, 0.0]]);
    let run =
        onedraw(&["sample", &logits, "--format", "table", "--distribution", "--params", r#"{"top_k": 2}"#]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let expected = [
        "   row     rank    token  probability       logprob",
        "     0        1        0     0.500000     -0.693147",
        "     0        2        1     0.500000     -0.693147",
    ];
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
}

/// A line a row: the stages, then the token, the same on any split.
#[test]
fn explanations_stage_by_stage() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN, &[f32::NAN, 0.0, 0.0], &PLAIN]);
    let params =
        r#"{"seed": 3, "temperature": 0.5, "top_k": 2, "xtc_probability": 1, "xtc_threshold": 0.15}"#;
    let run = |flags: &[&str]| {
        let mut arguments = vec!["sample", logits.as_str(), "--params", params, "--explain"];
        arguments.extend(flags);
        onedraw(&arguments)
    };
    let whole = run(&[]);
    assert_eq!(whole.code, 1, "the second row is bad");
    let lines = whole.lines_whatever_happened();
    assert_eq!(lines[1]["error"]["kind"], "nan_logit");
    for row in [0, 2] {
        let line = &lines[row];
        assert_eq!(line["row"], row);
        let stages: Vec<_> = line["stages"].as_array().expect("a list").iter().map(|s| &s["stage"]).collect();
        assert_eq!(stages, ["row", "temperature", "top_k", "xtc"]);
        assert_eq!(line["stages"][2]["removed"][0]["token"], 2);
        assert_eq!(
            (&line["stages"][3]["decision"], &line["token"]),
            (&json!("the coin says yes"), &json!(1))
        );
        assert_eq!(line["probability"], 1.0);
    }
    let table = run(&["--format", "table", "--shards", "2"]).stdout;
    assert!(table.contains("row 1: error nan_logit"), "{table}");
    assert!(table.contains("row 2, position 0, seed 3: token 1, probability 1.000000"), "{table}");
    let refused = onedraw(&["sample", &logits, "--explain", "--draws", "2"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
}

/// Where mirostat stands is reported, and goes on from there when it is given back.
#[test]
fn mirostat_goes_on_from_its_state() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let draw = |params: &str| onedraw(&["sample", &logits, "--params", params]).lines().remove(0);
    let first = draw(r#"{"seed": 1, "mirostat": 2, "mirostat_tau": 1}"#);
    let mu = first["mirostat_mu"].as_f64().expect("a number");
    // Token 0 has 0.6 of the 0.9 that tokens of at most two bits have together, and ln 1.5 is 0.405465.
    assert_eq!(first["token"], 0);
    let surprise = 0.405_465_108 / std::f64::consts::LN_2;
    assert!((mu - (2.0 - 0.1 * (surprise - 1.0))).abs() < 1e-6, "{first}");
    let second = draw(&format!(
        r#"{{"seed": 1, "mirostat": 2, "mirostat_tau": 1, "mirostat_mu": {mu}, "output_token_ids": [{}]}}"#,
        first["token"]
    ));
    assert_ne!(second["mirostat_mu"], first["mirostat_mu"]);
    assert!(draw(r#"{"seed": 1}"#).get("mirostat_mu").is_none());
}
