//! Steps that follow each other on a stream while nobody waits: each begins before the one before has ended,
//! where the device can. Without a driver the tests are skipped, and say so.

use onedraw::{LogprobsMode, SamplingParams};
use onedraw_cuda::Dtype;
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_row};
use crate::beside::twins::Twins;
use crate::beside::{Lie, MaskPair, Rows, Uploaded, device};

const VOCABULARY: usize = 700;
/// Few, so that what a step leaves behind is another's soon.
const STEPS: usize = 5;

/// Draws one step over rows of its own, then two without a wait between them, and so on, and compares what
/// the last of each says.
fn drawn_without_waiting(all: &[SamplingParams], has_masks: bool, what: &str) {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(11);
    let mut twins = Twins::new(&device, all.len(), VOCABULARY);
    let seeded =
        |(i, params): (usize, &SamplingParams)| SamplingParams { seed: Some(i as u64), ..params.clone() };
    let pairs: Vec<_> = all.iter().enumerate().map(seeded).map(|params| twins.add(&params)).collect();
    let mask = MaskPair::new(&device, vec![0x5555_5555; VOCABULARY.div_ceil(32)]);
    let masks = vec![has_masks.then_some(&mask); all.len()];
    for dtype in [Dtype::F32, Dtype::BF16] {
        let rows: Vec<_> = (0..STEPS)
            .map(|_| all.iter().map(|_| any_row(random, cases::Shape::Zipf, VOCABULARY)).collect())
            .map(|rows| Rows::new(dtype, rows))
            .collect();
        let uploaded: Vec<_> = rows.iter().map(|rows| Uploaded::new(&device, rows, Lie::default())).collect();
        let stream = device.context().new_stream().expect("a stream");
        let turns = twins.turns(&pairs, &masks);
        for steps in 1..=STEPS {
            for uploaded in &uploaded[..steps] {
                twins.gpu.prepare(&stream, &turns).expect("turns");
                // SAFETY: the matrices are there until the stream was waited for.
                #[allow(unsafe_code)]
                unsafe { twins.gpu.launch(&stream, &uploaded.matrix(&device)) }.expect("a launch");
            }
            let drawn = twins.gpu.results(&stream).expect("results");
            let expected = rows[..steps].iter().map(|rows| twins.expected(&pairs, |i| rows.row(i), &masks));
            assert_eq!(Some(&drawn), expected.last().as_ref(), "{what}, {dtype:?}, {steps} steps");
            assert!(drawn.iter().all(Result::is_ok), "{drawn:?}");
        }
    }
}

fn greedy() -> SamplingParams {
    SamplingParams { temperature: 0.0, ..Default::default() }
}

fn penalties() -> SamplingParams {
    SamplingParams { repetition_penalty: 1.3, frequency_penalty: 0.5, ..Default::default() }
}

fn reporting(params: SamplingParams, logprobs_mode: LogprobsMode) -> SamplingParams {
    SamplingParams { logprobs: Some(3), logprobs_mode, ..params }
}

#[test]
fn bare_rows() {
    let nucleus = SamplingParams { top_p: 0.9, ..Default::default() };
    drawn_without_waiting(&[greedy(), SamplingParams::default()], false, "tokens");
    drawn_without_waiting(
        &[nucleus, SamplingParams { top_k: 7, ..Default::default() }],
        false,
        "truncations",
    );
}

#[test]
fn edited_rows() {
    let nucleus = SamplingParams { top_p: 0.8, ..penalties() };
    drawn_without_waiting(&[penalties(), nucleus, greedy()], false, "penalties");
    let grammar =
        |params: SamplingParams| SamplingParams { allowed_token_ids: Some((0..600).collect()), ..params };
    drawn_without_waiting(&[grammar(penalties()), grammar(greedy())], true, "masks");
}

#[test]
fn rows_with_logprobs() {
    for mode in LogprobsMode::ALL {
        let all = [reporting(SamplingParams::default(), mode), SamplingParams::default()];
        drawn_without_waiting(&all, false, "a row with logprobs");
        let all = [reporting(penalties(), mode), penalties(), reporting(greedy(), mode)];
        drawn_without_waiting(&all, false, "edited rows with logprobs");
    }
    let both = [
        reporting(penalties(), LogprobsMode::RawLogprobs),
        reporting(penalties(), LogprobsMode::ProcessedLogprobs),
        SamplingParams { typical_p: 0.9, ..penalties() },
    ];
    drawn_without_waiting(&both, false, "logprobs of both kinds");
    let telling = |params: SamplingParams| SamplingParams { probability: true, ..params };
    let probabilities = [
        telling(SamplingParams { top_p: 0.9, ..Default::default() }),
        telling(reporting(penalties(), LogprobsMode::RawLogits)),
        telling(reporting(greedy(), LogprobsMode::RawLogprobs)),
        reporting(penalties(), LogprobsMode::RawLogprobs),
        telling(greedy()),
    ];
    drawn_without_waiting(&probabilities, false, "probabilities of draws");
}
