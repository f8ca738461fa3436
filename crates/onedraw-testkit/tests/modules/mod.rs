//! No module of a crate needs one that needs it.
//!
//! A module is a file; a folder's `mod.rs` is one, and so is the crate's root. An inline module (`mod x { …
//! }`) belongs to its file. A module needs another one if its file names it, or an item of it, in a path or a
//! `use`. What is looked at is the text outside of comments, literals, attributes and what only tests build
//! (`#[cfg(test)]`).
//!
//! - A path that begins with `crate`, `super`, `self`, a child or an imported name is followed through
//!   imports, re-exports and globs to the module that declares the item. So `use super::X` needs the parent
//!   if `mod.rs` declares X, and a sibling if `mod.rs` only re-exports or imports X from there.
//! - `mod x;` and a re-export (`pub use`, `pub(crate) use`, …) need nothing. A private `use` and a call do,
//!   also from a parent to its child.
//! - An item that is not found in its module, such as one that a macro makes, counts as declared by that
//!   module.
//!
//! It does not see what has no path: a method, a field or a trait of a value whose type is named elsewhere; a
//! `macro_rules` that is used by its order in the text alone; and the part of a path that a macro's variable
//! stands for.

mod graph;
mod made_up;
mod source;
mod tokens;

use std::path::{Path, PathBuf};

use graph::Graph;

/// Edges that are there for a reason: crate, from, to, and why. The language forces none.
const ALLOWED: [(&str, &str, &str, &str); 0] = [];

/// The folder of the crates.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn crates() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the crates");
    let paths = entries.map(|entry| entry.expect("a crate").path());
    let crates = paths.filter(|path| path.join("Cargo.toml").exists());
    let mut names: Vec<String> =
        crates.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

#[test]
fn no_crate_has_a_cycle() {
    let folder = folder();
    let mut found = String::new();
    let mut roots = 0;
    for name in crates() {
        let files = ["src/lib.rs", "src/main.rs"].map(|file| Path::new(&name).join(file));
        for root in files.iter().filter(|root| folder.join(root).exists()) {
            roots += 1;
            let mut graph = Graph::new(root, &|file| std::fs::read_to_string(folder.join(file)).ok());
            for (_, from, to, _) in ALLOWED.iter().filter(|allowed| allowed.0 == name) {
                assert!(
                    graph.allow(from, to),
                    "{name}: {from} does not need {to}, and need not be allowed to"
                );
            }
            let cycles = graph.cycles();
            cycles.iter().for_each(|cycle| found += &format!("\n{name}: {cycle}"));
        }
    }
    assert!(roots > 8, "{roots} crates were read");
    assert!(found.is_empty(), "{found}");
}
