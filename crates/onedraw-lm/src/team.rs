//! The threads and the instruction set that a model computes with.

use std::sync::Arc;

use onedraw::Kernel;
use onedraw::float_mode::Standard;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::ModelError;
use crate::kernels::lanes::Instructions;

/// Threads and an instruction set. Neither of them changes a bit of any result.
#[derive(Clone)]
pub(crate) struct Team {
    pub instructions: Instructions,
    /// `None`: everything runs on the calling thread.
    pool: Option<Arc<ThreadPool>>,
}

impl Team {
    /// A team of `threads` threads; 0 means one thread per core.
    pub(crate) fn new(kernel: Kernel, threads: usize) -> Result<Self, ModelError> {
        let instructions = Instructions::of(kernel)
            .ok_or_else(|| ModelError::Request(format!("this machine has no kernel `{kernel}`")))?;
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, |n| n.get()) } else { threads };
        if threads == 1 {
            return Ok(Self { instructions, pool: None });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|cause| ModelError::Request(format!("{threads} threads: {cause}")))?;
        Ok(Self { instructions, pool: Some(Arc::new(pool)) })
    }

    /// Runs `work` on a thread of the pool. Parallel parts inside it then start without a change of threads.
    pub(crate) fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(|| {
                // A thread of the pool has the floating-point mode of the thread that created it.
                let _mode = Standard::enter();
                work()
            }),
            None => work(),
        }
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Whether work of this many multiplications is split over threads.
    pub(crate) fn splits(&self, multiplications: usize) -> bool {
        /// Below this, waking a thread takes longer than the work. One core needs some 15 µs for this many:
        /// the 100 million of bench/results/2026-11-16-model.md take 15.5 ms.
        const WORTH_WAKING_A_THREAD: usize = 100_000;
        self.pool.is_some() && multiplications >= WORTH_WAKING_A_THREAD
    }

    /// Runs `each` on the parts of a slice, `length` numbers each, with the number of the part and scratch
    /// memory. The parts run on threads if the work, counted in multiplications over all parts, is worth it.
    pub(crate) fn each_part<T>(
        &self,
        parts: &mut [f32],
        length: usize,
        multiplications: usize,
        scratch: impl Fn() -> T + Sync + Send,
        each: impl Fn(&mut T, usize, &mut [f32]) + Sync + Send,
    ) {
        match &self.pool {
            Some(pool) if self.splits(multiplications) => pool.install(|| {
                parts.par_chunks_mut(length).enumerate().for_each_init(&scratch, |scratch, (i, part)| {
                    // A thread of the pool has the floating-point mode of the thread that created it.
                    let _mode = Standard::enter();
                    each(scratch, i, part);
                });
            }),
            _ => {
                let mut scratch = scratch();
                parts.chunks_mut(length).enumerate().for_each(|(i, part)| each(&mut scratch, i, part));
            }
        }
    }
}
