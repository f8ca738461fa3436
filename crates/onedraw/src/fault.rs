//! What can be wrong with the answers of the shards that hold a row.

use std::fmt;

/// A draw that cannot go on because of an answer: one shard's reply cannot be used, or the replies do not fit
/// together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The reply of one shard cannot be used.
    Reply {
        /// The shard's number, from 0.
        shard: usize,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Every reply can be read, but together they describe no row.
    Contradiction(&'static str),
}

/// What is wrong with one reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The shard sent no reply.
    Missing,
    /// The shard sent a second reply to the same question.
    Repeated,
    /// There is no shard of this number in the draw.
    Unknown,
    /// The reply ends before its last field.
    Cut,
    /// The reply goes on after its last field.
    TooLong,
    /// The reply is written in another version of the format.
    Version(u8),
    /// The reply answers another kind of question.
    Kind {
        /// What was asked.
        asked: &'static str,
        /// What was answered; `None` for a number that stands for no question.
        answered: Option<&'static str>,
    },
    /// The reply belongs to another draw, or to another question of this one.
    OtherDraw,
    /// The shard holds other tokens than the ones that are left for it: all shards together hold every token
    /// once.
    Tokens {
        /// The first token it holds.
        start: u32,
        /// How many it holds.
        length: u32,
    },
    /// A number in the reply cannot be right for the tokens that the shard holds.
    Impossible(&'static str),
    /// The shard means another draw than the first shard does: what they disagree about.
    Disagrees(&'static str),
    /// The shard could not answer, and says why.
    Failed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply { shard, problem } => write!(f, "shard {shard} {problem}"),
            Self::Contradiction(what) => write!(f, "the answers about the row contradict each other: {what}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "sent no reply"),
            Self::Repeated => write!(f, "sent two replies to one question"),
            Self::Unknown => write!(f, "is not part of this draw"),
            Self::Cut => write!(f, "sent a reply that is cut short"),
            Self::TooLong => write!(f, "sent a reply that is too long"),
            Self::Version(version) => write!(f, "sent a reply in version {version} of the format"),
            Self::Kind { asked, answered: Some(answered) } => {
                write!(f, "was asked {asked} and answered {answered}")
            }
            Self::Kind { asked, answered: None } => {
                write!(f, "was asked {asked} and answered no known question")
            }
            Self::OtherDraw => write!(f, "sent a reply to another question or draw"),
            Self::Tokens { start, length } => write!(
                f,
                "holds {length} tokens from {start} on; all shards together must hold every token once"
            ),
            Self::Impossible(what) => write!(f, "sent {what} that its tokens cannot have"),
            Self::Disagrees(about) => {
                write!(f, "disagrees with shard 0 about the {about} of this row")
            }
            Self::Failed(message) => write!(f, "could not answer: {message}"),
        }
    }
}

impl std::error::Error for Fault {}
