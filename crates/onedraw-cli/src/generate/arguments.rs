//! The command line of `onedraw generate`.

use std::path::PathBuf;

use clap::Args;

use super::request::Format;
use crate::flags::beams::BeamFlags;
use crate::flags::constraint::ConstraintFlags;
use crate::flags::contrast::ContrastFlags;
use crate::flags::parameters::ParameterFlags;
use crate::flags::speculation::SpeculationFlags;
use crate::model::ModelFlags;

/// The arguments of `onedraw generate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Parameters: a flag goes before --params, that before --preset, that before the model's generation_config.json, that before the
defaults. The defaults shown here are those of the embedded model. \\n, \\t and \\\\ in --stop, --banned-strings and --bad-words are
a line end, a tab and a backslash.
JSON output is a line a text:
  {\"text\":…,\"tokens\":[…],\"finish_reason\":\"stop|length|eos\",\"seed\":…,\"logprobs\":[…],\"timings\":{…}}
Ctrl-C ends with what there is.

Example:
  onedraw generate \"Once upon a time\" --preset creative --seed 7 --stats")]
pub struct Arguments {
    /// The beginning of the text; without it, standard input
    #[arg(value_name = "PROMPT")]
    pub(super) prompt: Option<String>,
    #[command(flatten)]
    pub(super) model: ModelFlags,
    /// The prompt is a message to the model, written as its chat template says
    #[arg(long)]
    pub(super) chat: bool,
    /// What the system says first in a chat
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub(super) system: Option<String>,
    /// Append what each text was drawn with to this file, a line of JSON for each: `onedraw audit` reads it
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Say at the end, on standard error, how fast it was
    #[arg(long)]
    pub(super) stats: bool,
    /// How to print: the prompt and what follows it, as it comes, or a line of JSON for each text
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) beams: BeamFlags,
    #[command(flatten)]
    pub(super) constraint: ConstraintFlags,
    #[command(flatten)]
    pub(super) contrast: ContrastFlags,
    #[command(flatten)]
    pub(super) speculation: SpeculationFlags,
    #[command(flatten)]
    pub(super) parameters: ParameterFlags,
}
