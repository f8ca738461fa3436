//! Launches and copies of requests that fail, which only the emulated driver can do: nobody has moved, and the next
//! call works.

use onedraw::{KeptMode, LogprobsMode, SamplingParams};
use onedraw_cuda::{CudaError, Dtype};
use onedraw_testkit::rows::SplitMix64;

use super::engine::{Asked, Engine, Text};
use crate::beside::cases::{self, any_row};
use crate::beside::{Lie, Rows, Uploaded, device, lacks};

fn seeded(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), ..Default::default() }
}

/// A turn of one row for each request.
fn one_row_each(engine: &Engine, random: &mut SplitMix64) -> Vec<Asked> {
    let slots = (0..engine.slots.len()).filter(|&slot| engine.slots[slot].is_some());
    let mut row = || any_row(random, cases::Shape::Zipf, engine.vocabulary);
    slots.map(|slot| Asked { slot, guesses: vec![], refused: vec![0], rows: vec![row()] }).collect()
}

#[test]
fn after_a_launch_that_failed_the_next_step_works() {
    if !lacks("launch 10", "requests::failures::after_a_launch_that_failed_the_next_step_works") {
        return;
    }
    let Some(device) = device() else { return };
    let (vocabulary, random) = (1200, &mut SplitMix64::new(31));
    let mut engine = Engine::with_logprobs(&device, vocabulary, vocabulary);
    let processed = LogprobsMode::ProcessedLogprobs;
    let requests = [
        SamplingParams { dry_multiplier: 1.0, frequency_penalty: 0.3, ..seeded(1) },
        SamplingParams { xtc_probability: 0.5, kept: KeptMode::Ids, ..seeded(2) },
        SamplingParams { logprobs: Some(5), ..seeded(3) },
        SamplingParams { logprobs: Some(1100), logprobs_mode: processed, ..seeded(4) },
        SamplingParams { mirostat: 2, mirostat_tau: 3.0, kept: KeptMode::Ids, ..seeded(5) },
    ];
    for (slot, params) in requests.iter().enumerate() {
        engine.add(slot, params, vec![3, 4, 3, 4], vec![3]);
    }
    // A step of these launches each of these kernels once. All that they do may be done twice.
    for (i, kernel) in [
        "texts are followed",
        "what texts repeat",
        "the first pass",
        "sums before the draw",
        "the draw",
        "sums of unmodified rows",
        "raw logprobs",
        "what is left",
        "whole rows are sorted",
        "requests move on",
    ]
    .into_iter()
    .enumerate()
    {
        // In each step a request is new.
        let new = SamplingParams { presence_penalty: 0.5, mirostat: 1, ..seeded(100 + i as u64) };
        engine.add(5, &new, vec![7, 8], vec![9; i]);
        let asked = one_row_each(&engine, random);
        let read: Vec<usize> = asked.iter().map(|asked| engine.read_with(asked, &[])).collect();
        let rows = Rows::new(
            Dtype::F32,
            one_row_each(&engine, random).into_iter().flat_map(|asked| asked.rows).collect(),
        );
        let other = Uploaded::new(&device, &rows, Lie::default());
        let failed = engine.try_draw(&asked, &read, &other.matrix(&device));
        assert!(matches!(failed, Err(CudaError::Launch(_))), "{kernel}: {failed:?}");
        engine.step(&asked, Dtype::F32, &[], &format!("after a launch that failed: {kernel}"));
    }
}

/// A request that cannot come back at first goes on where it was once it can.
#[test]
fn what_was_learned_is_not_lost_when_a_request_cannot_come_back() {
    if !lacks("copies", "requests::failures::what_was_learned_is_not_lost_when_a_request_cannot_come_back") {
        return;
    }
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(32);
    for mirostat in [1, 2] {
        let mut engine = Engine::new(&device, 1000);
        let params = SamplingParams {
            mirostat,
            mirostat_tau: 2.5,
            mirostat_eta: 0.9,
            repetition_penalty: 1.2,
            ..seeded(mirostat.into())
        };
        engine.add(0, &params, vec![3, 4], vec![]);
        for turn in 0..3 {
            for _ in 0..4 {
                let asked = one_row_each(&engine, random);
                engine.step(&asked, Dtype::F32, &[], &format!("mirostat {mirostat}, turn {turn}"));
            }
            engine.preempt(turn, 1);
            // Every second record does not arrive.
            let text = engine.away.remove(0);
            let failed = engine.try_put(turn + 1, &text);
            assert!(matches!(failed, Err(CudaError::Memory(_))), "{failed:?}");
            assert!(!engine.requests.has(turn) && !engine.requests.has(turn + 1));
            engine.put(turn + 1, text);
        }
        // One of the same name with other parameters is another request.
        let text = engine.slots[3].take().expect("a request");
        let text = Text { params: SamplingParams { mirostat_tau: 1.5, ..params }, ..text };
        let failed = engine.try_put(4, &text);
        assert!(matches!(failed, Err(CudaError::Memory(_))), "{failed:?}");
        assert!(!engine.requests.has(3) && !engine.requests.has(4));
    }
}
