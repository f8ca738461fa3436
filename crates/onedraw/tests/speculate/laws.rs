//! Guesses by `guess`, verified with real noise: the distribution of whole texts over many seeds. A correct
//! rule fails a test with probability 1e-6; the seeds are fixed.

use onedraw::noise::{Noise, Purpose};
use onedraw::speculate::{Draft, Law, Verify};
use onedraw::{Batch, Sampler, SamplingParams, SequenceId, Step};
use onedraw_testkit::chi_square;

use super::toy::{Toy, guessed, speculate};

const FALSE_ALARM: f64 = 1e-6;
const SEEDS: u64 = 60_000;
const TARGET: Toy = Toy { seed: 11, vocabulary: 3, sharpness: 0.8 };
const DRAFTER: Toy = Toy { seed: 12, vocabulary: 3, sharpness: 1.0 };

/// With a penalty, so that the history along a path matters, and with a truncation that affects some texts.
fn params() -> SamplingParams {
    SamplingParams { temperature: 1.2, frequency_penalty: 0.4, min_p: 0.1, ..SamplingParams::default() }
}

/// The probability of a token after a text, over all noise.
fn probability(params: &SamplingParams, text: &[u32], token: u32) -> f64 {
    let coin = params.xtc_probability;
    let sides = [(1.0 - coin, 0.0), (coin, 1.0)].into_iter().filter(|(side, _)| *side > 0.0);
    sides
        .map(|(side, xtc_probability)| {
            let output_token_ids = text.to_vec();
            let params = SamplingParams { xtc_probability, output_token_ids, ..params.clone() };
            let mut sampler = Sampler::new(params).expect("parameters");
            let distribution = sampler.distribution(&TARGET.row(text)).expect("a distribution");
            let sum: f64 = distribution.probabilities.iter().sum();
            let place = distribution.tokens.iter().position(|&other| other == token);
            side * place.map_or(0.0, |place| distribution.probabilities[place] / sum)
        })
        .sum()
}

/// The probability of every text of three tokens, in the order of their digits.
fn texts(params: &SamplingParams) -> Vec<f64> {
    let of_text = |text: u32| {
        let text = [text / 9, text / 3 % 3, text % 3];
        (0..3).map(|place| probability(params, &text[..place], text[place])).product()
    };
    (0..27).map(of_text).collect()
}

fn p_value(
    params: &SamplingParams,
    verify: Verify,
    seeds: u64,
    drafter: impl Fn(&mut Batch, SequenceId, u64, &[u32]) -> Draft,
) -> f64 {
    let mut counts = vec![0; 27];
    let mut batch = Batch::new();
    for seed in 0..seeds {
        let id = batch.add(SamplingParams { seed: Some(seed), ..params.clone() }).expect("parameters");
        speculate(&TARGET, &mut batch, id, None, 3, verify, |batch, text| drafter(batch, id, seed, text));
        let text = batch.output(id).expect("a text");
        counts[(9 * text[0] + 3 * text[1] + text[2]) as usize] += 1;
        batch.remove(id);
    }
    chi_square::p_value(&counts, &texts(params))
}

#[test]
fn chains_by_rejection_keep_the_law() {
    let impossible = texts(&params()).iter().filter(|p| **p == 0.0).count();
    assert!((1..=15).contains(&impossible), "{impossible} of 27 texts");
    let p = p_value(&params(), Verify::Rejection, SEEDS, |batch, id, _, text| {
        guessed(batch, id, &DRAFTER, text, &[1, 1])
    });
    assert!(p > FALSE_ALARM, "{p:e}");
}

#[test]
fn trees_by_rejection_keep_the_law() {
    let p = p_value(&params(), Verify::Rejection, SEEDS, |batch, id, _, text| {
        guessed(batch, id, &DRAFTER, text, &[2, 2])
    });
    assert!(p > FALSE_ALARM, "{p:e}");
}

#[test]
fn blocks_keep_the_law() {
    let p = p_value(&params(), Verify::Block, SEEDS, |batch, id, _, text| {
        guessed(batch, id, &DRAFTER, text, &[1, 1])
    });
    assert!(p > FALSE_ALARM, "{p:e}");
}

#[test]
fn given_guesses_keep_the_law() {
    for verify in [Verify::Rejection, Verify::Block] {
        let p = p_value(&params(), verify, SEEDS / 3, |_, _, _, text| {
            let mut draft = Draft::chain(&[text.len() as u32 % 3, 1]);
            draft.laws = vec![Law::Given; 3];
            draft
        });
        assert!(p > FALSE_ALARM, "{verify}: {p:e}");
    }
}

/// XTC's coin belongs to the position and falls once, however many drafts reach it.
#[test]
fn blocks_keep_the_law_with_coins() {
    let params = SamplingParams { xtc_probability: 0.5, xtc_threshold: 0.25, ..SamplingParams::default() };
    let p = p_value(&params, Verify::Block, SEEDS, |batch, id, _, text| {
        guessed(batch, id, &DRAFTER, text, &[1, 1])
    });
    assert!(p > FALSE_ALARM, "{p:e}");
}

/// Drawing the residual with the noise that drew the guess is a mistake, which the test detects.
#[test]
fn noise_that_is_used_twice_is_seen() {
    let p = p_value(&params(), Verify::Rejection, SEEDS, |batch, id, seed, text| {
        let row = DRAFTER.row(text);
        let (_, law) = batch.guess(&Step::new(id, &row), 1, text.len()).expect("guesses");
        let Law::Drawn(q) = &law else { panic!("drawn") };
        let noise = Noise { seed, position: text.len() as u32, sequence: 0, round: 0 };
        let time = |place: usize| noise.runner(Purpose::Residual, 0, q.tokens()[place]) / q.values()[place];
        let first = (0..q.tokens().len()).min_by(|&a, &b| time(a).total_cmp(&time(b))).expect("a token");
        let (guess, mut draft) = (q.tokens()[first], Draft::default());
        draft.grow(None, &[guess], law);
        draft
    });
    assert!(p < FALSE_ALARM, "{p:e}");
}

/// Typical acceptance has another distribution, which the test detects.
#[test]
fn typical_acceptance_is_another_law() {
    let typical = Verify::from_name("typical").expect("a way");
    let p = p_value(&params(), typical, SEEDS / 3, |batch, id, _, text| {
        guessed(batch, id, &DRAFTER, text, &[1, 1])
    });
    assert!(p < FALSE_ALARM, "{p:e}");
}

/// Ordered pairs without replacement: q(a)·q(b)/(1 − q(a)).
#[test]
fn guesses_are_drawn_without_replacement() {
    let row = DRAFTER.row(&[]);
    let mut batch = Batch::new();
    let (mut counts, mut expected) = (vec![0; 9], vec![0.0; 9]);
    for seed in 0..20_000 {
        let id =
            batch.add(SamplingParams { seed: Some(seed), ..SamplingParams::default() }).expect("parameters");
        let (tokens, law) = batch.guess(&Step::new(id, &row), 2, 0).expect("guesses");
        batch.remove(id);
        counts[(3 * tokens[0] + tokens[1]) as usize] += 1;
        if seed == 0 {
            let Law::Drawn(q) = law else { panic!("drawn") };
            for (a, b) in (0..9).map(|pair| (pair / 3, pair % 3)).filter(|(a, b)| a != b) {
                expected[(3 * a + b) as usize] =
                    q.probability(a) * q.probability(b) / (1.0 - q.probability(a));
            }
        }
    }
    let p = chi_square::p_value(&counts, &expected);
    assert!(p > FALSE_ALARM, "{p:e}");
}
