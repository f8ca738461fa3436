//! Recursive rejection without replacement (Leviathan 2022, Chen 2023; for trees Sequoia, 2024).
//!
//! ```text
//! p = the target's distribution at the node
//! q = the distribution that the first guess was drawn from
//! for each guess x after the node:
//!     with probability min(1, p(x)/q(x)): accept x and continue at its node
//!     p = max(p − q, 0), normalised
//!     q = q without x, normalised                      the next guess came from this
//! draw the token from p
//! ```
//!
//! For a [given](super::Law::Given) guess q(x) is 1: it is accepted with probability p(x), and p goes on
//! without it.

use super::chance::Chance;
use super::draft::Draft;
use super::law::Probabilities;
use super::text::{Target, walk};
use super::verdict::Verdict;

/// Verifies a draft; see the module.
pub(super) fn verify(target: &mut impl Target, draft: &Draft, chance: &mut dyn Chance) -> Verdict {
    walk(target, draft, |target, node, depth| {
        let p = target.law(node)?;
        let token = judge(p, &draft.guesses(node), draft.law(node), depth, chance);
        target.take(node, token)
    })
}

/// Decides one node: returns an accepted guess, or the token that is drawn instead of all of them.
fn judge(
    mut p: Probabilities,
    guesses: &[u32],
    drawn: Option<&Probabilities>,
    depth: usize,
    chance: &mut dyn Chance,
) -> u32 {
    let mut left = drawn.cloned();
    for (number, &guess) in guesses.iter().enumerate() {
        let q = left.take().unwrap_or_else(|| Probabilities::certain(guess));
        if chance.accepts(depth, number, p.probability(guess) / q.probability(guess)) {
            return guess;
        }
        p = p.residual(1.0, &q);
        left = drawn.and_then(|_| q.without(guess));
    }
    chance.draws(depth, &p)
}
