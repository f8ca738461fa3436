//! What a sequence keeps from draw to draw: its tokens (`history`), and its state beside them (`path`).

pub mod history;
pub mod path;
