//! Texts that follow a grammar.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::PyArray1;
use onedraw::Constraint;
use onedraw::row::MAX_VOCABULARY;
use onedraw_lm::Tokenizer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::error::Result;
use crate::result::{self, ids};

/// The tokens of a model in the form that grammars take, made once for a tokenizer.
///
/// `tokens` are the bytes (or strings) of every token, from id 0 on, as many as the model has logits; tokens
/// without bytes are never allowed. `eos` are the ids that end a text, `special` ids that are marks and not
/// text. `Generator.vocabulary()` and `Tokenizer.vocabulary()` make one of a model's tokens.
///
/// >>> import onedraw
/// >>> vocabulary = onedraw.Vocabulary(["", "y", "n", "yes", "no", "e", "s", "o"], eos=[0])
/// >>> matcher = onedraw.Grammar.choices(vocabulary, ["yes", "no"]).start()
/// >>> onedraw.sample([0, 1, 2, 0.5, 0.1, 3, 0, 9], temperature=0, mask=matcher.mask()).token
/// 2
#[pyclass(module = "onedraw", frozen)]
pub struct Vocabulary(pub onedraw_grammar::Vocabulary);

#[pymethods]
impl Vocabulary {
    #[new]
    #[pyo3(signature = (tokens, *, eos, special=None))]
    fn new(
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        eos: &Bound<'_, PyAny>,
        special: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let bytes = tokens.try_iter()?.map(|token| {
            let token = token?;
            match token.cast::<PyString>() {
                Ok(text) => Ok(text.to_str()?.as_bytes().to_vec()),
                Err(_) => Ok(token.cast::<PyBytes>()?.as_bytes().to_vec()),
            }
        });
        let bytes: Vec<Vec<u8>> = bytes.collect::<PyResult<_>>()?;
        let special = special.map(ids).transpose()?.unwrap_or_default();
        let builder = onedraw_grammar::Vocabulary::builder(bytes).eos(ids(eos)?).special(special);
        Ok(Self(py.detach(|| builder.build())?))
    }

    /// The tokens that end a text.
    #[getter]
    fn eos(&self) -> Vec<u32> {
        self.0.eos().to_vec()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("Vocabulary({} tokens, eos={:?})", self.0.len(), self.0.eos())
    }
}

/// The vocabulary of a tokenizer, for a model with so many logits.
pub fn vocabulary(tokenizer: &Arc<Tokenizer>, size: usize, eos: &[u32]) -> Result<Vocabulary> {
    if size > MAX_VOCABULARY {
        let message = format!("{size} tokens are more than {MAX_VOCABULARY}");
        return Err(onedraw_grammar::GrammarError::Vocabulary(message).into());
    }
    let (bytes, cutter) = (tokenizer, tokenizer.clone());
    let builder =
        onedraw_grammar::Vocabulary::builder((0..size as u32).map(|token| bytes.bytes(token).to_vec()))
            .eos(eos.iter().copied())
            .cut_by(move |text| cutter.encode_plain(text).ok());
    Ok(Vocabulary(builder.build()?))
}

/// What a text must match, compiled for a vocabulary; `start` begins a text.
#[pyclass(module = "onedraw", frozen)]
pub struct Grammar(pub onedraw_grammar::Grammar);

/// A schema as text: a string, or anything that `json.dumps` takes.
fn schema_text(schema: &Bound<'_, PyAny>) -> PyResult<String> {
    match schema.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.to_owned()),
        Err(_) => schema.py().import("json")?.call_method1("dumps", (schema,))?.extract(),
    }
}

#[pymethods]
impl Grammar {
    /// JSON that a schema (a dict, or a string of JSON) allows; without white space between the parts unless
    /// `whitespace` is set.
    #[staticmethod]
    #[pyo3(signature = (vocabulary, schema, *, whitespace=false))]
    fn json_schema(
        vocabulary: &Bound<'_, Vocabulary>,
        schema: &Bound<'_, PyAny>,
        whitespace: bool,
    ) -> Result<Self> {
        let (text, vocabulary, py) = (schema_text(schema)?, &vocabulary.get().0, schema.py());
        let grammar = py.detach(|| match whitespace {
            true => onedraw_grammar::Grammar::json_schema(vocabulary, &text),
            false => onedraw_grammar::Grammar::compact_json_schema(vocabulary, &text),
        });
        Ok(Self(grammar?))
    }

    /// Text that a regular expression matches from its first character to its last.
    #[staticmethod]
    fn regex(py: Python<'_>, vocabulary: &Bound<'_, Vocabulary>, expression: &str) -> Result<Self> {
        let vocabulary = &vocabulary.get().0;
        Ok(Self(py.detach(|| onedraw_grammar::Grammar::regex(vocabulary, expression))?))
    }

    /// One of these texts.
    #[staticmethod]
    fn choices(py: Python<'_>, vocabulary: &Bound<'_, Vocabulary>, choices: Vec<String>) -> Result<Self> {
        let vocabulary = &vocabulary.get().0;
        Ok(Self(py.detach(|| onedraw_grammar::Grammar::choices(vocabulary, &choices))?))
    }

    /// Text of a context-free grammar in the Lark dialect of llguidance; the rule `start` is the whole text.
    #[staticmethod]
    fn lark(py: Python<'_>, vocabulary: &Bound<'_, Vocabulary>, grammar: &str) -> Result<Self> {
        let vocabulary = &vocabulary.get().0;
        Ok(Self(py.detach(|| onedraw_grammar::Grammar::lark(vocabulary, grammar))?))
    }

    /// A matcher for a text that has not begun.
    fn start(&self) -> Matcher {
        Matcher::new(Box::new(self.0.start()))
    }

    fn __repr__(&self) -> String {
        format!("Grammar(for {} tokens)", self.0.vocabulary().len())
    }
}

/// A text that follows a grammar: which tokens may come next, and which must.
#[pyclass(module = "onedraw", frozen)]
pub struct Matcher(Mutex<State>);

struct State {
    constraint: Box<dyn Constraint>,
    tokens: Vec<u32>,
}

impl Matcher {
    fn new(constraint: Box<dyn Constraint>) -> Self {
        Self(Mutex::new(State { constraint, tokens: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An independent copy at the same place, to draw with.
    pub fn fork_inner(&self, py: Python<'_>) -> Result<Box<dyn Constraint>> {
        Ok(py.detach(|| self.state().constraint.fork()))
    }
}

#[pymethods]
impl Matcher {
    /// The tokens that may come next, as uint32 words: 32 tokens per word, lowest bit first.
    fn mask<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u32>>> {
        let mask = py.detach(|| self.state().constraint.mask().map(<[u32]>::to_vec))?;
        Ok(PyArray1::from_vec(py, mask))
    }

    /// The tokens that must come next because the grammar leaves no choice; they need no draw.
    fn forced(&self, py: Python<'_>) -> Result<Vec<u32>> {
        Ok(py.detach(|| self.state().constraint.forced())?)
    }

    /// Adds a token to the text. A token that does not fit raises `ConstraintError` and changes nothing.
    fn accept(&self, py: Python<'_>, token: &Bound<'_, PyAny>) -> Result<()> {
        let token = result::token(token)?;
        Ok(py.detach(|| {
            let mut state = self.state();
            state.constraint.accept(token)?;
            state.tokens.push(token);
            Ok::<(), onedraw::ConstraintError>(())
        })?)
    }

    /// Takes the last `tokens` tokens back.
    fn rollback(&self, py: Python<'_>, tokens: usize) -> Result<()> {
        Ok(py.detach(|| {
            let mut state = self.state();
            state.constraint.rollback(tokens)?;
            let kept = state.tokens.len() - tokens;
            state.tokens.truncate(kept);
            Ok::<(), onedraw::ConstraintError>(())
        })?)
    }

    /// The tokens that were accepted.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.state().tokens.clone()
    }

    /// An independent copy at the same place.
    fn fork(&self, py: Python<'_>) -> Result<Self> {
        let fork = Self::new(self.fork_inner(py)?);
        fork.state().tokens = self.tokens();
        Ok(fork)
    }

    fn __copy__(&self, py: Python<'_>) -> Result<Self> {
        self.fork(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self> {
        self.fork(py)
    }

    fn __repr__(&self) -> String {
        format!("Matcher({} tokens)", self.state().tokens.len())
    }
}
