//! The README's lines run as they stand there.

use std::process::Command;

use crate::support::{commands, repository, run_as_written};

#[test]
fn every_command_of_the_program_runs() {
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("a README");
    let definition = readme.lines().find(|line| line.starts_with("show() {")).expect("what `show` is");
    let commands = commands(&readme);
    assert!(commands.len() > 45, "{} commands found", commands.len());
    commands.iter().for_each(|command| run_as_written(definition, command));
}

/// The story at the top is what the first command writes.
#[test]
fn the_first_story_is_the_first_story() {
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("a README");
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
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("a README");
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
    let command = readme.lines().find(|line| line.starts_with("onedraw compare ")).expect("a command");
    assert_eq!(command, "onedraw compare \"Once upon a time\" --max-tokens 200");
    let output = Command::new(env!("CARGO_BIN_EXE_onedraw"))
        .args(["compare", "Once upon a time", "--max-tokens", "200"])
        .output()
        .expect("a comparison");
    assert_eq!(table(&readme).len(), 16);
    assert_eq!(table(&String::from_utf8_lossy(&output.stdout)), table(&readme));
}

/// Every sampling parameter stands in the README's tables.
#[test]
fn every_parameter_is_listed() {
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("a README");
    let written = serde_json::to_value(onedraw::SamplingParams::default()).expect("written");
    let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `")).collect();
    for name in written.as_object().expect("an object").keys().map(String::as_str).chain(["order"]) {
        let first_cell =
            |row: &&str| row.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{name}`")));
        assert!(rows.iter().any(first_cell), "{name}");
    }
}
