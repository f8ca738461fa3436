//! Counts, masses and lists of an edited row, each from the blocks that matter.
//!
//! The naive form of everything here is one loop:
//!
//! ```text
//! for each token with key <= last: add what it counts for
//! ```
//!
//! 1. Blocks whose maximum lies after `last` in the order hold no such token and are not opened ([`open`]).
//!    The skyline is exact, so nothing is missed.
//! 2. A block is worked on as four vectors of sixteen logits; which of them count is a word of 64 bits.
//!    Counts and masses are integers, so their sums do not depend on the order of the additions.
//!
//! `sums`: counts and masses.  `head`: the first tokens of the order, listed once.  `sketch`: a rough picture
//! of where the mass lies.  `band`: the exact mass up to a band of logits, and the tokens in the band.
//! `curve`: how the mass grows along the order.  `centre`: typical's distances.

pub(crate) mod band;
pub(crate) mod centre;
pub(crate) mod curve;
pub(crate) mod head;
pub(crate) mod sketch;
pub(crate) mod sums;

use crate::kernels::lanes::Lanes;
use crate::kernels::passes::vectorized;
use crate::logits::block::{reaching, up_to};
use crate::logits::edited::EditedRow;
use crate::numeric::key::Key;
use crate::numeric::noise::BLOCK;

/// Opens the blocks that may hold a token up to `last`. `each` gets the number of the block, its logits, and
/// which of them come up to `last`, one bit each.
#[inline(always)]
pub(super) fn open<S: Lanes>(
    row: &EditedRow<'_>,
    simd: S,
    last: Key,
    mut each: impl FnMut(usize, &[f32; BLOCK], u64),
) {
    let mut buffer = [0.0; BLOCK];
    for (group, maxima) in row.maxima().chunks(BLOCK).enumerate() {
        let mut reaching = reaching(simd, maxima, last.logit());
        while reaching != 0 {
            let block = group * BLOCK + reaching.trailing_zeros() as usize;
            reaching &= reaching - 1;
            let lanes = row.lanes_by(simd, block, &mut buffer);
            let listed = up_to(simd, lanes, row.span.token(block, 0), last);
            if listed != 0 {
                each(block, lanes, listed);
            }
        }
    }
}

/// Calls `each` with every token up to `last`, in the order of the ids.
#[inline]
pub(crate) fn visit(row: &EditedRow<'_>, last: Key, mut each: impl FnMut(Key)) {
    vectorized!(row.passes, simd => open(row, simd, last,
        #[inline(always)]
        |block, lanes, mut listed| while listed != 0 {
            let lane = listed.trailing_zeros() as usize;
            listed &= listed - 1;
            each(Key::new(lanes[lane], row.span.token(block, lane)));
        }
    ));
}
