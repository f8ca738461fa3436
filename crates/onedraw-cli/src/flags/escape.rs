//! Line ends in a flag: shells pass `'\n'` on as two characters.

use anyhow::{Result, bail};

/// The text with `\n`, `\t` and `\\` for a line end, a tab and a backslash. Any other backslash is an error:
/// a text that was meant in another way would never match.
pub fn unescaped(text: &str) -> Result<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('\\') => plain.push('\\'),
            Some(other) => {
                bail!("`\\{other}` is not an escape; these are \\n, \\t and \\\\ for a backslash")
            }
            None => bail!("ends with a backslash; write \\\\ for one"),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_escapes_are_understood() {
        assert_eq!(unescaped(r"a\n\nb\t\\n").unwrap(), "a\n\nb\t\\n");
        assert_eq!(unescaped("\n é").unwrap(), "\n é");
        let error = |text| unescaped(text).unwrap_err().to_string();
        assert_eq!(error(r"\d"), r"`\d` is not an escape; these are \n, \t and \\ for a backslash");
        assert_eq!(error(r"a\"), r"ends with a backslash; write \\ for one");
    }
}
