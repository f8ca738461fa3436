//! The bodies of the targets `npy` and `safetensors`. They are included by path, by the targets and by the
//! test of `onedraw-cli` that replays the corpus: the kit of the tests must not depend on the program.
//!
//! The memory a reader takes is counted, for each thread apart, by an allocator that wraps the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use onedraw::Row;
use onedraw_cli::matrix::Matrix;

thread_local! {
    /// Bytes held by this thread, and the most it held since that was last reset. Freed elsewhere, bytes
    /// count there.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    // A thread that is ending has no counter any more, and nothing of interest to count.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both the old and the new place may be held at once.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes that `run` held at once, beyond those held before.
fn memory<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let result = run();
    let most = HELD.with(|held| held.get().1);
    (result, (most - before) as usize)
}

/// What a reader may hold before the first byte of data: one piece of 1 MiB, and the buffers of messages.
const FREE: usize = (1 << 20) + (64 << 10);

/// A `.npy` of any bytes: no panic, no more memory than twice the input, an error of one line, and if it is
/// read, as many logits as the shape says, all of them from the input.
pub fn npy(data: &[u8]) {
    let (result, most) = memory(|| onedraw_cli::npy::read(data));
    assert!(most <= 3 * data.len() + FREE, "{most} bytes held for an input of {}", data.len());
    match result {
        Ok(matrix) => check(&matrix, data),
        Err(error) => check_message(&error.to_string()),
    }
}

/// As [`npy`], for a `.safetensors` with a tensor `logits`. Its header is JSON, of which each short entry
/// becomes a record.
pub fn safetensors(data: &[u8]) {
    let (result, most) = memory(|| onedraw_cli::safetensors::read(data));
    assert!(most <= 64 * data.len() + FREE, "{most} bytes held for an input of {}", data.len());
    match result {
        Ok(matrix) => check(&matrix, data),
        Err(error) => check_message(&error.to_string()),
    }
}

fn check(matrix: &Matrix, data: &[u8]) {
    let mut found: Vec<u8> = Vec::new();
    // A shape may name any number of rows without logits.
    for row in (0..matrix.rows().min(data.len() + 1)).map(|row| matrix.row(row)) {
        assert_eq!(row.len(), matrix.vocabulary());
        match row {
            // Numbers of f64 were rounded, so they are not in the input as they are here.
            Row::F32(_) if matrix.is_rounded() => {}
            Row::F32(values) => found.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Row::F16(values) => found.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Row::Bf16(values) => found.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        }
    }
    let is_there = found.is_empty() || data.windows(found.len()).any(|window| window == found);
    assert!(is_there, "logits that are not in the input");
}

fn check_message(text: &str) {
    assert!(!text.is_empty() && !text.contains(['\n', '\r']), "an error of more than one line: {text:?}");
}
