//! Contract C1: every path gives the tokens of the scalar reference, bit for bit.

use onedraw::noise::Noise;
use onedraw::reference;
use onedraw::{Batch, Kernel, LogprobsMode, Row, RowError, Sampler, SamplingParams, Shards, Step};
use onedraw_testkit::parameters::any_case;
use onedraw_testkit::rows;
use proptest::prelude::*;

const POSITIONS: u32 = 3;
const UNIFORMS: [f64; 5] = [0.0, 0.25, 0.5, 0.9, 1.0 - 1.1102230246251565e-16];

fn splits() -> Vec<Shards> {
    [1, 2, 3, 16].map(Shards::even).into_iter().chain([Shards::at([1, 63, 65, 65, 1000])]).collect()
}

fn with_seed(params: SamplingParams) -> SamplingParams {
    SamplingParams { seed: params.seed.or(Some(7)), n: 1, ..params }
}

/// The answers of the reference: tokens drawn with the noise, tokens drawn with a uniform number of the
/// caller, and the distribution.
type Answers = (Vec<u32>, Vec<u32>, onedraw::Distribution);

fn by_reference(row: &[f32], params: &SamplingParams) -> Result<Answers, RowError> {
    let first = params.output_token_ids.len() as u32;
    let noise =
        |ahead| Noise { seed: params.seed.unwrap_or(0), position: first + ahead, sequence: 0, round: 0 };
    let left = |noise: &Noise| reference::left(row, None, params, noise);
    let tokens: Result<Vec<u32>, _> =
        (0..POSITIONS).map(|ahead| Ok(left(&noise(ahead))?.draw(&noise(ahead)))).collect();
    let left = left(&noise(0))?;
    Ok((tokens?, UNIFORMS.map(|uniform| left.at(uniform)).to_vec(), left.distribution()))
}

fn by_engine(row: Row<'_>, params: &SamplingParams, shards: Shards) -> Result<Answers, RowError> {
    let mut sampler = Sampler::new(params.clone()).expect("valid parameters").shards(shards);
    let tokens: Result<Vec<_>, _> = (0..POSITIONS).map(|ahead| Ok(sampler.peek(row, ahead)?.token)).collect();
    let uniforms =
        UNIFORMS.map(|uniform| sampler.clone().sample_uniform(row, uniform).map(|sampled| sampled.token));
    Ok((tokens?, uniforms.into_iter().collect::<Result<_, _>>()?, sampler.distribution(row)?))
}

fn check(row: &[f32], params: SamplingParams) -> Result<(), TestCaseError> {
    let params = with_seed(params);
    let expected = by_reference(row, &params);
    for shards in splits() {
        prop_assert_eq!(&by_engine(Row::from(row), &params, shards.clone()), &expected, "{:?}", shards);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn engine_and_shards_equal_the_reference((row, params) in any_case(700)) {
        check(&row, params)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Hundreds of blocks, most of which a race never opens.
    #[test]
    fn on_middling_vocabularies((row, params) in any_case(20_000)) {
        check(&row, params)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_large_vocabularies_too((row, params) in any_case(300_000)) {
        check(&row, params)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// f32, f16 and bf16 rows that hold the same values draw the same tokens.
    #[test]
    fn dtypes_do_not_matter((row, params) in any_case(500)) {
        let params = with_seed(params);
        let as_f16 = rows::representable_f16(&row);
        let as_bf16 = rows::representable_bf16(&row);
        for shards in [Shards::WHOLE, Shards::even(3)] {
            let narrow = rows::to_f16(&as_f16);
            let wide = by_engine(Row::from(&as_f16), &params, shards.clone());
            prop_assert_eq!(by_engine(Row::from(&narrow), &params, shards.clone()), wide);
            let narrow = rows::to_bf16(&as_bf16);
            let wide = by_engine(Row::from(&as_bf16), &params, shards.clone());
            prop_assert_eq!(by_engine(Row::from(&narrow), &params, shards.clone()), wide);
        }
    }

    /// A grammar's mask gives the same result as the list of its ids.
    #[test]
    fn masks_equal_the_reference((row, params) in any_case(300), words in prop::collection::vec(any::<u32>(), 11)) {
        let params = with_seed(params);
        let names_allowed = params.order.as_ref().is_none_or(|order| order.names(&onedraw::Stage::Allowed));
        // Only the next position is compared: at a later one XTC's coin may leave nothing that the mask
        // allows.
        let position = params.output_token_ids.len() as u32;
        let noise = Noise { seed: params.seed.unwrap_or(0), position, sequence: 0, round: 0 };
        let left = match names_allowed {
            true => reference::left(&row, Some(&words), &params, &noise),
            false => Err(RowError::MaskWithoutStage),
        };
        let token = left.as_ref().map(|left| left.draw(&noise)).map_err(Clone::clone);
        let expected = left.map(|left| left.distribution());
        for shards in splits() {
            let mut sampler = Sampler::new(params.clone()).expect("valid parameters").shards(shards);
            prop_assert_eq!(&sampler.distribution_masked(&row, &words), &expected);
            prop_assert_eq!(&sampler.sample_masked(&row, &words).map(|sampled| sampled.token), &token);
        }
    }
}

/// Truncations with common values.
const CUTS: [(&str, &str); 11] = [
    ("min_p", r#""min_p": 0.03"#),
    ("min_p", r#""min_p": 0.1"#),
    ("top_k", r#""top_k": 400"#),
    ("top_p", r#""top_p": 0.9"#),
    ("typical", r#""typical_p": 0.9"#),
    ("typical", r#""typical_p": 0.6"#),
    ("top_n_sigma", r#""top_n_sigma": 1.5"#),
    ("epsilon", r#""epsilon_cutoff": 0.0005"#),
    ("eta", r#""eta_cutoff": 0.001"#),
    ("top_a", r#""top_a": 0.2"#),
    ("xtc", r#""xtc_probability": 1, "xtc_threshold": 0.002"#),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// One truncation after another: the second counts what the first one left, whether that ends at a logit
    /// or at a token.
    #[test]
    fn cuts_after_cuts_equal_the_reference(
        (first, second) in (0..CUTS.len(), 0..CUTS.len()).prop_filter("two stages", |&(a, b)| CUTS[a].0 != CUTS[b].0),
        kind in 0..4,
        length in 300..3000usize,
        seed in any::<u64>(),
    ) {
        let ((first, a), (second, b)) = (CUTS[first], CUTS[second]);
        let json = format!(r#"{{"order": "temperature,{first},{second}", "temperature": 0.9, {a}, {b}}}"#);
        let row = match kind {
            0 => rows::gaussian(seed, length, 1.0),
            1 => rows::gaussian(seed, length, 2.5),
            2 => rows::ties(seed, length, 40),
            _ => rows::peaked(seed, length),
        };
        check(&row, SamplingParams::from_json(&json).expect("valid parameters"))?;
    }
}

/// Tokens that min-p removed have no mass for typical, although typical's window reaches below them.
#[test]
fn a_window_ends_where_an_earlier_cut_does() {
    let likely = (0..64).map(|i| -0.005 * i as f32);
    let row: Vec<f32> = likely.chain((0..2240).map(|i| if i % 64 == 0 { -3.2 } else { -3.0 })).collect();
    for (typical_p, kept) in [(0.8, 2234), (0.85, 2243), (0.9, 2252), (0.95, 2261)] {
        let params = SamplingParams { min_p: 0.048, typical_p, seed: Some(1), ..SamplingParams::default() };
        let distribution = Sampler::new(params.clone()).expect("valid parameters").distribution(&row);
        assert_eq!(distribution.map(|distribution| distribution.tokens.len()), Ok(kept), "{typical_p}");
        check(&row, params).expect("the reference's answer");
    }
}

/// Thirty-one rows of all kinds, some bad, each with parameters of its own.
fn mixed_batch() -> Vec<(Vec<f32>, SamplingParams)> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    (0..31)
        .map(|i| {
            let tree = any_case(400).new_tree(&mut runner).expect("a case");
            let (mut row, params) = proptest::strategy::ValueTree::current(&tree);
            // Values that f32, f16 and bf16 can all represent.
            row = rows::representable_bf16(&rows::representable_f16(&row));
            row.iter_mut().filter(|x| x.is_finite()).for_each(|x| *x = x.clamp(-32768.0, 32768.0));
            if i % 10 == 3 {
                row[0] = f32::NAN;
            }
            // Alone, a draw tells its probability with its logprobs; in a batch it must be asked.
            let (logprobs, probability) = ((i % 2 == 0).then_some(i), i % 2 == 0);
            (row, with_seed(SamplingParams { logprobs, probability, ..params }))
        })
        .collect()
}

/// 1, 2, 7 threads × 1, 2, 3, 16 shards × batch orders × f32, f16, bf16 × instruction sets, and each row
/// alone.
#[test]
fn a_row_draws_the_same_in_any_company() {
    let cases = mixed_batch();
    let mut samplers: Vec<_> =
        cases.iter().map(|(_, params)| Sampler::new(params.clone()).expect("valid parameters")).collect();
    let steps_alone: Vec<Vec<_>> = (0..4)
        .map(|_| samplers.iter_mut().zip(&cases).map(|(sampler, (row, _))| sampler.sample(row)).collect())
        .collect();
    assert!(steps_alone[0].iter().filter(|result| result.is_err()).count() >= 3, "bad rows are among them");
    assert!(steps_alone[0].iter().filter(|result| result.is_ok()).count() >= 20, "good rows too");
    let as_f16: Vec<_> = cases.iter().map(|(row, _)| rows::to_f16(row)).collect();
    let as_bf16: Vec<_> = cases.iter().map(|(row, _)| rows::to_bf16(row)).collect();
    let rows_as: [(&str, Vec<Row<'_>>); 3] = [
        ("f32", cases.iter().map(|(row, _)| Row::from(row)).collect()),
        ("f16", as_f16.iter().map(Row::from).collect()),
        ("bf16", as_bf16.iter().map(Row::from).collect()),
    ];
    let kernels: Vec<_> = Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported()).collect();
    for (threads, shards) in
        [1, 2, 7].into_iter().flat_map(|threads| [1, 2, 3, 16].map(|shards| (threads, shards)))
    {
        for (turn, (dtype, rows)) in rows_as.iter().enumerate() {
            for (i, &kernel) in kernels.iter().enumerate() {
                let mut batch = Batch::new().threads(threads).shards(shards).kernel(kernel);
                let add =
                    |(_, params): &(_, SamplingParams)| batch.add(params.clone()).expect("valid parameters");
                let ids: Vec<_> = cases.iter().map(add).collect();
                let mut order: Vec<usize> = (0..cases.len()).collect();
                order.rotate_left((5 * turn + 7 * i) % cases.len());
                if i % 2 == 1 {
                    order.reverse();
                }
                for alone in &steps_alone {
                    let steps: Vec<_> = order.iter().map(|&i| Step::new(ids[i], rows[i])).collect();
                    for (&i, result) in order.iter().zip(batch.sample(&steps)) {
                        assert_eq!(
                            result, alone[i],
                            "case {i}, {threads} threads, {shards} shards, {dtype}, {kernel}"
                        );
                    }
                }
            }
        }
    }
}

/// Asking for logprobs does not change the draw, and shards do not change logprobs.
#[test]
fn logprobs_do_not_change_the_token() {
    for (row, params) in mixed_batch() {
        for mode in [
            LogprobsMode::RawLogprobs,
            LogprobsMode::RawLogits,
            LogprobsMode::ProcessedLogprobs,
            LogprobsMode::ProcessedLogits,
        ] {
            let plain = SamplingParams { logprobs: None, ..params.clone() };
            let asked = SamplingParams { logprobs: Some(5), logprobs_mode: mode, ..params.clone() };
            let token =
                Sampler::new(plain).expect("valid parameters").sample(&row).map(|sampled| sampled.token);
            let whole = Sampler::new(asked.clone()).expect("valid parameters").sample(&row);
            assert_eq!(whole.as_ref().map(|sampled| sampled.token).map_err(Clone::clone), token);
            for shards in splits() {
                let mut sampler = Sampler::new(asked.clone()).expect("valid parameters").shards(shards);
                assert_eq!(sampler.sample(&row), whole);
            }
        }
    }
}
