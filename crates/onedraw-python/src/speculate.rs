//! Guesses, and how they are verified.

use std::sync::Mutex;
use std::sync::PoisonError;

use onedraw::speculate::{self, DraftTree, Law};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::error::{Result, row_error};
use crate::result::{Distribution, Sampled, ids};

/// The way to verify of that name.
pub fn verify(name: &str) -> Result<speculate::Verify> {
    Ok(name.parse()?)
}

/// A token that finishes early in the race of a draw.
#[pyclass(module = "onedraw", frozen, get_all)]
pub struct Runner {
    /// The token.
    token: u32,
    /// How far it is behind the winner, in the logarithm of the time; 0 for the winner.
    behind: f64,
}

#[pymethods]
impl Runner {
    fn __repr__(&self) -> String {
        format!("Runner(token={}, behind={:.4})", self.token, self.behind)
    }
}

impl From<onedraw::Runner> for Runner {
    fn from(onedraw::Runner { token, behind }: onedraw::Runner) -> Self {
        Self { token, behind }
    }
}

/// Drawn guesses, with the distribution that they come from, for `Draft.grow`.
#[pyclass(module = "onedraw", frozen)]
pub struct Guess {
    /// The tokens.
    #[pyo3(get)]
    pub tokens: Vec<u32>,
    pub law: Law,
}

#[pymethods]
impl Guess {
    /// The probability of a token in the distribution of the guesses; None if they were not drawn but given,
    /// as those of a greedy sequence are.
    fn probability(&self, token: u32) -> Option<f64> {
        match &self.law {
            Law::Given => None,
            Law::Drawn(law) => Some(law.probability(token)),
        }
    }

    fn __repr__(&self) -> String {
        let kind = if self.law == Law::Given { "given" } else { "drawn" };
        format!("Guess(tokens={:?}, {kind})", self.tokens)
    }
}

/// The guesses of a drafter: a tree of tokens after a text, with the distributions they were drawn from.
///
/// >>> import onedraw
/// >>> draft = onedraw.Draft()
/// >>> first = draft.grow(None, [7, 5])
/// >>> draft.grow(first[1], [4])
/// [2]
/// >>> draft
/// Draft(tokens=[7, 5, 4], parents=[None, None, 1])
#[pyclass(module = "onedraw", frozen)]
pub struct Draft(Mutex<speculate::Draft>);

impl Draft {
    /// The parameters in the library's type.
    pub fn copy(&self) -> speculate::Draft {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl Draft {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(speculate::Draft::default()))
    }

    /// Guesses that follow one another and were not drawn, such as those of an n-gram, or a drafter's best
    /// tokens.
    #[staticmethod]
    fn chain(tokens: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Mutex::new(speculate::Draft::given(DraftTree::chain(&ids(tokens)?)))))
    }

    /// Adds all guesses after a node, or after the text (None). Returns their places. `guesses` is a `Guess`,
    /// which has its law, or tokens; with tokens, `law` may be the `Distribution` that they were drawn from,
    /// one after the other, without replacement.
    #[pyo3(signature = (parent, guesses, law=None))]
    fn grow(
        &self,
        parent: Option<usize>,
        guesses: &Bound<'_, PyAny>,
        law: Option<&Bound<'_, Distribution>>,
    ) -> Result<Vec<usize>> {
        let (tokens, law) = match (guesses.cast::<Guess>(), law) {
            (Ok(guess), None) => (guess.get().tokens.clone(), guess.get().law.clone()),
            (Ok(guess), Some(law)) => (guess.get().tokens.clone(), Law::of(&law.get().inner)?),
            (Err(_), Some(law)) => (ids(guesses)?, Law::of(&law.get().inner)?),
            (Err(_), None) => (ids(guesses)?, Law::Given),
        };
        let mut draft = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parent) = parent.filter(|&parent| parent >= draft.tree.len()) {
            let message = format!("there is no node {parent}: the draft has {}", draft.tree.len());
            return Err(PyIndexError::new_err(message).into());
        }
        Ok(draft.grow(parent, &tokens, law))
    }

    /// The tokens, parents before their children.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.copy().tree.tokens().to_vec()
    }

    /// The parent of each token: the place of a token before it, or None for the text.
    #[getter]
    fn parents(&self) -> Vec<Option<usize>> {
        self.copy().tree.parents().to_vec()
    }

    fn __len__(&self) -> usize {
        self.copy().tree.len()
    }

    fn __repr__(&self) -> String {
        let parents: Vec<String> = self
            .parents()
            .iter()
            .map(|parent| parent.map_or("None".to_owned(), |parent| parent.to_string()))
            .collect();
        format!("Draft(tokens={:?}, parents=[{}])", self.tokens(), parents.join(", "))
    }
}

/// How many of the guesses were right.
#[pyclass(module = "onedraw", frozen)]
pub struct Verdict(speculate::Verdict);

impl From<speculate::Verdict> for Verdict {
    fn from(verdict: speculate::Verdict) -> Self {
        Self(verdict)
    }
}

#[pymethods]
impl Verdict {
    /// The nodes whose guesses were right, from the root.
    #[getter]
    fn path(&self) -> Vec<usize> {
        self.0.path.clone()
    }

    /// Their tokens as the target model reports them, and the token after them, as `Sampled`s. There are
    /// fewer only if there is an error.
    #[getter]
    fn sampled(&self) -> Vec<Sampled> {
        self.0.sampled.iter().cloned().map(Sampled).collect()
    }

    /// The ids of these tokens.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.0.sampled.iter().map(|sampled| sampled.token).collect()
    }

    /// The `RowError` if no token could be drawn after those; else None.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.0.error.as_ref().map(|error| row_error(error).into_value(py).into_any())
    }

    fn __repr__(&self) -> String {
        format!("Verdict(path={:?}, tokens={:?})", self.0.path, self.tokens())
    }
}
