//! No module of a crate needs one that needs it.
//!
//! A module is a file; a folder's `mod.rs` is one, and so is the crate's root. An inline module (`mod x { … }`) belongs to
//! its file. A module needs another one if its file names it, or an item of it, in a path or a `use`. What is looked at is
//! the text outside of comments, literals, attributes and what only tests build (`#[cfg(test)]`).
//!
//! - A path that begins with `crate`, `super`, `self`, a child or an imported name is followed through imports, re-exports
//!   and globs to the module that declares the item. So `use super::X` needs the parent if `mod.rs` declares X, and a
//!   sibling if `mod.rs` only re-exports or imports X from there.
//! - `mod x;` and a re-export (`pub use`, `pub(crate) use`, …) need nothing. A private `use` and a call do, also from a
//!   parent to its child.
//! - An item that is not found in its module, such as one that a macro makes, counts as declared by that module.
//!
//! It does not see what has no path: a method, a field or a trait of a value whose type is named elsewhere, and a
//! `macro_rules` that is used by its order in the text alone.

mod graph;
mod made_up;
mod source;
mod tokens;

use std::path::{Path, PathBuf};

use graph::Graph;

/// Edges that are there for a reason: crate, from, to, and why. The language forces none.
const ALLOWED: [(&str, &str, &str, &str); 0] = [];

/// Crates that have cycles still.
const NOT_YET: [&str; 0] = [];

fn crates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = std::fs::read_dir(folder).expect("the crates");
    let mut crates: Vec<PathBuf> = entries.map(|entry| entry.expect("a crate").path()).collect();
    crates.retain(|path| path.join("Cargo.toml").exists());
    crates.sort();
    crates
}

#[test]
fn no_crate_has_a_cycle() {
    let mut found = String::new();
    let mut roots = 0;
    for path in crates() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let files = ["src/lib.rs", "src/main.rs"].map(|file| path.join(file));
        for root in files.into_iter().filter(|root| root.exists()) {
            roots += 1;
            let mut graph = Graph::new(&root, &|file| std::fs::read_to_string(file).ok());
            for (_, from, to, _) in ALLOWED.iter().filter(|allowed| allowed.0 == name) {
                assert!(
                    graph.allow(from, to),
                    "{name}: {from} does not need {to}, and need not be allowed to"
                );
            }
            let cycles = graph.cycles();
            match NOT_YET.contains(&name) && root.ends_with("lib.rs") {
                true => {
                    assert!(!cycles.is_empty(), "{name} has no cycle any more, and need not be on the list")
                }
                false => cycles.iter().for_each(|cycle| found += &format!("\n{name}: {cycle}")),
            }
        }
    }
    assert!(roots > 8, "{roots} crates were read");
    assert!(found.is_empty(), "{found}");
}
