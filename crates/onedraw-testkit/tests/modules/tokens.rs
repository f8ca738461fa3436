//! Rust source as words and marks, without comments, literals and lifetimes.

/// A word, `::`, or any other single character, with its line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// What is left of a source file after comments, strings, characters and lifetimes are taken out.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < source.len() {
        let length = literal(source, at).or_else(|| comment(&source[at..]));
        let (length, is_token) = match length {
            Some(length) => (length, false),
            None => token(&source[at..]),
        };
        let text = &source[at..at + length];
        if is_token {
            // A raw identifier is the same name.
            tokens.push(Token { text: text.strip_prefix("r#").unwrap_or(text), line });
        }
        line += text.matches('\n').count();
        at += length;
    }
    tokens
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// How long the word or mark at the start is, and whether it is one: white space is not.
fn token(rest: &str) -> (usize, bool) {
    let first = rest.chars().next().expect("not at the end");
    let name = rest.strip_prefix("r#").unwrap_or(rest);
    let word = name.find(|letter| !is_word(letter)).unwrap_or(name.len());
    match first {
        _ if is_word(first) && word > 0 => (rest.len() - name.len() + word, true),
        _ if rest.starts_with("::") => (2, true),
        _ => (first.len_utf8(), !first.is_whitespace()),
    }
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    // Comments of this kind nest.
    let (mut depth, mut at) = (1, 2);
    while depth > 0 {
        let next = rest[at..].find(['/', '*']).expect("the comment ends") + at;
        (depth, at) = match &rest[next..(next + 2).min(rest.len())] {
            "/*" => (depth + 1, next + 2),
            "*/" => (depth - 1, next + 2),
            _ => (depth, next + 1),
        };
    }
    Some(at)
}

/// How long the literal or the lifetime at this place is, if there is one.
fn literal(source: &str, at: usize) -> Option<usize> {
    let rest = &source[at..];
    // A prefix (`b`, `c`, `r`, `br`, `cr`) is not the end of a longer word.
    if !rest.starts_with('"') && !rest.starts_with('\'') && source[..at].ends_with(is_word) {
        return None;
    }
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let body = &rest[prefix.len()..];
    let length = if prefix.ends_with('r') {
        let hashes = body.find(|letter| letter != '#')?;
        let text = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", &body[..hashes]);
        hashes + 1 + text.find(&end).expect("the string ends") + end.len()
    } else if let Some(text) = body.strip_prefix('"') {
        1 + quoted(text, '"')
    } else {
        let text = body.strip_prefix('\'')?;
        let letter = text.chars().next().expect("something after a quote");
        if letter == '\\' || text[letter.len_utf8()..].starts_with('\'') {
            1 + quoted(text, '\'')
        } else {
            // A lifetime or a label.
            1 + text.find(|letter| !is_word(letter)).unwrap_or(text.len())
        }
    };
    Some(prefix.len() + length)
}

/// The length up to the closing quote, which included.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text.find(|letter| {
        let is_end = letter == quote && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    end.expect("the literal ends") + 1
}

#[test]
fn only_code_is_left() {
    let source = r####"
        /// crate::a
        /* crate::b /* nested */ crate::b */ use x; // crate::c
        fn f<'a>(_: &'a str) -> char { "crate::d \" crate::d"; r#"crate::"e"#; b'\''; '"'; 'q' }
        r#type::bar"####;
    let words: Vec<&str> = tokens(source).into_iter().map(|token| token.text).collect();
    let expected = "use x ; fn f < > ( _ : & str ) - > char { ; ; ; ; } type :: bar";
    assert_eq!(words.join(" "), expected);
    assert_eq!(tokens(source).last().map(|token| token.line), Some(5));
}
