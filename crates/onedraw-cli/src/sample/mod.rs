//! `onedraw sample`: tokens from a file of logits.
//!
//! [`Arguments`] is the command line. [`run`] reads and checks everything that is asked for; then `cpu` or
//! `device` draws, and both print through `asked`.

mod arguments;
mod asked;
mod cpu;
mod device;

use std::io::Write;

use anyhow::Result;
use onedraw::Kernel;

use crate::exit::note;
use crate::kernel::check_kernel;
use crate::logits;
use crate::output::Printer;
use crate::request::Requests;

pub use arguments::Arguments;
use asked::Asked;

/// The parameters that only a text has. In `--params` they may stand beside the others, because the same object
/// may serve `onedraw generate`.
const OF_A_TEXT: [&str; 6] =
    ["max_tokens", "stop", "ignore_eos", "include_stop_str_in_output", "banned_strings", "prompt_logprobs"];

/// Draws from every row and gives the exit code. Nothing is written before all arguments have been checked.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let on_device = arguments.kernel == Kernel::Cuda;
    if !on_device {
        check_kernel(arguments.kernel)?;
    }
    let requests = Requests::new(&arguments.parameters)?;
    for flag in arguments.parameters.flags_among(OF_A_TEXT) {
        note(&format!("{flag} has no effect: sample draws single tokens and writes no text"));
    }
    let device = on_device.then(|| device::open(arguments, &requests)).transpose()?;
    let matrix = logits::load(&arguments.logits)?;
    requests.check(matrix.rows(), matrix.vocabulary(), arguments.draws)?;
    let mut printer = Printer::new(out, arguments.format, requests.has_sequences());
    let asked = Asked { arguments, requests: &requests, matrix: &matrix };
    match device {
        Some(device) => device::run(asked, &device, &mut printer),
        None => cpu::run(asked, &mut printer),
    }
}
