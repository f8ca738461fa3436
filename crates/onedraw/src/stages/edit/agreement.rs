//! Where a text stood before as it stands now: how far each earlier place agrees with the end, going back.

/// For each place, counted from the end. Kept from step to step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agreement {
    lengths: Vec<u32>,
}

impl Agreement {
    /// Capacity for `tokens` tokens; no allocation until then.
    pub(crate) fn make_room(&mut self, tokens: usize) {
        self.lengths.reserve(tokens.saturating_sub(self.lengths.len()));
    }

    /// Compares every place of the text with its end (the Z-algorithm, from the back): linear in the text.
    pub(crate) fn find(&mut self, tokens: &[u32]) {
        let n = tokens.len();
        let from_end = |i: usize| tokens[n - 1 - i];
        let lengths = &mut self.lengths;
        lengths.clear();
        lengths.resize(n, 0);
        // [left, right): the stretch found so far that reaches farthest back and agrees with the end.
        let (mut left, mut right) = (0, 0);
        for i in 1..n {
            let mut length = if i < right { (right - i).min(lengths[i - left] as usize) } else { 0 };
            while i + length < n && from_end(length) == from_end(i + length) {
                length += 1;
            }
            if i + length > right {
                (left, right) = (i, i + length);
            }
            lengths[i] = length as u32;
        }
    }

    /// Each token of the text but the first, with how many tokens before it agree with the end of the text.
    pub(crate) fn followers(&self, tokens: &[u32]) -> impl Iterator<Item = (u32, u32)> {
        tokens.iter().rev().copied().zip(self.lengths.iter().skip(1).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place compared with the end, token by token.
    #[test]
    fn agreements_equal_the_obvious_ones() {
        let mut state = 1u64;
        let mut agreement = Agreement::default();
        for length in 0..200 {
            let tokens: Vec<u32> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 40) as u32 % if length % 2 == 0 { 2 } else { 4 }
                })
                .collect();
            agreement.find(&tokens);
            let obvious = |place: usize| {
                let both = tokens[..place].iter().rev().zip(tokens.iter().rev());
                (tokens[place], both.take_while(|(a, b)| a == b).count() as u32)
            };
            let expected: Vec<_> = (1..length).rev().map(obvious).collect();
            assert_eq!(agreement.followers(&tokens).collect::<Vec<_>>(), expected, "{tokens:?}");
        }
    }
}
