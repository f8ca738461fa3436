//! The instruction sets that the kernels are compiled for, and what they do differently.
//!
//! `fearless_simd` proves at run time that the machine has an instruction set, and compiles a closure for it.
//! The kernels are one source over vectors of sixteen lanes, which become one register, two or four. Every
//! operation is an IEEE operation on each lane, so all instruction sets give the same bits.

use fearless_simd::prelude::*;
#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Avx512};
use fearless_simd::{Level, Simd, f32x16};
use onedraw::Kernel;

#[cfg(target_arch = "x86_64")]
use crate::kernels::foundation::Foundation;
use crate::kernels::sums::Wide;

/// What every machine of this architecture has.
#[cfg(target_arch = "x86_64")]
pub(crate) type Baseline = fearless_simd::Sse2;
#[cfg(target_arch = "aarch64")]
pub(crate) type Baseline = fearless_simd::Neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) type Baseline = fearless_simd::WasmSimd128;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
pub(crate) type Baseline = fearless_simd::Fallback;

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instructions {
    Baseline(Baseline),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX2, and of AVX-512 the foundation.
    #[cfg(target_arch = "x86_64")]
    Foundation(Avx2, Foundation),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Instructions {
    /// The instruction set that a kernel names; `None` where this machine or this architecture lacks it.
    pub(crate) fn of(kernel: Kernel) -> Option<Self> {
        let level = Level::new();
        match kernel {
            Kernel::Auto => Self::of(Kernel::Avx512)
                .or_else(Self::foundation)
                .or_else(|| [Kernel::Avx2, Kernel::Scalar].into_iter().find_map(Self::of)),
            #[cfg(target_arch = "x86_64")]
            Kernel::Scalar | Kernel::Sse => level.as_sse2().map(Self::Baseline),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => level.as_avx2().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => level.as_avx512().map(Self::Avx512),
            #[cfg(target_arch = "aarch64")]
            Kernel::Scalar | Kernel::Neon => level.as_neon().map(Self::Baseline),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Kernel::Scalar => level.as_wasm_simd128().map(Self::Baseline),
            #[cfg(not(any(
                target_arch = "x86_64",
                target_arch = "aarch64",
                all(target_arch = "wasm32", target_feature = "simd128")
            )))]
            Kernel::Scalar => Some(Self::Baseline(fearless_simd::Fallback::new())),
            _ => None,
        }
    }

    /// AVX2 and AVX-512's foundation, where this machine has both. No kernel is named so: it is what
    /// `Kernel::Auto` means on processors whose AVX-512 is not all that `fearless_simd` asks for.
    pub(crate) fn foundation() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Some(Self::Foundation(Level::new().as_avx2()?, Foundation::new()?));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

/// Runs `$body`, with all functions in it inlined, compiled for the instruction set that `$simd` proves.
macro_rules! vectorized {
    ($instructions:expr, $simd:ident => $body:expr) => {{
        use fearless_simd::Simd as _;
        use $crate::kernels::lanes::Instructions;
        match $instructions {
            Instructions::Baseline($simd) => $simd.vectorize(
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2($simd) => $simd.vectorize(
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            Instructions::Foundation($simd, _) => $simd.vectorize(
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512($simd) => $simd.vectorize(
                #[inline(always)]
                || $body,
            ),
        }
    }};
}
pub(crate) use vectorized;

/// Sixteen lanes with a fused multiply-add.
pub(crate) trait Lanes: Simd {
    /// Sixteen sums that products are added to.
    type Sums: Sums<Self>;

    /// Whether the machine has the instruction. Where it does not, an emulation takes so long that nothing
    /// else matters for the speed, and so much code that there may be only one copy of it.
    const HAS_FMA: bool = true;

    /// `a · b + c` in every lane, rounded once.
    #[inline(always)]
    fn fma(self, a: f32x16<Self>, b: f32x16<Self>, c: f32x16<Self>) -> f32x16<Self> {
        a.mul_add_precise(b, c)
    }

    /// Asks for the line of memory at an address that is read soon, where that is worth an instruction.
    #[inline(always)]
    fn prefetch<T>(self, _address: *const T) {}
}

/// Sixteen sums of products: a vector, or what there is instead where no instruction adds a product and
/// rounds once.
pub(crate) trait Sums<S: Lanes>: Copy {
    /// Sums of nothing.
    fn zero(simd: S) -> Self;

    /// The sums after `a · b` was added, rounded once.
    fn plus(self, simd: S, a: f32x16<S>, b: f32x16<S>) -> Self;

    /// The sums as f32, which they are.
    fn lanes(self) -> f32x16<S>;
}

impl<S: Lanes> Sums<S> for f32x16<S> {
    #[inline(always)]
    fn zero(simd: S) -> Self {
        f32x16::splat(simd, 0.0)
    }

    #[inline(always)]
    fn plus(self, simd: S, a: f32x16<S>, b: f32x16<S>) -> Self {
        simd.fma(a, b, self)
    }

    #[inline(always)]
    fn lanes(self) -> f32x16<S> {
        self
    }
}

impl<S: Lanes> Sums<S> for Wide<S> {
    #[inline(always)]
    fn zero(simd: S) -> Self {
        Wide::zero(simd)
    }

    #[inline(always)]
    fn plus(self, _: S, a: f32x16<S>, b: f32x16<S>) -> Self {
        Wide::plus(self, a, b)
    }

    #[inline(always)]
    fn lanes(self) -> f32x16<S> {
        Wide::lanes(self)
    }
}

/// Asks for a line of memory. Rows are short, and the machine does not find out by itself that another row follows.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn fetch<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 has the instruction. It reads nothing that the program can see, and ignores an
    // address that does not belong to the program.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    type Sums = f32x16<Self>;

    #[inline(always)]
    fn prefetch<T>(self, address: *const T) {
        fetch(address);
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    type Sums = f32x16<Self>;

    #[inline(always)]
    fn prefetch<T>(self, address: *const T) {
        fetch(address);
    }
}

#[cfg(target_arch = "aarch64")]
impl Lanes for Baseline {
    type Sums = f32x16<Self>;
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
impl Lanes for Baseline {
    type Sums = Wide<Self>;

    const HAS_FMA: bool = false;

    #[inline(always)]
    fn fma(self, a: f32x16<Self>, b: f32x16<Self>, c: f32x16<Self>) -> f32x16<Self> {
        Wide::from(c).plus(a, b).lanes()
    }
}

#[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
impl Lanes for Baseline {
    type Sums = f32x16<Self>;

    const HAS_FMA: bool = false;

    #[inline(always)]
    fn fma(self, a: f32x16<Self>, b: f32x16<Self>, c: f32x16<Self>) -> f32x16<Self> {
        // Some hundred instructions for each of its users otherwise: they took most of the time to compile.
        #[inline(never)]
        fn emulated(a: f32x16<Baseline>, b: f32x16<Baseline>, c: f32x16<Baseline>) -> f32x16<Baseline> {
            a.mul_add_precise(b, c)
        }
        emulated(a, b, c)
    }
}
