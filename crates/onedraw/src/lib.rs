//! From logits to a token: exact and reproducible, in one read of the row and a look at what could matter.
//!
//! > **One seed, one draw, everywhere.** The token is a function of the logits' bits, the parameters, the history, the
//! > seed and the position, and of nothing else: not the batch, the row, the thread count, the SIMD width, or the number of
//! > vocabulary shards.
//!
//! # One sequence
//!
//! A [`Sampler`] takes [`SamplingParams`] and draws from rows of `f32`, `f16` or `bf16`, read in place:
//!
//! ```
//! use onedraw::{Sampler, SamplingParams};
//!
//! let params = SamplingParams::builder().temperature(0.8).top_p(0.9).seed(42).logprobs(2).build()?;
//! let mut sampler = Sampler::new(params)?;
//! let logits = vec![1.5_f32, 0.2, 3.1, -4.0];
//!
//! let sampled = sampler.sample(&logits)?;
//! assert_eq!(sampled.token, 2);
//! assert_eq!(sampled.rank, Some(1));
//! assert_eq!(sampler.output(), [2]);
//!
//! // What could have been drawn, and how likely.
//! let distribution = sampler.distribution(&logits)?;
//! assert_eq!(distribution.tokens, [2, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Many
//!
//! A [`Batch`] holds sequences that come and go, each with its own parameters, seed and history, and draws their rows on
//! several threads. A bad row is that row's error:
//!
//! ```
//! use onedraw::{Batch, Step, presets};
//!
//! let mut batch = Batch::new().threads(2);
//! let story = batch.add(presets::creative())?;
//! let code = batch.add(presets::deterministic())?;
//! let rows = [[0.1_f32, 0.9, 0.4], [2.0, 7.0, 1.0]];
//! let results = batch.sample(&[Step::new(story, &rows[0]), Step::new(code, &rows[1])]);
//! assert_eq!(results[1].as_ref().unwrap().token, 1);
//! # Ok::<(), onedraw::ParamError>(())
//! ```
//!
//! # The parts
//!
//! - What is asked: [`params`], [`presets`], the order of the stages ([`chain`]), checked once into a [`plan`].
//!   Other systems' settings become these by [`import`].
//! - What is drawn from: [`row`] (a row in any type), [`history`], [`logprobs`].
//! - When to end: [`stop`], EOS, stop ids and stop strings over bytes; and when to go back for a banned phrase.
//! - Guesses ahead: [`speculate`], which says how far a drafter's tokens hold.
//! - Beyond the built-in stages: [`custom`], a stage of one's own.
//! - What the chain does to a row: [`explain`].
//! - A split vocabulary: [`shard`], and the [`question`]s that ranks answer.
//! - The definition: [`reference`](mod@reference) is the obvious scalar form of everything, and the engine equals it to the
//!   bit. Below it: [`noise`], [`mass`], [`math`], [`order`].

pub mod batch;
pub mod beam;
mod census;
pub mod chain;
pub mod constraint;
pub mod contrast;
pub mod custom;
mod draw;
pub mod edit;
mod edited;
pub mod error;
pub mod explain;
pub mod float_mode;
mod head;
pub mod history;
pub mod import;
mod inquiry;
pub mod json;
pub mod kernels;
pub mod logprobs;
pub mod mass;
pub mod math;
pub mod noise;
pub mod order;
pub mod params;
mod path;
pub mod plan;
pub mod presets;
pub mod question;
mod race;
pub mod reference;
pub mod row;
pub mod sampler;
mod selection;
mod sequence;
pub mod shard;
mod sketch;
mod skyline;
mod slice;
pub mod speculate;
mod stage_fields;
pub mod stop;
mod truncate;
mod walk;
mod workspace;

pub use batch::{Batch, SequenceId, Step};
pub use chain::{Order, Stage};
pub use constraint::{Constraint, ConstraintError};
pub use contrast::Contrast;
pub use custom::Custom;
pub use error::{ParamError, RowError};
pub use explain::Explanation;
pub use kernels::Kernel;
pub use logprobs::{Distribution, PromptLogprobs, Report, TokenLogprob};
pub use params::{LogprobsMode, PenaltyScope, SamplingParams};
pub use plan::Plan;
pub use row::{Row, Rows};
pub use sampler::Sampler;
pub use sequence::{Runner, Sampled, Saved};
pub use shard::{Rank, Shards, Traffic};
pub use stage_fields::{STAGE_FIELDS, StageField};
pub use stop::{Finish, FinishReason, Progress, Rewind, StopConditions, StopMatcher, Utf8Stream};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
