//! The engine: from a row of logits and a plan to a token.
//!
//! # A draw
//!
//! ```text
//! draw(row, plan, noise):
//!     one pass over the row: the skyline, the largest logit of every block of 64 ids         logits/skyline
//!     for each segment of the plan:
//!         lay the segment's edits over the row and make the skyline exact again              logits/edited, stages/edit
//!         for each operation of the segment:
//!             a temperature      is remembered: it never reorders
//!             a prefix           is left pending: min-p, top-k, top-p, top-n-sigma, cutoffs  stages/truncate
//!             typical, XTC       mask what comes before their window; the rest is a prefix
//!             smoothing, custom  change the row
//!     if greedy: return the first token of the order
//!
//!     loop:
//!         winner = the first to finish the race among the tokens that may still win          logits/race
//!             token i finishes at E_i / w_i, with E_i exponential noise and w_i its weight
//!         for each pending prefix:
//!             ask it: do you keep the winner?                                                stages/truncate
//!             if not: the race goes on among the tokens before the winner
//!         if all keep it: return the winner
//! ```
//!
//! Why that is the right token: truncations keep a prefix of one total order (logit descending, id
//! ascending). The winner among *all* tokens is also the winner among the *kept* ones if it is kept. If it is
//! not kept, nothing after it in the order is, so the race goes on among the tokens before it. Nobody has to
//! build the kept set to draw from it.
//!
//! # How this differs from the definition
//!
//! `reference/` is the definition: sort the row, apply every stage to the list, give every token its noise,
//! take the best. The engine gives the same token, bit for bit:
//!
//! 1. *It opens few blocks.* A block can matter only if its maximum does, and the skyline knows every maximum
//!    exactly.
//! 2. *The race computes few random numbers.* One random word bounds the noise of a whole block, so a block
//!    whose bound is later than the best time so far holds no winner (`logits/race.rs`).
//! 3. *Prefixes are asked, not built.* Most answers come from bounds; exact integer sums decide the rest.
//! 4. *Weights are integers*, so sums are the same in any order, on any number of threads, lanes, shards, on
//!    any device.
//! 5. *The draw never touches a row.* It asks questions (`logits/query.rs`). A row in this process answers at
//!    once; shards in other processes answer by messages, between which the draw is suspended. The algorithm
//!    is the same code.
//!
//! # The folder
//!
//! - `draw`: the algorithm above.  `report`: logprobs, ranks and lists for callers who want more than a
//!   token.
//! - `edits`: the plan's edits, as the holder of a row makes them.
//! - `local`: a row of this process, whole or split.  `split`: where a vocabulary is split.
//! - `shard`: one shard, where it is held.  `remote`: a draw over shards elsewhere, suspended between
//!   questions. `wire`: the messages between them.
//! - `workspace`: memory, kept from step to step.
//!
//! # Following `top_p = 0.9`
//!
//! 1. `params/mod.rs`: the field, 0.9.
//! 2. `plan.rs`: the stage becomes an operation, `Truncation::new` in `stages/truncate/mod.rs` checks it into
//!    a [`Prefix`].
//! 3. `engine/draw.rs`: `take` leaves it pending; `winner` runs the race, then asks it.
//! 4. `stages/truncate/top_p.rs`: `judge` asks for the mass before the winner, first as bounds.
//! 5. `logits/query.rs`: the question `Weigh`, which a slice answers with
//! 6. `logits/measure/sums.rs`: `weigh`, over the blocks that matter.
//!
//! [`Prefix`]: crate::stages::truncate::Prefix

pub(crate) mod draw;
mod edits;
pub(crate) mod local;
pub mod remote;
pub(crate) mod report;
pub mod shard;
pub mod split;
pub mod wire;
pub(crate) mod workspace;
