//! Text to tokens, and tokens to bytes.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;
use crate::grammar::{Vocabulary, vocabulary};
use crate::result::ids;

/// A tokenizer.json: text to tokens, and tokens to bytes.
///
/// >>> import onedraw
/// >>> tokenizer = onedraw.Generator().tokenizer
/// >>> tokenizer.text(tokenizer.encode("Once upon a time"))
/// 'Once upon a time'
#[pyclass(module = "onedraw", frozen)]
pub struct Tokenizer(pub Arc<onedraw_lm::Tokenizer>);

#[pymethods]
impl Tokenizer {
    /// Reads tokenizer.json of a model's folder.
    #[staticmethod]
    fn open(py: Python<'_>, folder: PathBuf) -> Result<Self> {
        Ok(Self(Arc::new(py.detach(|| onedraw_lm::Tokenizer::open(&folder))?)))
    }

    /// Reads the text of a tokenizer.json. A fast tokenizer of transformers gives it as
    /// `tokenizer.backend_tokenizer.to_str()`.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str) -> Result<Self> {
        Ok(Self(Arc::new(py.detach(|| onedraw_lm::Tokenizer::embedded("the tokenizer", json.as_bytes()))?)))
    }

    /// The tokens of a text, with the special tokens that the model expects around it, unless `special` is
    /// False.
    #[pyo3(signature = (text, *, special=true))]
    fn encode(&self, py: Python<'_>, text: &str, special: bool) -> Result<Vec<u32>> {
        Ok(py.detach(|| if special { self.0.encode(text) } else { self.0.encode_plain(text) })?)
    }

    /// The bytes of a token in a text; empty for special tokens.
    fn bytes<'py>(&self, py: Python<'py>, token: u32) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.bytes(token))
    }

    /// The text of tokens: their bytes, joined together.
    fn text(&self, tokens: &Bound<'_, PyAny>) -> Result<String> {
        Ok(self.0.text(&ids(tokens)?))
    }

    /// A token in readable form: its text, or its name if it is special.
    fn piece(&self, token: u32) -> String {
        self.0.piece(token)
    }

    /// The token that tokenizer.json writes like this; None if there is none.
    fn id(&self, content: &str) -> Option<u32> {
        self.0.id(content)
    }

    /// Whether a token is special, which means that it stands for no text.
    fn is_special(&self, token: u32) -> bool {
        self.0.is_special(token)
    }

    /// The tokens in the form that grammars take. `size` is the number of the model's logits, if there are
    /// more than tokens.
    #[pyo3(signature = (eos, size=None))]
    fn vocabulary(&self, eos: &Bound<'_, PyAny>, size: Option<usize>) -> Result<Vocabulary> {
        let (ends, size) = (ids(eos)?, size.unwrap_or(self.0.len()));
        eos.py().detach(|| vocabulary(&self.0, size, &ends))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("Tokenizer({} tokens)", self.0.len())
    }
}
