//! A matrix of weights, and its products with the inputs of positions.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;

use crate::kernels::dot::Inputs;
use crate::kernels::element::Elements;
use crate::kernels::product::products;
use crate::team::Team;

/// Bytes of weights.
pub(crate) enum Storage {
    /// A file, mapped into memory.
    Mapped(Mmap),
    /// Part of the program, or what the program was given.
    Held(Cow<'static, [u8]>),
    /// A copy, because the bytes were not aligned as their type needs, or because only some rows are wanted.
    Copied(Vec<u64>),
}

impl Storage {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Held(bytes) => bytes,
            Self::Copied(words) => bytemuck::cast_slice(words),
        }
    }
}

/// The type of the weights of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ElementType {
    Bf16,
    F16,
    F32,
}

impl ElementType {
    /// The bytes as weights; `None` if they are not aligned as the type needs.
    pub(crate) fn elements(self, bytes: &[u8]) -> Option<Elements<'_>> {
        match self {
            Self::Bf16 => bytemuck::try_cast_slice(bytes).ok().map(Elements::Bf16),
            Self::F16 => bytemuck::try_cast_slice(bytes).ok().map(Elements::F16),
            Self::F32 => bytemuck::try_cast_slice(bytes).ok().map(Elements::F32),
        }
    }
}

/// Rows of weights, read from where they are stored. A clone shares them.
#[derive(Clone)]
pub(crate) struct Matrix {
    storage: Arc<Storage>,
    range: Range<usize>,
    kind: ElementType,
    rows: usize,
    columns: usize,
}

impl Matrix {
    /// The matrix in a range of bytes, which are copied if they are not aligned as the type needs.
    pub(crate) fn new(
        mut storage: Arc<Storage>,
        mut range: Range<usize>,
        kind: ElementType,
        rows: usize,
        columns: usize,
    ) -> Self {
        let bytes = &storage.bytes()[range.clone()];
        if kind.elements(bytes).is_none() {
            let mut words = vec![0u64; bytes.len().div_ceil(8)];
            bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
            (storage, range) = (Arc::new(Storage::Copied(words)), 0..range.len());
        }
        Self { storage, range, kind, rows, columns }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The weights as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.storage.bytes()[self.range.clone()]
    }

    fn elements(&self) -> Elements<'_> {
        self.kind.elements(self.bytes()).expect("the bytes of a matrix are aligned since it was made")
    }

    /// A matrix of some of the rows, copied to the beginning of a cache line.
    pub(crate) fn select(&self, rows: &[u32]) -> Self {
        const CACHE_LINE: usize = 64;
        let size = self.bytes().len() / self.rows.max(1);
        let mut words = vec![0u64; (rows.len() * size).div_ceil(8) + CACHE_LINE / 8];
        let copy: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let start = copy.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE);
        let range = start..start + rows.len() * size;
        for (own, &row) in copy[range.clone()].chunks_exact_mut(size).zip(rows) {
            own.copy_from_slice(&self.bytes()[row as usize * size..(row as usize + 1) * size]);
        }
        Self { storage: Arc::new(Storage::Copied(words)), range, rows: rows.len(), ..self.clone() }
    }

    /// Writes one row as f32.
    pub(crate) fn row(&self, row: usize, numbers: &mut [f32]) {
        self.elements().slice(row * self.columns..(row + 1) * self.columns).widen(numbers);
    }

    /// Writes the products with every position, position by position.
    pub(crate) fn times(&self, team: &Team, inputs: &Inputs, out: &mut Vec<f32>) {
        /// How many rows a thread takes at a time: few enough that two threads share 576 rows evenly, and many enough that
        /// asking for them takes no time.
        const ROWS: usize = 32;
        debug_assert_eq!(inputs.length(), self.columns);
        let (weights, positions) = (self.elements(), inputs.positions());
        let multiplications = self.rows * self.columns * positions;
        out.clear();
        out.resize(self.rows * positions, 0.0);
        if !team.splits(multiplications) {
            products(team.instructions, weights, inputs, out);
            return;
        }
        let part_of = |_: &mut (), part: usize, out: &mut [f32]| {
            let first = part * ROWS;
            let last = first + out.len() / positions;
            let weights = weights.slice(first * self.columns..last * self.columns);
            products(team.instructions, weights, inputs, out);
        };
        if positions == 1 {
            team.each_part(out, ROWS, multiplications, || (), part_of);
            return;
        }
        let mut parts = vec![0.0; self.rows * positions];
        team.each_part(&mut parts, ROWS * positions, multiplications, || (), part_of);
        // A part has some rows of all positions; the caller wants all rows of a position together.
        out.clear();
        for position in 0..positions {
            for part in parts.chunks(ROWS * positions) {
                let rows = part.len() / positions;
                out.extend_from_slice(&part[position * rows..(position + 1) * rows]);
            }
        }
    }
}
