//! Many sequences on a device, each with its own parameters, seed and history.
//!
//! - `sequences`: [`Batch`] itself, and how sequences are added, changed and removed.
//! - `step`: a step in three parts: prepare, launch, results. `drawn`: where the drawn tokens lie on the
//!   device.
//! - `position`: where sequences stand.
//! - `verify`: drafts.

mod drawn;
mod position;
mod sequences;
mod step;
mod verify;

pub use drawn::Drawn;
pub use sequences::Batch;
pub use step::Turn;
pub use verify::DraftTurn;
