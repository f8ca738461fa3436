//! `onedraw bench`: how long a draw takes on this machine.

use std::io::{self, IsTerminal, Write};

use anyhow::{Result, bail};
use clap::Args;
use onedraw::Kernel;
use onedraw::row::MAX_VOCABULARY;
use onedraw_bench::machine::Machine;
use onedraw_bench::report::Report;
use onedraw_bench::strategies;
use onedraw_bench::suite::Suite;

use crate::exit::DONE;
use crate::kernel::check_kernel;
use crate::output::Format;

/// The arguments of `onedraw bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Times are microseconds a row, and ratios to one bare max-scan of the same row in the same run. Rows are peaked as a language
model's, or flat; hot rows stay in cache, cold ones go round in 64 MiB. Targets are for 128256 logits. Leave the machine
idle: what else runs is measured too.

Example:
  onedraw bench --strategy top-p")]
pub struct Arguments {
    /// Logits of a row
    #[arg(long, value_name = "N", default_value_t = strategies::TARGET_VOCABULARY as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MAX_VOCABULARY as i64))]
    vocabulary: u32,
    /// Which instruction set reads the rows; auto: the best there is
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
    /// How to print: a table to read, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Only the strategies that have this in their names
    #[arg(long, value_name = "PART-OF-NAME", default_value = "", hide_default_value = true)]
    strategy: String,
    /// A few draws each: a look, not a measurement
    #[arg(long)]
    quick: bool,
}

/// Measures and prints.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let Arguments { vocabulary, kernel, format, strategy, quick } = arguments;
    check_kernel(*kernel)?;
    if strategies::named(strategy).next().is_none() {
        let names: Vec<_> = strategies::ALL.iter().map(|strategy| strategy.name).collect();
        bail!("--strategy: no name has `{strategy}` in it; the strategies are {}", names.join("; "));
    }
    let suite = if *quick { Suite::quick } else { Suite::full };
    let suite = suite(*vocabulary as usize, *kernel, strategy);
    let mut progress = progress();
    let lines = suite.lines(&mut progress);
    progress("");
    let report = Report { machine: Machine::here(*kernel), lines };
    match format {
        Format::Table => write!(out, "{report}")?,
        Format::Json => {
            serde_json::to_writer(&mut *out, &report).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(DONE)
}

/// Shows the name of what is being measured, on one line that is written over each time; an empty name clears
/// the line. Does nothing if standard error is not a terminal.
fn progress() -> impl FnMut(&str) {
    let shown = io::stderr().is_terminal();
    move |what| {
        if shown {
            // If standard error is closed, there is nowhere to report that.
            let _ = write!(io::stderr(), "\r\x1b[2K{what}");
        }
    }
}
