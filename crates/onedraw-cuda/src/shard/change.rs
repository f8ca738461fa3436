//! What a question changes in a part of a row, as `kernels/shard/change.cuh` has it.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use onedraw::bend::Bend;
use onedraw::key::Key;
use onedraw::query::{Narrow, Smooth};

use crate::record::shared::{count, shared_struct, value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum ChangeKind {
    Unchanged = value("CHANGE_KIND(UNCHANGED"),
    Narrowed = value("CHANGE_KIND(NARROWED"),
    Beheaded = value("CHANGE_KIND(BEHEADED"),
    Bent = value("CHANGE_KIND(BENT"),
    Replaced = value("CHANGE_KIND(REPLACED"),
}

// Every kind of the list is a variant above, and a question that says nothing of a change makes none.
const _: () = assert!(count("CHANGE_KIND(") == 5 && ChangeKind::Unchanged as u32 == 0);

shared_struct! { "Change":
    /// A change.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub(crate) struct Change {
        pub last: u64,
        pub inverse: f64,
        pub factor: f64,
        pub quadratic: f64,
        pub cubic: f64,
        pub replacements: u64,
        pub x_max: f32,
        pub kind: u32,
        pub spares_protected: u32,
        pub first_edit: u32,
        pub end_of_edits: u32,
        pub reserved: u32,
    }
}

impl Change {
    fn new(kind: ChangeKind) -> Self {
        Self { kind: kind as u32, ..Zeroable::zeroed() }
    }

    /// Begins a segment with these edits of the record.
    pub(super) fn narrow(narrow: &Narrow, edits: &Range<usize>) -> Self {
        let (last, inverse) = (narrow.last.number(), narrow.temperature.inverse);
        let (first_edit, end_of_edits) = (edits.start as u32, edits.end as u32);
        Self { last, inverse, first_edit, end_of_edits, ..Self::new(ChangeKind::Narrowed) }
    }

    /// Masks the tokens up to `head`, but for those that XTC never removes if these are spared.
    pub(super) fn behead(head: Key, spares_protected: bool) -> Self {
        let spares_protected = spares_protected.into();
        Self { last: head.number(), spares_protected, ..Self::new(ChangeKind::Beheaded) }
    }

    /// Bends every logit.
    pub(super) fn smooth(smooth: &Smooth) -> Self {
        let Smooth { bend: Bend { factor, quadratic, cubic }, x_max } = *smooth;
        Self { factor, quadratic, cubic, x_max, ..Self::new(ChangeKind::Bent) }
    }

    /// Gives tokens the logits that lie at an address, one for each token of the part.
    pub(super) fn replace(replacements: u64) -> Self {
        Self { replacements, ..Self::new(ChangeKind::Replaced) }
    }
}

/// What [`Change::replace`] gives to the tokens of a part whose first id is `start`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replacements {
    start: u32,
    logits: Vec<f32>,
}

impl Replacements {
    /// The token is left as it is.
    const NONE: f32 = f32::NAN;
    /// The token is masked.
    const MASKED: f32 = f32::NEG_INFINITY;

    /// New logits for some tokens, one after the other; −inf masks a token for good.
    pub(super) fn edits(start: u32, length: usize, logits: &[(u32, f32)]) -> Self {
        let mut all = Self { start, logits: vec![Self::NONE; length] };
        for &(token, logit) in logits {
            if let Some(place) = all.place(token).filter(|place| **place != Self::MASKED) {
                *place = if logit == Self::MASKED { logit } else { logit.clamp(-f32::MAX, f32::MAX) };
            }
        }
        all
    }

    /// All tokens but these are masked.
    pub(super) fn keeps(start: u32, length: usize, ids: &[u32]) -> Self {
        let mut all = Self { start, logits: vec![Self::MASKED; length] };
        for &id in ids {
            if let Some(place) = all.place(id) {
                *place = Self::NONE;
            }
        }
        all
    }

    fn place(&mut self, token: u32) -> Option<&mut f32> {
        self.logits.get_mut(token.checked_sub(self.start)? as usize)
    }

    /// One for each token of the part.
    pub(super) fn logits(&self) -> &[f32] {
        &self.logits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_other_parts_are_left_alone() {
        let low = f32::NEG_INFINITY;
        let edits = [(9, 1.0), (10, 2.5), (12, low), (12, 3.0), (10, -4.0), (13, 5.0)];
        let replaced = Replacements::edits(10, 3, &edits);
        assert_eq!(replaced.logits()[0], -4.0, "the last one counts");
        assert!(replaced.logits()[1].is_nan());
        assert_eq!(replaced.logits()[2], low, "a masked token stays so");
        let kept = Replacements::keeps(10, 3, &[3, 11, 13]);
        assert_eq!((kept.logits()[0], kept.logits()[2]), (low, low));
        assert!(kept.logits()[1].is_nan());
    }
}
