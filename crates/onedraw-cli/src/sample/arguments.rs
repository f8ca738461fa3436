//! The command line of `onedraw sample`.

use std::path::PathBuf;

use clap::Args;
use onedraw::Kernel;

use crate::flags::parameters::ParameterFlags;
use crate::output::Format;

/// The arguments of `onedraw sample`.
#[derive(Debug, Args)]
#[command(after_help = "\
Parameters: a flag goes before --params, that before --preset, that before the defaults. --params takes one object for
all rows, or an array of one a row. `probability` is that of the distribution drawn from; `logprob` and `rank` are as
--logprobs-mode says.
JSON output is a line a row and draw:
  {\"row\":0,\"draw\":0,\"token\":7,\"logprob\":-0.51,\"probability\":0.6,\"rank\":1,\"seed\":42,\
\"position\":0}
with \"sequence\" after \"draw\" where n > 1, \"logprobs\" at the end where asked for, and \"mirostat_mu\", where
mirostat stands once the token is accepted, where it is on. Distributions and explanations are those of the first of n sequences.
A row that cannot be sampled gives one line {\"row\":2,\"error\":{\"kind\":…,\"message\":…}};
the other rows get their results, and the exit code is 1.

Example:
  onedraw sample logits.npy --temperature 0.7 --top-p 0.9 --seed 42 --draws 3")]
pub struct Arguments {
    /// A .npy (f32, f16, f64; [V] or [B, V]), a .safetensors with a tensor `logits`, or - (.npy on standard input)
    #[arg(value_name = "LOGITS")]
    pub(super) logits: PathBuf,
    /// Draws for each row; draw d is that of position (number of output tokens) + d, from the same history
    /// and mirostat_mu
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) draws: u32,
    /// Print each row's distribution instead of draws: what is left, best first; with XTC, after the coin of
    /// this position
    #[arg(long)]
    pub(super) distribution: bool,
    /// Print instead, stage by stage, what the next draw leaves of each row: tokens, mass, what went, and the
    /// time
    #[arg(long, conflicts_with_all = ["distribution", "draws", "logprobs", "logprobs_mode"])]
    pub(super) explain: bool,
    /// Threads that share the rows; 0: one for each core. Changes no token
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(..=1024))]
    pub(super) threads: u16,
    /// Instruction set: auto, scalar, sse, avx2, avx512 or neon; cuda: the first GPU. Changes no token
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    pub(super) kernel: Kernel,
    /// Split each row over so many ranks, as if the vocabulary were sharded. Changes no token
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) shards: u32,
    /// How to print: JSON lines, or a table to read (the first 50 tokens of a distribution)
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) parameters: ParameterFlags,
}
