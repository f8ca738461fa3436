//! A vocabulary that is split over devices: each device holds one part of every row, a shard, and answers the
//! questions of a draw over all of them.
//!
//! [`onedraw::Sampler::sample_over`] draws on the host. It asks every shard, and a shard on a device answers
//! with a kernel that goes over its part of the row once, and a copy of a few KB. Shards on devices and on
//! CPUs may be asked together. Every stage can be drawn over them, a user's own stages among them: these run
//! where the draw runs.
//!
//! - `sequence`: a sequence on a device that holds one shard of every row of it.
//! - `row`: one shard of one row, loaded, ready to be asked.
//! - `answer`: every question as one that the kernel answers; `arguments`: what the kernel is asked with;
//!   `change`: what a question makes of the row; `desks`: where a row lies that was changed; `repeats`: what
//!   the text repeats, which some edits ask for.
//! - `ranks`: a batch over ranks, each of which draws; `opening`: its first messages, made on the device;
//!   `follow`: its sequences on the device, which follow those of the host.
//!
//! ```no_run
//! use onedraw::{Sampler, SamplingParams};
//! use onedraw_cuda::{Copied, Device, Shard};
//!
//! let devices = [Device::new(0)?, Device::new(1)?];
//! let params = SamplingParams::builder().top_p(0.9).seed(5).build()?;
//! let parts = [&[0.1_f32, 2.0, 1.5][..], &[-1.0, 1.9, 0.4, 2.2][..]];
//! let logits = [Copied::new(&devices[0], parts[0].into())?, Copied::new(&devices[1], parts[1].into())?];
//! let mut low = Shard::new(&devices[0], &params, 7)?;
//! let mut high = Shard::new(&devices[1], &params, 7)?;
//! // Here both shards are in one process; elsewhere the questions and replies are sent.
//! let mut shards = [
//!     low.row(&logits[0].matrix(1, 3, 3)?, 0, None)?,
//!     high.row(&logits[1].matrix(1, 4, 4)?, 3, None)?,
//! ];
//! let drawn = Sampler::new(params)?.sample_over(7, 2, false, |question| {
//!     shards.iter_mut().map(|shard| shard.reply(question)).enumerate().collect()
//! })?;
//! low.accept(drawn.token)?;
//! high.accept(drawn.token)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod arguments;
mod change;
mod desks;
mod follow;
mod opening;
mod ranks;
mod repeats;
mod row;
mod sequence;

pub use ranks::{RankExchange, RankParts, RankRow, RankTurn};
pub use row::ShardRow;
pub use sequence::Shard;
