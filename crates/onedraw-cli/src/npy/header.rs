//! The header of a `.npy`: the literal of a Python dict with the keys `descr`, `fortran_order` and `shape`,
//! padded with white space. Only what can stand there is parsed: strings, booleans, tuples of integers.

use super::error::NpyError;

/// What the header says about the array.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    /// The dtype, such as `<f4`.
    pub descr: String,
    /// Whether the array is stored column by column.
    pub fortran_order: bool,
    /// The length of each dimension.
    pub shape: Vec<usize>,
}

/// Parses the text of a header. The keys may stand in any order.
pub(super) fn parse(text: &[u8]) -> Result<Header, NpyError> {
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    let mut parser = Parser { text, at: 0 };
    parser.expect(b'{', "'{'")?;
    while !parser.accept(b'}') {
        let key = parser.string("a key in quotes or '}'")?;
        parser.expect(b':', "':'")?;
        let is_new = match key.as_str() {
            "descr" => descr.replace(parser.descr()?).is_none(),
            "fortran_order" => fortran_order.replace(parser.boolean()?).is_none(),
            "shape" => shape.replace(parser.tuple()?).is_none(),
            _ => return Err(NpyError::HeaderKey { key, problem: "is unknown" }),
        };
        if !is_new {
            return Err(NpyError::HeaderKey { key, problem: "is there twice" });
        }
        if !parser.accept(b',') {
            parser.expect(b'}', "',' or '}'")?;
            break;
        }
    }
    parser.end()?;
    let missing = |key: &str| NpyError::HeaderKey { key: key.to_owned(), problem: "is missing" };
    Ok(Header {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

/// A place in the text. Every method first skips white space.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn error(&self, expected: &'static str) -> NpyError {
        NpyError::HeaderSyntax { at: self.at, expected }
    }

    /// The next byte that is not white space, not yet consumed.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n' | b'\x0c')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Consumes `byte` if it comes next.
    fn accept(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NpyError> {
        if self.accept(byte) { Ok(()) } else { Err(self.error(expected)) }
    }

    fn end(&mut self) -> Result<(), NpyError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.error("nothing but white space")) }
    }

    /// A string in single or double quotes. NumPy needs no escapes for these, so a backslash is an error.
    fn string(&mut self, expected: &'static str) -> Result<String, NpyError> {
        let quote = match self.peek() {
            Some(quote @ (b'\'' | b'"')) => quote,
            _ => return Err(self.error(expected)),
        };
        self.at += 1;
        let start = self.at;
        loop {
            match self.text.get(self.at) {
                Some(&byte) if byte == quote => break,
                None | Some(b'\\' | b'\n') => return Err(self.error("a closing quote")),
                Some(_) => self.at += 1,
            }
        }
        let string = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        self.at += 1;
        Ok(string)
    }

    /// The dtype: a string. A list or a tuple is a dtype with fields or of arrays.
    fn descr(&mut self) -> Result<String, NpyError> {
        match self.peek() {
            Some(b'[' | b'(') => Err(NpyError::Dtype { descr: None }),
            _ => self.string("a dtype in quotes"),
        }
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.peek();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("True or False"))
    }

    /// A tuple of integers; one of length 1 has a comma, as in Python.
    fn tuple(&mut self) -> Result<Vec<usize>, NpyError> {
        self.expect(b'(', "'('")?;
        let mut values = Vec::new();
        while !self.accept(b')') {
            values.push(self.integer()?);
            if !self.accept(b',') {
                if values.len() < 2 {
                    return Err(self.error("','"));
                }
                self.expect(b')', "',' or ')'")?;
                break;
            }
        }
        Ok(values)
    }

    /// Decimal digits, without a sign and without leading zeros.
    fn integer(&mut self) -> Result<usize, NpyError> {
        self.peek();
        let start = self.at;
        let mut value = 0_usize;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            value = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(usize::from(digit - b'0')))
                .ok_or(NpyError::TooLarge)?;
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
            self.at = start;
            return Err(self.error("an integer of at least 0, or ')'"));
        }
        Ok(value)
    }
}
