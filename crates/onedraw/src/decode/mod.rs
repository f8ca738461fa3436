//! What a decode loop needs beside single draws.
//!
//! - [`stop`]: where a text ends, and which of it may be shown.
//! - [`beam`]: searching for the best texts, or drawing several without replacement.
//! - [`speculate`]: judging tokens that a drafter guessed ahead.
//! - [`constraint`]: rules for what may come next, such as a grammar's.
//! - [`contrast`]: two rows of logits made into one.

pub mod beam;
pub mod constraint;
pub mod contrast;
pub mod speculate;
pub mod stop;
