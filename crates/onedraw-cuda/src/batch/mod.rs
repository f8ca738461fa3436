//! Many sequences on a device, each with its own parameters, seed and history.
//!
//! - `sequences`: [`Batch`] itself, and how sequences are added, changed and removed.
//! - `step`: a step in three parts: prepare, launch, results. `drawn`: where the drawn tokens lie on the
//!   device.
//! - `member`: what the host knows of a sequence. `pending`: what the device has still to be told, and `change`: how
//!   it is told. `room`: how texts get longer.
//! - `position`: where sequences stand. `rewind`: how text is taken back, with what `path` keeps of it.
//! - `prompt`: logprobs of prompts.
//! - `verify`: drafts.

mod change;
mod drawn;
mod member;
mod path;
mod pending;
mod position;
mod prompt;
mod rewind;
mod room;
mod sequences;
mod step;
mod verify;

pub use drawn::Drawn;
pub use sequences::Batch;
pub use step::Turn;
pub use verify::DraftTurn;
