//! A step allocates nothing after the first ones.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{null, null_mut};

use crate::batch::{onedraw_batch_add, onedraw_batch_free, onedraw_batch_new, onedraw_batch_sample};
use crate::error::ONEDRAW_OK;
use crate::params::{onedraw_params_free, onedraw_params_from_json};
use crate::rows::{ONEDRAW_F32, onedraw_row, onedraw_rows};
use crate::sampled::onedraw_sampled;
use crate::sampler::history::onedraw_sampler_output;
use crate::sampler::{onedraw_sampler_free, onedraw_sampler_new, onedraw_sampler_sample};

thread_local! {
    /// The number of allocations of this thread.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; counting touches a thread-local that needs no
// memory.
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

const VOCABULARY: usize = 5000;
const ROWS: usize = 3;

#[test]
fn a_step_allocates_nothing() {
    let logits: Vec<f32> = (0..VOCABULARY * ROWS).map(|i| (i * 7919 % 1000) as f32 / 100.0).collect();
    let (logits, mask) = (logits.as_ptr().cast(), null());
    let row = onedraw_row { logits, vocabulary: VOCABULARY, dtype: ONEDRAW_F32, mask_words: 0, mask };
    let rows = onedraw_rows {
        logits,
        count: ROWS,
        vocabulary: VOCABULARY,
        stride: 0,
        dtype: ONEDRAW_F32,
        mask_words: 0,
        masks: null(),
        pointers: null(),
    };
    let (mut params, mut sampler, mut batch) = (null_mut(), null_mut(), null_mut());
    let (mut sequences, mut sampled) = ([0; ROWS], [onedraw_sampled::failed(0); ROWS]);
    let json = c"{\"temperature\": 0.9, \"top_p\": 0.9, \"repetition_penalty\": 1.1, \"seed\": 1, \"max_tokens\": 1000}";
    let error = null_mut();
    assert_eq!(onedraw_params_from_json(json.as_ptr(), &mut params, error), ONEDRAW_OK);
    assert_eq!(onedraw_sampler_new(params, &mut sampler, error), ONEDRAW_OK);
    assert_eq!(onedraw_batch_new(1, &mut batch, error), ONEDRAW_OK);
    for sequence in &mut sequences {
        assert_eq!(onedraw_batch_add(batch, params, sequence, error), ONEDRAW_OK);
    }
    let mut step = || {
        assert_eq!(onedraw_sampler_sample(sampler, &row, &mut sampled[0], error), ONEDRAW_OK);
        let drawn = sampled.as_mut_ptr();
        assert_eq!(onedraw_batch_sample(batch, sequences.as_ptr(), &rows, drawn, error), ONEDRAW_OK);
    };
    (0..100).for_each(|_| step());
    let before = COUNT.get();
    (0..100).for_each(|_| step());
    assert_eq!(COUNT.get() - before, 0);
    let (mut output, mut count) = ([0; 200], 0);
    assert_eq!(onedraw_sampler_output(sampler, output.as_mut_ptr(), 200, &mut count, error), ONEDRAW_OK);
    assert_eq!(count, 200);
    // A history has room for `max_tokens`; then it grows, and then there is room again.
    let mut steps_that_allocate = 0;
    for _ in 200..4000 {
        let before = COUNT.get();
        assert_eq!(onedraw_sampler_sample(sampler, &row, &mut sampled[0], error), ONEDRAW_OK);
        steps_that_allocate += u32::from(COUNT.get() > before);
    }
    assert!((1..=8).contains(&steps_that_allocate), "{steps_that_allocate}");
    assert_eq!(onedraw_sampler_free(sampler, error), ONEDRAW_OK);
    assert_eq!(onedraw_batch_free(batch, error), ONEDRAW_OK);
    assert_eq!(onedraw_params_free(params, error), ONEDRAW_OK);
}
