//! Parameters whose values are names.

use serde::{Deserialize, Serialize};

/// Which tokens frequency and presence penalty count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PenaltyScope {
    /// The output only.
    #[default]
    Output,
    /// Prompt and output.
    All,
}

/// What is reported of the tokens that could have been drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptMode {
    /// Nothing.
    #[default]
    None,
    /// How many there are, the last of them, and their mass.
    Summary,
    /// The same, and their ids.
    Ids,
}

impl KeptMode {
    /// Every mode.
    pub const ALL: [KeptMode; 3] = [Self::None, Self::Summary, Self::Ids];

    /// The name, as it is written in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Summary => "summary",
            Self::Ids => "ids",
        }
    }
}

/// What the reported logprobs are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogprobsMode {
    /// The softmax of the unmodified row, before any edit.
    #[default]
    RawLogprobs,
    /// The unmodified row.
    RawLogits,
    /// The distribution that is drawn from.
    ProcessedLogprobs,
    /// The row after all edits and the temperature; −inf where a token was removed.
    ProcessedLogits,
}

impl LogprobsMode {
    /// Every mode.
    pub const ALL: [LogprobsMode; 4] =
        [Self::RawLogprobs, Self::RawLogits, Self::ProcessedLogprobs, Self::ProcessedLogits];

    /// The name, as it is written in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::RawLogprobs => "raw_logprobs",
            Self::RawLogits => "raw_logits",
            Self::ProcessedLogprobs => "processed_logprobs",
            Self::ProcessedLogits => "processed_logits",
        }
    }

    /// Whether the numbers come from the unmodified row.
    pub fn is_raw(self) -> bool {
        matches!(self, Self::RawLogprobs | Self::RawLogits)
    }

    /// Whether the numbers are logits.
    pub fn is_logits(self) -> bool {
        matches!(self, Self::RawLogits | Self::ProcessedLogits)
    }
}
