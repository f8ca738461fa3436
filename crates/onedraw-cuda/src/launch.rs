//! How many threads a kernel gets, as the kernels expect it.

use onedraw::noise::BLOCK;
use onedraw::row::MAX_VOCABULARY;

use crate::batch::Form;

/// Rows stand along a side of the grid that has no more places.
pub(crate) const MAX_ROWS: usize = 65_535;
/// Threads of a block of the row kernels.
const THREADS: u32 = 256;
/// Tokens that a block of `report` sums.
const REPORTED: usize = 8192;
/// Rows that a block of `append` takes.
const APPENDED: usize = 64;
/// Shared memory of a draw: so many bytes a block of tokens, and so many more.
const DRAW_MEMORY: (usize, usize) = (14, 16);

/// Blocks of threads, the threads of one, and its dynamic shared memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: (u32, u32),
    pub threads: u32,
    pub memory: u32,
}

/// Blocks of tokens of a row.
pub(crate) fn pitch(vocabulary: usize) -> usize {
    vocabulary.div_ceil(BLOCK)
}

/// The most logits of a row where a draw may have so much shared memory.
pub(crate) fn max_vocabulary(memory: usize) -> usize {
    let (each, more) = DRAW_MEMORY;
    (memory.saturating_sub(more) / each * BLOCK).min(MAX_VOCABULARY)
}

/// The first pass: which form of the kernel, as its place in [`SKYLINES`](crate::device::SKYLINES), and its grid. Rows are aligned if each begins at a
/// multiple of 16 bytes. The more there is to read, the more steps a thread takes.
pub(crate) fn skyline(form: Form, vocabulary: usize, is_aligned: bool) -> (usize, Grid) {
    let blocks = pitch(vocabulary);
    let (place, steps) = match form.rows * blocks {
        _ if !is_aligned => (6, 2),
        0..=16_384 if form.has_edits => (4, 1),
        _ if form.has_edits => (5, 4),
        0..=4096 => (0, 1),
        4097..=16_384 => (1, 2),
        16_385..=131_072 => (2, 4),
        _ => (3, 8),
    };
    // A warp takes two blocks of tokens a step.
    let each = THREADS as usize / 32 * 2 * steps;
    let grid = Grid { blocks: (blocks.div_ceil(each) as u32, form.rows as u32), threads: THREADS, memory: 0 };
    (place, grid)
}

/// The second pass: one block of threads a row.
pub(crate) fn draw(rows: usize, vocabulary: usize) -> Grid {
    let (each, more) = DRAW_MEMORY;
    let memory = (each * pitch(vocabulary) + more) as u32;
    Grid { blocks: (rows as u32, 1), threads: THREADS, memory }
}

/// Logprobs.
pub(crate) fn report(rows: usize, vocabulary: usize) -> Grid {
    Grid { blocks: (vocabulary.div_ceil(REPORTED) as u32, rows as u32), threads: THREADS, memory: 0 }
}

/// Tokens that were chosen elsewhere.
pub(crate) fn append(rows: usize) -> Grid {
    Grid { blocks: (rows.div_ceil(APPENDED) as u32, 1), threads: APPENDED as u32, memory: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::SKYLINES;

    #[test]
    fn more_to_read_makes_longer_threads() {
        let of = |rows, vocabulary, has_edits, is_aligned| {
            let form = Form { rows, has_edits, has_reports: false };
            let (place, grid) = skyline(form, vocabulary, is_aligned);
            (SKYLINES[place], grid.blocks)
        };
        assert_eq!(of(1, 1, false, true), ("1", (1, 1)));
        assert_eq!(of(1, 128_256, false, true), ("1", (126, 1)), "2004 blocks, 16 each");
        assert_eq!(of(2, 131_072, false, true), ("1", (128, 2)), "4096");
        assert_eq!(of(8, 128_256, false, true), ("2", (63, 8)));
        assert_eq!(of(64, 128_256, false, true), ("4", (32, 64)));
        assert_eq!(of(256, 128_256, false, true), ("8", (16, 256)));
        assert_eq!(of(8, 128_256, true, true), ("edited_1", (126, 8)));
        assert_eq!(of(9, 128_256, true, true), ("edited_4", (32, 9)));
        assert_eq!(of(256, 128_256, false, false), ("any", (63, 256)));
        assert_eq!(of(1, 128_256, true, false), ("any", (63, 1)));
    }

    #[test]
    fn grids_cover_rows_and_vocabulary() {
        assert_eq!(draw(3, 128_256), Grid { blocks: (3, 1), threads: 256, memory: 14 * 2004 + 16 });
        assert_eq!(report(3, 8193).blocks, (2, 3));
        assert_eq!((append(64).blocks, append(65).blocks), ((1, 1), (2, 1)));
    }

    #[test]
    fn memory_limits_the_vocabulary() {
        for vocabulary in [64, 128_256, 262_144] {
            let memory = draw(1, vocabulary).memory as usize;
            assert_eq!(max_vocabulary(memory), vocabulary);
            assert!(max_vocabulary(memory - 1) < vocabulary);
        }
        assert_eq!((max_vocabulary(15), max_vocabulary(1 << 30)), (0, MAX_VOCABULARY));
    }
}
