//! How many threads a kernel gets, as the kernels expect it.

use onedraw::noise::BLOCK;

use crate::batch::Form;
use crate::matrix::Dtype;
use crate::record::TABULATED;

/// Rows stand along a side of the grid that has no more places.
pub(crate) const MAX_ROWS: usize = 65_535;
/// Threads of a block that reads rows.
const THREADS: u32 = 256;
/// Threads of a block that draws a row.
const DRAW_THREADS: u32 = 512;
/// Tokens that a block of `report` sums.
const REPORTED: usize = 8192;
/// Tokens that a block of `weigh` takes at a time.
const WEIGHED: usize = 4096;
/// Blocks of threads that keep a device busy.
const ENOUGH: usize = 2048;
/// Rows that a block of `append` takes.
const APPENDED: usize = 64;
/// Shared memory of a draw: so many bytes a block of tokens, of which there is room for a multiple of so many.
const DRAW_MEMORY: (usize, usize) = (16, 2048);
/// A row's summit is one in so many words: a line of the cache of its own.
pub(crate) const SUMMIT_PITCH: usize = 32;
/// Blocks of tokens whose noise a block of threads makes.
const NOISE: usize = 4 * THREADS as usize;
/// Forms of the first pass without edits; as many with them follow in [`SKYLINES`](crate::device::SKYLINES).
const FORMS: usize = 7;
/// Blocks of threads that edit the tokens of a row, of which each thread has three (kernels/skyline.cuh).
const EDITORS: usize = 2;
const _: () = assert!(EDITORS * THREADS as usize * 3 == TABULATED);

/// Blocks of threads, the threads of one, and its dynamic shared memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: (u32, u32),
    pub threads: u32,
    pub memory: u32,
}

/// Blocks of tokens of a row, rounded up to a multiple of four: they are read four at a time.
pub(crate) fn pitch(vocabulary: usize) -> usize {
    vocabulary.div_ceil(BLOCK).next_multiple_of(4)
}

/// Blocks of tokens whose masses a draw can sum in 32 bits: no more than 2^14, and a multiple of what memory there is for. The kernels' bits a block and links rely on it.
const MOST_BLOCKS: usize = 14_336;

/// The most logits of a row where a draw may have so much shared memory.
pub(crate) fn max_vocabulary(memory: usize) -> usize {
    let (each, multiple) = DRAW_MEMORY;
    (memory / (each * multiple) * multiple).min(MOST_BLOCKS) * BLOCK
}

/// The first pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skyline {
    /// Which form of the kernel, as its place in [`SKYLINES`](crate::device::SKYLINES).
    pub place: usize,
    /// Blocks of tokens that a warp takes together.
    pub group: u32,
    /// Blocks of threads of each row that make noise instead of reading.
    pub dice: u32,
    /// Blocks of threads of each row that edit the tokens which its sequence lists.
    pub editors: u32,
    pub grid: Grid,
}

/// Rows are aligned if each begins at a multiple of 16 bytes. The more there is to read, the more steps a thread takes.
pub(crate) fn skyline(form: Form, dtype: Dtype, vocabulary: usize, is_aligned: bool) -> Skyline {
    let blocks = vocabulary.div_ceil(BLOCK);
    // Blocks of tokens that a warp reads at once, sixteen bytes a thread.
    let at_once = 8 / dtype.size();
    let asks = form.has_masks || form.has_sums;
    let (place, steps) = match 2 * form.rows * blocks / at_once {
        _ if !is_aligned => (2 * FORMS, 2),
        // Two steps were slower.
        0..=16_384 if asks => (4, 1),
        16_385..=131_072 if asks => (5, 4),
        _ if asks => (6, 8),
        0..=4096 => (0, 1),
        4097..=16_384 => (1, 2),
        16_385..=131_072 => (2, 4),
        _ => (3, 8),
    };
    let place = if form.has_edits && is_aligned { FORMS + place } else { place };
    let each = THREADS as usize / 32 * at_once * steps;
    let dice = if form.has_noise { pitch(vocabulary).div_ceil(NOISE) } else { 0 };
    let editors = if form.has_edits { EDITORS } else { 0 };
    let reading = blocks.div_ceil(each);
    let blocks = ((dice + editors + reading) as u32, form.rows as u32);
    let grid = Grid { blocks, threads: THREADS, memory: 0 };
    Skyline { place, group: (at_once * steps) as u32, dice: dice as u32, editors: editors as u32, grid }
}

/// The second pass: one block of threads a row. Where `processors` are given, no more than these: they have rows in turn.
pub(crate) fn draw(rows: usize, vocabulary: usize, processors: Option<usize>) -> Grid {
    let (each, multiple) = DRAW_MEMORY;
    let memory = (each * pitch(vocabulary).next_multiple_of(multiple)) as u32;
    let blocks = processors.map_or(rows, |processors| rows.min(processors));
    Grid { blocks: (blocks as u32, 1), threads: DRAW_THREADS, memory }
}

/// Sums of rows as they came, for logprobs: so many parts a row that there are enough of them and no more.
pub(crate) fn weigh(rows: usize, vocabulary: usize) -> Grid {
    let parts = (ENOUGH / rows.max(1)).clamp(1, vocabulary.div_ceil(WEIGHED));
    Grid { blocks: (parts as u32, rows as u32), threads: THREADS, memory: 0 }
}

/// Sums of what is left of rows, for logprobs.
pub(crate) fn report(rows: usize, vocabulary: usize) -> Grid {
    Grid { blocks: (vocabulary.div_ceil(REPORTED) as u32, rows as u32), threads: THREADS, memory: 0 }
}

/// Tokens that were chosen elsewhere.
pub(crate) fn append(rows: usize) -> Grid {
    Grid { blocks: (rows.div_ceil(APPENDED) as u32, 1), threads: APPENDED as u32, memory: 0 }
}

/// Drafts: one block of threads each.
pub(crate) fn judge(drafts: usize) -> Grid {
    Grid { blocks: (drafts as u32, 1), threads: DRAW_THREADS, memory: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::SKYLINES;

    #[test]
    fn more_to_read_makes_longer_threads() {
        let of = |rows, vocabulary, form: Form, is_aligned| {
            let skyline = skyline(Form { rows, ..form }, Dtype::F32, vocabulary, is_aligned);
            (SKYLINES[skyline.place], skyline.group, skyline.grid.blocks)
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
                skyline(form, Dtype::F32, vocabulary, true).dice,
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
        let parts = |rows| weigh(rows, 128_256).blocks;
        assert_eq!((parts(1), parts(256), parts(4000)), ((32, 1), (8, 256), (1, 4000)));
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
    }
}
