//! Every file of tests is built: a test that nobody compiles passes for ever.

use std::collections::BTreeSet;
use std::path::Path;

/// What stands between the two texts in some line of a file.
fn between(path: &Path, before: &str, after: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter_map(|line| line.strip_prefix(before)?.strip_suffix(after));
    lines.map(str::to_owned).collect()
}

/// A crate's `tests/main.rs` names each file and folder of tests as a module, but for those that `Cargo.toml`
/// names as programs of their own.
#[test]
fn each_is_a_module_or_a_program() {
    let mut seen = 0;
    let crates = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates");
    for folder in crates.map(|entry| entry.expect("a crate").path()) {
        if !folder.join("tests/main.rs").exists() {
            // Tests in Python, or none.
            let rust = std::fs::read_dir(folder.join("tests")).into_iter().flatten();
            let mut rust = rust.map(|entry| entry.expect("a file").path());
            assert!(rust.all(|path| path.extension().is_none_or(|end| end != "rs")), "{}", folder.display());
            continue;
        }
        let mut built = between(&folder.join("tests/main.rs"), "mod ", ";");
        built.extend(between(&folder.join("Cargo.toml"), "name = \"", "\""));
        for path in std::fs::read_dir(folder.join("tests")).expect("tests") {
            let path = path.expect("a file").path();
            let is_rust = path.extension().is_some_and(|end| end == "rs") || path.join("mod.rs").exists();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            if is_rust && name != "main" {
                assert!(built.contains(name), "{}: is not built", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "{seen} files were seen");
}
