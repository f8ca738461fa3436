//! Numbers that stand for data, so that processes can compare what they have without sending it. No drawn
//! token depends on them.

use std::fmt;

/// Data, added piece by piece. Two of them with different numbers are of different data; of equal numbers
/// that is all but certain, unless somebody looks for a counterexample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    /// The number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Adds a number.
    pub(crate) fn and(self, number: u64) -> Self {
        Self(mixed(self.0.wrapping_add(1) ^ number))
    }
}

/// Adds a text.
impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *self = self.and(u64::from_le_bytes(bytes));
        }
        Ok(())
    }
}

/// A number that looks random and is another one for every other `number`: the mixing function of SplitMix64.
pub(crate) fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn other_data_has_another_number() {
        let text = |text: &str| {
            let mut digest = Digest::default();
            digest.write_str(text).expect("a digest takes any text");
            digest.number()
        };
        let numbers =
            [text(""), text("a"), text("b"), text("ab"), text("ba"), text("12345678"), text("123456789")];
        for (i, number) in numbers.iter().enumerate() {
            assert!(!numbers[..i].contains(number));
        }
        assert_ne!(Digest::default().and(1).and(2).number(), Digest::default().and(2).and(1).number());
        assert_ne!(Digest::default().and(0).number(), Digest::default().and(0).and(0).number());
        // Ranks of different builds compare them.
        assert_eq!(Digest::default().and(7).number(), mixed(1 ^ 7));
    }
}
