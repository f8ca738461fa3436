//! The commands of the documents run as they are written, and what the documents quote is what they print.

use std::process::Command;

use crate::support::{commands, repository, run_as_written};

fn page(name: &str) -> String {
    std::fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Those of the guide have a test of their own, in `guide.rs`.
#[test]
fn every_command_runs() {
    let parameters = page("docs/src/parameters.md");
    let definition = parameters.lines().find(|line| line.starts_with("show() {")).expect("what `show` is");
    let folder = std::fs::read_dir(repository().join("docs/src")).expect("the book");
    let names = folder.map(|entry| entry.expect("a page").file_name().into_string().expect("a name"));
    let pages = names.filter(|name| name.ends_with(".md") && name != "choosing.md");
    let texts = pages.map(|name| page(&format!("docs/src/{name}"))).chain([page("README.md")]);
    let commands: Vec<String> = texts.flat_map(|text| commands(&text)).collect();
    assert!(commands.len() > 90, "{} commands found", commands.len());
    commands.iter().for_each(|command| run_as_written(definition, command));
}

/// The story at the top is what the first command writes.
#[test]
fn the_first_story_is_the_first_story() {
    let readme = page("README.md");
    let quoted: Vec<&str> = readme
        .lines()
        .skip_while(|line| !line.starts_with("> Once upon a time"))
        .map_while(|line| line.strip_prefix("> "))
        .collect();
    let beginning = quoted.join("\n");
    let beginning = beginning.strip_suffix(" …").expect("more follows");
    let command = readme.lines().find_map(|line| line.strip_prefix("cargo run --release -- generate "));
    assert_eq!(command, Some("\"Once upon a time\" --seed 7 --stats"));
    let output = Command::new(env!("CARGO_BIN_EXE_onedraw"))
        .args(["generate", "Once upon a time", "--seed", "7", "--stats"])
        .output()
        .expect("a story");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(beginning), "{beginning}");
    assert!(String::from_utf8_lossy(&output.stderr).contains(" a second; "), "{:?}", output.stderr);
}

/// The table of strategies is what its command prints, but for the speed.
#[test]
fn the_table_of_strategies_is_the_table() {
    let program = page("docs/src/program.md");
    let without_speed = |line: &str| {
        let mut cells: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        // Nine columns follow it; names have spaces.
        cells.remove(cells.len() - 10);
        cells
    };
    let table = |text: &str| -> Vec<Vec<String>> {
        let lines = text.lines().skip_while(|line| !line.starts_with("strategy "));
        lines.take_while(|line| !line.is_empty() && !line.starts_with("```")).map(without_speed).collect()
    };
    let command = program.lines().find(|line| line.starts_with("onedraw compare ")).expect("a command");
    assert_eq!(command, "onedraw compare \"Once upon a time\" --max-tokens 200");
    let output = Command::new(env!("CARGO_BIN_EXE_onedraw"))
        .args(["compare", "Once upon a time", "--max-tokens", "200"])
        .output()
        .expect("a comparison");
    assert_eq!(table(&program).len(), 16);
    assert_eq!(table(&String::from_utf8_lossy(&output.stdout)), table(&program));
}

/// Every sampling parameter is in the tables of the reference.
#[test]
fn every_parameter_is_listed() {
    let parameters = page("docs/src/parameters.md");
    let written = serde_json::to_value(onedraw::SamplingParams::default()).expect("written");
    let rows: Vec<&str> = parameters.lines().filter(|line| line.starts_with("| `")).collect();
    for name in written.as_object().expect("an object").keys().map(String::as_str).chain(["order"]) {
        let first_cell =
            |row: &&str| row.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{name}`")));
        assert!(rows.iter().any(first_cell), "{name}");
    }
}
