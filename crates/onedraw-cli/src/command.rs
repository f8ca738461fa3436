//! The command line: the commands, and how the program ends.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use onedraw::SamplingParams;
use onedraw_lm::settings::MAX_TOKENS;

use crate::exit::{BAD_INPUT, DONE, one_line};
use crate::flags::parameters::described;
use crate::{audit, bench, compare, generate, import, lab, manual, mistake, plot, presets, sample, serve};

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
    /// Answer requests over HTTP, as OpenAI's clients make them
    Serve(Box<serve::Arguments>),
    /// See every draw in a browser: what each stage did, and what else could have been
    Lab(Box<lab::Arguments>),
    /// Say whether a model and its sampler wrote the texts of a trace
    Audit(Box<audit::Arguments>),
    /// Put strategies side by side on one prompt
    Compare(Box<compare::Arguments>),
    /// Draw what parameters do: distributions, the pipeline, a generation, a beam search
    Plot(Box<plot::Arguments>),
    /// Draw tokens from a file of logits
    Sample(Box<sample::Arguments>),
    /// Measure how long a draw takes on this machine
    Bench(bench::Arguments),
    /// List the parameters of the presets
    Presets(presets::Arguments),
    /// Turn other systems' settings into parameters
    #[command(subcommand, arg_required_else_help = false)]
    Params(ParamsCommand),
    /// Print what a shell needs to complete commands and flags
    Completions(manual::Completions),
    /// Print the manual page, of the program or of one command
    Man(manual::Page),
}

#[derive(Debug, Subcommand)]
enum ParamsCommand {
    /// Read settings of OpenAI, vLLM, llama.cpp's server or Hugging Face
    Import(import::Arguments),
}

/// The whole command line, with the defaults that hold for each command in its help.
pub(crate) fn definition() -> clap::Command {
    let plain = SamplingParams::default();
    let seeded = SamplingParams { seed: Some(0), ..plain.clone() };
    let compared = SamplingParams { max_tokens: MAX_TOKENS, ..seeded.clone() };
    with_short_help(Arguments::command())
        .mut_subcommand("generate", |command| described(command, &generate::defaults(), true, &[]))
        .mut_subcommand("compare", |command| described(command, &compared, true, &[]))
        .mut_subcommand("plot", |command| {
            let length = "The most tokens of a text [default: 48 with --generation, 6 with --beams]";
            described(command, &seeded, true, &[("max_tokens", length)])
        })
        .mut_subcommand("sample", |command| {
            let params = "Parameters as a JSON object, an array of one a row, or @FILE; flags go before it";
            described(command, &plain, false, &[("params", params)])
        })
}

/// The same command, and all below it, with the short form of help for `--help` too: one line for each flag, as
/// long as it is.
fn with_short_help(command: clap::Command) -> clap::Command {
    let help = Arg::new("help").short('h').long("help").help("Print help").action(ArgAction::HelpShort);
    command.disable_help_flag(true).arg(help).term_width(0).mut_subcommands(with_short_help)
}

/// Runs the program on `arguments`, the program's own name first, and gives its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let line: Vec<OsString> = arguments.into_iter().collect();
    let mut definition = definition();
    let parsed =
        definition.try_get_matches_from_mut(&line).and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            // If the pipe is closed, nobody reads the help.
            let _ = error.print();
            return DONE;
        }
        Err(error) => return report(&mistake::usage(&error, &definition, &line)),
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
        None => report(&mistake::explained(&format!("{error:#}"), &definition, &line)),
    }
}

fn execute(command: &Command, out: &mut impl Write) -> Result<u8> {
    let code = match command {
        Command::Generate(arguments) => generate::run(arguments, out)?,
        Command::Serve(arguments) => serve::run(arguments, out)?,
        Command::Lab(arguments) => lab::run(arguments, out)?,
        Command::Audit(arguments) => audit::run(arguments, out)?,
        Command::Compare(arguments) => compare::run(arguments, out)?,
        Command::Plot(arguments) => plot::run(arguments, out)?,
        Command::Sample(arguments) => sample::run(arguments, out)?,
        Command::Bench(arguments) => bench::run(arguments, out)?,
        Command::Presets(arguments) => presets::run(arguments, out)?,
        Command::Params(ParamsCommand::Import(arguments)) => import::run(arguments, out)?,
        Command::Completions(arguments) => manual::completions(arguments, definition(), out)?,
        Command::Man(arguments) => manual::page(arguments, definition(), out)?,
    };
    out.flush()?;
    Ok(code)
}

fn report(message: &str) -> u8 {
    // If standard error is closed, there is nowhere to report that.
    let _ = writeln!(io::stderr(), "error: {}", one_line(message));
    BAD_INPUT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    /// The help of a command, and of it the line of each flag.
    fn help(command: &str) -> (String, BTreeMap<String, String>) {
        let mut definition = super::definition();
        let text = definition.find_subcommand_mut(command).expect(command).render_help().to_string();
        let line = |line: &str| {
            let line = line.strip_prefix("  ")?.trim_start().trim_start_matches("-n, ");
            let name = line.strip_prefix("--")?.split([' ', '[']).next()?;
            Some((name.to_owned(), line.to_owned()))
        };
        let lines = text.lines().filter_map(line).collect();
        (text, lines)
    }

    #[test]
    fn every_flag_is_described_in_one_line_with_the_default_that_holds() {
        for command in ["generate", "compare", "plot", "sample"] {
            let (text, lines) = help(command);
            for parameter in onedraw::PARAMETERS {
                let flag = parameter.name.replace('_', "-");
                let is_hidden =
                    command != "sample" && ["prompt-token-ids", "output-token-ids"].contains(&&*flag);
                assert_eq!(lines.contains_key(&flag), !is_hidden, "{command} --{flag}");
                if let Some(line) = lines.get(&flag).filter(|_| !(command == "plot" && flag == "max-tokens"))
                {
                    assert!(line.contains(parameter.help), "{command}: {line}");
                }
            }
            let groups =
                onedraw::Group::ALL.map(|group| text.find(&format!("{}:\n", group.title())).expect(command));
            assert!(groups.is_sorted(), "{command}");
        }
        let default = |command: &str, flag: &str| {
            let (_, lines) = help(command);
            lines[flag].split_once(" [default: ").map(|(_, rest)| rest.trim_end_matches(']').to_owned())
        };
        for (command, flag, holds) in [
            ("generate", "max-tokens", "256"),
            ("generate", "temperature", "0.7"),
            ("generate", "top-k", "50"),
            ("generate", "top-p", "0.9"),
            ("generate", "min-p", "0.0"),
            ("compare", "max-tokens", "256"),
            ("compare", "temperature", "1.0"),
            ("compare", "seed", "0"),
            ("plot", "temperature", "1.0"),
            ("plot", "max-tokens", "48 with --generation, 6 with --beams"),
            ("sample", "max-tokens", "16"),
            ("sample", "logprobs-mode", "raw_logprobs"),
        ] {
            assert_eq!(default(command, flag).as_deref(), Some(holds), "{command} --{flag}");
        }
        assert_eq!((default("generate", "seed"), default("generate", "stop")), (None, None));
    }
}
