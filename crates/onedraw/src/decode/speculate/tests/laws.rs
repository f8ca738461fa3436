//! The distribution over whole texts is that of plain decoding. Every outcome is enumerated, so this is a
//! proof for these models, not a statistical test.

use std::collections::BTreeMap;

use super::every::{law_of_texts, outcomes, total_variation};
use super::toy::{Descent, Guesses, Support, Toy, draft, drawn, tokens};
use crate::decode::speculate::{block, rejection};

const CLOSE: f64 = 1e-12;

/// Pairs of a target and a drafter: different, the same, with disjoint tokens, with tokens that only one of
/// them has, and with forced tokens.
fn pairs(seed: u64, vocabulary: u32) -> Vec<(Toy, Toy)> {
    use Support::*;
    let toy = |seed, support| Toy::new(seed, vocabulary, support);
    vec![
        (toy(seed, All), toy(seed + 1, All)),
        (toy(seed, All), toy(seed, All)),
        (toy(seed, All), toy(seed + 1, Some)),
        (toy(seed, Some), toy(seed + 1, All)),
        (toy(seed, Some), toy(seed + 1, Some)),
        (toy(seed, Below(2)), toy(seed + 1, From(2))),
        (Toy { forces: true, ..toy(seed, All) }, toy(seed + 1, All)),
        (Toy { forces: true, ..toy(seed, Some) }, toy(seed + 1, Some)),
    ]
}

#[track_caller]
fn check_rejection(target: Toy, drafter: Toy, shape: &[usize], guesses: Guesses, length: usize) {
    let plain = law_of_texts(length, |every, text| target.plain(every, text));
    let speculated = law_of_texts(length, |every, text| {
        if let Some(token) = target.forced(text) {
            return vec![token];
        }
        let draft = draft(&drafter, text, shape, guesses, drawn(every));
        tokens(&rejection::verify(&mut Descent::new(target, text), &draft, every))
    });
    let distance = total_variation(&plain, &speculated);
    assert!(distance < CLOSE, "{target:?} {drafter:?} {shape:?} {guesses:?}: {distance:e}");
}

#[track_caller]
fn check_block(target: Toy, drafter: Toy, gamma: usize, guesses: Guesses, length: usize) {
    let plain = law_of_texts(length, |every, text| target.plain(every, text));
    let speculated = law_of_texts(length, |every, text| {
        if let Some(token) = target.forced(text) {
            return vec![token];
        }
        let draft = draft(&drafter, text, &vec![1; gamma], guesses, drawn(every));
        tokens(&block::verify(&mut Descent::new(target, text), &draft, every).expect("a verdict"))
    });
    let distance = total_variation(&plain, &speculated);
    assert!(distance < CLOSE, "{target:?} {drafter:?} {gamma} {guesses:?}: {distance:e}");
}

#[test]
fn chains_by_rejection_keep_the_law() {
    for seed in 0..6 {
        for (target, drafter) in pairs(100 * seed, 3).into_iter().chain(pairs(100 * seed + 50, 4)) {
            for guesses in [Guesses::Drawn, Guesses::Given] {
                check_rejection(target, drafter, &[1], guesses, 3);
                check_rejection(target, drafter, &[1, 1], guesses, 4);
            }
            check_rejection(target, drafter, &[], Guesses::Drawn, 3);
        }
    }
}

#[test]
fn trees_by_rejection_keep_the_law() {
    for seed in 0..3 {
        for (target, drafter) in pairs(1000 + 100 * seed, 3) {
            for shape in [&[2][..], &[3, 1], &[1, 2], &[2, 2], &[1, 1, 2]] {
                check_rejection(target, drafter, shape, Guesses::Drawn, 3);
                check_rejection(target, drafter, shape, Guesses::Given, 3);
            }
        }
        for (target, drafter) in pairs(2000 + 100 * seed, 4) {
            check_rejection(target, drafter, &[3], Guesses::Drawn, 3);
            check_rejection(target, drafter, &[2, 1], Guesses::Drawn, 3);
            check_rejection(target, drafter, &[3, 2], Guesses::Given, 3);
        }
    }
}

#[test]
fn blocks_keep_the_law() {
    for seed in 0..4 {
        for (target, drafter) in pairs(3000 + 100 * seed, 3) {
            for guesses in [Guesses::Drawn, Guesses::Given] {
                for gamma in 0..=3 {
                    check_block(target, drafter, gamma, guesses, 4);
                }
            }
        }
        for (target, drafter) in pairs(4000 + 100 * seed, 4) {
            check_block(target, drafter, 2, Guesses::Drawn, 3);
        }
    }
}

/// A target that tosses a coin at every position, as XTC does. Each coin falls once, however many drafts
/// reach its position.
#[test]
fn blocks_keep_the_law_of_a_target_that_tosses_coins() {
    const LENGTH: usize = 3;
    for seed in [5000, 5100, 5200] {
        let toy = |seed| Toy::new(seed, 2, Support::All);
        let (sides, drafter) = ([toy(seed), toy(seed + 1)], toy(seed + 2));
        let plain = law_of_texts(LENGTH, |every, text| sides[every.choose(&[0.5, 0.5])].plain(every, text));
        let texts = outcomes(|every| {
            let coins: Vec<Toy> = (0..LENGTH).map(|_| sides[every.choose(&[0.5, 0.5])]).collect();
            let mut text = Vec::new();
            while text.len() < LENGTH {
                // The draft does not go beyond the end of the text.
                let shape = vec![1; (LENGTH - text.len()).min(2)];
                let draft = draft(&drafter, &text, &shape, Guesses::Drawn, drawn(every));
                let mut descent = Descent::by_position(coins.clone(), &text);
                text.extend(tokens(&block::verify(&mut descent, &draft, every).expect("a verdict")));
                text.truncate(LENGTH);
            }
            text
        });
        let mut speculated = BTreeMap::new();
        for (probability, text) in texts {
            *speculated.entry(text).or_default() += probability;
        }
        let distance = total_variation(&plain, &speculated);
        assert!(distance < CLOSE, "{seed}: {distance:e}");
    }
}

/// The mean number of accepted guesses, by rejection and as a block.
fn accepted(target: Toy, drafter: Toy, gamma: usize) -> (f64, f64) {
    let mean = |outcomes: Vec<(f64, usize)>| outcomes.iter().map(|(p, held)| p * *held as f64).sum();
    let shape = vec![1; gamma];
    let by_token = outcomes(|every| {
        let draft = draft(&drafter, &[], &shape, Guesses::Drawn, drawn(every));
        rejection::verify(&mut Descent::new(target, &[]), &draft, every).path.len()
    });
    let by_block = outcomes(|every| {
        let draft = draft(&drafter, &[], &shape, Guesses::Drawn, drawn(every));
        block::verify(&mut Descent::new(target, &[]), &draft, every).expect("a verdict").path.len()
    });
    (mean(by_token), mean(by_block))
}

#[test]
fn a_block_never_accepts_less() {
    let (mut more, mut sums) = (0, (0.0, 0.0));
    for seed in 0..200 {
        let toy = |seed| Toy::new(seed, 3, Support::All);
        let (by_token, by_block) = accepted(toy(2 * seed), toy(2 * seed + 1), 3);
        assert!(by_block > by_token - CLOSE, "pair {seed}: {by_block} {by_token}");
        more += usize::from(by_block > by_token + 1e-3);
        sums = (sums.0 + by_token, sums.1 + by_block);
    }
    assert!(more > 150, "{more} of 200 pairs gain");
    assert!(sums.1 > 1.02 * sums.0, "{sums:?}");
}

/// The example of Sun and others: two tokens with probabilities 1/3 and 2/3, guessed with 2/3 and 1/3, twice.
#[test]
fn the_papers_example() {
    let toy = |support| Toy::new(0, 2, support);
    let (target, drafter) = (toy(Support::Thirds(1)), toy(Support::Thirds(2)));
    let (by_token, by_block) = accepted(target, drafter, 2);
    assert!((by_token - 10.0 / 9.0).abs() < CLOSE, "{by_token}");
    assert!((by_block - 11.0 / 9.0).abs() < CLOSE, "{by_block}");
}
