//! Where the drawn tokens lie, for whoever reads them on the device.

use std::mem::offset_of;

use super::Batch;
use crate::record::Outcome;

/// The device's array of drawn tokens, an entry a row: a token and a status, 32 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The first entry. It stays where it is as long as the batch.
    pub address: u64,
    /// The rows of the turns that were prepared last.
    pub rows: usize,
}

impl Drawn {
    /// Bytes from one entry to the next.
    pub const STRIDE: usize = size_of::<Outcome>();
    /// Bytes from an entry's beginning to its token; of a row that could not be drawn it is no token.
    pub const TOKEN: usize = offset_of!(Outcome, token);
    /// Bytes from an entry's beginning to its status: 0 where a token was drawn.
    pub const STATUS: usize = offset_of!(Outcome, status);
}

impl Batch {
    /// Where the tokens of the turns that were prepared last lie, once a stream has come past their launch. The next launch writes over them.
    pub fn drawn(&self) -> Drawn {
        Drawn { address: self.arrays.results.address(), rows: self.last_rows }
    }
}
