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

    /// Runs `each` on the parts of a slice, with their numbers; on threads where `work` (multiplications in all) is worth it.
    pub(crate) fn each_part(
        &self,
        parts: &mut [f32],
        length: usize,
        work: usize,
        each: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        /// Below, waking a thread takes longer than the work.
        const SMALL: usize = 100_000;
        // A thread has the mode of whoever made it.
        let each = |part: usize, numbers: &mut [f32]| {
            let _mode = Standard::enter();
            each(part, numbers);
        };
        match &self.pool {
            Some(pool) if work >= SMALL => {
                pool.install(|| parts.par_chunks_mut(length).enumerate().for_each(|(i, part)| each(i, part)));
            }
            _ => parts.chunks_mut(length).enumerate().for_each(|(i, part)| each(i, part)),
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
        let mut parts = vec![0.0; self.rows * count];
        let work = self.rows * self.columns * count;
        team.each_part(&mut parts, ROWS * count.max(1), work, |part, products| {
            let first = part * ROWS;
            let last = first + products.len() / count;
            self::products(
                team.level,
                &weights[first * self.columns..last * self.columns],
                positions,
                products,
            );
        });
        if count == 1 {
            *out = parts;
            return;
        }
        // A thread has a few rows of all positions; what follows wants all of a position.
        out.clear();
        out.reserve(parts.len());
        for position in 0..count {
            for part in parts.chunks(ROWS * count) {
                let rows = part.len() / count;
                out.extend_from_slice(&part[position * rows..(position + 1) * rows]);
            }
        }
    }
}
