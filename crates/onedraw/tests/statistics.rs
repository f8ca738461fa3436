//! Contract C2: the engine draws from the distribution that the parameters name, and draws are independent of
//! one another.
//!
//! The expected values come from the oracle, in plain f64, which shares no code with the engine. All seeds
//! are fixed, so a test passes always or never. The false-alarm rate: each of the [`P_VALUES`] p-values below
//! must exceed 10^-6, so with fresh seeds a correct sampler would fail this file about once in 18,000 runs.
//! Where a fit has more than ten bins it must not be too good either (p < 1 − 10^-9): draws that follow the
//! distribution more closely than chance allows are not independent.
//!
//! The tests of `mutants.rs` show that these checks detect mistakes.

use onedraw::{Batch, Sampler, SamplingParams, Step};
use onedraw_testkit::chi_square::{independence_p_value, p_value, two_sample_p_value};
use onedraw_testkit::{oracle, rows};

/// How many p-values the tests of this file compute.
const P_VALUES: u32 = 53;
const SMALLEST_P: f64 = 1e-6;
const LARGEST_P: f64 = 1.0 - 1e-9;
const DRAWS: u32 = 1_000_000;

const _: () = assert!(P_VALUES as f64 * SMALLEST_P <= 1.0 / 18_000.0, "the false-alarm rate stated above");

#[track_caller]
fn agrees(what: &str, p: f64) {
    println!("{what}: p = {p:.3e}");
    assert!(p > SMALLEST_P, "{what}: p = {p:e}");
}

#[track_caller]
fn agrees_by_chance(what: &str, p: f64) {
    agrees(what, p);
    assert!(p < LARGEST_P, "{what} is too good: 1 − p = {:e}", 1.0 - p);
}

fn params(json: &str, seed: u64) -> SamplingParams {
    let params = SamplingParams::from_json(json).expect("valid parameters");
    SamplingParams { seed: Some(seed), ..params }
}

/// The probability of every token of the row, 0 where the chain removed it.
fn probabilities(row: &[f32], params: &SamplingParams) -> Vec<f64> {
    let expected = oracle::distribution(row, params).expect("something is left");
    assert!(!expected.uncertain, "no token of a row used here is within rounding of a border");
    let mut probabilities = vec![0.0; row.len()];
    for (&token, &probability) in expected.tokens.iter().zip(&expected.probabilities) {
        probabilities[token as usize] = probability;
    }
    probabilities
}

/// The tokens at positions 0 to `draws`.
fn along_positions(row: &[f32], params: SamplingParams, draws: u32) -> Vec<usize> {
    let mut sampler = Sampler::new(params).expect("valid parameters");
    (0..draws).map(|position| sampler.peek(row, position).expect("a good row").token as usize).collect()
}

fn counts(tokens: impl IntoIterator<Item = usize>, bins: usize) -> Vec<u64> {
    let mut counts = vec![0; bins];
    tokens.into_iter().for_each(|token| counts[token] += 1);
    counts
}

/// How often the first of a pair was token i and the second token j.
///
/// Pairs may overlap, as (a, b), (b, c): a test for independence with estimated marginals keeps its
/// distribution then (Billingsley, Statistical methods in Markov chains, 1961).
fn table(pairs: impl IntoIterator<Item = (usize, usize)>, bins: usize) -> Vec<Vec<u64>> {
    let mut table = vec![vec![0; bins]; bins];
    pairs.into_iter().for_each(|(first, second)| table[first][second] += 1);
    table
}

// ---- The distribution, 10^6 draws along positions ----

fn fit(what: &str, row: &[f32], json: &str) {
    let params = params(json, 20_260_801);
    let expected = probabilities(row, &params);
    let p = p_value(&counts(along_positions(row, params, DRAWS), row.len()), &expected);
    let support = expected.iter().filter(|&&probability| probability > 0.0).count();
    if support > 10 { agrees_by_chance(what, p) } else { agrees(what, p) }
}

#[test]
fn a_peaked_row() {
    fit("peaked", &rows::peaked(1, 1000), "{}");
}

#[test]
fn a_flat_row() {
    fit("flat", &rows::flat(100, 0.25), "{}");
}

#[test]
fn ties() {
    fit("ties", &rows::ties(2, 200, 5), "{}");
}

#[test]
fn two_tokens() {
    fit("0.5 and 0.5", &[1.5, 1.5], "{}");
    fit("0.9 and 0.1", &[2.197_224_6, 0.0], "{}");
}

/// The last block holds one token, and most of the first is masked. The noise of lanes that hold no token
/// still counts in the minimum of their block.
#[test]
fn blocks_with_few_tokens() {
    let mut row = rows::gaussian(3, 129, 1.0);
    row[4..64].fill(f32::NEG_INFINITY);
    fit("few tokens in a block", &row, "{}");
}

#[test]
fn truncations_with_a_temperature() {
    let json = r#"{"temperature": 0.8, "min_p": 0.02, "top_k": 40, "top_p": 0.9}"#;
    fit("top-k, top-p and min-p", &rows::gaussian(4, 500, 2.0), json);
}

#[test]
fn top_p_alone_on_a_wide_row() {
    fit("top-p", &rows::gaussian(5, 200, 1.0), r#"{"top_p": 0.5}"#);
}

#[test]
fn edits_with_a_truncation() {
    let json = r#"{"temperature": 1.3, "top_p": 0.95, "repetition_penalty": 1.2, "frequency_penalty": 0.4,
        "presence_penalty": -0.3, "logit_bias": {"7": 4.5, "200": 3.0, "299": 5.0, "131": -100.0},
        "prompt_token_ids": [3, 5, 7, 250], "output_token_ids": [9, 9, 10, 131, 7]}"#;
    fit("edits", &rows::gaussian(6, 300, 1.5), json);
}

/// 128,256 equal tokens, counted in 12 ranges of ids and in the 64 lanes of their blocks.
#[test]
fn a_large_flat_row() {
    let row = rows::flat(128_256, -3.0);
    let tokens = along_positions(&row, params("{}", 6), 200_000);
    let ranges = counts(tokens.iter().map(|token| token * 12 / row.len()), 12);
    agrees_by_chance("ranges of a large flat row", p_value(&ranges, &[1.0 / 12.0; 12]));
    let lanes = counts(tokens.iter().map(|token| token % 64), 64);
    agrees_by_chance("lanes of a large flat row", p_value(&lanes, &[1.0 / 64.0; 64]));
}

// ---- Independence ----

/// Three blocks, of which the last is not full.
fn wide_row() -> Vec<f32> {
    rows::gaussian(9, 150, 1.0)
}

#[test]
fn successive_positions_are_independent() {
    for (what, row, json) in [
        ("plain", wide_row(), "{}"),
        ("truncated", rows::gaussian(10, 150, 1.5), r#"{"temperature": 0.9, "top_k": 30, "top_p": 0.9}"#),
    ] {
        let tokens = along_positions(&row, params(json, 77), DRAWS);
        let apart = tokens.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        agrees(&format!("{what}: positions 2i and 2i + 1"), independence_p_value(&table(apart, row.len())));
        for lag in [1, 2, 4] {
            let pairs = tokens.iter().copied().zip(tokens[lag..].iter().copied());
            agrees(
                &format!("{what}: positions i and i + {lag}"),
                independence_p_value(&table(pairs, row.len())),
            );
        }
    }
}

/// 1,000 by 1,000 draws, each with another pair of two of the numbers that determine the noise. Together they
/// follow the distribution, and neighbouring draws are independent: along either number, and where both
/// change by one, up or down.
fn grid(what: &str, row: &[f32], draws: &[Vec<usize>]) {
    let all = counts(draws.iter().flatten().copied(), row.len());
    agrees_by_chance(what, p_value(&all, &probabilities(row, &SamplingParams::default())));
    let (height, width) = (draws.len(), draws[0].len());
    for (name, down, right) in [("down", 1, 0), ("right", 0, 1), ("diagonal", 1, 1)] {
        let pairs = (0..height - down)
            .flat_map(|i| (0..width - right).map(move |j| (draws[i][j], draws[i + down][j + right])));
        agrees(&format!("{what}, {name}"), independence_p_value(&table(pairs, row.len())));
    }
    let pairs = (0..height - 1).flat_map(|i| (1..width).map(move |j| (draws[i][j], draws[i + 1][j - 1])));
    agrees(&format!("{what}, other diagonal"), independence_p_value(&table(pairs, row.len())));
}

#[test]
fn neighbouring_seeds_and_positions_are_independent() {
    let row = wide_row();
    let draws: Vec<_> = (0..1000).map(|seed| along_positions(&row, params("{}", seed), 1000)).collect();
    grid("seeds by positions", &row, &draws);
}

/// The upper half of the seed is a separate word of the key.
#[test]
fn seeds_that_differ_in_their_upper_half_are_independent() {
    let row = wide_row();
    let draws: Vec<_> = (0..1000).map(|seed| along_positions(&row, params("{}", seed << 32), 1000)).collect();
    grid("upper halves of seeds by positions", &row, &draws);
}

#[test]
fn neighbouring_sequences_and_seeds_are_independent() {
    let row = wide_row();
    let draw = |mut sampler: Sampler| sampler.peek(&row, 0).expect("a good row").token as usize;
    let sequences = |seed| Sampler::sequences(params(r#"{"n": 1000}"#, seed)).expect("valid parameters");
    let draws: Vec<_> = (5000..6000).map(|seed| sequences(seed).into_iter().map(draw).collect()).collect();
    grid("seeds by sequences", &row, &draws);
}

#[test]
fn neighbouring_sequences_and_positions_are_independent() {
    let row = wide_row();
    let samplers = Sampler::sequences(params(r#"{"n": 1000}"#, 4)).expect("valid parameters");
    let draws: Vec<Vec<usize>> = samplers
        .into_iter()
        .map(|mut sampler| {
            (0..1000)
                .map(|position| sampler.peek(&row, position).expect("a good row").token as usize)
                .collect()
        })
        .collect();
    grid("sequences by positions", &row, &draws);
}

/// One seed at many positions draws like many seeds at one position.
#[test]
fn seeds_and_positions_draw_alike() {
    let row = wide_row();
    let positions = counts(along_positions(&row, params("{}", 123), DRAWS / 2), row.len());
    let first = |seed| along_positions(&row, params("{}", seed), 1)[0];
    let seeds = counts((0..u64::from(DRAWS / 2)).map(|i| first(1 << 40 | i)), row.len());
    let expected = probabilities(&row, &SamplingParams::default());
    agrees_by_chance("one seed, many positions", p_value(&positions, &expected));
    agrees_by_chance("many seeds, one position", p_value(&seeds, &expected));
    agrees("one seed and one position", two_sample_p_value(&positions, &seeds));
}

/// Eight equal rows of a batch with neighbouring seeds: the token of one row says nothing about that of the
/// next, and the place in the batch says nothing about the token.
#[test]
fn rows_of_a_batch_are_independent() {
    let row = wide_row();
    let mut batch = Batch::new();
    let ids: Vec<_> =
        (0..8).map(|seed| batch.add(params("{}", 900 + seed)).expect("valid parameters")).collect();
    let steps: Vec<_> = ids.iter().map(|&id| Step::new(id, &row)).collect();
    let mut by_place = vec![vec![0; row.len()]; steps.len()];
    let mut pairs = Vec::new();
    for position in 0..DRAWS / 8 {
        let results = batch.peek(&steps, position);
        let tokens: Vec<_> =
            results.into_iter().map(|result| result.expect("a good row").token as usize).collect();
        (0..8).for_each(|place| by_place[place][tokens[place]] += 1);
        pairs.extend(tokens.windows(2).map(|pair| (pair[0], pair[1])));
    }
    agrees("place and token", independence_p_value(&by_place));
    agrees("neighbours in a batch", independence_p_value(&table(pairs, row.len())));
}

// ---- A caller's own randomness ----

/// The uniform numbers (i + ½)/N give each token its share of N, to one draw, without any chance. A further
/// 2.4e-7 is allowed for the rounding of the weights (2^-23 at each end of a token's interval).
#[test]
fn uniforms_give_exact_shares() {
    const N: u32 = 20_000;
    for (row, json) in [
        (rows::peaked(1, 1000), "{}"),
        (rows::flat(100, 0.0), "{}"),
        (rows::ties(2, 200, 5), r#"{"top_p": 0.7}"#),
        (rows::gaussian(4, 500, 2.0), r#"{"temperature": 0.8, "min_p": 0.02, "top_k": 40, "top_p": 0.9}"#),
        (rows::gaussian(6, 300, 1.5), r#"{"logit_bias": {"7": 4.5, "200": 3.0}, "top_k": 100}"#),
    ] {
        let params = params(json, 0);
        let expected = oracle::distribution(&row, &params).expect("something is left");
        let mut sampler = Sampler::new(params.clone()).expect("valid parameters");
        let mut tokens = Vec::new();
        for i in 0..N {
            let uniform = (f64::from(i) + 0.5) / f64::from(N);
            tokens.push(sampler.sample_uniform(&row, uniform).expect("a good row").token as usize);
            sampler.rewind(0);
        }
        let counts = counts(tokens.iter().copied(), row.len());
        for (token, probability) in probabilities(&row, &params).into_iter().enumerate() {
            let share = counts[token] as f64 / f64::from(N);
            let room = if probability == 0.0 { 0.0 } else { 1.0 / f64::from(N) + 2.4e-7 };
            assert!((share - probability).abs() <= room, "token {token}: {share} for {probability}");
        }
        // Larger uniforms go down the order.
        tokens.dedup();
        let mut order = expected.tokens.iter().map(|&token| token as usize);
        assert!(tokens.iter().all(|token| order.any(|next| next == *token)), "{json}");
    }
}

// ---- XTC: its coin, and that every purpose has a stream of its own ----

/// Probabilities 0.6, 0.3 and 0.1: with a threshold of 0.25, XTC removes token 0.
const THREE: [f32; 3] = [-0.510_825_6, -1.203_972_8, -std::f32::consts::LN_10];

#[test]
fn xtc_acts_as_often_as_its_probability_says() {
    for probability in [0.3, 0.05] {
        let json = format!(r#"{{"xtc_probability": {probability}, "xtc_threshold": 0.25}}"#);
        let tokens = along_positions(&THREE, params(&json, 11), DRAWS);
        let without = [0.6, 0.3, 0.1];
        let with = [0.0, 0.75, 0.25];
        let mixed: Vec<f64> =
            without.iter().zip(with).map(|(a, b)| (1.0 - probability) * a + probability * b).collect();
        agrees(&format!("XTC with probability {probability}"), p_value(&counts(tokens, 3), &mixed));
    }
}

/// The coin of a position, in sixteen bins, of stage number `index`.
fn coin(seed: u64, position: u32, index: u32) -> usize {
    let noise = onedraw::noise::Noise { seed, position, sequence: 0, round: 0 };
    (noise.xtc(index) * 16.0) as usize
}

#[test]
fn coins_are_uniform_and_independent_of_one_another() {
    let coins: Vec<usize> = (0..DRAWS).map(|position| coin(5, position, 0)).collect();
    agrees_by_chance("coins", p_value(&counts(coins.iter().copied(), 16), &[1.0 / 16.0; 16]));
    let next = table(coins.iter().copied().zip(coins.iter().copied().skip(1)), 16);
    agrees_by_chance("coins of positions", independence_p_value(&next));
    let second = (0..DRAWS).map(|position| coin(5, position, 1));
    agrees_by_chance("coins of two stages", independence_p_value(&table(coins.into_iter().zip(second), 16)));
}

/// Coin and draw at the same seed and position. If a coin were made of the random words of the draw, or
/// mirostat's draws of those of the coin, this would show it.
#[test]
fn coins_are_independent_of_the_draw() {
    let row = rows::gaussian(7, 16, 0.5);
    for (what, json) in [("the draw", "{}"), ("mirostat's draw", r#"{"mirostat": 2, "mirostat_mu": 4.2}"#)] {
        let tokens = along_positions(&row, params(json, 5), DRAWS);
        let pairs = (0..DRAWS).map(|position| coin(5, position, 0)).zip(tokens);
        agrees_by_chance(&format!("coin and {what}"), independence_p_value(&table(pairs, 16)));
    }
}

/// Where the coin says yes, the draw is from what XTC left; where it says no, it is from all tokens.
#[test]
fn the_draw_is_right_on_both_sides_of_the_coin() {
    let tokens =
        along_positions(&THREE, params(r#"{"xtc_probability": 0.5, "xtc_threshold": 0.25}"#, 12), DRAWS);
    let says_yes = |position: u32| coin(12, position, 0) < 8;
    let of = |side: bool| {
        let drawn = tokens.iter().zip(0..).filter(|&(_, position)| says_yes(position) == side);
        counts(drawn.map(|(&token, _)| token), 3)
    };
    assert_eq!(of(true)[0], 0, "the top choice is excluded");
    agrees("XTC's yes", p_value(&of(true)[1..], &[0.75, 0.25]));
    agrees("XTC's no", p_value(&of(false), &[0.6, 0.3, 0.1]));
}
