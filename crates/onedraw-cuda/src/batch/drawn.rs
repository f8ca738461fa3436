//! Where the drawn tokens lie, for a caller that reads them on the device.

use std::mem::offset_of;

use super::sequences::Batch;
use crate::record::layout::Outcome;

/// The device's array of drawn tokens, with one entry per row: a token and a status, 32 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The address of the first entry. It stays the same as long as the batch lives.
    pub address: u64,
    /// The number of rows of the turns that were prepared last.
    pub rows: usize,
}

impl Drawn {
    /// Bytes from one entry to the next.
    pub const STRIDE: usize = size_of::<Outcome>();
    /// Bytes from an entry's beginning to its token. If the row could not be drawn, this is no token.
    pub const TOKEN: usize = offset_of!(Outcome, token);
    /// Bytes from an entry's beginning to its status, which is 0 if a token was drawn.
    pub const STATUS: usize = offset_of!(Outcome, status);
}

impl Batch {
    /// Where the tokens of the turns that were prepared last lie, once the stream has done their launch. The
    /// next launch overwrites them.
    pub fn drawn(&self) -> Drawn {
        Drawn { address: self.rows.arrays.results.address(), rows: self.last_rows }
    }
}
