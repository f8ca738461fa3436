//! The engine: from a row of logits and a plan to a token.
//!
//! # A draw
//!
//! ```text
//! draw(row, plan, noise):
//!     one pass over the row: the skyline, the largest logit of every block of 64 ids   logits/skyline
//!     for each segment of the plan:
//!         if it is not the first:
//!             mask what the pending prefixes drop, divide the logits by the temperature
//!         lay the segment's edits over the row, make the skyline exact again           stages/edit
//!         for each operation of the segment:                                           stages/truncate
//!             temperature        is remembered: it never reorders
//!             prefixes           are left pending: min-p, top-k, top-p, top-n-sigma, cutoffs
//!             mirostat           becomes a cutoff or a top-k, from its state
//!             typical, XTC       mask what comes before their window; the rest is a prefix
//!             smoothing, custom  change the row, or mask tokens
//!     if greedy: return the first token of the order
//!
//!     loop:
//!         winner = the first to finish the race among the tokens that may still win    logits/race
//!             token i finishes at E_i / w_i, with E_i exponential noise and w_i its weight
//!         for each pending prefix:
//!             ask it: do you keep the winner?                                          stages/truncate
//!             if not: the race goes on among the tokens before the winner
//!         if all keep it: return the winner
//! ```
//!
//! Why that is the right token: truncations keep a prefix of one total order (logit descending, id
//! ascending). The winner among *all* tokens is also the winner among the *kept* ones if it is kept. If it is
//! not kept, nothing after it in the order is, so the race goes on among the tokens before it. A chain of one
//! segment draws without building the kept set.
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
//!    Where finding the cut itself is cheap (min-p, the end of a window, a top-k of up to 128), it is found
//!    before the race, and the race runs inside it. The winner is the same: it is the first of the kept
//!    tokens to finish, among any tokens that include them.
//! 4. *Masks of the first segment come before the pass over the row*, which then sees them. Masks commute
//!    with every other edit.
//! 5. *Weights are integers*, so sums are the same in any order, on any number of threads, lanes, shards, on
//!    any device.
//! 6. *The draw never touches a row.* It asks questions (`logits/query.rs`). A row in this process answers at
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
//! - `exchange`: the draws of a batch over ranks, each of which holds a shard and runs the draws.
//!   `opening`: what the ranks say at once.
//! - `workspace`: memory, kept from step to step.
//!
//! # Following `top_p = 0.9`
//!
//! 1. `plan.rs`: the field, which `params/validate.rs` has checked, becomes an operation of the plan.
//! 2. `sequence.rs`: `drawn` takes the draw through the plan, then asks it for the winner.
//! 3. `engine/draw.rs`: `take` leaves the prefix pending; `winner` runs the race, then asks the prefix.
//! 4. `stages/truncate/top_p.rs`: `judge` asks for the mass before the winner, first as bounds.
//! 5. `logits/query.rs`: the question `Weigh`, which a slice answers with
//! 6. `logits/measure/sums.rs`: `weigh`, over the blocks that matter.

pub(crate) mod draw;
mod edits;
pub mod exchange;
pub(crate) mod local;
pub(crate) mod opening;
pub mod remote;
pub(crate) mod report;
pub mod shard;
pub mod split;
pub mod wire;
pub(crate) mod workspace;
