//! The floating-point mode of the processor: round to nearest, and keep subnormal numbers.
//!
//! Some numeric libraries switch a thread to flush-to-zero, and the thread stays in that mode for other code.
//! In that mode two different subnormal logits are equal, which changes tokens. So every entry point holds a
//! [`Standard`] while it computes. Code that computes logits with the same bits everywhere does the same.

/// While this value lives, the thread computes in the standard mode. Dropping it restores the caller's mode.
pub struct Standard {
    /// The caller's control register, if it was not in the standard mode.
    caller: Option<u64>,
}

impl Standard {
    /// Reads the thread's mode and changes it to the standard one if necessary.
    #[inline]
    pub fn enter() -> Self {
        let mode = control::read();
        let standard = mode & !control::DEVIATIONS;
        if mode == standard {
            return Self { caller: None };
        }
        control::write(standard);
        Self { caller: Some(mode) }
    }
}

impl Drop for Standard {
    #[inline]
    fn drop(&mut self) {
        if let Some(mode) = self.caller {
            control::write(mode);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod control {
    use std::arch::asm;

    /// The bits of MXCSR that are 0 in the standard mode: flush to zero (15), rounding control (14, 13),
    /// denormals are zero (6).
    pub(super) const DEVIATIONS: u64 = 1 << 15 | 0b11 << 13 | 1 << 6;

    #[inline]
    pub(super) fn read() -> u64 {
        let mut mode = 0u32;
        // SAFETY: stores the 32-bit register MXCSR to a live u32 and changes nothing else.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut mode, options(nostack, preserves_flags)) };
        u64::from(mode)
    }

    #[inline]
    pub(super) fn write(mode: u64) {
        let mode = mode as u32;
        // SAFETY: `mode` was read from MXCSR, with at most FTZ, DAZ and the rounding mode set to the state
        // that Rust assumes, or is the caller's own state given back; no reserved bit is set. The block may
        // read and write memory as far as the compiler knows, so no load of a logit and no store of a result
        // moves across it.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &mode, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
mod control {
    use std::arch::asm;

    /// The bits of FPCR that are 0 in the standard mode: flush to zero (24), rounding mode (23, 22), flush
    /// half precision (19), flush inputs (0).
    pub(super) const DEVIATIONS: u64 = 1 << 24 | 0b11 << 22 | 1 << 19 | 1;

    #[inline]
    pub(super) fn read() -> u64 {
        let mode: u64;
        // SAFETY: reads FPCR and changes nothing.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nomem, nostack, preserves_flags)) };
        mode
    }

    #[inline]
    pub(super) fn write(mode: u64) {
        // SAFETY: `mode` was read from FPCR, with at most the flush and rounding bits set to the state Rust
        // assumes, or is the caller's own state given back.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nostack)) };
    }
}

/// On other architectures Rust cannot change the mode, and no other mode is in common use.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) const DEVIATIONS: u64 = 0;
    pub(super) fn read() -> u64 {
        0
    }
    pub(super) fn write(_: u64) {}
}
