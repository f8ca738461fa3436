//! A step allocates nothing after warm-up, in a sampler with rows of any number type and in a batch on the
//! calling thread.
//!
//! Four things are not covered: logprobs, whose list belongs to the caller; a user's own stages, which get a
//! copy of the row; shards in one process; and a batch on several threads, where the thread pool sometimes
//! allocates memory for its queue.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use onedraw::{Batch, Sampler, SamplingParams, Step};
use onedraw_testkit::rows;

thread_local! {
    /// The number of allocations of this thread.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; counting touches a thread-local that
// needs no memory.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Chains that together take every path of a draw: rejections, full sums, listed and radix cuts, edits after
/// truncations, lists.
const CHAINS: [&str; 17] = [
    r#"{"temperature": 0}"#,
    r#"{"temperature": 0.8}"#,
    r#"{"top_k": 50, "top_p": 0.9, "temperature": 0.7}"#,
    r#"{"top_k": 2000, "top_p": 0.5}"#,
    r#"{"top_p": 0.05}"#,
    r#"{"min_p": 0.2, "top_p": 0.9}"#,
    r#"{"repetition_penalty": 1.3, "frequency_penalty": 0.1, "presence_penalty": 0.1, "penalty_window": 50}"#,
    r#"{"allowed_token_ids": [1, 5, 700, 3000], "logit_bias": {"5": 1}, "bad_words_ids": [[1, 5], [7]]}"#,
    r#"{"order": "top_p,penalties,temperature", "top_p": 0.9, "repetition_penalty": 2, "temperature": 2}"#,
    r#"{"order": "top_p,top_p,top_k", "top_p": 0.9, "top_k": 1500}"#,
    r#"{"typical_p": 0.9, "top_n_sigma": 2, "epsilon_cutoff": 0.0001, "eta_cutoff": 0.001, "top_a": 0.1}"#,
    r#"{"xtc_probability": 0.5, "xtc_threshold": 0.001, "xtc_protected_token_ids": [1, 5, 700]}"#,
    r#"{"mirostat": 1}"#,
    r#"{"mirostat": 2, "temperature": 1.5}"#,
    r#"{"dynatemp_range": 0.5, "top_p": 0.9}"#,
    r#"{"smoothing_factor": 0.3, "smoothing_curve": 1.5, "dry_multiplier": 0.8, "no_repeat_ngram_size": 4,
        "dry_sequence_breakers": [[1, 5], [7]]}"#,
    r#"{"order": "xtc,penalties,typical,temperature", "xtc_probability": 1, "xtc_threshold": 0.01,
        "repetition_penalty": 1.1, "typical_p": 0.8, "temperature": 1.2}"#,
];

fn params(json: &str) -> SamplingParams {
    SamplingParams { seed: Some(1), max_tokens: 1000, ..SamplingParams::from_json(json).expect(json) }
}

/// The warm-up uses rows of one kind, and then others follow: longer lists, ties, other ways to the same
/// answer.
#[test]
fn a_step_allocates_nothing_on_rows_unlike_those_before() {
    let peaked: Vec<Vec<f32>> = (0..4).map(|seed| rows::peaked(seed, 5000)).collect();
    let others = [
        rows::gaussian(2, 5000, 0.5),
        rows::ties(3, 5000, 3),
        rows::flat(5000, 1.0),
        rows::gaussian(4, 5000, 3.0),
    ];
    let mut allocated = Vec::new();
    for json in CHAINS {
        let mut sampler = Sampler::new(params(json)).expect(json);
        for row in &peaked {
            (0..40).for_each(|_| drop(sampler.sample(row).expect(json)));
        }
        for (kind, row) in others.iter().enumerate() {
            let before = COUNT.get();
            (0..20).for_each(|_| drop(sampler.sample(row).expect(json)));
            // Typical may mask any part of the row, and mirostat 1 may list any part: their memory grows with
            // the largest one so far.
            let grows = json.contains("typical") || json.contains(r#""mirostat": 1"#);
            if COUNT.get() > before + u64::from(grows) {
                allocated.push((json, kind, COUNT.get() - before));
            }
        }
    }
    assert_eq!(allocated, []);
}

#[test]
fn a_step_of_a_sampler_allocates_nothing() {
    let rows = [onedraw_testkit::rows::peaked(1, 5000), onedraw_testkit::rows::gaussian(2, 5000, 0.5)];
    for json in CHAINS {
        let mut sampler = Sampler::new(params(json)).expect(json);
        for row in &rows {
            (0..100).for_each(|_| drop(sampler.sample(row).expect(json)));
        }
        let before = COUNT.get();
        for row in &rows {
            (0..100).for_each(|_| drop(sampler.sample(row).expect(json)));
        }
        assert_eq!(COUNT.get() - before, 0, "{json}");
    }
}

#[test]
fn masks_and_half_rows_allocate_nothing() {
    let row = onedraw_testkit::rows::gaussian(2, 5000, 1.0);
    let (f16, bf16) = (onedraw_testkit::rows::to_f16(&row), onedraw_testkit::rows::to_bf16(&row));
    let mask: Vec<u32> = (0..157).map(|word| 0x5a5a_1234 ^ word).collect();
    for json in CHAINS {
        let mut sampler = Sampler::new(params(json)).expect(json);
        let mut step = || {
            // A mask needs an order that names `allowed`.
            if !json.contains("order") {
                sampler.sample_masked(&row, &mask).map(drop).expect(json);
            }
            sampler.sample(&f16).map(drop).expect(json);
            sampler.sample(&bf16).map(drop).expect(json);
        };
        (0..50).for_each(|_| step());
        let before = COUNT.get();
        (0..50).for_each(|_| step());
        assert_eq!(COUNT.get() - before, 0, "{json}");
    }
}

#[test]
fn a_step_of_a_batch_allocates_nothing() {
    let row = onedraw_testkit::rows::gaussian(2, 5000, 1.0);
    let mut batch = Batch::new();
    let steps: Vec<_> =
        CHAINS.iter().map(|json| Step::new(batch.add(params(json)).expect(json), &row)).collect();
    let mut results = Vec::new();
    (0..100).for_each(|_| batch.sample_into(&steps, &mut results));
    let before = COUNT.get();
    (0..100).for_each(|_| batch.sample_into(&steps, &mut results));
    assert_eq!(COUNT.get() - before, 0);
    assert!(results.iter().all(Result::is_ok));
    assert!(COUNT.get() > 0, "the counter counts");
}
