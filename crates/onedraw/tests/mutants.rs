//! Mistakes that the tests must catch. Each is made in a model of the draw, and the check that the engine
//! passes must fail by a wide margin.
//!
//! The model without a mistake gives the engine's tokens (the first test), so it can stand for the engine.
//! Seeds are fixed; the numbers in the comments were measured with them.

use onedraw::{Batch, Sampler, SamplingParams, Step};
use onedraw_testkit::chi_square::{independence_p_value, p_value};
use onedraw_testkit::mutant::{Model, Mutant};
use onedraw_testkit::oracle;
use onedraw_testkit::parameters::any_case;
use onedraw_testkit::rows::{self, SplitMix64};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// A correct sampler has a p-value above this, except in one run in a million.
const SMALLEST_P: f64 = 1e-6;
/// The p-value of a mutant must be below this, which is a wide margin.
const CAUGHT_P: f64 = 1e-15;

fn params(json: &str, seed: u64) -> SamplingParams {
    let params = SamplingParams::from_json(json).expect("valid parameters");
    SamplingParams { seed: Some(seed), ..params }
}

/// Something that draws a token at a position.
type Drawer = Box<dyn FnMut(u32) -> u32>;

fn engine(row: &[f32], params: &SamplingParams) -> Drawer {
    let (row, mut sampler) = (row.to_vec(), Sampler::new(params.clone()).expect("valid parameters"));
    Box::new(move |position| sampler.peek(&row, position).expect("a good row").token)
}

fn model(row: &[f32], params: &SamplingParams, mutant: Mutant) -> Drawer {
    let model = Model::new(row, params, mutant);
    Box::new(move |position| model.draw(position, 0))
}

/// The share of `positions` draws at which two of them disagree.
fn disagreement(mut one: Drawer, mut other: Drawer, positions: u32) -> f64 {
    let differ = (0..positions).filter(|&position| one(position) != other(position)).count();
    differ as f64 / f64::from(positions)
}

/// 3,000 rows and parameters of all kinds that the model supports.
#[test]
fn the_model_without_a_mistake_is_the_engine() {
    let mut runner = TestRunner::deterministic();
    let (mut edited, mut truncated) = (0, 0);
    for case in 0..3000 {
        let (row, any) = any_case(700).new_tree(&mut runner).expect("a case").current();
        let params = SamplingParams {
            temperature: any.temperature,
            top_k: any.top_k,
            top_p: any.top_p,
            min_p: any.min_p,
            logit_bias: any.logit_bias,
            seed: any.seed,
            ..SamplingParams::default()
        };
        edited += u32::from(!params.logit_bias.is_empty());
        truncated += u32::from(params.top_k > 0 || params.top_p < 1.0 || params.min_p > 0.0);
        let share = disagreement(engine(&row, &params), model(&row, &params, Mutant::None), 4);
        assert_eq!(share, 0.0, "case {case}: {params:?} {row:?}");
    }
    // Measured: 1,097 with biases, 2,638 with a truncation.
    assert!(edited > 900 && truncated > 2000, "{edited} {truncated}");
    for row in [rows::peaked(1, 128_256), rows::gaussian(2, 128_256, 2.0), rows::flat(128_256, 1.0)] {
        for json in [
            "{}",
            r#"{"temperature": 0.7, "top_p": 0.9, "logit_bias": {"5": 9.0, "127999": 20.0}}"#,
            r#"{"temperature": 1.5, "top_k": 50, "min_p": 0.01}"#,
        ] {
            let params = params(json, 3);
            assert_eq!(
                disagreement(engine(&row, &params), model(&row, &params, Mutant::None), 100),
                0.0,
                "{json}"
            );
        }
    }
}

// ---- Caught by chi-square ----

/// The p-value of draws at positions 0 to `draws` against the oracle's distribution.
fn fit(row: &[f32], params: &SamplingParams, draws: u32, mut draw: Drawer) -> f64 {
    let expected = oracle::distribution(row, params).expect("something is left");
    assert!(!expected.uncertain, "no token of a row used here is within rounding of a border");
    let mut probabilities = vec![0.0; row.len()];
    for (&token, &probability) in expected.tokens.iter().zip(&expected.probabilities) {
        probabilities[token as usize] = probability;
    }
    let mut counts = vec![0; row.len()];
    (0..draws).for_each(|position| counts[draw(position) as usize] += 1);
    p_value(&counts, &probabilities)
}

/// Checks that the engine passes a test of this many draws and that the mutant does not.
#[track_caller]
fn is_caught(row: &[f32], params: &SamplingParams, draws: u32, mutant: Mutant) {
    let p = fit(row, params, draws, engine(row, params));
    let caught = fit(row, params, draws, model(row, params, mutant));
    println!("{mutant:?}: p = {caught:.1e}, the engine's is {p:.3}");
    assert!(p > SMALLEST_P, "the engine: p = {p:e}");
    assert!(caught < CAUGHT_P, "{mutant:?}: p = {caught:e}");
}

#[test]
fn a_temperature_of_1_1_for_1_0() {
    // Measured: 2e-288; the engine 0.51.
    is_caught(&rows::gaussian(1, 100, 1.5), &params("{}", 11), 100_000, Mutant::Temperature);
}

#[test]
fn top_p_without_the_crossing_token() {
    // Measured: 7e-120; the engine 0.28.
    let params = params(r#"{"top_p": 0.9}"#, 11);
    is_caught(&rows::gaussian(2, 100, 1.5), &params, 100_000, Mutant::CrossingToken);
}

#[test]
fn a_lane_from_the_word_of_the_minimum() {
    // A small minimum has a small word, so the first lanes win. Measured: below 1e-300; the engine 0.92.
    is_caught(&rows::flat(100, 0.0), &params("{}", 11), 100_000, Mutant::LaneFromMinimum);
}

/// Two of 16,384 block minima often share the smallest of 65,536 values, and the lower id wins the tie. It
/// takes many blocks and equal logits to see that: with 128,256 equal tokens, 200,000 draws are not enough (p
/// = 0.10), but 10^6 are (p = 3e-13). A vocabulary of 2^20 shows it in 20,000.
#[test]
fn uniforms_of_16_bits() {
    let row = rows::flat(1 << 20, 0.0);
    let params = params("{}", 8);
    let check = |mut draw: Drawer| {
        let mut ranges = [0; 12];
        (0..20_000).for_each(|position| ranges[draw(position) as usize * 12 / row.len()] += 1);
        p_value(&ranges, &[1.0 / 12.0; 12])
    };
    let (p, caught) = std::thread::scope(|scope| {
        let p = scope.spawn(|| check(engine(&row, &params)));
        let caught = check(model(&row, &params, Mutant::CoarseUniforms));
        (p.join().expect("the draws end"), caught)
    });
    println!("CoarseUniforms: p = {caught:.1e}, the engine's is {p:.3}");
    // Measured: 8e-20; the engine 0.39.
    assert!(p > SMALLEST_P && caught < CAUGHT_P, "{p:e} {caught:e}");
}

// ---- Caught by equality ----

/// Checks that the model without a mistake gives the engine's tokens here. Returns the share of tokens that
/// the mutant gets wrong.
#[track_caller]
fn wrong_share(row: &[f32], params: &SamplingParams, positions: u32, mutant: Mutant) -> f64 {
    let sound = disagreement(engine(row, params), model(row, params, Mutant::None), positions);
    assert_eq!(sound, 0.0, "{params:?}");
    disagreement(engine(row, params), model(row, params, mutant), positions)
}

/// Eight tokens of each row are raised, by up to 8. The mutant prunes their blocks by the maxima from before
/// the edit.
#[test]
fn a_raw_skyline_under_edits() {
    let mut random = SplitMix64::new(3);
    let (mut peaked, mut wide) = (0.0, 0.0);
    for seed in 0..200 {
        let mut params = params("{}", seed);
        params.logit_bias = (0..8).map(|_| (random.below(8192) as u32, 8.0 * random.uniform())).collect();
        peaked += wrong_share(&rows::peaked(seed, 8192), &params, 50, Mutant::RawSkyline) / 200.0;
        wide += wrong_share(&rows::gaussian(seed, 8192, 2.0), &params, 50, Mutant::RawSkyline) / 200.0;
    }
    println!("RawSkyline: {peaked:.4} and {wide:.4} of the tokens are wrong");
    // Measured: 1.25 % of the tokens of peaked rows and 10.8 % of those of normal ones.
    assert!(peaked > 0.005 && wide > 0.05, "{peaked} {wide}");
}

#[test]
fn blocks_left_pruned_after_a_rejection() {
    let row = rows::gaussian(4, 1000, 1.0);
    // Measured, tokens wrong and p-value of 20,000 draws: 50 % and 1e-210 for top-k, 27 % and 1e-43 for
    // top-p. With few rejections it is rarer: 1.1 % on a peaked row, top-p 0.9, which 20,000 draws do not
    // show by their counts.
    for (json, least) in [(r#"{"top_k": 20}"#, 0.4), (r#"{"top_p": 0.5}"#, 0.2)] {
        let params = params(json, 5);
        let share = wrong_share(&row, &params, 10_000, Mutant::StalePruning);
        println!("StalePruning: {share:.4} of the tokens are wrong with {json}");
        assert!(share > least, "{json}: {share}");
        is_caught(&row, &params, 20_000, Mutant::StalePruning);
    }
    let params = params(r#"{"top_p": 0.9}"#, 5);
    let share = wrong_share(&rows::peaked(4, 8192), &params, 10_000, Mutant::StalePruning);
    println!("StalePruning: {share:.4} of the tokens are wrong on a peaked row");
    assert!(share > 0.005, "{share}");
}

/// The share of rows that draw another token when the batch is rotated or reversed. `draw` gets the rows by
/// number, in the order of the batch, and returns one token for each.
fn moved_share(rows: usize, mut draw: impl FnMut(&[usize]) -> Vec<u32>) -> f64 {
    let mut order: Vec<usize> = (0..rows).collect();
    let home = draw(&order);
    let mut moved = 0;
    for _ in 0..2 {
        order.reverse();
        for _ in 0..rows {
            order.rotate_left(1);
            let tokens = draw(&order);
            moved += order.iter().zip(&tokens).filter(|&(&row, &token)| token != home[row]).count();
        }
    }
    moved as f64 / (2 * rows * rows) as f64
}

/// Noise that depends on the row's place in the batch has the right distribution. Only a batch in another
/// order shows the mistake.
#[test]
fn noise_keyed_by_row() {
    const ROWS: usize = 32;
    let cases: Vec<_> =
        (0..ROWS as u64).map(|seed| (rows::gaussian(seed, 300, 2.0), params("{}", seed))).collect();
    let mut batch = Batch::new();
    let ids: Vec<_> =
        cases.iter().map(|(_, params)| batch.add(params.clone()).expect("valid parameters")).collect();
    let engine = moved_share(ROWS, |order| {
        let steps: Vec<_> = order.iter().map(|&row| Step::new(ids[row], &cases[row].0)).collect();
        let results = batch.peek(&steps, 0);
        results.into_iter().map(|result| result.expect("a good row").token).collect()
    });
    let of_mutant = |mutant| {
        let models: Vec<_> = cases.iter().map(|(row, params)| Model::new(row, params, mutant)).collect();
        moved_share(ROWS, |order| (0..).zip(order).map(|(place, &row)| models[row].draw(0, place)).collect())
    };
    let caught = of_mutant(Mutant::RowKeyed);
    println!("RowKeyed: {caught:.4} of the rows draw another token elsewhere");
    assert_eq!((engine, of_mutant(Mutant::None)), (0.0, 0.0));
    // Measured: 93 %; the others stood where they had stood, or drew the same token by chance.
    assert!(caught > 0.8, "{caught}");

    let (row, params) = &cases[0];
    let model = Model::new(row, params, Mutant::RowKeyed);
    let p = fit(row, params, 100_000, Box::new(move |position| model.draw(position, 7)));
    assert!(p > SMALLEST_P, "its draws at one place follow the distribution: p = {p:e}");
}

/// XTC's coin taken from the random words of the draw, as if it had no purpose of its own, so that coin and
/// draw depend on each other. The true coin, by the same test on the same draws, does not depend on the draw.
#[test]
fn a_coin_of_the_draws_own_stream_is_caught() {
    use onedraw::noise::{Noise, Purpose};
    let row = rows::gaussian(7, 16, 0.5);
    let mut draw = engine(&row, &params("{}", 5));
    let tokens: Vec<u32> = (0..100_000).map(&mut draw).collect();
    let p = |purpose| {
        let mut table = vec![vec![0; 16]; 16];
        for (position, &token) in (0..).zip(&tokens) {
            let noise = Noise { seed: 5, position, sequence: 0, round: 0 };
            table[(noise.words(purpose, 0)[0] >> 28) as usize][token as usize] += 1;
        }
        independence_p_value(&table)
    };
    // Measured: below 1e-300 for the words of the tokens' own noise, 0.14 for the coin's.
    let (mutant, own) = (p(Purpose::Token), p(Purpose::Xtc));
    println!("the draw's words: {mutant:e}; the coin's own: {own:e}");
    assert!(mutant < CAUGHT_P, "{mutant:e}");
    assert!(own > SMALLEST_P, "{own:e}");
}

/// Text is taken back wherever token 1 followed token 0. With the same noise, the second position would draw
/// token 1 again, because that noise completed the phrase.
#[test]
fn noise_that_is_used_again_after_a_rewind_is_caught() {
    let row = [0.0f32, 0.3, -0.2, 0.5];
    let second_tokens = |is_mutant: bool| {
        let mut counts = [0u64; 4];
        for seed in 0..60_000 {
            let mut sampler =
                Sampler::new(params(r#"{"banned_strings": ["x"]}"#, seed)).expect("valid parameters");
            let sample = |sampler: &mut Sampler| sampler.sample(&row).expect("a good row").token;
            if [sample(&mut sampler), sample(&mut sampler)] != [0, 1] {
                continue;
            }
            if is_mutant {
                sampler.rewind(0);
                sampler.accept(2);
            } else {
                sampler.take_back(&onedraw::stop::Rewind { length: 0, token: 0, phrase: 0 });
                assert_ne!(sample(&mut sampler), 0, "banned at that position");
            }
            counts[sample(&mut sampler) as usize] += 1;
        }
        let expected = oracle::distribution(&row, &params("{}", 0)).expect("a good row");
        let mut probabilities = [0.0; 4];
        expected
            .tokens
            .iter()
            .zip(&expected.probabilities)
            .for_each(|(&t, &p)| probabilities[t as usize] = p);
        p_value(&counts, &probabilities)
    };
    // Measured: 0 for the mutant, 0.46 for fresh noise.
    let (mutant, fresh) = (second_tokens(true), second_tokens(false));
    println!("used again: {mutant:e}; fresh: {fresh:e}");
    assert!(mutant < CAUGHT_P, "{mutant:e}");
    assert!(fresh > SMALLEST_P, "{fresh:e}");
}
