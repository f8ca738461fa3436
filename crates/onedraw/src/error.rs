//! What can be wrong: with a parameter ([`ParamError`]), or with a row of logits ([`RowError`]).

use std::fmt;

use crate::fault::{Fault, Problem};
use crate::numeric::mass::MAX_VOCABULARY;
use crate::params::chain::Stage;
pub use crate::params::error::ParamError;

/// A row of logits that cannot be sampled. It spoils no other row of a batch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RowError {
    /// A logit is NaN; `token` is the lowest bad id.
    NanLogit {
        /// The id of the logit.
        token: u32,
    },
    /// A logit is +inf; `token` is the lowest bad id.
    InfiniteLogit {
        /// The id of the logit.
        token: u32,
    },
    /// The row has no logits at all.
    EmptyRow,
    /// A constraint cannot go on.
    Constraint {
        /// What it says.
        message: String,
    },
    /// A draft needs a row after the text and one after each of its tokens.
    DraftRows {
        /// The rows that came.
        rows: usize,
        /// Those that are needed.
        needed: usize,
    },
    /// The way guesses are judged needs the laws that they were drawn from, and the draft has none.
    DraftWithoutLaws,
    /// A draft has a law after the text and one after each of its tokens, or none at all.
    DraftLaws {
        /// The laws that came.
        laws: usize,
        /// Those that are needed.
        needed: usize,
    },
    /// The law that a guess was drawn from gives it no probability.
    ImpossibleGuess {
        /// The guess, as a node of the draft.
        node: usize,
        /// Its token.
        token: u32,
    },
    /// Block verification judges guesses that come one after the other.
    DraftNotChain,
    /// Two rows that are to become one are not of the same length.
    RowsDiffer {
        /// The logits of the first.
        first: usize,
        /// The logits of the second.
        second: usize,
    },
    /// Every token is masked. `stage` masked the last one; `None`: the row came with nothing but −inf.
    NothingLeft {
        /// The stage that removed the last token.
        stage: Option<Stage>,
    },
    /// An id in a list of the parameters or in the history is not a token of this row.
    OutsideVocabulary {
        /// The parameter that holds the id.
        field: &'static str,
        /// The id.
        token: u32,
        /// The number of logits in the row.
        vocabulary: usize,
    },
    /// The row is longer than 2^20 logits, the largest vocabulary whose masses fit 64 bits.
    VocabularyTooLarge {
        /// The number of logits in the row.
        vocabulary: usize,
    },
    /// A grammar's mask does not reach to the end of the vocabulary.
    MaskTooShort {
        /// The 32-bit words given.
        words: usize,
        /// The 32-bit words needed.
        needed: usize,
    },
    /// A grammar's mask was given, but the order does not name the stage `allowed` that applies it.
    MaskWithoutStage,
    /// The sequence is not in the batch, or no longer.
    UnknownSequence,
    /// The sequence has an earlier step in the same call.
    RepeatedSequence,
    /// A user's own stage failed, or said something that cannot be done.
    CustomStage {
        /// The stage.
        stage: Stage,
        /// What it said, or what is wrong with it.
        message: String,
    },
    /// The row is split over shards, and their answers cannot be used. Nothing was drawn.
    Shard(Fault),
    /// A caller's uniform number is not in [0, 1).
    UniformOutOfRange {
        /// The number.
        uniform: f64,
    },
}

impl RowError {
    /// A short name of the kind, stable for programs to test.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NanLogit { .. } => "nan_logit",
            Self::InfiniteLogit { .. } => "infinite_logit",
            Self::EmptyRow => "empty_row",
            Self::Constraint { .. } => "constraint",
            Self::DraftRows { .. } => "draft_rows",
            Self::DraftWithoutLaws => "draft_without_laws",
            Self::DraftLaws { .. } => "draft_laws",
            Self::ImpossibleGuess { .. } => "impossible_guess",
            Self::DraftNotChain => "draft_not_chain",
            Self::RowsDiffer { .. } => "rows_differ",
            Self::NothingLeft { .. } => "nothing_left",
            Self::OutsideVocabulary { .. } => "outside_vocabulary",
            Self::VocabularyTooLarge { .. } => "vocabulary_too_large",
            Self::MaskTooShort { .. } => "mask_too_short",
            Self::MaskWithoutStage => "mask_without_stage",
            Self::UnknownSequence => "unknown_sequence",
            Self::RepeatedSequence => "repeated_sequence",
            Self::CustomStage { .. } => "custom_stage",
            Self::Shard(_) => "shard",
            Self::UniformOutOfRange { .. } => "uniform_out_of_range",
        }
    }
}

impl RowError {
    /// The reply of a shard cannot be used.
    pub(crate) fn reply(shard: usize, problem: Problem) -> Self {
        Self::Shard(Fault::Reply { shard, problem })
    }

    /// The shards' answers do not fit together.
    pub(crate) const fn contradiction(what: &'static str) -> Self {
        Self::Shard(Fault::Contradiction(what))
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NanLogit { token } => {
                write!(f, "the logit of token {token} is NaN; logits are finite or -inf (masked)")
            }
            Self::InfiniteLogit { token } => {
                write!(f, "the logit of token {token} is +inf; logits are finite or -inf (masked)")
            }
            Self::EmptyRow => write!(f, "the row has no logits; at least one is needed"),
            Self::Constraint { message } => write!(f, "constraint: {message}"),
            Self::DraftRows { rows, needed } => {
                write!(f, "a draft of {} tokens needs {needed} rows, not {rows}", needed - 1)
            }
            Self::DraftWithoutLaws => {
                write!(
                    f,
                    "rejection and block verification need the laws that guesses were drawn from; the drafter gives none"
                )
            }
            Self::DraftLaws { laws, needed } => {
                write!(f, "a draft of {} tokens needs {needed} laws, not {laws}", needed - 1)
            }
            Self::ImpossibleGuess { node, token } => {
                write!(f, "node {node} of the draft is token {token}, which its law gives no probability")
            }
            Self::DraftNotChain => {
                write!(
                    f,
                    "block verification needs guesses that come one after the other; the draft is a tree"
                )
            }
            Self::RowsDiffer { first, second } => {
                write!(f, "the rows have {first} and {second} logits; two rows of one vocabulary are needed")
            }
            Self::NothingLeft { stage: Some(stage) } => {
                write!(f, "no token is left after the stage {}", stage.name())
            }
            Self::NothingLeft { stage: None } => write!(f, "every logit of the row is -inf"),
            Self::OutsideVocabulary { field, token, vocabulary } => {
                write!(
                    f,
                    "{field}: token {token} is outside the vocabulary; ids of this row are 0 to {}",
                    vocabulary.saturating_sub(1)
                )
            }
            Self::VocabularyTooLarge { vocabulary } => {
                write!(f, "the row has {vocabulary} logits; at most {} are allowed", MAX_VOCABULARY)
            }
            Self::MaskTooShort { words, needed } => {
                write!(f, "the mask has {words} words of 32 bits; this vocabulary needs {needed}")
            }
            Self::MaskWithoutStage => {
                write!(f, "a mask was given, but the order does not name the stage allowed")
            }
            Self::UnknownSequence => write!(f, "the sequence is not in the batch"),
            Self::RepeatedSequence => write!(f, "the sequence has two steps in one call; each may have one"),
            Self::CustomStage { stage, message } => write!(f, "the stage {}: {message}", stage.name()),
            Self::Shard(fault) => fault.fmt(f),
            Self::UniformOutOfRange { uniform } => write!(f, "the uniform number {uniform} is not in [0, 1)"),
        }
    }
}

impl std::error::Error for RowError {}
