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
//! A [`Batch`] holds sequences that come and go, each with its own parameters, seed and history, and draws
//! their rows on several threads. A bad row is that row's error:
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
//! From what a caller holds down to the arithmetic. No module uses one that uses it, directly or through
//! others; `crates/onedraw-testkit/tests/modules` checks this.
//!
//! - [`Sampler`] (in [`sampler`]), [`Batch`] (in [`batch`], with its ids from [`slots`]): what draws.
//!   [`logprobs`], [`kept`], [`audit`] with [`verdict`], [`explain`]: what they can tell beside the token.
//!   [`error`], [`fault`]: what can be wrong with parameters, rows and shards.
//! - [`stop`], [`beam`], [`speculate`], [`constraint`], [`contrast`]: decoding beyond single draws.
//! - [`params`], with the order of the stages ([`chain`]), [`presets`], a user's own stages ([`custom`]),
//!   other systems' settings ([`import`]), and a reader of JSON that refuses a key given twice ([`json`]);
//!   checked once into a [`plan`].
//! - `engine`: the draw. Its `mod.rs` is the place to begin reading the code.
//! - [`stages`]: one file for each stage.
//! - `logits`: a row under its edits, and what can be learned about it: questions ([`query`]) and answers
//!   ([`answer`]).
//! - `state`: what a sequence keeps from draw to draw: its tokens ([`history`]), and its state beside them.
//! - `kernels`: passes over rows of any number type ([`row`]), for each instruction set.
//! - [`noise`], [`mass`], [`math`], [`key`], [`temperature`]: the arithmetic that tokens depend on.
//!   [`float_mode`]: the processor's floating-point mode while we compute. [`clock`]: the time, on which no
//!   token depends.
//! - [`reference`](mod@reference): the definition of all this, scalar and slow; the engine equals it to the
//!   bit.
//!
//! A vocabulary that is split over processes: [`Batch::exchange`], where every process draws ([`ranks`]);
//! [`Sampler::shard`] and [`Sampler::draw_over`], where one asks the others; with the messages of [`wire`].

/// The version of the streams: which token a seed draws. It changes with any change to a drawn token; what an
/// earlier version drew is not drawn again.
pub const STREAM_VERSION: u32 = 1;

pub mod audit;
pub mod batch;
pub mod clock;
mod decode;
mod engine;
pub mod error;
pub mod explain;
pub mod fault;
pub mod kept;
mod kernels;
mod logits;
pub mod logprobs;
mod numeric;
pub mod params;
pub mod plan;
pub mod ranks;
pub mod reference;
mod sampled;
pub mod sampler;
mod sequence;
pub mod slots;
pub mod stages;
mod state;
pub mod verdict;

pub use decode::{beam, constraint, contrast, speculate, stop};
pub use engine::wire;
pub use kernels::{bend, row};
pub use logits::{answer, query};
pub use numeric::{float_mode, key, mass, math, noise, temperature};
pub use params::{chain, custom, import, json, presets, seed, suggest};
pub use state::history;

pub use audit::Audit;
pub use batch::{Batch, SequenceId, Step};
pub use chain::{Order, Stage};
pub use constraint::{Constraint, ConstraintError, ConstraintKind, ConstraintText};
pub use contrast::Contrast;
pub use custom::Custom;
pub use engine::exchange::{Exchange, FirstQuestion, Part, Rank};
pub use engine::local::ShardMemory;
pub use engine::remote::{RemoteDraw, Reply as RemoteReply};
pub use engine::shard::Shard;
pub use engine::split::{Shards, Traffic};
pub use error::{ParamError, RowError};
pub use explain::Explanation;
pub use fault::Fault;
pub use kept::{Border, EditedRow, Kept, KeptError, KeptSets};
pub use kernels::Kernel;
pub use logprobs::{Distribution, PromptLogprobs, Report, TokenLogprob};
pub use params::SamplingParams;
pub use params::modes::{KeptMode, LogprobsMode, PenaltyScope};
pub use params::stage_fields::{STAGE_FIELDS, StageField};
pub use params::table::{Group, PARAMETERS, Parameter};
pub use plan::Plan;
pub use ranks::{PartStep, RankMemory};
pub use row::{Row, Rows};
pub use sampled::{Runner, Sampled};
pub use sampler::Sampler;
pub use sequence::{Saved, Standing};
pub use stop::{Finish, FinishReason, Progress, Rewind, StopConditions, StopMatcher, Utf8Stream};

/// The examples of the documents, compiled and run. Only doctests of the repository see them: a package has no
/// documents but its README.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct CrateReadme;
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/src/getting-started.md")]
    struct GettingStarted;
    #[doc = include_str!("../../../docs/src/rust.md")]
    struct Rust;
    #[doc = include_str!("../../../docs/src/past-one-machine.md")]
    struct PastOneMachine;
    #[doc = include_str!("../../../docs/src/adding-a-stage.md")]
    struct AddingAStage;
}
