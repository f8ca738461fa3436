//! Why a sequence ended.

use serde::{Deserialize, Serialize};

/// Why a sequence ended, as JSON names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// A stop id was drawn or a stop string was completed.
    Stop,
    /// The text has reached `max_tokens`.
    Length,
    /// An EOS id was drawn.
    Eos,
}

/// Why a sequence ended, with the id or string that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// An EOS id was drawn.
    Eos {
        /// The id.
        token: u32,
    },
    /// A stop id was drawn.
    StopToken {
        /// The id.
        token: u32,
    },
    /// A stop string was completed.
    StopString {
        /// Its index in [`SamplingParams::stop`](crate::SamplingParams::stop).
        index: usize,
    },
    /// `max_tokens` are written.
    Length,
}

impl Finish {
    /// The reason without the id or string.
    pub fn reason(self) -> FinishReason {
        match self {
            Self::Eos { .. } => FinishReason::Eos,
            Self::StopToken { .. } | Self::StopString { .. } => FinishReason::Stop,
            Self::Length => FinishReason::Length,
        }
    }
}
