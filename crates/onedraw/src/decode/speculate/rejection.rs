//! Recursive rejection without replacement (Leviathan 2022, Chen 2023; for trees Sequoia, 2024).
//!
//! At a node with target law p, whose guesses were drawn from q one after the other: accept guess x with
//! probability min(1, p(x)/q(x)). If it is rejected, what is still to be drawn is max(p − q, 0), normalised,
//! and the next guess came from q without x. If none is accepted the token is drawn from what is left of p,
//! and where there are no guesses, from p. Of a [given](super::Law::Given) guess q is 1: it is accepted with
//! probability p(x), and p goes on without it.

use super::chance::Chance;
use super::law::Probabilities;
use super::text::{Target, walk};
use super::{Draft, Verdict};

pub(super) fn verify(target: &mut impl Target, draft: &Draft, chance: &mut dyn Chance) -> Verdict {
    walk(target, draft, |target, node, depth| {
        let p = target.law(node)?;
        let token = judge(p, &draft.guesses(node), draft.law(node), depth, chance);
        target.take(node, token)
    })
}

/// One node: a guess, or the token that comes instead of them all.
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
