//! The paths, as requests to them are counted.

use onedraw_lab::page;

/// The paths, for the numbers that are counted for each.
const PATHS: [&str; 11] = [
    "/health",
    "/metrics",
    "/tokenize",
    "/detokenize",
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/models",
    "/v1/explain",
    "/lab",
    "/",
];

/// The path of a request as it is counted.
pub(crate) fn route(path: &str) -> &'static str {
    let known = PATHS.iter().find(|known| **known == path);
    known.copied().unwrap_or_else(|| match path {
        path if path.starts_with("/v1/models/") => "/v1/models",
        path if path.starts_with("/lab/") => "/lab",
        path if page().any(|file| path.strip_prefix('/') == Some(file.name)) => "/",
        _ => "other",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_counted_by_their_routes() {
        assert_eq!(route("/v1/completions"), "/v1/completions");
        assert_eq!(route("/v1/models/stories"), "/v1/models");
        assert_eq!(route("/v1/completions/secret"), "other");
        assert_eq!([route("/lab/write"), route("/"), route("/index.html")], ["/lab", "/", "/"]);
    }
}
