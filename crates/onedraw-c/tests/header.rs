//! The header that is kept is the one that the crate makes.

use std::path::{Path, PathBuf};

/// Makes the header from the sources.
fn header() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
    // What a reader needs first comes first.
    let order = [
        "version",
        "error",
        "params",
        "rows",
        "records",
        "sampled",
        "sampler/mod",
        "sampler/report",
        "sampler/history",
        "batch/mod",
        "batch/report",
        "batch/history",
        "verify",
        "stop",
        "grammar",
        "beam",
    ];
    let sources = order.map(|name| folder.join("src").join(name).with_extension("rs"));
    let builder = sources.into_iter().fold(cbindgen::Builder::new(), cbindgen::Builder::with_src);
    let mut text = Vec::new();
    builder.with_config(config).generate().expect("bindings").write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn the_header_is_of_its_sources() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/onedraw.h");
    let made = header();
    if std::env::var_os("ONEDRAW_WRITE_HEADER").is_some() {
        std::fs::write(&kept, &made).expect("include can be written");
    }
    let kept = std::fs::read_to_string(&kept).unwrap_or_default();
    assert!(kept == made, "write it with: ONEDRAW_WRITE_HEADER=1 cargo test -p onedraw-c");
}

/// Every function's comment says which threads may call it.
#[test]
fn every_comment_says_which_thread_may_call() {
    let header = header();
    let mut functions = 0;
    let (mut comment, mut is_comment) = (String::new(), false);
    for line in header.lines() {
        if line.starts_with("/**") {
            comment.clear();
            is_comment = true;
        } else if line.starts_with("typedef") || line.starts_with("#") {
            is_comment = false;
        } else if is_comment && line.starts_with(" *") {
            comment.push_str(line);
        } else if is_comment && line.contains(" onedraw_") && line.contains('(') {
            assert!(comment.contains("thread"), "{line}: {comment}");
            functions += 1;
            is_comment = false;
        }
    }
    assert!(functions > 60, "{functions}");
}

/// Every function that a file exports is declared, so that no file is missing from the order above.
#[test]
fn every_exported_function_is_declared() {
    let header = header();
    let mut functions = 0;
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = std::fs::read_to_string(&path).expect("a source");
        for line in text.lines().filter(|line| line.starts_with("pub extern \"C\" fn ")) {
            let name = line["pub extern \"C\" fn ".len()..].split('(').next().expect("a name");
            assert!(header.contains(&format!("{name}(")), "{name} is not declared");
            functions += 1;
        }
    }
    assert!(functions > 60, "{functions}");
}

/// All files in a folder and the folders in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The installed library's name has the number of the interface.
#[test]
fn the_library_is_named_after_its_interface() {
    let (_, manifest) =
        include_str!("../Cargo.toml").split_once("[package.metadata.capi.library]").expect("it");
    let named = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    let header = header();
    let abi = header.lines().find_map(|line| line.strip_prefix("#define ONEDRAW_ABI ")).expect("a number");
    assert_eq!(named, Some(format!("\"{abi}.0.0\"").as_str()));
}
