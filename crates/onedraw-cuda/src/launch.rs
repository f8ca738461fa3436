//! How many threads a kernel is launched with, as the kernels expect it.

use onedraw::noise::BLOCK;

use crate::dtype::Dtype;
use crate::form::Form;
use crate::kernel::{SKYLINES, SKYLINES_WITHOUT_EDITS};
use crate::record::layout::pitch;
use crate::record::shared::{
    BLOCKS_PER_VECTOR, BLOCKS_ROUNDED_TO, DRAW_BYTES_PER_BLOCK, DRAW_THREADS, EDIT_LIST_CAPACITY,
    EDITS_PER_THREAD, FOLLOW_THREADS, MAX_BLOCKS, OPEN_BYTES_PER_BLOCK, REPEAT_THREADS, REPORT_THREADS,
    REPORT_TOKENS, REVISE_THREADS, SETTLE_THREADS, SKYLINE_THREADS, SORT_THREADS, WEIGH_TOKENS,
};

/// The most rows of a step: they are counted by the second side of a grid, which CUDA limits to so many.
pub(crate) const MAX_ROWS: usize = 65_535;
/// Thread blocks of a kernel of sums that fit a multiprocessor at once (`kernels/onedraw.cu`).
const SUMS_PER_PROCESSOR: usize = 4;
/// Rows that a thread block of `append` takes, one for each thread.
const ROWS_PER_APPEND_BLOCK: usize = 64;
/// Blocks of tokens whose noise one thread block makes: each thread has one vector of them.
const NOISE_BLOCKS_PER_THREAD_BLOCK: usize = BLOCKS_PER_VECTOR * SKYLINE_THREADS as usize;
/// Thread blocks that compute the edits of a row's listed tokens.
const EDITORS: usize = 2;
const _: () = assert!(EDITORS * SKYLINE_THREADS as usize * EDITS_PER_THREAD == EDIT_LIST_CAPACITY);

/// Thread blocks of a launch, the threads of each, and its dynamic shared memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: (u32, u32),
    pub threads: u32,
    pub memory: u32,
}

/// The most logits of a row, where a draw may have so many bytes of dynamic shared memory.
pub(crate) fn max_vocabulary(memory: usize) -> usize {
    let blocks = memory / (DRAW_BYTES_PER_BLOCK * BLOCKS_ROUNDED_TO) * BLOCKS_ROUNDED_TO;
    blocks.min(MAX_BLOCKS) * BLOCK
}

/// The most logits of a rank's part of a row, where the kernel of first messages may have so many bytes of
/// dynamic shared memory. The part may begin and end within a block.
pub(crate) fn max_part(memory: usize) -> usize {
    (memory / OPEN_BYTES_PER_BLOCK).saturating_sub(1).min(MAX_BLOCKS) * BLOCK
}

/// A launch of the first pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skyline {
    /// Which form of the kernel, as its place in [`SKYLINES`].
    pub place: usize,
    /// Blocks of tokens that a warp takes together.
    pub group: u32,
    /// Thread blocks of each row that make noise instead of reading.
    pub noise_makers: u32,
    /// Thread blocks of each row that compute edits.
    pub editors: u32,
    pub grid: Grid,
}

/// The first pass over rows of such a form; rows are aligned if each begins at a multiple of 16 bytes.
///
/// The more there is to read, the more often a thread reads. The limits are of what all rows are together, in
/// units of 256 bytes, and were chosen on an H200 for the rows of bench/results/2026-11-16-cuda.md.
pub(crate) fn skyline(form: Form, dtype: Dtype, vocabulary: usize, is_aligned: bool) -> Skyline {
    let blocks = vocabulary.div_ceil(BLOCK);
    // Blocks of tokens that a warp reads at once, sixteen bytes per thread.
    let at_once = 8 / dtype.size();
    let asks = form.has_masks || form.has_sums;
    let place = match 2 * form.rows * blocks / at_once {
        _ if !is_aligned => 2 * SKYLINES_WITHOUT_EDITS,
        // With masks or sums, two steps were slower for eight rows, and four no faster.
        0..=16_384 if asks => 4,
        16_385..=131_072 if asks => 5,
        _ if asks => 6,
        0..=4096 => 0,
        4097..=16_384 => 1,
        16_385..=131_072 => 2,
        _ => 3,
    };
    let place = if form.has_edits && is_aligned { SKYLINES_WITHOUT_EDITS + place } else { place };
    let group = at_once * SKYLINES[place].steps;
    let noise_makers =
        if form.has_noise { pitch(vocabulary).div_ceil(NOISE_BLOCKS_PER_THREAD_BLOCK) } else { 0 };
    let editors = if form.has_edits { EDITORS } else { 0 };
    let reading = blocks.div_ceil(SKYLINE_THREADS as usize / 32 * group);
    let blocks = ((noise_makers + editors + reading) as u32, form.rows as u32);
    let grid = Grid { blocks, threads: SKYLINE_THREADS, memory: 0 };
    Skyline { place, group: group as u32, noise_makers: noise_makers as u32, editors: editors as u32, grid }
}

/// The second pass: one thread block for each row. Where `processors` are given, no more thread blocks than
/// these: they take rows in turn.
pub(crate) fn draw(rows: usize, vocabulary: usize, processors: Option<usize>) -> Grid {
    let memory = (DRAW_BYTES_PER_BLOCK * pitch(vocabulary).next_multiple_of(BLOCKS_ROUNDED_TO)) as u32;
    let blocks = processors.map_or(rows, |processors| rows.min(processors));
    Grid { blocks: (blocks as u32, 1), threads: DRAW_THREADS, memory }
}

/// Sums over whole rows by about so many thread blocks, which share them out evenly in steps of so many logits.
/// `most`: steps of one of them.
fn sums(rows: usize, vocabulary: usize, blocks: usize, most: usize) -> Grid {
    let steps = rows * vocabulary.div_ceil(WEIGH_TOKENS);
    let each = steps.div_ceil(blocks.max(1)).clamp(1, most);
    Grid { blocks: (steps.div_ceil(each) as u32, 1), threads: REPORT_THREADS, memory: 0 }
}

/// Sums of unmodified rows beside the draw, for raw logprobs. They begin as thread blocks of the draw end: more and
/// shorter ones than fit at once fill the gaps. There are twice as many since bench/results/2026-11-18-device.md, where
/// penalties with logprobs waited for them. What that brings is not measured yet.
pub(crate) fn weigh(rows: usize, vocabulary: usize, processors: usize) -> Grid {
    sums(rows, vocabulary, 2 * SUMS_PER_PROCESSOR * processors, 4)
}

/// Sums of whole rows before these are drawn, and those of prompts: as many thread blocks as fit at once.
pub(crate) fn gauge(rows: usize, vocabulary: usize, processors: usize) -> Grid {
    sums(rows, vocabulary, SUMS_PER_PROCESSOR * processors, usize::MAX)
}

/// Sums of what is left of rows, for logprobs.
pub(crate) fn report(rows: usize, vocabulary: usize) -> Grid {
    let parts = vocabulary.div_ceil(REPORT_TOKENS);
    Grid { blocks: (parts as u32, rows as u32), threads: REPORT_THREADS, memory: 0 }
}

/// Logprobs of whole rows: one thread block for each.
pub(crate) fn list_all(rows: usize) -> Grid {
    Grid { blocks: (rows as u32, 1), threads: SORT_THREADS, memory: 0 }
}

/// Tokens that were chosen elsewhere.
pub(crate) fn append(rows: usize) -> Grid {
    let blocks = rows.div_ceil(ROWS_PER_APPEND_BLOCK) as u32;
    Grid { blocks: (blocks, 1), threads: ROWS_PER_APPEND_BLOCK as u32, memory: 0 }
}

/// Drafts: one thread block for each.
pub(crate) fn judge(drafts: usize) -> Grid {
    Grid { blocks: (drafts as u32, 1), threads: DRAW_THREADS, memory: 0 }
}

/// What texts repeat: one thread block for each row.
pub(crate) fn repeat(rows: usize) -> Grid {
    Grid { blocks: (rows as u32, 1), threads: REPEAT_THREADS, memory: 0 }
}

/// Sequences that are changed: one thread block for each.
pub(crate) fn revise(sequences: usize) -> Grid {
    Grid { blocks: (sequences as u32, 1), threads: REVISE_THREADS, memory: 0 }
}

/// Texts that are followed: one thread block for each.
pub(crate) fn follow(turns: usize) -> Grid {
    Grid { blocks: (turns as u32, 1), threads: FOLLOW_THREADS, memory: 0 }
}

/// Turns that are settled: one thread block for each.
pub(crate) fn settle(turns: usize) -> Grid {
    Grid { blocks: (turns as u32, 1), threads: SETTLE_THREADS, memory: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_to_read_makes_longer_threads() {
        let of = |rows, vocabulary, form: Form, is_aligned| {
            let skyline = skyline(Form { rows, ..form }, Dtype::F32, vocabulary, is_aligned);
            (SKYLINES[skyline.place].name, skyline.group, skyline.grid.blocks)
        };
        let plain = Form::default();
        assert_eq!(of(1, 1, plain, true), ("1", 2, (1, 1)));
        assert_eq!(of(1, 128_256, plain, true), ("1", 2, (126, 1)), "2004 blocks, 16 each");
        assert_eq!(of(2, 131_072, plain, true), ("1", 2, (128, 2)), "4096");
        assert_eq!(of(8, 128_256, plain, true), ("2", 4, (63, 8)));
        assert_eq!(of(64, 128_256, plain, true), ("4", 8, (32, 64)));
        assert_eq!(of(256, 128_256, plain, true), ("8", 16, (16, 256)));
        assert_eq!(of(256, 128_256, plain, false), ("any", 4, (63, 256)));
        let edits = Form { has_edits: true, ..plain };
        assert_eq!(
            of(8, 128_256, edits, true),
            ("edited_2", 4, (2 + 63, 8)),
            "they have threads of their own"
        );
        for asks in [Form { has_sums: true, ..plain }, Form { has_masks: true, ..plain }] {
            assert_eq!(of(1, 128_256, asks, true), ("summed_1", 2, (126, 1)));
            assert_eq!(of(8, 128_256, asks, true), ("summed_1", 2, (126, 8)));
            assert_eq!(of(64, 128_256, asks, true), ("summed_4", 8, (32, 64)));
            assert_eq!(
                of(64, 128_256, Form { has_edits: true, ..asks }, true),
                ("edited_summed_4", 8, (2 + 32, 64))
            );
            assert_eq!(of(256, 128_256, asks, true), ("summed_8", 16, (16, 256)));
        }
        let halves = skyline(Form { rows: 256, ..plain }, Dtype::BF16, 128_256, true);
        assert_eq!(
            (halves.group, halves.grid.blocks),
            (32, (8, 256)),
            "twice as many logits in as many bytes"
        );
    }

    #[test]
    fn noise_has_threads_of_its_own() {
        let form = Form { rows: 3, has_noise: true, ..Form::default() };
        let of = |vocabulary| {
            (
                skyline(form, Dtype::F32, vocabulary, true).noise_makers,
                skyline(form, Dtype::F32, vocabulary, true).grid.blocks,
            )
        };
        assert_eq!(of(64), (1, (2, 3)));
        assert_eq!(of(65_536), (1, (1 + 64, 3)), "1024 blocks of tokens");
        assert_eq!(of(65_537), (2, (2 + 65, 3)));
    }

    #[test]
    fn grids_cover_rows_and_vocabulary() {
        assert_eq!((pitch(1), pitch(256), pitch(257)), (4, 4, 8));
        assert_eq!(draw(3, 128_256, None), Grid { blocks: (3, 1), threads: 512, memory: 16 * 2048 });
        assert_eq!(draw(1, 131_073, None).memory, 16 * 4096);
        assert_eq!((draw(3, 64, Some(132)).blocks, draw(256, 64, Some(132)).blocks), ((3, 1), (132, 1)));
        assert_eq!(report(3, 8193).blocks, (2, 3));
        let blocks = |rows| [weigh(rows, 128_256, 132), gauge(rows, 128_256, 132)].map(|grid| grid.blocks.0);
        assert_eq!((blocks(1), blocks(64)), ([32, 32], [1024, 512]), "32 steps a row, 528 fit");
        assert_eq!((blocks(256), blocks(4000)), ([2048, 512], [32_000, 527]));
        assert_eq!((append(64).blocks, append(65).blocks), ((1, 1), (2, 1)));
    }

    #[test]
    fn memory_limits_the_vocabulary() {
        for vocabulary in [131_072, 262_144] {
            let memory = draw(1, vocabulary, None).memory as usize;
            assert_eq!(max_vocabulary(memory), vocabulary);
            assert!(max_vocabulary(memory - 1) < vocabulary);
        }
        assert_eq!((max_vocabulary(15), max_vocabulary(1 << 30)), (0, 917_504));
        // A part of one block more begins and ends within blocks.
        assert_eq!((max_part(7), max_part(8 * 4097), max_part(1 << 30)), (0, 262_144, 917_504));
    }
}
