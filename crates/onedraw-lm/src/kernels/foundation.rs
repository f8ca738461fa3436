//! The foundation of AVX-512, which servers have had since 2017.
//!
//! `fearless_simd` knows AVX-512 as processors have it since 2019 (Ice Lake): the foundation and a dozen
//! extensions. Those before it, which are many of the machines that are rented, have the foundation, and it is all
//! that a sum of products needs. With twice as many lanes and registers as AVX2 has, a pass of 16 positions takes
//! 0.56 times as long (bench/results/2026-11-20-speculation-smollm2.md).

use std::arch::x86_64::{__m512, _mm512_loadu_ps, _mm512_storeu_ps};

/// Proof that the processor has the foundation of AVX-512.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foundation(());

impl Foundation {
    /// `None` if the processor lacks it.
    pub(crate) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
#[allow(unsafe_code)]
pub(super) fn load(numbers: &[f32; 16]) -> __m512 {
    // SAFETY: these are the 64 bytes that the instruction reads, aligned or not.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
#[allow(unsafe_code)]
pub(super) fn store(lanes: __m512, numbers: &mut [f32; 16]) {
    // SAFETY: these are the 64 bytes that the instruction writes, aligned or not.
    unsafe { _mm512_storeu_ps(numbers.as_mut_ptr(), lanes) }
}
