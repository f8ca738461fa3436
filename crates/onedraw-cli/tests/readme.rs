//! The commands of the documents run as they are written, and what the documents quote is what they print.

use std::collections::BTreeMap;
use std::process::Command;

use onedraw::{Group, PARAMETERS, Parameter};

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

/// The tables of the reference are the library's list of parameters, in its order and with its words: a heading
/// for each group, and in a row the name, the default and what it does. Sources and examples are the page's own.
/// With `ONEDRAW_WRITE=1` in the environment the page is written anew.
#[test]
fn the_reference_is_the_librarys_list() {
    let name = "docs/src/parameters.md";
    let before = page(name);
    let (start, rest) = before.split_once("<!-- parameters -->\n").expect("where the tables begin");
    let (tables, end) = rest.split_once("<!-- /parameters -->").expect("where they end");
    // What the page itself says: of each parameter the last two cells, and of each group the lines before its
    // table and after it.
    let mut own: BTreeMap<&str, String> = BTreeMap::new();
    let mut around: BTreeMap<&str, [Vec<&str>; 2]> = BTreeMap::new();
    let (mut group, mut is_after) = ("", 0);
    for line in tables.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (group, is_after) = (title, 0);
        } else if let Some(row) = line.strip_prefix("| `") {
            let (name, cells) = row.split_once("` |").expect(row);
            let cells: Vec<&str> = cells.trim_end_matches('|').split(" | ").collect();
            own.insert(name, cells[2..].join(" | ").trim_end().to_owned());
            is_after = 1;
        } else if !line.starts_with('|') && !line.is_empty() {
            around.entry(group).or_default()[is_after].push(line);
        }
    }
    let defaults = serde_json::to_value(onedraw::SamplingParams::default()).expect("written");
    let mut written = String::new();
    for group in Group::ALL {
        written += &format!("\n## {}\n\n", group.title());
        let [above, below] = around.remove(group.title()).unwrap_or_default();
        if !above.is_empty() {
            written += &(above.join("\n") + "\n\n");
        }
        written += "| name | default | what it does | source | example |\n|---|---|---|---|---|\n";
        for parameter in PARAMETERS.iter().filter(|parameter| parameter.group == group) {
            let Parameter { name, help, details, .. } = parameter;
            let default = match (*name, &defaults[*name]) {
                ("order", _) => "`\"vllm\"`".to_owned(),
                ("mirostat_mu", _) => "2 · tau".to_owned(),
                (_, serde_json::Value::Null) => "none".to_owned(),
                (_, text @ serde_json::Value::String(_)) => format!("`{text}`"),
                (_, other) => other.to_string(),
            };
            let details = if details.is_empty() { String::new() } else { format!(". {details}") };
            let own = own.get(name).unwrap_or_else(|| panic!("{name} has no source and no example"));
            written += &format!("| `{name}` | {default} | {help}{details} | {own} |\n");
        }
        if !below.is_empty() {
            written += &("\n".to_owned() + &below.join("\n") + "\n");
        }
    }
    assert!(around.is_empty(), "{around:?}");
    let now = format!("{start}<!-- parameters -->\n{written}\n<!-- /parameters -->{end}");
    if std::env::var_os("ONEDRAW_WRITE").is_some() {
        std::fs::write(repository().join(name), &now).expect(name);
    } else {
        assert!(now == before, "{name} is not of this list of parameters: ONEDRAW_WRITE=1 writes it anew");
    }
}
