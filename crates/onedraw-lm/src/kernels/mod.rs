//! The arithmetic of a model, by vectors, in one order for every instruction set, batch and thread count.
//!
//! A product of a matrix with many positions is many dot products, and each is summed alone, in an order that only its length decides
//! ([`dot`]). So the numbers of a position are the same bits alone and among others.

pub(crate) mod dot;
pub(crate) mod exponential;
pub(crate) mod product;
#[cfg(target_arch = "x86_64")]
mod tile;
pub(crate) mod weight;

use fearless_simd::Level;
use onedraw::Kernel;

/// The level of `fearless_simd` that a kernel names; `None` where this machine lacks it.
pub(crate) fn level(kernel: Kernel) -> Option<Level> {
    let best = Level::new();
    match kernel {
        Kernel::Auto => Some(best),
        #[cfg(target_arch = "x86_64")]
        Kernel::Scalar | Kernel::Sse => best.as_sse2().map(Level::Sse2),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => best.as_avx2().map(Level::Avx2),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => best.as_avx512().map(Level::Avx512),
        #[cfg(target_arch = "aarch64")]
        Kernel::Scalar | Kernel::Neon => Some(best),
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Kernel::Scalar => Some(best),
        _ => None,
    }
}
