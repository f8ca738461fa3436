//! The total order of the tokens of a row: logit descending, then id ascending.

/// A token's place in the order as one integer: a smaller key comes earlier.
///
/// The upper half is the logit, mapped so that larger logits give smaller numbers; −0.0 counts as +0.0. The
/// lower half is the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Key(u64);

impl Key {
    /// A key after every token that is not masked and before every masked one.
    pub const END: Key = Key((descending(-f32::MAX) as u64) << 32 | u32::MAX as u64);

    /// The key of a token. The logit must not be NaN.
    #[inline(always)]
    pub fn new(logit: f32, token: u32) -> Self {
        Self(u64::from(descending(logit)) << 32 | u64::from(token))
    }

    /// The last key that a token with this logit can have.
    pub fn last_of(logit: f32) -> Self {
        Self::new(logit, u32::MAX)
    }

    /// The last key of the smallest logit x with `f64(x) − f64(x_max) ≥ threshold`; that of `x_max` itself
    /// where even this one is too low.
    pub(crate) fn last_within(x_max: f32, threshold: f64) -> Self {
        let lowest = lowest_where(x_max, |x| f64::from(x) - f64::from(x_max) >= threshold);
        Self::last_of(lowest.unwrap_or(x_max))
    }

    /// The logit; −0.0 is returned as +0.0.
    #[inline(always)]
    pub fn logit(self) -> f32 {
        let bits = !((self.0 >> 32) as u32);
        f32::from_bits(if bits >> 31 == 1 { bits ^ 0x8000_0000 } else { !bits })
    }

    /// The token's id.
    #[inline(always)]
    pub fn token(self) -> u32 {
        self.0 as u32
    }

    /// The next key.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The previous key.
    pub(crate) fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The key as a number, for the radix select.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The key with this number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// The lowest logit, at most `from`, for which `holds` is true; `None` if it is false for `from` itself.
/// `holds` must be true for a run of logits that begins with `from` and false for all below that run. This is
/// a binary search over the finite f32, in their order.
pub(crate) fn lowest_where(from: f32, holds: impl Fn(f32) -> bool) -> Option<f32> {
    let logit = |place: u64| Key::from_number(place << 32).logit();
    let place = |key: Key| key.number() >> 32;
    if !holds(from) {
        return None;
    }
    let (mut inside, mut outside) = (place(Key::new(from, 0)), place(Key::END) + 1);
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if holds(logit(middle)) { inside = middle } else { outside = middle }
    }
    Some(logit(inside))
}

/// Maps a logit to an integer such that larger logits give smaller integers.
#[inline(always)]
const fn descending(logit: f32) -> u32 {
    // Adding +0.0 turns −0.0 into +0.0 and changes nothing else.
    let bits = (logit + 0.0).to_bits();
    !(if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_order() {
        let falling =
            [f32::MAX, 5.0, 1.0, f32::MIN_POSITIVE, 1e-45, 0.0, -1e-45, -1.0, -f32::MAX, f32::NEG_INFINITY];
        for pair in falling.windows(2) {
            assert!(Key::new(pair[0], u32::MAX) < Key::new(pair[1], 0), "{pair:?}");
        }
        assert_eq!(Key::new(0.0, 3), Key::new(-0.0, 3));
        assert!(Key::new(2.0, 3) < Key::new(2.0, 4));
        for x in falling {
            assert_eq!((Key::new(x, 77).logit(), Key::new(x, 77).token()), (x, 77));
        }
        assert!(Key::new(-f32::MAX, 5) < Key::END && Key::END < Key::new(f32::NEG_INFINITY, 0));
    }

    #[test]
    fn the_lowest_logit_of_a_run() {
        for limit in [5.0, 0.0, 1e-45, -1e-45, -7.25, -f32::MAX] {
            assert_eq!(lowest_where(5.0, |x| x >= limit), Some(limit));
        }
        assert_eq!(lowest_where(5.0, |_| false), None);
        assert_eq!(lowest_where(5.0, |_| true), Some(-f32::MAX));
    }
}
