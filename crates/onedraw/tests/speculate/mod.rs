//! Speculation on a toy language model: texts, distributions and reports are those of plain decoding.

mod exact;
mod greedy;
mod input;
mod laws;
mod reports;
mod toy;
mod typical;
