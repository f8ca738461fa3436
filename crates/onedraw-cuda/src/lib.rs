//! The draw of [`onedraw`] on CUDA devices, with the bits of the CPU: the same logits, parameters, history
//! and seed draw the same token and report the same numbers.
//!
//! A [`Device`] holds the kernels, a [`Batch`] the sequences: their parameters, seeds, counts and texts
//! lie on the device, and a draw moves them on there. Logits are read where the model wrote them
//! ([`Matrix`]). The crate builds without CUDA; without a driver [`Device::new`] returns an error.
//!
//! ```no_run
//! use onedraw::SamplingParams;
//! use onedraw_cuda::{Batch, Capacity, Device, Matrix, Turn};
//!
//! let device = Device::new(0)?;
//! let mut batch = Batch::new(&device, Capacity { sequences: 8, rows: 8, vocabulary: 4, logprobs: 2 })?;
//! let story = batch.add(&SamplingParams::builder().temperature(0.8).top_p(0.9).seed(42).build()?)?;
//!
//! let stream = device.context().default_stream();
//! let logits = stream.clone_htod(&[1.5_f32, 0.2, 3.1, -4.0])?;
//! let matrix = Matrix::of(&device, &logits, 1, 4, 4)?;
//! let results = batch.sample(&[Turn::new(story)], &matrix)?;
//! assert_eq!(results[0].as_ref().unwrap().token, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An engine with a stream of its own calls the three parts of [`Batch::sample`] itself: [`Batch::prepare`]
//! says whose rows come, [`Batch::launch`] may be part of a CUDA graph, and [`Batch::results`] waits and
//! reads. A stage of your own cannot be drawn there: it is [`CudaError::OwnStage`], and [`check`] says so without a
//! device.

mod batch;
mod copied;
mod device;
mod dtype;
mod error;
mod form;
mod kernel;
mod launch;
mod matrix;
mod memory;
pub mod once;
mod record;
mod requests;
mod results;
mod rows;
mod shard;
mod stream;

pub use batch::{Batch, DraftTurn, Drawn, Turn};
pub use copied::Copied;
pub use device::Device;
pub use dtype::{Dtype, Logit};
pub use error::CudaError;
pub use form::Form;
pub use matrix::{Mask, Matrix};
pub use onedraw::SequenceId;
pub use record::chain::check;
pub use requests::{Listed, RequestTurn, Requests, Sets, Texts, Written};
pub use rows::Capacity;
pub use shard::{RankExchange, RankParts, RankRow, RankTurn, Shard, ShardRow};
pub use stream::Stream;

/// The driver's API, as streams and slices of this crate have it.
pub use cudarc;

/// The examples of the README, and of the book's page, which a package does not have.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct CrateReadme;
    #[doc = include_str!("../../../docs/src/gpu.md")]
    struct Gpu;
}
