//! A user's own stage: an edit or a truncation, named, and placed in the order like the built-in ones.
//!
//! ```
//! use onedraw::custom::{Change, Custom, View};
//! use onedraw::{Order, Sampler, SamplingParams, Stage};
//!
//! // No token may come twice in a row.
//! let no_echo = Custom::edit("no_echo", |view: &View<'_>| {
//!     Ok(Change::Sparse(view.output().last().map(|&last| (last, f32::NEG_INFINITY)).into_iter().collect()))
//! })?;
//! let order = Order::vllm().with(Stage::Custom(no_echo), Stage::Temperature)?;
//! let mut sampler = Sampler::new(SamplingParams::builder().temperature(0.0).order(order).build()?)?;
//! let row = [1.0_f32, 3.0, 2.0];
//! assert_eq!([sampler.sample(&row)?.token, sampler.sample(&row)?.token], [1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reproducibility
//!
//! A stage sees the same logits, history and position on every path (thread, instruction set, batch, shard),
//! and its answer is applied exactly. So the promise "one seed, one draw" holds if the answer is a function
//! of the [`View`] alone. A stage that uses a clock, a global variable, random numbers of its own or an
//! address breaks the promise. So does one that computes with the platform's `exp` or `ln`, whose last bits
//! differ from machine to machine; [`math`](crate::numeric::math) has ones that do not.
//!
//! A stage costs a copy of the row, because it sees every logit; with a split vocabulary the shards send all
//! of them to the process that draws. An order that contains such a stage cannot be written as JSON.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::numeric::math::{exp, ln};
use crate::numeric::temperature::Temperature;
use crate::params::error::ParamError;
use crate::params::names::STAGE_NAMES;
use crate::state::history::History;

/// What a user's stage sees: the logits after the stages before it, and the sequence.
pub struct View<'a> {
    /// The logits; −inf where a token was removed.
    pub(crate) logits: &'a [f32],
    pub(crate) history: &'a History,
    pub(crate) position: u32,
    pub(crate) temperature: Temperature,
    /// The largest logit left.
    pub(crate) x_max: f32,
    /// The mass of the tokens that are left, as a multiple of the best token's weight.
    pub(crate) mass: f64,
}

impl View<'_> {
    /// The logit of every token; −inf where the row or an earlier stage masked it. An edit sees logits that
    /// are divided by the temperatures before it. A truncation sees them before that division, and
    /// [`View::temperature`] is still to be applied.
    pub fn logits(&self) -> &[f32] {
        self.logits
    }

    /// The probability of a token among those that are left, at the current temperature; 0 for one that was
    /// removed.
    pub fn probability(&self, token: u32) -> f64 {
        match self.logits.get(token as usize) {
            Some(&x) if x > f32::NEG_INFINITY => exp(self.temperature.scaled(x, self.x_max) - ln(self.mass)),
            _ => 0.0,
        }
    }

    /// The product of the temperatures that are not yet applied to [`View::logits`].
    pub fn temperature(&self) -> f64 {
        self.temperature.value
    }

    /// The prompt.
    pub fn prompt(&self) -> &[u32] {
        self.history.prompt()
    }

    /// The tokens written so far.
    pub fn output(&self) -> &[u32] {
        self.history.output()
    }

    /// The position that is being drawn: the number of output tokens before it.
    pub fn position(&self) -> u32 {
        self.position
    }
}

/// What an edit does to the logits: finite numbers, or −inf to mask a token. Tokens that were removed stay
/// removed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// New logits for some tokens. If a token is named twice the last one counts, unless one of them masks
    /// it.
    Sparse(Vec<(u32, f32)>),
    /// A new logit for every token of the vocabulary.
    Dense(Vec<f32>),
}

/// Which of the tokens that are left a truncation keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// These and no others.
    Only(Vec<u32>),
    /// All but these.
    AllBut(Vec<u32>),
}

/// A stage that changes logits.
pub trait CustomEdit: Send + Sync {
    /// Returns the change for this row. An error becomes the error of the row, which names the stage.
    fn edit(&self, view: &View<'_>) -> Result<Change, String>;
}

/// A stage that keeps a subset of the tokens.
pub trait CustomTruncation: Send + Sync {
    /// Returns which tokens of this row to keep. An error becomes the error of the row, which names the
    /// stage.
    fn truncate(&self, view: &View<'_>) -> Result<Keep, String>;
}

impl<F: Fn(&View<'_>) -> Result<Change, String> + Send + Sync> CustomEdit for F {
    fn edit(&self, view: &View<'_>) -> Result<Change, String> {
        self(view)
    }
}

impl<F: Fn(&View<'_>) -> Result<Keep, String> + Send + Sync> CustomTruncation for F {
    fn truncate(&self, view: &View<'_>) -> Result<Keep, String> {
        self(view)
    }
}

/// A user's stage with its name. Clones are the same stage; two stages that were made separately are
/// different, even if their names are equal.
#[derive(Clone)]
pub struct Custom {
    name: Arc<str>,
    pub(crate) kind: Kind,
}

/// What a user's stage does.
#[derive(Clone)]
pub(crate) enum Kind {
    Edit(Arc<dyn CustomEdit>),
    Truncation(Arc<dyn CustomTruncation>),
}

impl Custom {
    /// Makes an edit. It is an error if the name is empty, has a comma, or is that of a built-in stage.
    pub fn edit(name: &str, edit: impl CustomEdit + 'static) -> Result<Self, ParamError> {
        Self::new(name, Kind::Edit(Arc::new(edit)))
    }

    /// Makes a truncation. It is an error if the name is empty, has a comma, or is that of a built-in stage.
    pub fn truncation(name: &str, truncation: impl CustomTruncation + 'static) -> Result<Self, ParamError> {
        Self::new(name, Kind::Truncation(Arc::new(truncation)))
    }

    fn new(name: &str, kind: Kind) -> Result<Self, ParamError> {
        if name.is_empty() || name.contains(',') || STAGE_NAMES.contains(&name) {
            let message = format!(
                "`{name}` cannot name a stage; a name is not empty, has no comma, and is not a built-in stage's"
            );
            return Err(ParamError::new("order", message));
        }
        Ok(Self { name: name.into(), kind })
    }

    /// The name of the stage.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Edit(_) => "edit",
            Kind::Truncation(_) => "truncation",
        };
        write!(f, "{kind} {}", self.name)
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Edit(a), Kind::Edit(b)) => Arc::ptr_eq(a, b),
            (Kind::Truncation(a), Kind::Truncation(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Custom {}

impl Hash for Custom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
