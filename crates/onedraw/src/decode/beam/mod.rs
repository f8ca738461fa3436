//! Beam search without a model: it decides which texts go on with which tokens, and which have ended.
//!
//! A driver computes the logits after each of [`BeamSearch::beams`], hands them to [`BeamSearch::step`], and
//! lets its caches follow the branches that come back. [`BeamSearch::finish`] returns the best texts.
//! [`StochasticBeams`] is driven the same way and draws texts without replacement instead.
//!
//! A score is the sum of the logprobs of a text's tokens, divided by a power of its length; [`BeamStyle`]
//! says which. Of the sampling parameters, only the edits act: masks, bias, penalties and minimum lengths.
//! Temperature and truncations shape draws, so the search ignores them; only [`StochasticBeams`] uses them.
//! Edits act before candidates are taken, so a beam has continuations as long as one token is allowed.
//!
//! Scores are f64 sums of exact logprobs. Of equal scores the earlier beam comes first, then the lower id. So
//! the result does not depend on threads or instruction sets.
//!
//! The files: `params` (settings), `candidate` (what a step returns), `group` (the ended texts of one group),
//! `search`, `stochastic`, `children` (which tokens after a drawn text may matter).

mod candidate;
mod children;
mod group;
mod params;
mod search;
mod stochastic;

pub use self::candidate::{Branch, Candidate, Continuation, Expansion, Fate, Hypothesis};
pub use self::params::{BeamParams, BeamStyle, EarlyStopping};
pub use self::search::{Beam, BeamSearch};
pub use self::stochastic::{Drawn, StochasticBeams};
