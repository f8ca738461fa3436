//! The header that is kept is the one that the crate makes.

use std::path::Path;

/// Makes the header from the sources.
fn header() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut sources: Vec<_> = std::fs::read_dir(folder.join("src"))
        .expect("the sources")
        .map(|file| file.expect("a source").path())
        .filter(|path| path.is_file())
        .collect();
    // What a reader needs first comes first.
    let order = [
        "version", "error", "params", "rows", "sampled", "sampler", "batch", "sequence", "verify", "stop",
        "grammar", "beam",
    ];
    let place =
        |path: &Path| order.iter().position(|name| path.file_stem().is_some_and(|stem| stem == *name));
    sources.retain(|path| place(path).is_some());
    assert_eq!(sources.len(), order.len(), "a file of the order is not there");
    sources.sort_by_key(|path| place(path));
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
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let header = header();
    let mut functions = 0;
    for file in std::fs::read_dir(sources).expect("the sources") {
        let path = file.expect("a source").path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for line in text.lines().filter(|line| line.starts_with("pub extern \"C\" fn ")) {
            let name = line["pub extern \"C\" fn ".len()..].split('(').next().expect("a name");
            assert!(header.contains(&format!("{name}(")), "{name} is not declared");
            functions += 1;
        }
    }
    assert!(functions > 60, "{functions}");
}
