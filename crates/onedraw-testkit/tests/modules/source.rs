//! What one source file declares, imports and names.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens};

/// A path as it is written, and how many inline modules (`mod x { … }`) of the file it stands in.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub segments: Vec<String>,
    pub inline: usize,
    pub line: usize,
}

/// A file, without what is only built for tests.
#[derive(Debug, Default)]
pub struct Source {
    /// `mod x;`
    pub children: Vec<String>,
    /// Items that the file itself declares.
    pub items: BTreeSet<String>,
    /// Names that a `use` brings, re-exports included.
    pub imports: BTreeMap<String, Written>,
    /// `use x::*`
    pub globs: Vec<Written>,
    /// Every path that makes the file need another one: all but re-exports.
    pub needs: Vec<Written>,
}

const ITEMS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

impl Source {
    pub fn read(text: &str) -> Self {
        let mut reader =
            Reader { tokens: tokens(text), at: 0, depth: 0, inline: Vec::new(), source: Self::default() };
        while reader.at < reader.tokens.len() {
            reader.step();
        }
        reader.source
    }
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// How many braces are open.
    depth: usize,
    /// The depth inside of each inline module that is open.
    inline: Vec<usize>,
    source: Source,
}

impl<'a> Reader<'a> {
    fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn is_word(&self, ahead: usize) -> bool {
        self.text(ahead).starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
    }

    /// Whether this is the file's own level, in no inline module and no body.
    fn is_outside(&self) -> bool {
        self.depth == 0
    }

    fn step(&mut self) {
        match self.text(0) {
            "#" if self.text(1) == "[" => self.attribute(),
            "pub" => self.visibility(),
            // In a macro a `use` may be made of variables: what is left of its paths is read as such.
            "use" if self.has_variables() => self.at += 1,
            // `impl Fn() + use<'a>`: what a type captures.
            "use" if self.text(1) == "<" => self.at += 1,
            "use" => self.imports(false),
            "mod" if self.text(2) == ";" => {
                assert!(self.is_outside(), "mod {}; inside of an inline module", self.text(1));
                self.source.children.push(self.text(1).to_owned());
                self.at += 3;
            }
            "mod" if self.text(2) == "{" => {
                if self.is_outside() {
                    self.source.items.insert(self.text(1).to_owned());
                }
                self.at += 3;
                self.depth += 1;
                self.inline.push(self.depth);
            }
            "macro_rules" if self.text(1) == "!" && self.is_outside() => {
                self.source.items.insert(self.text(2).to_owned());
                self.at += 3;
            }
            word if ITEMS.contains(&word) && self.is_word(1) => {
                let name = if self.text(1) == "mut" { self.text(2) } else { self.text(1) };
                if self.is_outside() && !ITEMS.contains(&name) {
                    self.source.items.insert(name.to_owned());
                }
                self.at += 1;
            }
            "{" => {
                self.depth += 1;
                self.at += 1;
            }
            "}" => {
                self.inline.pop_if(|depth| *depth == self.depth);
                self.depth -= 1;
                self.at += 1;
            }
            // `::name` comes from another crate.
            "::" if self.is_word(1) => {
                self.at += 1;
                self.path();
            }
            _ if self.is_word(0) => {
                let line = self.tokens[self.at].line;
                let segments = self.path();
                if segments.len() > 1 {
                    let written = self.written(segments, line);
                    self.source.needs.push(written);
                }
            }
            _ => self.at += 1,
        }
    }

    fn written(&self, segments: Vec<String>, line: usize) -> Written {
        Written { segments, inline: self.inline.len(), line }
    }

    /// `a::b::c`, and past it.
    fn path(&mut self) -> Vec<String> {
        let mut segments = vec![self.text(0).to_owned()];
        self.at += 1;
        while self.text(0) == "::" && self.is_word(1) {
            segments.push(self.text(1).to_owned());
            self.at += 2;
        }
        segments
    }

    /// `pub` and `pub(…)`, whose path is no dependency; a `use` after it is a re-export.
    fn visibility(&mut self) {
        self.at += 1;
        if self.text(0) == "(" && ["crate", "self", "super", "in"].contains(&self.text(1)) {
            while self.text(0) != ")" {
                self.at += 1;
            }
            self.at += 1;
        }
        if self.text(0) == "use" && !self.has_variables() {
            self.imports(true);
        }
    }

    /// Whether variables of a macro stand in this `use`; `$crate` is none.
    fn has_variables(&self) -> bool {
        let rest = self.tokens[self.at..].windows(2).take_while(|pair| pair[0].text != ";");
        rest.into_iter().any(|pair| pair[0].text == "$" && pair[1].text != "crate")
    }

    /// `use …;`
    fn imports(&mut self, is_reexport: bool) {
        self.at += 1;
        self.tree(&[], is_reexport);
        assert_eq!(self.text(0), ";", "a use that ends, line {}", self.tokens[self.at].line);
        self.at += 1;
    }

    fn tree(&mut self, prefix: &[String], is_reexport: bool) {
        let line = self.tokens[self.at].line;
        let is_foreign = self.text(0) == "::" && prefix.is_empty();
        let mut segments = prefix.to_vec();
        while self.is_word(0) || ["::", "$"].contains(&self.text(0)) {
            if self.text(0) == "as" {
                break;
            }
            if self.is_word(0) {
                segments.push(self.text(0).to_owned());
            }
            self.at += 1;
        }
        if self.text(0) == "{" {
            self.at += 1;
            while self.text(0) != "}" {
                self.tree(&segments, is_reexport);
                if self.text(0) == "," {
                    self.at += 1;
                }
            }
            self.at += 1;
            return;
        }
        let is_glob = self.text(0) == "*";
        // `a::{self}` names a itself.
        segments.pop_if(|last| last == "self" && !prefix.is_empty());
        let mut name = segments.last().cloned();
        if is_glob {
            self.at += 1;
            name = None;
        } else if self.text(0) == "as" {
            name = Some(self.text(1).to_owned());
            self.at += 2;
        }
        if is_foreign {
            return;
        }
        let written = self.written(segments, line);
        if self.is_outside() {
            match name {
                Some(name) => drop(self.source.imports.insert(name, written.clone())),
                None => self.source.globs.push(written.clone()),
            }
        }
        if !is_reexport {
            self.source.needs.push(written);
        }
    }

    /// An attribute; with `cfg(test)`, or `cfg(all(test, …))`, also what it stands before.
    fn attribute(&mut self) {
        let rest: Vec<&str> = (1..8).map(|ahead| self.text(ahead)).collect();
        assert!(rest[1] != "path", "#[path] is not followed here");
        let is_test = rest.starts_with(&["[", "cfg", "(", "test", ")"])
            || rest.starts_with(&["[", "cfg", "(", "all", "(", "test", ","])
            || rest.starts_with(&["[", "cfg", "(", "doctest", ")"])
            || rest.starts_with(&["[", "test", "]"]);
        self.at += 1;
        self.group();
        if is_test {
            self.skip_item();
        }
    }

    /// Goes past brackets and all that is in them.
    fn group(&mut self) {
        let mut open = 0;
        loop {
            match self.text(0) {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                break;
            }
        }
    }

    /// Goes past an item, a statement, a field, a variant or an arm: to its body's end, a semicolon, or,
    /// where there is neither before it, a comma or the end of what it stands in.
    fn skip_item(&mut self) {
        while self.text(0) == "#" {
            self.at += 1;
            self.group();
        }
        if self.text(0) == "pub" {
            self.at += 1;
            if self.text(0) == "(" {
                self.group();
            }
        }
        let is_item = [&ITEMS[..], &["use", "mod", "impl", "unsafe", "async", "extern", "macro_rules"]]
            .concat()
            .contains(&self.text(0));
        loop {
            match self.text(0) {
                ";" => break self.at += 1,
                "," if !is_item => break self.at += 1,
                "}" | "" => break,
                "{" => {
                    self.group();
                    // `use a::{b};` and `const A: T = T { … };` go on.
                    if !matches!(self.text(0), ";" | "." | "?") {
                        break;
                    }
                }
                "(" | "[" => self.group(),
                _ => self.at += 1,
            }
        }
    }
}
