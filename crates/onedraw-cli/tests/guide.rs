//! The guide's commands run as they stand there, and its pictures are those that they paint.

use std::collections::BTreeSet;

use crate::support::{commands, repository, run_as_written};

fn guide() -> String {
    std::fs::read_to_string(repository().join("docs/src/choosing.md")).expect("a guide")
}

#[test]
fn every_command_runs() {
    let commands = commands(&guide());
    assert!(commands.len() > 55, "{} commands found", commands.len());
    commands.iter().for_each(|command| run_as_written("", command));
}

/// Every picture is painted by a command, and every one of them is shown.
#[test]
fn every_picture_is_shown() {
    let guide = guide();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let entries = std::fs::read_dir(repository().join("docs/src/pictures")).expect("pictures");
    let there: BTreeSet<String> =
        entries.map(|entry| entry.expect("a file").file_name().into_string().expect("a name")).collect();
    let painted: BTreeSet<String> = commands(&guide)
        .iter()
        .filter_map(|command| command.split_once(" --output ").map(|(_, path)| name(path)))
        .collect();
    let shown: BTreeSet<String> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("![")?.strip_suffix(')')?.split_once("](pictures/"))
        .map(|(_, path)| name(path))
        .collect();
    assert_eq!((&painted, &shown), (&there, &there));
}

/// A strategy has a formula or a rule, a picture, a use, a pitfall and a command.
#[test]
fn every_strategy_is_whole() {
    let guide = guide();
    // From a heading of any kind to the next.
    let parts = guide.split("\n## ").flat_map(|part| part.split("\n### "));
    let mut count = 0;
    for part in parts.filter(|part| part.contains("- **Use")) {
        let heading = part.lines().next().unwrap_or_default();
        for needed in ["![", "**Watch for**", "```sh", "onedraw generate"] {
            assert!(part.contains(needed), "{heading}: {needed}");
        }
        count += 1;
    }
    assert!(count > 20, "{count}");
}
