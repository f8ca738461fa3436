//! The names of the instruction sets. The choice can change the speed, never a token.

use std::fmt;
use std::str::FromStr;

use crate::params::error::ParamError;

/// An instruction set, or the choice of the best one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernel {
    /// The best one that this machine has.
    #[default]
    Auto,
    /// The one that every machine of the architecture has: SSE2 on x86-64, NEON on AArch64, SIMD128 in
    /// WebAssembly that is built with it, plain code elsewhere.
    Scalar,
    /// The 128-bit vectors of x86-64. The same as [`Kernel::Scalar`] there.
    Sse,
    /// The 256-bit vectors of x86-64, with fused multiply-add.
    Avx2,
    /// The 512-bit vectors of x86-64.
    Avx512,
    /// The 128-bit vectors of AArch64.
    Neon,
    /// A CUDA device. This crate cannot run it; `onedraw-cuda` does.
    Cuda,
}

impl Kernel {
    /// Every kernel.
    pub const ALL: [Kernel; 7] =
        [Kernel::Auto, Kernel::Scalar, Kernel::Sse, Kernel::Avx2, Kernel::Avx512, Kernel::Neon, Kernel::Cuda];

    /// The name, as the command line takes it.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Auto => "auto",
            Kernel::Scalar => "scalar",
            Kernel::Sse => "sse",
            Kernel::Avx2 => "avx2",
            Kernel::Avx512 => "avx512",
            Kernel::Neon => "neon",
            Kernel::Cuda => "cuda",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kernel {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Kernel::ALL.into_iter().find(|kernel| kernel.name() == name).ok_or_else(|| {
            let names: Vec<_> = Kernel::ALL.iter().map(|kernel| kernel.name()).collect();
            ParamError::new(
                "kernel",
                format!("`{name}` is not a kernel; the kernels are {}", names.join(", ")),
            )
        })
    }
}
