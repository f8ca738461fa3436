//! A matrix of weights, and its products with positions on threads.

use std::ops::Range;
use std::sync::Arc;

use fearless_simd::Level;
use half::{bf16, f16};
use onedraw::Kernel;
use onedraw::float_mode::Standard;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::ModelError;
use crate::kernels::dot::Arranged;
use crate::kernels::product::products;
use crate::kernels::weight::Weight;
use crate::weights::Storage;

/// The type of the numbers of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    Bf16,
    F16,
    F32,
}

/// Rows of weights, where they lie. A clone is another view of them.
#[derive(Clone)]
pub(crate) struct Matrix {
    storage: Arc<Storage>,
    range: Range<usize>,
    elements: Elements,
    rows: usize,
    columns: usize,
}

/// Who computes: threads and an instruction set. Neither changes a bit.
#[derive(Clone)]
pub(crate) struct Team {
    pub level: Level,
    pool: Option<Arc<ThreadPool>>,
}

impl Team {
    /// `threads` 0: all cores.
    pub(crate) fn new(kernel: Kernel, threads: usize) -> Result<Self, ModelError> {
        let level = crate::kernels::level(kernel)
            .ok_or_else(|| ModelError::Request(format!("this machine has no kernel `{kernel}`")))?;
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, |n| n.get()) } else { threads };
        if threads == 1 {
            return Ok(Self { level, pool: None });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|cause| ModelError::Request(format!("{threads} threads: {cause}")))?;
        Ok(Self { level, pool: Some(Arc::new(pool)) })
    }

    /// Runs `work` where the threads are, so that its parts need not be carried there one by one.
    pub(crate) fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(|| {
                // A thread has the mode of whoever made it.
                let _mode = Standard::enter();
                work()
            }),
            None => work(),
        }
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Whether threads are worth it, for so many multiplications.
    fn pool_for(&self, work: usize) -> Option<&ThreadPool> {
        /// Below, waking a thread takes longer than the work.
        const SMALL: usize = 100_000;
        self.pool.as_deref().filter(|_| work >= SMALL)
    }

    /// Runs `each` on the parts of a slice, with their numbers and a place to work at; on threads where `work` (multiplications in all) is worth it.
    pub(crate) fn each_part<T>(
        &self,
        parts: &mut [f32],
        length: usize,
        work: usize,
        place: impl Fn() -> T + Sync + Send,
        each: impl Fn(&mut T, usize, &mut [f32]) + Sync + Send,
    ) {
        match self.pool_for(work) {
            Some(pool) => pool.install(|| {
                parts.par_chunks_mut(length).enumerate().for_each_init(&place, |place, (i, part)| {
                    // A thread has the mode of whoever made it.
                    let _mode = Standard::enter();
                    each(place, i, part);
                });
            }),
            None => {
                let mut place = place();
                parts.chunks_mut(length).enumerate().for_each(|(i, part)| each(&mut place, i, part));
            }
        }
    }
}

impl Matrix {
    pub(crate) fn new(
        storage: Arc<Storage>,
        range: Range<usize>,
        elements: Elements,
        rows: usize,
        columns: usize,
    ) -> Self {
        Self { storage, range, elements, rows, columns }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The weights as they lie.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.storage.bytes()[self.range.clone()]
    }

    /// Some of the rows, copied, from the beginning of a line of the cache on.
    pub(crate) fn select(&self, rows: &[u32]) -> Self {
        const LINE: usize = 64;
        let size = self.bytes().len() / self.rows.max(1);
        let mut words = vec![0u64; (rows.len() * size).div_ceil(8) + LINE / 8];
        let copy: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let start = copy.as_ptr().align_offset(LINE).min(LINE);
        let range = start..start + rows.len() * size;
        for (own, &row) in copy[range.clone()].chunks_exact_mut(size).zip(rows) {
            own.copy_from_slice(&self.bytes()[row as usize * size..(row as usize + 1) * size]);
        }
        Self { storage: Arc::new(Storage::Copied(words)), range, rows: rows.len(), ..self.clone() }
    }

    /// One row, widened.
    pub(crate) fn row(&self, row: usize, numbers: &mut [f32]) {
        let place = row * self.columns..(row + 1) * self.columns;
        fn widen<W: Weight>(weights: &[W], numbers: &mut [f32]) {
            weights.iter().zip(numbers).for_each(|(weight, number)| *number = weight.widen());
        }
        match self.elements {
            Elements::Bf16 => widen::<bf16>(&bytemuck::cast_slice(self.bytes())[place], numbers),
            Elements::F16 => widen::<f16>(&bytemuck::cast_slice(self.bytes())[place], numbers),
            Elements::F32 => widen::<f32>(&bytemuck::cast_slice(self.bytes())[place], numbers),
        }
    }

    /// The products with every position, position by position.
    pub(crate) fn times(&self, team: &Team, positions: &Arranged, out: &mut Vec<f32>) {
        debug_assert_eq!(positions.length(), self.columns);
        match self.elements {
            Elements::Bf16 => self.times_as::<bf16>(team, positions, out),
            Elements::F16 => self.times_as::<f16>(team, positions, out),
            Elements::F32 => self.times_as::<f32>(team, positions, out),
        }
    }

    fn times_as<W: Weight>(&self, team: &Team, positions: &Arranged, out: &mut Vec<f32>) {
        /// Rows a thread takes at a time.
        const ROWS: usize = 64;
        let count = positions.len();
        let weights: &[W] = bytemuck::cast_slice(self.bytes());
        let work = self.rows * self.columns * count;
        out.clear();
        out.resize(self.rows * count, 0.0);
        if team.pool_for(work).is_none() {
            products(team.level, weights, positions, out);
            return;
        }
        let some = |_: &mut (), part: usize, products: &mut [f32]| {
            let first = part * ROWS;
            let last = first + products.len() / count;
            let weights = &weights[first * self.columns..last * self.columns];
            self::products(team.level, weights, positions, products);
        };
        if count == 1 {
            team.each_part(out, ROWS, work, || (), some);
            return;
        }
        let mut parts = vec![0.0; self.rows * count];
        team.each_part(&mut parts, ROWS * count, work, || (), some);
        // A thread has a few rows of all positions; what follows wants all of a position.
        out.clear();
        for position in 0..count {
            for part in parts.chunks(ROWS * count) {
                let rows = part.len() / count;
                out.extend_from_slice(&part[position * rows..(position + 1) * rows]);
            }
        }
    }
}
