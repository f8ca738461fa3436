//! The command line: the commands, and how the program ends.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::exit::{BAD_INPUT, DONE, one_line};
use crate::{bench, compare, generate, import, plot, presets, sample};

/// The arguments of the program.
#[derive(Debug, Parser)]
#[command(
    name = "onedraw",
    version,
    arg_required_else_help = false,
    about = "From logits to a token: exact and reproducible. One seed, one draw, everywhere.",
    after_help = "Exit codes: 0 done, 1 a row failed (the others have results), \
                  2 bad arguments, parameters or files."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write text that follows a prompt
    Generate(Box<generate::Arguments>),
    /// Put strategies side by side on one prompt
    Compare(compare::Arguments),
    /// Draw what parameters do: distributions, the pipeline, a generation, a beam search
    Plot(Box<plot::Arguments>),
    /// Draw tokens from a file of logits
    Sample(sample::Arguments),
    /// Measure how long a draw takes on this machine
    Bench(bench::Arguments),
    /// List the parameters of the presets
    Presets(presets::Arguments),
    /// Turn other systems' settings into parameters
    #[command(subcommand, arg_required_else_help = false)]
    Params(ParamsCommand),
}

#[derive(Debug, Subcommand)]
enum ParamsCommand {
    /// Read settings of OpenAI, vLLM, llama.cpp's server or Hugging Face
    Import(import::Arguments),
}

/// Runs the program on `arguments`, the program's own name first, and gives its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            // If the pipe is closed, nobody reads the help.
            let _ = error.print();
            return DONE;
        }
        Err(error) => return report(&usage(&error)),
    };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let error = match execute(&arguments.command, &mut out) {
        Ok(code) => return code,
        Err(error) => error,
    };
    // Errors of reading were turned into messages that name the file, so an I/O error here is one of writing.
    match error.downcast_ref::<io::Error>() {
        // A reader that has seen enough, such as `head`, is no error.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Some(error) => report(&format!("the results cannot be written: {error}")),
        None => report(&format!("{error:#}")),
    }
}

fn execute(command: &Command, out: &mut impl Write) -> Result<u8> {
    let code = match command {
        Command::Generate(arguments) => generate::run(arguments, out)?,
        Command::Compare(arguments) => compare::run(arguments, out)?,
        Command::Plot(arguments) => plot::run(arguments, out)?,
        Command::Sample(arguments) => sample::run(arguments, out)?,
        Command::Bench(arguments) => bench::run(arguments, out)?,
        Command::Presets(arguments) => presets::run(arguments, out)?,
        Command::Params(ParamsCommand::Import(arguments)) => import::run(arguments, out)?,
    };
    out.flush()?;
    Ok(code)
}

fn report(message: &str) -> u8 {
    // If standard error is closed, there is nowhere to report that.
    let _ = writeln!(io::stderr(), "error: {}", one_line(message));
    BAD_INPUT
}

/// The parser's message without the usage and hints, which follow after an empty line.
fn usage(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let message = lines.collect::<Vec<_>>().join(" ");
    format!("{message}; see onedraw --help")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_usage_error_is_its_first_paragraph() {
        let message =
            |arguments: &[&str]| usage(&Arguments::try_parse_from(arguments).expect_err("an error"));
        assert_eq!(
            message(&["onedraw", "sample"]),
            "the following required arguments were not provided: <LOGITS>; see onedraw --help"
        );
        assert_eq!(
            message(&["onedraw", "sample", "x.npy", "--format", "xml"]),
            "invalid value 'xml' for '--format <FORMAT>' [possible values: json, table]; see onedraw --help"
        );
        assert_eq!(
            message(&["onedraw", "sample", "x.npy", "--draw", "2"]),
            "unexpected argument '--draw' found; see onedraw --help"
        );
    }
}
