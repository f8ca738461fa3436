//! A template's text, rewritten where the engine does not know a tag, or knows one that is not safe.
//!
//! - Some templates mark the model's own words by `{% generation %}` and `{% endgeneration %}`, for training. What
//!   is between is rendered as usual: the marks become an `if true`.
//! - An assignment to a namespace becomes a call of [`ASSIGN`], so that namespaces can be
//!   [our own](super::namespace). An assignment that is missed here is an error when it runs.
//!
//! A tag becomes one tag on the same lines, so that white space is treated alike and errors name the right line.

use super::namespace::ASSIGN;

/// Rewrites the tags of a template.
pub(super) fn rewritten(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    // For each `set` that is open until its `endset`: whether it became a filter.
    let mut blocks = Vec::new();
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let end = match from.as_bytes().get(1) {
            Some(b'#') => from.find("#}").map(|at| at + 2),
            Some(b'{') => length(from, "}}"),
            Some(b'%') => length(from, "%}"),
            _ => Some(1),
        };
        let Some((part, after)) = end.and_then(|end| from.split_at_checked(end)) else {
            rest = from;
            break;
        };
        rest = after;
        let Some(tag) = part.strip_prefix("{%").and_then(|tag| tag.strip_suffix("%}")) else {
            text.push_str(part);
            continue;
        };
        let code = tag.trim_matches(['-', '+']);
        match instead(code, &mut blocks) {
            Some(other) => text.push_str(&part.replacen(code, &other, 1)),
            None => text.push_str(part),
        }
        if code.trim() == "raw" {
            let (raw, after) = rest.split_at(rest.find("endraw").unwrap_or(rest.len()));
            text.push_str(raw);
            rest = after;
        }
    }
    text.push_str(rest);
    text
}

/// The length of the tag or expression that a text begins with, up to the first `close` that is not in a string.
fn length(text: &str, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut letters = text.char_indices().skip(2);
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => {
                letters.next();
            }
            (Some(mark), _) if mark == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, _) if text.get(at..).is_some_and(|rest| rest.starts_with(close)) => {
                return Some(at + close.len());
            }
            (None, _) => {}
        }
    }
    None
}

/// What a tag becomes, or `None` if it stays.
fn instead(code: &str, blocks: &mut Vec<bool>) -> Option<String> {
    let word = code.trim();
    match word {
        "generation" => return Some(code.replacen(word, "if true", 1)),
        "endgeneration" => return Some(code.replacen(word, "endif", 1)),
        "endset" => return blocks.pop()?.then(|| code.replacen(word, "endfilter", 1)),
        _ => {}
    }
    let target = code.trim_start().strip_prefix("set")?.strip_prefix(|c: char| c.is_ascii_whitespace())?;
    let length =
        target.find(|c: char| !(c.is_alphanumeric() || "_. \t\n\r".contains(c))).unwrap_or(target.len());
    let (target, rest) = target.split_at(length);
    let place = target.rsplit_once('.');
    let (value, filters) = match rest.chars().next() {
        Some('=') => (rest.strip_prefix('='), ""),
        None => (None, ""),
        Some('|') => (None, rest.strip_prefix('|')?),
        // Several targets.
        Some(_) => return None,
    };
    if value.is_none() {
        blocks.push(place.is_some());
    }
    let (object, name) = place?;
    let (object, name) = (object.trim(), name.trim());
    // As many lines as there were.
    let count = |text: &str| text.matches('\n').count();
    let kept = count(object) + count(filters) + value.map_or(0, count);
    let lines = "\n".repeat(count(code).saturating_sub(kept));
    let bar = if filters.is_empty() { "" } else { "|" };
    Some(match value {
        Some(value) => format!("{lines} do {ASSIGN}({object}, \"{name}\", ({value})) "),
        None => format!("{lines} filter {filters}{bar}{ASSIGN}({object}, \"{name}\") "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_rewritten() {
        for (source, expected) in [
            ("{%- generation -%}a{%+ endgeneration %}", "{%- if true -%}a{%+ endif %}"),
            ("{% set ns.a = 1 %}", "{% do __assign(ns, \"a\", ( 1 )) %}"),
            ("{%- set ns.a.b=x, '%}' -%}", "{%- do __assign(ns.a, \"b\", (x, '%}' )) -%}"),
            ("{% set a = 1 %}{% set a %}x{% endset %}", "{% set a = 1 %}{% set a %}x{% endset %}"),
            (
                "{% set n.a %}{% set b %}{% endset %}{% endset %}",
                "{% filter __assign(n, \"a\") %}{% set b %}{% endset %}{% endfilter %}",
            ),
            ("{# {% set n.a = 1 %} #}{% raw %}{% set n.a = 1 %}{% endraw %}", ""),
            ("{{ '{% set n.a = 1 %}' }}{{ {'a': {}}} }}{ {", ""),
            ("{% settle %} {% set n.a = '", ""),
            ("{% set\n n.a\n =\n 1 %}", "{%\n\n do __assign(n, \"a\", (\n 1 )) %}"),
            ("{% set n.a | upper %}{% endset %}", "{% filter  upper |__assign(n, \"a\") %}{% endfilter %}"),
            ("{% set a, n.b = x %}{% set n.a, b = x %}", ""),
        ] {
            let expected = if expected.is_empty() { source } else { expected };
            assert_eq!(rewritten(source), expected);
        }
    }
}
