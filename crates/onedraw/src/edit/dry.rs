//! DRY, don't repeat yourself: lowers the tokens that would go on with a repetition, the more the longer it is (p-e-w,
//! text-generation-webui, 2024; the rules are llama.cpp's).
//!
//! For every earlier place where the text stood as it stands now, the token that followed there gets a penalty of
//! `multiplier · base^(length − allowed)`, `length` being how many tokens back the two places agree. Breakers end a repetition: nothing
//! is compared beyond the last of them.

use std::collections::HashMap;

use crate::edit::Context;
use crate::edited::Edited;
use crate::math::saturated;
use crate::params::SamplingParams;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dry {
    multiplier: f64,
    base: f64,
    allowed: u32,
    /// Tokens looked at; 0: all.
    window: usize,
    /// The breakers by their first token, longest first.
    breakers: HashMap<u32, Vec<Vec<u32>>>,
}

/// The memory of one step.
#[derive(Clone, Debug, Default)]
pub(crate) struct DryMemory {
    /// For each place counted from the end, how many tokens before it agree with the end.
    agreements: Vec<u32>,
    /// Tokens to penalise, each with the longest repetition it would go on with.
    longest: Vec<(u32, u32)>,
    /// Where a token stands in `longest`. Looked up, never iterated.
    places: HashMap<u32, u32>,
    /// `multiplier · base^i`.
    penalties: Vec<f64>,
}

impl DryMemory {
    /// Enough for so many tokens, and memory is taken no more.
    fn make_room(&mut self, tokens: usize) {
        if self.agreements.capacity() < tokens {
            self.agreements.reserve(tokens);
            self.longest.reserve(tokens);
            self.places.reserve(tokens);
            self.penalties.reserve(tokens);
        }
    }
}

impl Dry {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        if params.dry_multiplier <= 0.0 {
            return None;
        }
        let mut breakers: HashMap<u32, Vec<Vec<u32>>> = HashMap::new();
        for breaker in &params.dry_sequence_breakers {
            breakers.entry(breaker[0]).or_default().push(breaker.clone());
        }
        breakers.values_mut().for_each(|breakers| breakers.sort_by_key(|breaker| usize::MAX - breaker.len()));
        Some(Self {
            multiplier: params.dry_multiplier,
            base: params.dry_base,
            allowed: params.dry_allowed_length,
            window: params.dry_penalty_last_n as usize,
            breakers,
        })
    }

    pub(crate) fn apply(&self, row: &mut Edited<'_>, context: &Context<'_>) {
        let mut memory = std::mem::take(&mut row.memory.dry);
        memory.make_room(context.history.room());
        self.find(context.history.tokens(), &mut memory);
        for &(token, length) in &memory.longest {
            let penalty = saturated(memory.penalties[(length - self.allowed) as usize] as f32);
            row.edit(token, |x| x - penalty);
        }
        row.memory.dry = memory;
    }

    /// Fills `longest` and `penalties`. Linear in the tokens looked at.
    fn find(&self, tokens: &[u32], memory: &mut DryMemory) {
        let DryMemory { agreements, longest, places, penalties } = memory;
        longest.clear();
        places.clear();
        penalties.clear();
        let start = if self.window == 0 { 0 } else { tokens.len().saturating_sub(self.window) };
        let tokens = &tokens[start..];
        let limit = self.limit(tokens);
        if tokens.len() <= self.allowed as usize || limit < self.allowed {
            return;
        }
        agree(tokens, agreements);
        for (&followed, &agreement) in tokens.iter().rev().zip(&agreements[1..]) {
            let length = agreement.min(limit);
            if length < self.allowed || self.is_breaker(followed) {
                continue;
            }
            let place = *places.entry(followed).or_insert_with(|| {
                longest.push((followed, length));
                longest.len() as u32 - 1
            });
            let known = &mut longest[place as usize].1;
            *known = length.max(*known);
        }
        let most = longest.iter().map(|&(_, length)| length - self.allowed).max();
        let mut penalty = self.multiplier;
        penalties.extend(most.into_iter().flat_map(|most| 0..=most).map(|_| {
            let this = penalty;
            penalty *= self.base;
            this
        }));
    }

    /// Whether the token alone breaks sequences: it then is never penalised.
    fn is_breaker(&self, token: u32) -> bool {
        self.breakers.get(&token).is_some_and(|breakers| breakers.iter().any(|breaker| breaker.len() == 1))
    }

    /// The tokens after the breaker that begins last; all of them if there is none.
    fn limit(&self, tokens: &[u32]) -> u32 {
        let longest_at = |place: usize| {
            let breakers = self.breakers.get(&tokens[place])?;
            breakers.iter().find(|breaker| tokens[place..].starts_with(breaker)).map(Vec::len)
        };
        let last = (0..tokens.len()).rev().find_map(|place| longest_at(place).map(|length| place + length));
        (tokens.len() - last.unwrap_or(0)) as u32
    }
}

/// `agreements[i]`: how many tokens the text and the text without its last i have in common at their ends (the Z-algorithm, from the back).
fn agree(tokens: &[u32], agreements: &mut Vec<u32>) {
    let n = tokens.len();
    let from_end = |i: usize| tokens[n - 1 - i];
    agreements.clear();
    agreements.resize(n, 0);
    // [left, right): the stretch found so far that reaches farthest back and agrees with the end.
    let (mut left, mut right) = (0, 0);
    for i in 1..n {
        let mut length = if i < right { (right - i).min(agreements[i - left] as usize) } else { 0 };
        while i + length < n && from_end(length) == from_end(i + length) {
            length += 1;
        }
        if i + length > right {
            (left, right) = (i, i + length);
        }
        agreements[i] = length as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dry(params: SamplingParams) -> Dry {
        Dry::new(&SamplingParams { dry_multiplier: 1.0, dry_base: 2.0, ..params }).expect("on")
    }

    fn found(dry: &Dry, tokens: &[u32]) -> Vec<(u32, f64)> {
        let mut memory = DryMemory::default();
        dry.find(tokens, &mut memory);
        let penalty =
            |&(token, length): &(u32, u32)| (token, memory.penalties[(length - dry.allowed) as usize]);
        let mut found: Vec<_> = memory.longest.iter().map(penalty).collect();
        found.sort_by_key(|&(token, _)| token);
        found
    }

    #[test]
    fn the_longest_repetition_counts() {
        let plain = dry(SamplingParams::default());
        assert_eq!(found(&plain, &[0, 1, 2, 0, 1]), [(2, 1.0)]);
        // 5 6 7 → 8 agrees in three tokens, 6 7 → 9 in two.
        assert_eq!(found(&plain, &[6, 7, 9, 5, 6, 7, 8, 5, 6, 7]), [(8, 2.0), (9, 1.0)]);
        assert_eq!(found(&plain, &[0, 0, 0, 0, 0]), [(0, 4.0)]);
        assert_eq!(found(&plain, &[0, 1]), []);
        assert_eq!(found(&plain, &[]), []);
        let all = dry(SamplingParams { dry_allowed_length: 0, ..SamplingParams::default() });
        assert_eq!(found(&all, &[4, 5]), [(5, 1.0)]);
        assert_eq!(found(&all, &[4, 5, 4]), [(4, 1.0), (5, 2.0)]);
    }

    #[test]
    fn a_window_forgets() {
        let last_five = dry(SamplingParams { dry_penalty_last_n: 5, ..SamplingParams::default() });
        assert_eq!(found(&last_five, &[9, 0, 1, 2, 0, 1]), [(2, 1.0)]);
        let last_four = dry(SamplingParams { dry_penalty_last_n: 4, ..SamplingParams::default() });
        assert_eq!(found(&last_four, &[9, 0, 1, 2, 0, 1]), []);
    }

    #[test]
    fn breakers_end_a_repetition() {
        let breakers = |list: &[&[u32]]| {
            let dry_sequence_breakers = list.iter().map(|breaker| breaker.to_vec()).collect();
            dry(SamplingParams { dry_sequence_breakers, ..SamplingParams::default() })
        };
        let text = [7, 3, 0, 1, 2, 5, 7, 3, 0, 1];
        assert_eq!(found(&breakers(&[]), &text), [(2, 4.0)]);
        // Two tokens stand after the breaker 3: no more than two are compared.
        assert_eq!(found(&breakers(&[&[3]]), &text), [(2, 1.0)]);
        assert_eq!(found(&breakers(&[&[7, 3]]), &text), [(2, 1.0)]);
        assert_eq!(found(&breakers(&[&[7], &[7, 3, 0]]), &text), [], "the longest that begins there");
        assert_eq!(found(&breakers(&[&[1]]), &text), [], "nothing after it");
        assert_eq!(
            found(&breakers(&[&[2, 9], &[9]]), &text),
            [(2, 4.0)],
            "a longer breaker's first token is no breaker"
        );
        assert_eq!(found(&breakers(&[&[2]]), &text), [], "a breaker of one token is never penalised");
    }

    /// Every place compared with the end, token by token.
    #[test]
    fn agreements_equal_the_obvious_ones() {
        let mut state = 1u64;
        for length in 0..200 {
            let tokens: Vec<u32> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 40) as u32 % if length % 2 == 0 { 2 } else { 4 }
                })
                .collect();
            let mut agreements = Vec::new();
            agree(&tokens, &mut agreements);
            for i in 1..length {
                let obvious = tokens.iter().rev().zip(tokens[..length - i].iter().rev());
                let expected = obvious.take_while(|(a, b)| a == b).count();
                assert_eq!(agreements[i] as usize, expected, "{tokens:?} {i}");
            }
        }
    }
}
