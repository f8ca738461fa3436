//! Whether this machine has the instruction set that was asked for.

use anyhow::{Result, bail};
use onedraw::Kernel;

/// An error if it does not; the message names the instruction sets that it has.
pub(crate) fn check_kernel(kernel: Kernel) -> Result<()> {
    if kernel.is_supported() {
        return Ok(());
    }
    let supported = Kernel::ALL.iter().filter(|kernel| kernel.is_supported()).map(|kernel| kernel.name());
    let supported = supported.collect::<Vec<_>>().join(", ");
    match kernel {
        Kernel::Cuda => bail!("--kernel: cuda is for `onedraw sample` alone; supported here are {supported}"),
        other => bail!("--kernel: this CPU has no {}; supported here are {supported}", other.name()),
    }
}
