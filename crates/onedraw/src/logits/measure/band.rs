//! The exact mass up to a band of logits, and the tokens in the band.
//!
//! To find the token in which a given unit of mass lies, a sketch first says roughly where (`sketch.rs`). One
//! pass over the row then sums everything nearer than that exactly, and lists the few tokens there, from
//! which `locate.rs` selects.

use crate::kernels::block::at_least;
use crate::kernels::logit::Logit;
use crate::kernels::passes::vectorized;
use crate::kernels::weight::Masses;
use crate::logits::block::{between, only, up_to};
use crate::logits::edited::EditedRow;
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::numeric::noise::BLOCK;

/// A band of more tokens than this is not listed: a radix select is faster from about there on.
pub(crate) const MAX_BAND: usize = 16_384;

/// Keys to reserve for a band: a list that grew too long ends with the block in which it did, and is written
/// four keys at a time.
pub(crate) const BAND_CAPACITY: usize = MAX_BAND + BLOCK + 4;

/// The logits from `highest` down to `lowest`, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The largest.
    pub highest: f32,
    /// The smallest.
    pub lowest: f32,
}

/// Returns the mass of the tokens up to `last` within the inner stretch, and lists the keys of those within
/// the outer stretch but not the inner one. Stops listing after more than [`MAX_BAND`] keys.
pub(crate) fn band(
    row: &EditedRow<'_>,
    (inner, outer): (Option<Stretch>, Stretch),
    last: Key,
    softmax: Softmax,
    keys: &mut Vec<Key>,
) -> u64 {
    keys.reserve(BAND_CAPACITY.min(row.span.row.len() + 4));
    let last = last.min(Key::last_of(outer.lowest));
    // An inner stretch that is absent holds no logit: none is +inf.
    let inner = inner.unwrap_or(Stretch { highest: outer.highest, lowest: f32::INFINITY });
    let (mut buffer, mut copy) = ([0.0; BLOCK], [0.0; BLOCK]);
    vectorized!(row.passes, simd => {
        let mut masses = Masses::new(simd, softmax);
        for (block, &maximum) in row.maxima().iter().enumerate() {
            if maximum < last.logit() {
                continue;
            }
            let lanes = row.lanes_by(simd, block, &mut buffer);
            // In most blocks the logits alone decide: what an earlier cut dropped lies below the stretch.
            let mut weighed = lanes;
            let mut around = between(simd, lanes, last.logit(), inner.lowest);
            if maximum > inner.highest || last.token() != u32::MAX {
                let listed = up_to(simd, lanes, row.span.token(block, 0), last);
                let above = at_least(f32::load(simd, lanes), outer.highest.next_up());
                let within = listed & between(simd, lanes, inner.lowest, inner.highest.next_up());
                around = listed & !above & !within;
                weighed = only(simd, lanes, within, &mut copy);
            }
            if keys.len() <= MAX_BAND {
                list(keys, lanes, row.span.token(block, 0), around);
            }
            masses.add_from(weighed, maximum, inner.lowest.max(last.logit()));
        }
        masses.mass()
    })
}

/// Lists the tokens of a block whose bit is set. Most blocks have few, and their number is unpredictable, so
/// keys are written four at a time without a branch and the surplus is cut off.
#[inline(always)]
fn list(keys: &mut Vec<Key>, lanes: &[f32; BLOCK], first: u32, mut bits: u64) {
    let end = keys.len() + bits.count_ones() as usize;
    while keys.len() < end {
        for _ in 0..4 {
            let lane = bits.trailing_zeros() % BLOCK as u32;
            bits &= bits.wrapping_sub(1);
            keys.push(Key::new(lanes[lane as usize], first + lane));
        }
    }
    keys.truncate(end);
}
