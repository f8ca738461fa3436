//! Deliberate mistakes, each of which must show as a distance from plain decoding.

use super::every::{Every, law_of_texts, total_variation};
use super::toy::{Descent, Guesses, Support, Toy, draft, drawn, tokens};
use crate::decode::speculate::chance::Chance;
use crate::decode::speculate::law::Probabilities;
use crate::decode::speculate::text::{Target, walk};
use crate::decode::speculate::{Draft, rejection};

const SEEN: f64 = 1e-3;

/// The smallest distance from plain decoding over a few pairs of models.
fn distance(
    shape: &[usize],
    guesses: Guesses,
    verify: impl Fn(&mut Descent, &Draft, &mut Every) -> Vec<u32>,
) -> f64 {
    let distances = (0..10).map(|seed| {
        let (target, drafter) = (Toy::new(seed, 3, Support::All), Toy::new(seed + 500, 3, Support::All));
        let plain = law_of_texts(3, |every, text| target.plain(every, text));
        let speculated = law_of_texts(3, |every, text| {
            let draft = draft(&drafter, text, shape, guesses, drawn(every));
            verify(&mut Descent::new(target, text), &draft, every)
        });
        assert!((speculated.values().sum::<f64>() - 1.0).abs() < 1e-9, "a mutant draws something too");
        total_variation(&plain, &speculated)
    });
    distances.fold(f64::INFINITY, f64::min)
}

/// Rejection with another rule at each node.
fn by_rule(
    rule: impl Fn(Probabilities, &[u32], &Probabilities, &mut Every) -> u32,
) -> impl Fn(&mut Descent, &Draft, &mut Every) -> Vec<u32> {
    move |descent, draft, every| {
        let verdict = walk(descent, draft, |descent, node, _| {
            let (p, guesses) = (descent.law(node)?, draft.guesses(node));
            let token = match draft.law(node) {
                Some(q) if !guesses.is_empty() => rule(p, &guesses, q, every),
                _ => every.token(&p),
            };
            descent.take(node, token)
        });
        tokens(&verdict)
    }
}

fn right(descent: &mut Descent, draft: &Draft, every: &mut Every) -> Vec<u32> {
    tokens(&rejection::verify(descent, draft, every))
}

#[test]
fn the_right_rule_is_not_accused() {
    assert!(distance(&[2, 1], Guesses::Drawn, right) < 1e-12);
}

#[test]
fn drawing_from_the_target_after_a_rejection_is_seen() {
    let rule = |p: Probabilities, guesses: &[u32], q: &Probabilities, every: &mut Every| {
        let guess = guesses[0];
        if every.accepts(0, 0, p.probability(guess) / q.probability(guess)) { guess } else { every.token(&p) }
    };
    let distance = distance(&[1, 1], Guesses::Drawn, by_rule(rule));
    assert!(distance > SEEN, "{distance:e}");
}

#[test]
fn the_best_guess_judged_as_if_drawn_is_seen() {
    let distance = distance(&[1, 1], Guesses::BestAsDrawn, right);
    assert!(distance > SEEN, "{distance:e}");
}

/// After a rejection, q must lose the guess and be normalised again: with `q` as it was, or only without the
/// guess, the law is another.
#[test]
fn a_law_that_is_not_normalised_again_is_seen() {
    for removes in [false, true] {
        let rule = move |mut p: Probabilities, guesses: &[u32], q: &Probabilities, every: &mut Every| {
            let mut left: Vec<(u32, f64)> = q.pairs().collect();
            for (number, &guess) in guesses.iter().enumerate() {
                let ratio = p.probability(guess) / q.probability(guess);
                if every.accepts(0, number, ratio) {
                    return guess;
                }
                let of = |token: u32| left.iter().find(|pair| pair.0 == token).map_or(0.0, |pair| pair.1);
                let excess: Vec<(u32, f64)> =
                    p.pairs().map(|(token, p)| (token, (p - of(token)).max(0.0))).collect();
                let total: f64 = excess.iter().map(|(_, excess)| excess).sum();
                if total > 0.0 {
                    let excess = excess.into_iter().map(|(token, excess)| (token, excess / total));
                    p = Probabilities::new(excess).expect("a law");
                }
                if removes {
                    left.retain(|&(token, _)| token != guess);
                }
            }
            every.token(&p)
        };
        let distance = distance(&[2, 1], Guesses::Drawn, by_rule(rule));
        assert!(distance > SEEN, "{distance:e}");
    }
}

/// Block verification as it is, but for `cap`, which P goes through.
fn block(
    cap: fn(f64) -> f64,
    is_last: fn(usize, usize) -> bool,
) -> impl Fn(&mut Descent, &Draft, &mut Every) -> Vec<u32> {
    move |descent, draft, every| {
        let guesses = draft.tree.tokens();
        let (mut places, mut share) = (Vec::new(), 1.0);
        for depth in 0..=guesses.len() {
            let node = depth.checked_sub(1);
            let p = descent.law(node).expect("a law");
            places.push((p.clone(), share));
            if let (Some(&guess), Some(q)) = (guesses.get(depth), draft.law(node)) {
                share = cap(share * p.probability(guess) / q.probability(guess));
                descent.take(node, guess).expect("a token");
            }
        }
        let mut length = guesses.len();
        while length > 0 {
            let (p, share) = &places[length];
            let hold = match draft.law(Some(length - 1)) {
                Some(q) if !is_last(length, guesses.len()) => {
                    let excess = p.excess(*share, q);
                    if *share < 1.0 { excess / (excess + 1.0 - share) } else { 1.0 }
                }
                _ => *share,
            };
            if every.accepts(0, 0, hold.clamp(0.0, 1.0)) {
                break;
            }
            length -= 1;
        }
        let (p, share) = places[length].clone();
        let node = length.checked_sub(1);
        let law = match draft.law(node) {
            Some(q) if length < guesses.len() => p.residual(share, q),
            _ => p,
        };
        let mut tokens = guesses[..length].to_vec();
        tokens.push(every.token(&law));
        tokens
    }
}

#[test]
fn an_uncapped_share_is_seen() {
    let capped = distance(&[1, 1], Guesses::Drawn, block(|share| share.min(1.0), |i, g| i == g));
    assert!(capped < 1e-12, "{capped:e}");
    let uncapped = distance(&[1, 1], Guesses::Drawn, block(|share| share, |i, g| i == g));
    assert!(uncapped > SEEN, "{uncapped:e}");
}

/// The share itself is right for the whole chain only.
#[test]
fn the_share_as_the_chance_of_every_length_is_seen() {
    let distance = distance(&[1, 1], Guesses::Drawn, block(|share| share.min(1.0), |_, _| true));
    assert!(distance > SEEN, "{distance:e}");
}
