//! DRY, don't repeat yourself: lowers the tokens that would go on with a repetition, the more the longer it
//! is (p-e-w, text-generation-webui, 2024; the rules are llama.cpp's).
//!
//! For every earlier place where the text stood as it stands now, the token that followed there gets a
//! penalty of `multiplier · base^(length − allowed)`, `length` being how many tokens back the two places
//! agree. Breakers end a repetition: nothing is compared beyond the last of them.

use std::collections::{HashMap, HashSet};

use crate::logits::edited::EditedRow;
use crate::numeric::math::saturated;
use crate::params::SamplingParams;
use crate::stages::edit::agreement::Agreement;
use crate::stages::edit::context::Context;

/// Checked parameters of DRY.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    multiplier: f64,
    base: f64,
    allowed: u32,
    /// Tokens looked at; 0: all.
    window: usize,
    breakers: HashSet<Vec<u32>>,
    /// How long the breakers are that begin with a token, longest first.
    lengths: HashMap<u32, Vec<usize>>,
}

/// The memory of one step.
#[derive(Clone, Debug, Default)]
pub(crate) struct DryMemory {
    /// Tokens to penalise, each with the longest repetition it would go on with.
    longest: Vec<(u32, u32)>,
    /// Where a token stands in `longest`. Looked up, never iterated.
    places: HashMap<u32, u32>,
    /// `multiplier · base^i`.
    penalties: Vec<f64>,
}

impl DryMemory {
    /// Capacity for `tokens` tokens; no allocation until then.
    fn make_room(&mut self, tokens: usize) {
        if self.longest.capacity() < tokens {
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
        let mut lengths: HashMap<u32, Vec<usize>> = HashMap::new();
        for breaker in &params.dry_sequence_breakers {
            let lengths = lengths.entry(breaker[0]).or_default();
            if let Err(place) = lengths.binary_search_by(|length| breaker.len().cmp(length)) {
                lengths.insert(place, breaker.len());
            }
        }
        Some(Self {
            multiplier: params.dry_multiplier,
            base: params.dry_base,
            allowed: params.dry_allowed_length,
            window: params.dry_penalty_last_n as usize,
            breakers: params.dry_sequence_breakers.iter().cloned().collect(),
            lengths,
        })
    }

    pub(crate) fn apply(
        &self,
        row: &mut EditedRow<'_>,
        context: &Context<'_>,
        agreement: &mut Agreement,
        memory: &mut DryMemory,
    ) {
        memory.make_room(context.history.room());
        agreement.make_room(context.history.room());
        self.find(context.history.tokens(), agreement, memory);
        for &(token, length) in &memory.longest {
            let penalty = saturated(memory.penalties[(length - self.allowed) as usize] as f32);
            row.edit(token, |x| x - penalty);
        }
    }

    /// Fills `longest` and `penalties`. Linear in the tokens looked at.
    fn find(&self, tokens: &[u32], agreement: &mut Agreement, memory: &mut DryMemory) {
        let DryMemory { longest, places, penalties } = memory;
        longest.clear();
        places.clear();
        penalties.clear();
        let start = if self.window == 0 { 0 } else { tokens.len().saturating_sub(self.window) };
        let tokens = &tokens[start..];
        let limit = self.limit(tokens);
        if tokens.len() <= self.allowed as usize || limit < self.allowed {
            return;
        }
        agreement.find(tokens);
        for (followed, agreed) in agreement.followers(tokens) {
            let length = agreed.min(limit);
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
        self.lengths.get(&token).is_some_and(|lengths| lengths.last() == Some(&1))
    }

    /// The tokens after the breaker that begins last; all of them if there is none.
    fn limit(&self, tokens: &[u32]) -> u32 {
        let longest_at = |place: usize| {
            let lengths = self.lengths.get(&tokens[place])?.iter().copied();
            let is_breaker = |&length: &usize| {
                tokens.get(place..place + length).is_some_and(|tokens| self.breakers.contains(tokens))
            };
            lengths.into_iter().find(is_breaker)
        };
        let last = (0..tokens.len()).rev().find_map(|place| longest_at(place).map(|length| place + length));
        (tokens.len() - last.unwrap_or(0)) as u32
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
        dry.find(tokens, &mut Agreement::default(), &mut memory);
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
}
