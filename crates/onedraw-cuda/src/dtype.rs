//! The types that logits may have.

use half::{bf16, f16};

/// The type of a logit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a 32-bit float.
    BF16,
}

impl Dtype {
    /// Every type.
    pub const ALL: [Dtype; 3] = [Self::F32, Self::F16, Self::BF16];

    /// Its name, as the names of kernels contain it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        }
    }

    /// Bytes of a logit.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }
}

/// A Rust type that logits may have.
pub trait Logit {
    /// The same at run time.
    const DTYPE: Dtype;
}

impl Logit for f32 {
    const DTYPE: Dtype = Dtype::F32;
}

impl Logit for f16 {
    const DTYPE: Dtype = Dtype::F16;
}

impl Logit for bf16 {
    const DTYPE: Dtype = Dtype::BF16;
}
