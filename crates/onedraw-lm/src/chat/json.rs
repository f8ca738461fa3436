//! `tojson`, which writes as Python's `json.dumps` does: a space after separators, nothing escaped for HTML,
//! and characters outside ASCII unescaped.

use std::io::{self, Write};

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// The largest `indent`, which bounds the length of the text.
const MAX_INDENT: usize = 64;

/// How deep lists and objects may be nested, which bounds the stack.
const MAX_DEPTH: usize = 128;

/// The filter, with the arguments that transformers has, except `sort_keys`.
pub(super) fn tojson(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    let wrong = |message: &str| Error::new(ErrorKind::InvalidOperation, format!("tojson: {message}"));
    let indent: Option<usize> = arguments.get("indent")?;
    let is_ascii: Option<bool> = arguments.get("ensure_ascii")?;
    let separators: Option<Vec<String>> = arguments.get("separators")?;
    arguments.assert_all_used()?;
    if indent.is_some_and(|indent| indent > MAX_INDENT) {
        return Err(wrong("`indent` is more than 64"));
    }
    let (item, key) = match separators.as_deref() {
        None => (if indent.is_some() { "," } else { ", " }, ": "),
        Some([item, key]) => (item.as_str(), key.as_str()),
        Some(_) => return Err(wrong("`separators` must be two strings")),
    };
    let mut json = Vec::new();
    let style = Python { item, key, indent, depth: 0, is_empty: true };
    value
        .serialize(&mut Serializer::with_formatter(&mut json, style))
        .map_err(|cause| wrong(&cause.to_string()))?;
    let json = String::from_utf8(json).map_err(|cause| wrong(&cause.to_string()))?;
    Ok(if is_ascii == Some(true) { escaped(&json) } else { json })
}

/// Escapes characters outside ASCII. They stand only in strings, so every one can be escaped.
fn escaped(json: &str) -> String {
    let mut text = String::new();
    for letter in json.chars() {
        if letter.is_ascii() {
            text.push(letter);
        } else {
            text.extend(letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

/// The style of `json.dumps`.
struct Python<'a> {
    item: &'a str,
    key: &'a str,
    indent: Option<usize>,
    depth: usize,
    /// Whether the list or object that was begun last is still empty.
    is_empty: bool,
}

impl Python<'_> {
    fn begin(&mut self, mark: &str, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(io::Error::other(format!("lists and objects are nested more than {MAX_DEPTH} deep")));
        }
        self.is_empty = true;
        out.write_all(mark.as_bytes())
    }

    fn next(&mut self, is_first: bool, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        self.is_empty = false;
        if !is_first {
            out.write_all(self.item.as_bytes())?;
        }
        self.line(out)
    }

    fn end(&mut self, mark: &str, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if !self.is_empty {
            self.line(out)?;
        }
        self.is_empty = false;
        out.write_all(mark.as_bytes())
    }

    fn line(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        match self.indent {
            Some(indent) => write!(out, "\n{}", " ".repeat(indent * self.depth)),
            None => Ok(()),
        }
    }
}

impl Formatter for Python<'_> {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin("[", out)
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end("]", out)
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.next(is_first, out)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin("{", out)
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end("}", out)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.next(is_first, out)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(self.key.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;

    fn render(template: &str) -> Result<String, String> {
        let mut environment = Environment::new();
        environment.add_filter("tojson", super::tojson);
        environment.render_str(template, ()).map_err(|error| error.to_string())
    }

    #[test]
    fn writes_as_python_does() {
        let value = r#"{"b": [1, 2.5, true, none, "<é> & 'x'\n\"\\"], "a": {}, "c": []}"#;
        for (arguments, expected) in [
            ("", r#"{"b": [1, 2.5, true, null, "<é> & 'x'\n\"\\"], "a": {}, "c": []}"#),
            (
                "(ensure_ascii=true)",
                r#"{"b": [1, 2.5, true, null, "<\u00e9> & 'x'\n\"\\"], "a": {}, "c": []}"#,
            ),
            ("(separators=(',', ':'))", r#"{"b":[1,2.5,true,null,"<é> & 'x'\n\"\\"],"a":{},"c":[]}"#),
        ] {
            assert_eq!(render(&format!("{{{{ {value}|tojson{arguments} }}}}")).as_deref(), Ok(expected));
        }
        let expected = "{\n    \"a\": [\n        1,\n        {\n            \"b\": 2\n        }\n    ],\n    \"c\": []\n}";
        assert_eq!(
            render(r#"{{ {"a": [1, {"b": 2}], "c": []}|tojson(indent=4) }}"#).as_deref(),
            Ok(expected)
        );
        assert_eq!(render("{{ '😀'|tojson(ensure_ascii=true) }}").as_deref(), Ok(r#""\ud83d\ude00""#));
    }

    #[test]
    fn wrong_arguments_are_errors() {
        for (arguments, expected) in [
            ("indent=1000000000", "`indent` is more than 64"),
            ("separators=[',']", "`separators` must be two strings"),
            ("sort=true", "sort"),
        ] {
            let message = render(&format!("{{{{ [1]|tojson({arguments}) }}}}")).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        let nested = "{% set ns = namespace(v=[]) %}{% for i in range(N) %}{% set ns.v = [ns.v] %}{% endfor %}{{ ns.v|tojson }}";
        assert_eq!(render(&nested.replace('N', "127")).unwrap(), "[".repeat(128) + &"]".repeat(128));
        assert!(render(&nested.replace('N', "128")).unwrap_err().contains("more than 128 deep"));
    }
}
