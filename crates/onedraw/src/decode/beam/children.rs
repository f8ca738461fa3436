//! The children of one running text of stochastic beams: which tokens may be among the best of a step.
//!
//! # The definition
//!
//! ```text
//! children(parent):
//!     for each allowed token that the chain keeps:
//!         logprob = the parent's logprob + the token's logprob
//!         noisy   = logprob + the token's Gumbel noise
//!     highest = the largest noisy
//!     for each of them:
//!         score = truncated(noisy, highest, the parent's perturbed logprob)
//! ```
//!
//! The search sorts the children of all parents by score, of equal scores by beam and token. It uses at most
//! the first `count` of that list.
//!
//! # How this differs from the definition
//!
//! The result is the same, bit for bit, as far as the search uses it:
//!
//! 1. *Few children are returned.* Only the first `count` children of each parent can be among the first
//!    `count` of all.
//! 2. *Few scores are computed.* Children are taken in descending order of `noisy`, and `truncated` is an
//!    increasing function apart from rounding. So the first `count` children by `noisy` are also the first
//!    by score, except for those whose scores lie within the rounding error of one another. Children
//!    are therefore taken until a score is lower than the `count`-th by more than any rounding error
//!    ([`ROUNDING`]). The caller's sort puts those that are returned in their final order.
//! 3. *Little noise is computed.* The leading zeros of its random word bound the noise of a token from above
//!    ([`noise_limit`]). A heap holds every child with that bound. Where a bound comes to the top of the
//!    heap, it is replaced by the exact value; where an exact value comes to the top, no other child can be
//!    higher.
//! 4. *Few tokens are checked.* Whether a token is allowed matters only once its child comes to the top. The
//!    first allowed one there has the highest `noisy` of all that are allowed.
//! 5. *One call of Philox serves neighbours.* It gives the words of four tokens, and tokens mostly come in
//!    the order of their ids. A word does not depend on who asks for it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::f64::consts::LN_2;

use super::candidate::{Candidate, Fate};
use crate::numeric::math::{exp, ln};
use crate::numeric::noise::{Noise, Purpose, exponential};

/// More than rounding can disturb the order of [`truncated`], relative to the size of its arguments.
///
/// Each of its operations is within 1 ulp, a relative 2^-52. Only `1 − exp(x)` magnifies such an error: for
/// x < −0.001 by at most a factor of 1,000. For x closer to 0, `exp(x)` is computed as `1 + (x + …)`, whose
/// rounding keeps the order of its arguments.
const ROUNDING: f64 = 1e-9;

/// A running text whose children are wanted.
pub(super) struct Parent {
    /// Its index among the running texts.
    pub beam: usize,
    /// The sum of the logprobs of its tokens.
    pub logprob: f64,
    /// Its perturbed logprob, which becomes that of its highest child.
    pub perturbed: f64,
    /// The noise of this position and beam.
    pub noise: Noise,
}

impl Parent {
    /// Returns the first `count` children and possibly some that follow them, in no particular order.
    /// `tokens` are those that the chain keeps, with their logprobs, in any order.
    pub(super) fn leading(
        &self,
        tokens: &[(u32, f64)],
        count: usize,
        mut is_allowed: impl FnMut(u32) -> bool,
    ) -> Vec<Candidate> {
        let mut heap = self.heap(tokens);
        let mut leading: Vec<Candidate> = Vec::new();
        let mut highest = None;
        let mut lowest = f64::NEG_INFINITY;
        while let Some(Child { token, logprob, noisy, .. }) = pop_highest(&mut heap) {
            if !is_allowed(token) {
                continue;
            }
            let highest = *highest.get_or_insert(noisy);
            let score = truncated(noisy, highest, self.perturbed);
            if score < lowest {
                break;
            }
            leading.push(Candidate { beam: self.beam, token, logprob, score, fate: Fate::Dropped });
            if leading.len() == count {
                lowest = score - ROUNDING * (1.0 + noisy.abs() + self.perturbed.abs());
            }
        }
        leading
    }

    /// All children, with bounds in place of their noisy logprobs.
    fn heap(&self, tokens: &[(u32, f64)]) -> BinaryHeap<Child> {
        let words = |index| self.noise.words(Purpose::Beam, index);
        let mut four = (0, words(0));
        let children = tokens.iter().map(|&(token, logprob)| {
            if four.0 != token / 4 {
                four = (token / 4, words(token / 4));
            }
            let word = four.1[token as usize % 4];
            let logprob = self.logprob + logprob;
            Child { token, logprob, noisy: logprob + noise_limit(word), word: Some(word) }
        });
        children.collect::<Vec<Child>>().into()
    }
}

/// One token after the parent.
struct Child {
    token: u32,
    logprob: f64,
    /// The logprob with its noise, or an upper bound of that.
    noisy: f64,
    /// The random word of the noise, as long as `noisy` is a bound.
    word: Option<u32>,
}

impl Ord for Child {
    fn cmp(&self, other: &Self) -> Ordering {
        self.noisy.total_cmp(&other.noisy)
    }
}

impl PartialOrd for Child {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Child {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Child {}

/// Removes the child with the highest noisy logprob.
fn pop_highest(heap: &mut BinaryHeap<Child>) -> Option<Child> {
    loop {
        let mut child = heap.peek_mut()?;
        match child.word.take() {
            Some(word) => child.noisy = child.logprob + gumbel(word),
            None => return Some(PeekMut::pop(child)),
        }
    }
}

/// The Gumbel noise of a random word.
pub(super) fn gumbel(word: u32) -> f64 {
    -ln(exponential(word))
}

/// An upper bound of the Gumbel noise of a random word: it is less than ln 2 above the noise of a small word.
///
/// With z leading zeros, u = (word + ½) / 2^32 is at least 2^-(z + 1). The exponential −ln(1 − u) is above
/// u by a factor of more than 1 + 2^-34, which is far more than rounding takes away. So the noise, −ln of the
/// exponential, is below (z + 1)·ln 2.
fn noise_limit(word: u32) -> f64 {
    LN_2 * f64::from(1 + word.leading_zeros())
}

/// Maps the noisy logprob of a child to its score. The highest child gets exactly `top`. The others are
/// mapped below it, as Gumbel variables that are truncated at `top`. This is the numerically stable form that
/// the paper's appendix gives.
fn truncated(noisy: f64, highest: f64, top: f64) -> f64 {
    let below = top - noisy + ln(1.0 - exp(noisy - highest));
    top - below.max(0.0) - ln(1.0 + exp(-below.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: every score of every allowed child.
    fn every_child(
        parent: &Parent,
        tokens: &[(u32, f64)],
        is_allowed: impl Fn(u32) -> bool,
    ) -> Vec<Candidate> {
        let noisy = tokens.iter().filter(|(token, _)| is_allowed(*token)).map(|&(token, logprob)| {
            let logprob = parent.logprob + logprob;
            let word = parent.noise.words(Purpose::Beam, token / 4)[token as usize % 4];
            Candidate {
                beam: parent.beam,
                token,
                logprob,
                score: logprob + gumbel(word),
                fate: Fate::Dropped,
            }
        });
        let mut children: Vec<Candidate> = noisy.collect();
        let highest = children.iter().map(|child| child.score).fold(f64::NEG_INFINITY, f64::max);
        for child in &mut children {
            child.score = truncated(child.score, highest, parent.perturbed);
        }
        children.sort_by(Candidate::order);
        children
    }

    /// The bits of what is returned; equal numbers with other bits would not do.
    fn bits(children: &[Candidate]) -> Vec<(usize, u32, u64, u64)> {
        let of =
            |child: &Candidate| (child.beam, child.token, child.logprob.to_bits(), child.score.to_bits());
        children.iter().map(of).collect()
    }

    #[test]
    fn the_leading_children_are_those_of_the_definition() {
        let vocabulary = 3000;
        for round in 0..300u32 {
            // From rows whose logprobs lie within 1e-9 of each other to rows as a temperature of 1e-5 makes
            // them. Parents lie far above or below the noise of their children; far below it, many children
            // get the same score, and their ids decide.
            let spread = [1e-9, 1e-3, 1.0, 8.0, 60.0, 2e6][round as usize % 6];
            let logits = onedraw_testkit::rows::gaussian(u64::from(round), vocabulary, 1.0);
            let logprob = |x: f32| spread * (f64::from(x) - 4.0);
            let mut tokens: Vec<(u32, f64)> = (0u32..).zip(logits.iter().map(|&x| logprob(x))).collect();
            if round % 2 == 1 {
                tokens.sort_by(|a, b| b.1.total_cmp(&a.1));
            }
            tokens.truncate([vocabulary, 1, 7, 40][round as usize / 6 % 4]);
            let noise = Noise { seed: 11, position: round, sequence: 2, round: 0 };
            let above = [0.0, 25.0, -25.0, -60.0, 300.0, 1e-12, -5.0][round as usize % 7];
            let parent = Parent { beam: 2, logprob: -20.0, perturbed: -20.0 + above, noise };
            for every in [1, 2, 50] {
                let is_allowed = |token: u32| token.is_multiple_of(every);
                let expected = every_child(&parent, &tokens, is_allowed);
                for count in [2, 8, 32] {
                    let mut found = parent.leading(&tokens, count, is_allowed);
                    found.sort_by(Candidate::order);
                    let count = count.min(expected.len());
                    assert_eq!(bits(&found[..count]), bits(&expected[..count]), "{round} {every} {count}");
                }
            }
        }
    }

    #[test]
    fn few_tokens_are_checked() {
        let logits = onedraw_testkit::rows::gaussian(1, 100_000, 2.0);
        let tokens: Vec<(u32, f64)> = (0u32..).zip(logits.iter().map(|&x| f64::from(x) - 14.0)).collect();
        let noise = Noise { seed: 1, position: 0, sequence: 0, round: 0 };
        let parent = Parent { beam: 0, logprob: 0.0, perturbed: 1.0, noise };
        let mut checked = 0;
        let found = parent.leading(&tokens, 8, |_| {
            checked += 1;
            true
        });
        assert_eq!((found.len(), checked), (8, 9));
        let highest = found.iter().map(|child| child.score).fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(highest, 1.0);
    }

    #[test]
    fn no_noise_is_above_its_limit() {
        let powers = (0..32).flat_map(|power| [1u32 << power, (1 << power) - 1, (1 << power) + 1]);
        let others = (0..100_000u32).map(|i| i.wrapping_mul(0x9e37_79b9));
        for word in powers.chain(others).chain([u32::MAX]) {
            assert!(gumbel(word) < noise_limit(word), "{word}");
        }
        // The lowest words are where the limit is closest.
        assert!(noise_limit(0) - gumbel(0) < 1e-10);
    }
}
