//! The files of the page, as they are in the folder `page`.

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path, such as `view/card.js`.
    pub name: &'static str,
    /// What it is, for the header `content-type`.
    pub kind: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

/// Path and bytes of every file.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The kinds of files, by the ends of their names.
const KINDS: [(&str, &str); 10] = [
    (".css", "text/css; charset=utf-8"),
    (".html", "text/html; charset=utf-8"),
    (".ico", "image/x-icon"),
    (".js", "text/javascript; charset=utf-8"),
    (".json", "application/json"),
    (".png", "image/png"),
    (".svg", "image/svg+xml"),
    (".txt", "text/plain; charset=utf-8"),
    (".webmanifest", "application/manifest+json"),
    (".woff2", "font/woff2"),
];

/// The files of the page that are served. Others in its folder, such as those for its tests, have no kind that a
/// browser asks for.
pub fn page() -> impl Iterator<Item = File> {
    FILES.iter().filter_map(|&(name, bytes)| {
        let (_, kind) = KINDS.iter().find(|(end, _)| name.ends_with(end))?;
        Some(File { name, kind, bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_first_file_and_no_name_leads_out_of_it() {
        let index = page().find(|file| file.name == "index.html").expect("index.html");
        assert_eq!(index.kind, "text/html; charset=utf-8");
        assert!(index.bytes.starts_with(b"<!doctype html>") || index.bytes.starts_with(b"<!DOCTYPE html>"));
        for file in page() {
            assert!(!file.name.starts_with('/') && !file.name.contains(".."), "{}", file.name);
        }
    }
}
