//! `onedraw lab`: the laboratory in a browser, for this machine alone.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use onedraw_serve::{LogFormat, Settings};

use crate::flags::speculation::SpeculationFlags;
use crate::model::ModelFlags;
use crate::serve;

/// The arguments of `onedraw lab`.
#[derive(Debug, Args)]
#[command(after_help = "\
Open the address that is printed in a browser: write a prompt, and see for each token what every stage did. The page is
served to this machine alone; `onedraw serve` has it too. Ctrl-C ends it.

Example:
  onedraw lab")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelFlags,
    /// The port; 0: one that is free
    #[arg(long, default_value_t = 8080)]
    port: u16,
    #[command(flatten)]
    speculation: SpeculationFlags,
}

/// Serves the page until the process is told to end, and gives the exit code.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let model = serve::served(&arguments.model, &arguments.speculation)?;
    let settings = Settings { port: arguments.port, ..Settings::default() };
    serve::serve(model, settings, LogFormat::default(), 1, out)
}
