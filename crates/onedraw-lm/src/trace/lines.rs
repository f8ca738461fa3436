//! Traces from a file, line by line: a bad line is an error of its own, and the next one is read.

use std::fmt;
use std::io::{self, BufRead};

use crate::trace::Trace;

/// The longest line, in bytes: five hundred tokens with the ids of a hundred and fifty thousand kept tokens each. A longer
/// one is skipped without being held in memory.
pub(crate) const LONGEST: u64 = 512 << 20;

/// The lines of a file of traces. Empty lines are skipped.
pub struct Lines<R> {
    source: R,
    number: usize,
    longest: u64,
}

/// A line that is no trace.
#[derive(Debug)]
pub struct LineError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
    /// Whether the file cannot be read any further.
    pub is_last: bool,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for LineError {}

impl<R: BufRead> Lines<R> {
    /// The lines of a source.
    pub fn new(source: R) -> Self {
        Self { source, number: 0, longest: LONGEST }
    }

    /// The bytes of the next line; `None` at the end, an error in words if it is too long.
    fn line(&mut self) -> io::Result<Option<Result<Vec<u8>, String>>> {
        let (mut line, mut length) = (Vec::new(), 0_u64);
        loop {
            let held = self.source.fill_buf()?;
            if held.is_empty() {
                break;
            }
            let end = held.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(held.len(), |end| end + 1);
            length += taken as u64;
            if length <= self.longest {
                line.extend_from_slice(&held[..taken]);
            }
            self.source.consume(taken);
            if end.is_some() {
                break;
            }
        }
        Ok(match length {
            0 => None,
            _ if length > self.longest => {
                Some(Err(format!("has {length} bytes; a line has at most {}", self.longest)))
            }
            _ => Some(Ok(line)),
        })
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    /// A line's number with its trace.
    type Item = Result<(usize, Trace), LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            let number = self.number;
            let wrong = |message: String| LineError { line: number, message, is_last: false };
            let bytes = match self.line() {
                Ok(None) => return None,
                Ok(Some(Ok(bytes))) => bytes,
                Ok(Some(Err(message))) => return Some(Err(wrong(message))),
                Err(error) => {
                    return Some(Err(LineError {
                        is_last: true,
                        ..wrong(format!("cannot be read: {error}"))
                    }));
                }
            };
            let text = match str::from_utf8(&bytes) {
                Ok(text) => text.trim(),
                Err(error) => return Some(Err(wrong(format!("is not UTF-8: {error}")))),
            };
            if !text.is_empty() {
                return Some(Trace::parse(text).map(|trace| (number, trace)).map_err(wrong));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_does_not_hide_the_next() {
        let long = format!("[{}]", " ".repeat(1000));
        let text = format!("{{}}\n\n{long}\n3\n\u{fffd}");
        let mut bytes = text.into_bytes();
        bytes.extend(b"\n\xff\n");
        let errors: Vec<String> = Lines { longest: 1000, ..Lines::new(&bytes[..]) }
            .map(|line| line.expect_err("no trace").to_string())
            .collect();
        assert_eq!(errors[0], "line 1: `version` is missing: this is no trace");
        assert_eq!(errors[1], "line 3: has 1003 bytes; a line has at most 1000");
        assert_eq!(errors[2], "line 4: is not a JSON object");
        assert!(errors[3].starts_with("line 5: is not JSON: "));
        assert!(errors[4].starts_with("line 6: is not UTF-8: "));
        assert_eq!(errors.len(), 5);
    }
}
