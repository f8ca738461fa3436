//! What a draw needs to know of a row, as small questions whose answers can be merged.
//!
//! The draw never touches a row. It asks questions, and whoever holds the row answers: one
//! slice for a whole row, or many, each with its part of the vocabulary, whose answers
//! [`Reply::absorb`] merges. Maxima, sums of integers and lists of keys merge the same way in any order, so the split cannot
//! change a token. A deployment that spreads a vocabulary over machines sends these as its messages.

use serde::{Deserialize, Serialize};

use crate::edit::smoothing::Smoothing;
use crate::edit::temperature::Temperature;
use crate::mass::{self, Interval, Softmax, Spread};
use crate::order::Key;
pub use crate::truncate::typical::Centre;

/// A question about the logits as the edits so far left them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The mass before `key` and the whole row's, estimated.
    Weigh {
        /// The token asked about.
        key: Key,
        /// How logits become weights.
        softmax: Softmax,
        /// The whole mass is taken from the blocks that reach this logit, or that of the token; the others are only bounded.
        depth: f32,
    },
    /// The mass up to and including `last`.
    Total {
        /// The last token that counts.
        last: Key,
        /// How logits become weights.
        softmax: Softmax,
    },
    /// Count, mass and entropy's sum up to and including `last`.
    Spread {
        /// The last token that counts.
        last: Key,
        /// How logits become weights.
        softmax: Softmax,
    },
    /// The last token up to and including `last`.
    Last {
        /// The last token that counts.
        last: Key,
    },
    /// Count, sum and sum of squares of `floor((x_max − x) / 2^exponent · 2^40)` up to and including `last`.
    Deviations {
        /// The last token that counts.
        last: Key,
        /// The largest logit.
        x_max: f32,
        /// 2^exponent is at least the range of the logits that count.
        exponent: i32,
    },
    /// The masses over 2^`width` equal intervals of distances from the centre, as bits of f32, each 2^`shift` long, from `first` on.
    Distances {
        /// What the distance is from, and at what temperature.
        centre: Centre,
        /// The last token that counts.
        last: Key,
        /// The lowest distance.
        first: u32,
        /// The log2 of an interval's length.
        shift: u32,
        /// The log2 of the number of intervals.
        width: u32,
    },
    /// How many tokens there are of every weight, counted on a part of the row and sampled on the rest.
    Sketch {
        /// How logits become weights.
        softmax: Softmax,
    },
    /// The mass of the tokens within `inner`, and the keys of those within `outer` that are not, unordered.
    Band {
        /// `None`: no token.
        inner: Option<Stretch>,
        /// Holds the inner one.
        outer: Stretch,
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
    /// Mask the tokens up to and including `head`, save those that XTC protects.
    Behead {
        /// The last token that goes.
        head: Key,
        /// The segment and the step of the XTC stage whose protected tokens stay; `None`: all go.
        xtc: Option<(u32, u32)>,
    },
    /// Bend every logit around the best.
    Smooth {
        /// How.
        smoothing: Smoothing,
        /// The largest logit of the whole row.
        x_max: f32,
    },
    /// Give tokens new logits, and mask others. No logit is −inf: not every wire carries that.
    Edit {
        /// Tokens with their new logits.
        logits: Vec<(u32, f32)>,
        /// Tokens to mask.
        masked: Vec<u32>,
    },
    /// Mask all tokens but these.
    KeepOnly {
        /// The ids that stay.
        ids: Vec<u32>,
    },
}

/// The logits from `highest` down to `lowest`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// The largest.
    pub highest: f32,
    /// The smallest.
    pub lowest: f32,
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
    /// To [`Question::Summit`], and to every question that changes the row: [`Question::Raw`], [`Question::Narrow`],
    /// [`Question::Behead`], [`Question::Smooth`], [`Question::Edit`], [`Question::KeepOnly`].
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
        before: Interval,
        /// The whole mass.
        total: Interval,
    },
    /// To [`Question::Total`], and to [`Question::Band`], whose keys are in [`Reply::keys`].
    Total(u64),
    /// To [`Question::Spread`].
    Spread(Spread),
    /// To [`Question::Last`]; `None` if there is no such token here.
    Last(Option<Key>),
    /// To [`Question::Deviations`].
    Deviations {
        /// Tokens.
        count: u32,
        /// The sum.
        sum: u64,
        /// The sum of squares.
        squares: Wide,
    },
    /// To [`Question::Best`] and [`Question::Kept`]: see [`Reply::keys`].
    Keys,
    /// To [`Question::Histogram`], [`Question::Distances`] and [`Question::Sketch`]: see [`Reply::histogram`].
    Histogram,
    /// To [`Question::Logit`]; `None` from who does not hold the token.
    Logit(Option<f32>),
}

/// A number of 128 bits in two halves, because not every wire carries one whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wide {
    high: u64,
    low: u64,
}

impl Wide {
    fn plus(self, other: Wide) -> Self {
        Self::from(u128::from(self) + u128::from(other))
    }
}

impl From<u128> for Wide {
    fn from(number: u128) -> Self {
        Self { high: (number >> 64) as u64, low: number as u64 }
    }
}

impl From<Wide> for u128 {
    fn from(wide: Wide) -> Self {
        u128::from(wide.high) << 64 | u128::from(wide.low)
    }
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
            (Weighed { before: a, total: b }, Weighed { before: c, total: d }) => {
                Weighed { before: a.and(c), total: b.and(d) }
            }
            (Total(a), Total(b)) => Total(a + b),
            (Answer::Spread(a), Answer::Spread(b)) => Answer::Spread(mass::Spread {
                count: a.count + b.count,
                total: a.total + b.total,
                surprise: a.surprise + b.surprise,
            }),
            (Last(a), Last(b)) => Last(a.max(b)),
            (Deviations { count: a, sum: b, squares: c }, Deviations { count: d, sum: e, squares: f }) => {
                Deviations { count: a + d, sum: b + e, squares: c.plus(f) }
            }
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
            Answer::Weighed { .. } => 4 * 8,
            Answer::Total(_) | Answer::Last(_) => 8,
            Answer::Spread(_) => 4 + 8 + 8,
            Answer::Deviations { .. } => 4 + 8 + 16,
            Answer::Logit(_) => 4,
        };
        1 + fixed + 8 * (self.keys.len() + self.histogram.len())
    }
}

impl Question {
    /// Whether the logits or the masks change.
    pub(crate) fn changes_the_row(&self) -> bool {
        use Question::*;
        matches!(
            self,
            EmptiedBy | Raw | Narrow { .. } | Behead { .. } | Smooth { .. } | Edit { .. } | KeepOnly { .. }
        )
    }

    /// The bytes of the question as a message: a tag byte, then its numbers at their width.
    pub fn bytes(&self) -> usize {
        1 + match self {
            Question::Summit | Question::Raw | Question::EmptiedBy => 0,
            Question::Race { .. } => 4 + 16 + 8,
            Question::Rank { .. } => 8 + 4,
            Question::Weigh { .. } => 8 + 8 + 4,
            Question::Total { .. } | Question::Spread { .. } => 8 + 8,
            Question::Deviations { .. } => 8 + 4 + 4,
            Question::Distances { .. } => 4 + 16 + 8 + 8 + 4 + 1 + 1,
            Question::Sketch { .. } => 8,
            Question::Band { .. } => 8 + 8 + 8 + 8,
            Question::Best { .. } | Question::Logit { .. } => 4,
            Question::Kept { .. } | Question::Last { .. } => 8,
            Question::Histogram { .. } => 8 + 1 + 1 + 8,
            Question::Narrow { .. } => 8 + 16 + 4,
            Question::Behead { .. } => 8 + 8,
            Question::Smooth { .. } => 24 + 4,
            Question::Edit { logits, masked } => 8 * logits.len() + 4 * masked.len(),
            Question::KeepOnly { ids } => 4 * ids.len(),
        }
    }
}

/// Whoever holds the row.
pub trait Answers {
    /// Answers a question. The reply is overwritten.
    fn ask(&mut self, question: &Question, reply: &mut Reply);
}
