//! What a draw needs to know of a row, as small questions whose answers can be merged.
//!
//! The draw never touches a row. It asks questions, and whoever holds the row answers: one
//! slice for a whole row, or many, each with its part of the vocabulary, whose answers
//! [`Reply::absorb`] merges. Maxima, sums of integers and lists of keys merge the same way in any order, so the split cannot
//! change a token. A deployment that spreads a vocabulary over machines sends these as its messages.

use serde::{Deserialize, Serialize};

use crate::edit::temperature::Temperature;
use crate::mass::Softmax;
use crate::order::Key;

/// A question about the logits as the edits so far left them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// The first token of the order, or what is wrong with the row.
    Summit,
    /// Where nothing is left: the edit that masked the last token.
    EmptiedBy,
    /// Forget every edit; then as `Summit`. From here on questions are about the row as it came.
    Raw,
    /// The winner of the race among the tokens before `before` (`None`: among all).
    Race {
        /// The largest logit of the whole row.
        x_max: f32,
        /// The temperature the race is run at.
        temperature: Temperature,
        /// Exclusive.
        before: Option<Key>,
    },
    /// How many tokens stand before `key`; counting may stop at `enough`.
    Rank {
        /// The token asked about.
        key: Key,
        /// A count the asker cannot tell apart from a larger one.
        enough: u32,
    },
    /// The mass before `key`, and an interval that holds the whole row's mass.
    Weigh {
        /// The token asked about.
        key: Key,
        /// How logits become weights.
        softmax: Softmax,
    },
    /// The mass up to and including `last`.
    Total {
        /// The last token that counts.
        last: Key,
        /// How logits become weights.
        softmax: Softmax,
    },
    /// The keys of the first `count` tokens, unordered.
    Best {
        /// How many.
        count: u32,
    },
    /// The keys up to and including `last`, unordered.
    Kept {
        /// The last token that counts.
        last: Key,
    },
    /// The sums of `measure` over 2^`width` equal intervals of keys, each 2^`shift` long, from `first` on.
    Histogram {
        /// The lowest key.
        first: Key,
        /// The log2 of an interval's length.
        shift: u32,
        /// The log2 of the number of intervals.
        width: u32,
        /// What is summed.
        measure: Measure,
    },
    /// The logit of one token.
    Logit {
        /// The id.
        token: u32,
    },
    /// Begin the next part of the chain: only the tokens up to `last` stay, their logits divided by the temperature,
    /// and the edits of `segment` are made.
    Narrow {
        /// The last token that stays.
        last: Key,
        /// The temperature in force, made part of the logits.
        temperature: Temperature,
        /// The part of the chain whose edits come next.
        segment: u32,
    },
}

/// What a histogram sums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Measure {
    /// Tokens.
    Count,
    /// Weights.
    Mass(Softmax),
}

/// A runner of the race that may have won.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// `y − ln E`, higher wins.
    pub score: f64,
    /// Its place in the order.
    pub key: Key,
}

impl Finalist {
    /// Whether it beats `other`: the higher score, then the lower id.
    #[inline]
    pub fn beats(&self, other: &Finalist) -> bool {
        self.score > other.score || (self.score == other.score && self.key.token() < other.key.token())
    }
}

/// What makes a row unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLogit {
    /// The lowest bad id.
    pub token: u32,
    /// NaN, or +inf.
    pub is_nan: bool,
}

/// The part of a reply that has a fixed size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Nothing was asked yet.
    #[default]
    Nothing,
    /// To [`Question::Summit`], [`Question::Raw`] and [`Question::Narrow`].
    Summit {
        /// The first token; `None` if nothing is alive here.
        top: Option<Key>,
        /// The lowest bad logit.
        bad: Option<BadLogit>,
    },
    /// To [`Question::EmptiedBy`]: the edit, counted within its segment; −1 if no token was there to begin with.
    EmptiedBy(i32),
    /// To [`Question::Race`].
    Winner(Option<Finalist>),
    /// To [`Question::Rank`].
    Rank(u32),
    /// To [`Question::Weigh`].
    Weighed {
        /// The mass before the token.
        before: u64,
        /// The whole mass is at least this,
        least: u64,
        /// and at most this.
        most: u64,
    },
    /// To [`Question::Total`].
    Total(u64),
    /// To [`Question::Best`] and [`Question::Kept`]: see [`Reply::keys`].
    Keys,
    /// To [`Question::Histogram`]: see [`Reply::histogram`].
    Histogram,
    /// To [`Question::Logit`]; `None` from who does not hold the token.
    Logit(Option<f32>),
}

/// An answer with its lists, whose memory is kept from question to question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// Keys, where keys were asked for.
    pub keys: Vec<Key>,
    /// Sums, where a histogram was asked for.
    pub histogram: Vec<u64>,
}

impl Reply {
    pub(crate) fn clear(&mut self) {
        self.answer = Answer::Nothing;
        self.keys.clear();
        self.histogram.clear();
    }

    /// Merges the answer of another part of the vocabulary to the same question.
    pub fn absorb(&mut self, other: &Reply) {
        use Answer::*;
        self.answer = match (self.answer, other.answer) {
            (Nothing, answer) => answer,
            (Summit { top: a, bad: p }, Summit { top: b, bad: q }) => Summit {
                top: [a, b].into_iter().flatten().min(),
                bad: [p, q].into_iter().flatten().min_by_key(|bad| bad.token),
            },
            // The row is empty only once its last part is.
            (EmptiedBy(a), EmptiedBy(b)) => EmptiedBy(a.max(b)),
            (Winner(Some(a)), Winner(Some(b))) => Winner(Some(if b.beats(&a) { b } else { a })),
            (Winner(a), Winner(b)) => Winner(a.or(b)),
            (Rank(a), Rank(b)) => Rank(a.saturating_add(b)),
            (Weighed { before: a, least: b, most: c }, Weighed { before: d, least: e, most: f }) => {
                Weighed { before: a + d, least: b + e, most: c.saturating_add(f) }
            }
            (Total(a), Total(b)) => Total(a + b),
            (Logit(a), Logit(b)) => Logit(a.or(b)),
            (answer, _) => answer,
        };
        self.keys.extend_from_slice(&other.keys);
        if self.histogram.is_empty() {
            self.histogram.extend_from_slice(&other.histogram);
        } else {
            self.histogram.iter_mut().zip(&other.histogram).for_each(|(a, b)| *a += b);
        }
    }

    /// The bytes of the answer as a message: a tag byte, then its numbers at their width.
    pub fn bytes(&self) -> usize {
        let fixed = match self.answer {
            Answer::Nothing | Answer::Keys | Answer::Histogram => 0,
            Answer::Summit { .. } => 8 + 5,
            Answer::EmptiedBy(_) => 4,
            Answer::Winner(_) => 8 + 8,
            Answer::Rank(_) => 4,
            Answer::Weighed { .. } => 3 * 8,
            Answer::Total(_) => 8,
            Answer::Logit(_) => 4,
        };
        1 + fixed + 8 * (self.keys.len() + self.histogram.len())
    }
}

impl Question {
    /// The bytes of the question as a message: a tag byte, then its numbers at their width.
    pub fn bytes(&self) -> usize {
        1 + match self {
            Question::Summit | Question::Raw | Question::EmptiedBy => 0,
            Question::Race { .. } => 4 + 16 + 8,
            Question::Rank { .. } => 8 + 4,
            Question::Weigh { .. } | Question::Total { .. } => 8 + 8,
            Question::Best { .. } | Question::Logit { .. } => 4,
            Question::Kept { .. } => 8,
            Question::Histogram { .. } => 8 + 1 + 1 + 8,
            Question::Narrow { .. } => 8 + 16 + 4,
        }
    }
}

/// Whoever holds the row.
pub trait Answers {
    /// Answers a question. The reply is overwritten.
    fn ask(&mut self, question: &Question, reply: &mut Reply);
}
