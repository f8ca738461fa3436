//! Chooses the instruction set and runs a pass on it.
//!
//! `fearless_simd` proves at run time that the machine has an instruction set, and compiles a closure for it.
//! Inside the closure a vector of sixteen lanes becomes one, two or four registers, whatever that instruction
//! set has.
//!
//! All of them give the same bits, because every operation is an IEEE operation and every reduction that a
//! token depends on is a maximum or a sum of integers. What stays in f32 sums is used only as a bound, with a
//! margin.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Avx512, Level};

use crate::kernels::arrival;
use crate::kernels::kernel::Kernel;
use crate::kernels::lanes::{self, Baseline};
use crate::kernels::row::Row;
use crate::kernels::skyline;
use crate::numeric::noise::{BLOCK, Noise};

/// One instruction set, proved to be available on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passes {
    Baseline(Baseline),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Runs `$body` compiled for the instruction set that `$simd` proves. Every function that `$body` calls must
/// be `#[inline(always)]`, so that it is compiled for that instruction set too.
macro_rules! vectorized {
    ($passes:expr, $simd:ident => $body:expr) => {{
        use fearless_simd::Simd as _;
        use $crate::kernels::passes::Passes;
        match $passes {
            Passes::Baseline($simd) => $simd.vectorize(
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            Passes::Avx2($simd) => $simd.vectorize(
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            Passes::Avx512($simd) => $simd.vectorize(
                #[inline(always)]
                || $body,
            ),
        }
    }};
}
pub(crate) use vectorized;

impl Kernel {
    /// Whether this machine and this build can run this kernel.
    pub fn is_supported(self) -> bool {
        Passes::of(self).is_some()
    }
}

impl Default for Passes {
    fn default() -> Self {
        Self::of(Kernel::Auto).unwrap_or(Self::Baseline(lanes::baseline()))
    }
}

impl Passes {
    /// The instruction set of a kernel; `None` where this machine or build does not have it.
    pub(crate) fn of(kernel: Kernel) -> Option<Self> {
        match kernel {
            Kernel::Scalar => Some(Self::Baseline(lanes::baseline())),
            #[cfg(target_arch = "x86_64")]
            Kernel::Sse => Some(Self::Baseline(lanes::baseline())),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => Level::new().as_avx2().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => Level::new().as_avx512().map(Self::Avx512),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => Some(Self::Baseline(lanes::baseline())),
            Kernel::Auto => [Kernel::Avx512, Kernel::Avx2, Kernel::Scalar].into_iter().find_map(Self::of),
            _ => None,
        }
    }

    /// Writes the maxima of whole blocks and returns whether no logit is NaN or +inf; see
    /// [`skyline::maxima`].
    pub(crate) fn maxima(self, row: Row<'_>, maxima: &mut [f32]) -> bool {
        vectorized!(self, simd => match row {
            Row::F32(values) => skyline::maxima(simd, values.as_chunks().0, maxima),
            Row::F16(values) => skyline::maxima(simd, values.as_chunks().0, maxima),
            Row::Bf16(values) => skyline::maxima(simd, values.as_chunks().0, maxima),
        })
    }

    /// The index of the first largest logit. `None` if a skyline is needed to answer: where a logit is NaN or
    /// +inf, and in some rows with −inf.
    pub(crate) fn first(self, row: Row<'_>) -> Option<usize> {
        let best = vectorized!(self, simd => match row {
            Row::F32(values) => skyline::first(simd, values.as_chunks().0),
            Row::F16(values) => skyline::first(simd, values.as_chunks().0),
            Row::Bf16(values) => skyline::first(simd, values.as_chunks().0),
        });
        let whole = row.len() / BLOCK * BLOCK;
        let (mut x_max, mut place) = match best {
            Some((x_max, place)) => (x_max, Some(place)),
            None if whole > 0 => return None,
            None => (f32::NEG_INFINITY, None),
        };
        for i in whole..row.len() {
            let x = row.get(i);
            if x.is_nan() || x == f32::INFINITY {
                return None;
            }
            if x > x_max {
                (x_max, place) = (x, Some(i));
            }
        }
        place
    }

    /// The largest of any number of logits; −inf if there are none.
    pub(crate) fn highest(self, logits: &[f32]) -> f32 {
        vectorized!(self, simd => skyline::highest(simd, logits))
    }

    /// The index of the first logit equal to `wanted`.
    pub(crate) fn position(self, logits: &[f32], wanted: f32) -> Option<usize> {
        vectorized!(self, simd => skyline::position(simd, logits, wanted))
    }

    /// Writes a lower bound of 64 times the smallest E of every block; see [`arrival::minima`].
    pub(crate) fn minima(self, noise: &Noise, first_group: u32, minima: &mut [f32]) {
        debug_assert!(minima.len().is_multiple_of(BLOCK));
        vectorized!(self, simd => arrival::minima(simd, noise, first_group, minima));
    }
}

#[cfg(test)]
impl Passes {
    /// Every instruction set of this machine.
    pub(crate) fn supported() -> impl Iterator<Item = Self> {
        Kernel::ALL.into_iter().filter_map(Self::of)
    }
}
