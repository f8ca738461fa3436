//! What is to be written, and how.

use std::path::Path;

use onedraw::{Kernel, SamplingParams};
use onedraw_lm::Tokenizer;

/// How texts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The prompt and what follows it, as it comes
    Text,
    /// A line of JSON for each text
    Json,
}

/// One prompt with everything that its texts need but the model.
pub(super) struct Request<'a> {
    pub(super) prompt: &'a [u32],
    /// What is shown before a text: the prompt, or nothing in a chat.
    pub(super) heading: &'a str,
    pub(super) params: SamplingParams,
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) kernel: Kernel,
    pub(super) format: Format,
    pub(super) stats: bool,
    /// How many positions the model has.
    pub(super) context: usize,
    /// Where the log of speculation goes.
    pub(super) speculation_log: Option<&'a Path>,
}
