//! The answers to a draw's questions, and how those of several parts of a vocabulary become one.

use crate::error::RowError;
use crate::logits::code::{Absent, Field, Reader, Sink, fields};
use crate::numeric::key::Key;
use crate::numeric::mass::{Interval, Spread, UNIT};

pub use crate::logits::edited::BadLogit;
pub use crate::logits::finalist::Finalist;

/// The answer of one part of a vocabulary.
pub(crate) trait AnswerPart: Field + Into<Answer> {
    /// The answer of two parts together.
    fn merge(self, other: Self) -> Self;

    /// Whether a part that holds these tokens can answer this.
    fn fits(&self, held: &Held) -> bool;
}

/// The answer of all parts together, of which there is at least one; or the first error.
pub(crate) fn merged<A: AnswerPart>(
    answers: impl IntoIterator<Item = Result<A, RowError>>,
) -> Result<A, RowError> {
    let both = |a: Result<A, RowError>, b: Result<A, RowError>| Ok(a?.merge(b?));
    let all = answers.into_iter().reduce(both);
    all.unwrap_or(Err(RowError::contradiction("no shard was asked")))
}

/// The tokens of one part of a vocabulary: `length` ids from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The first id.
    pub start: u32,
    /// How many.
    pub length: u32,
}

impl Held {
    /// Whether the part holds a token.
    pub fn has(&self, token: u32) -> bool {
        token.wrapping_sub(self.start) < self.length
    }
}

/// Lists that come with an answer. Their memory is kept from question to question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lists {
    /// Keys, in no particular order.
    pub keys: Vec<Key>,
    /// Sums.
    pub sums: Vec<u64>,
    /// Points of the curve of masses that comes with an opening.
    pub points: Vec<u16>,
}

impl Lists {
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.sums.clear();
        self.points.clear();
    }

    /// The sums, of which there are `count`; 0 at first.
    pub(crate) fn sums_of(&mut self, count: usize) -> &mut [u64] {
        self.sums.resize(count, 0);
        &mut self.sums
    }
}

/// The first token, and the lowest bad logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summit {
    /// `None` if no token is alive here.
    pub top: Option<Key>,
    /// `None` if every logit is a number below +inf.
    pub bad: Option<BadLogit>,
}

impl AnswerPart for Summit {
    fn merge(self, other: Self) -> Self {
        Self {
            top: [self.top, other.top].into_iter().flatten().min(),
            bad: [self.bad, other.bad].into_iter().flatten().min_by_key(|bad| bad.token),
        }
    }

    fn fits(&self, held: &Held) -> bool {
        self.top.is_none_or(|top| is_alive(top, held)) && self.bad.is_none_or(|bad| held.has(bad.token))
    }
}

/// The edit that masked the last token, counted within its segment; −1 if no token was there to begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmptiedBy {
    /// The edit.
    pub edit: i32,
}

impl AnswerPart for EmptiedBy {
    /// The row is empty once its last part is.
    fn merge(self, other: Self) -> Self {
        Self { edit: self.edit.max(other.edit) }
    }

    fn fits(&self, _: &Held) -> bool {
        self.edit >= -1
    }
}

/// The winner of a race; `None` if nobody runs here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Winner {
    /// The token and its score.
    pub finalist: Option<Finalist>,
}

impl AnswerPart for Winner {
    fn merge(self, other: Self) -> Self {
        let finalist = match (self.finalist, other.finalist) {
            (Some(a), Some(b)) => Some(if b.beats(&a) { b } else { a }),
            (a, b) => a.or(b),
        };
        Self { finalist }
    }

    fn fits(&self, held: &Held) -> bool {
        self.finalist.is_none_or(|finalist| !finalist.score.is_nan() && is_alive(finalist.key, held))
    }
}

/// How many tokens there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Tokens.
    pub tokens: u32,
}

impl AnswerPart for Count {
    fn merge(self, other: Self) -> Self {
        Self { tokens: self.tokens + other.tokens }
    }

    fn fits(&self, held: &Held) -> bool {
        self.tokens <= held.length
    }
}

/// Two masses, each between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighed {
    /// The mass before the token.
    pub before: Interval,
    /// The whole mass.
    pub total: Interval,
}

impl AnswerPart for Weighed {
    fn merge(self, other: Self) -> Self {
        Self { before: self.before.and(other.before), total: self.total.and(other.total) }
    }

    fn fits(&self, held: &Held) -> bool {
        let is_possible = |mass: Interval| mass.least <= mass.most && mass.least <= largest_mass(held);
        is_possible(self.before) && is_possible(self.total)
    }
}

/// A mass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mass {
    /// The sum of the weights.
    pub total: u64,
}

impl AnswerPart for Mass {
    fn merge(self, other: Self) -> Self {
        Self { total: self.total + other.total }
    }

    fn fits(&self, held: &Held) -> bool {
        self.total <= largest_mass(held)
    }
}

impl AnswerPart for Spread {
    fn merge(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            total: self.total + other.total,
            surprise: self.surprise + other.surprise,
        }
    }

    /// `2^t·|t|` is below 1, so the entropy's sum is bounded as the mass is.
    fn fits(&self, held: &Held) -> bool {
        self.count <= held.length && self.total <= largest_mass(held) && self.surprise <= largest_mass(held)
    }
}

/// The last token; `None` if there is none here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Last {
    /// Its key.
    pub key: Option<Key>,
}

impl AnswerPart for Last {
    fn merge(self, other: Self) -> Self {
        Self { key: self.key.max(other.key) }
    }

    fn fits(&self, held: &Held) -> bool {
        self.key.is_none_or(|key| is_alive(key, held))
    }
}

/// Count, sum and sum of squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviations {
    /// Tokens.
    pub count: u32,
    /// The sum.
    pub sum: u64,
    /// The sum of squares.
    pub squares: u128,
}

impl AnswerPart for Deviations {
    fn merge(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    /// Every distance is at most 2^40.
    fn fits(&self, held: &Held) -> bool {
        self.count <= held.length
            && self.sum <= u64::from(held.length) << 40
            && self.squares <= u128::from(held.length) << 80
    }
}

/// Nothing but lists: see [`Lists`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listed {}

impl AnswerPart for Listed {
    fn merge(self, _: Self) -> Self {
        self
    }

    fn fits(&self, _: &Held) -> bool {
        true
    }
}

/// A logit; `None` from a part that does not hold the token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logit {
    /// −inf if the token is masked.
    pub x: Option<f32>,
}

impl AnswerPart for Logit {
    fn merge(self, other: Self) -> Self {
        Self { x: self.x.or(other.x) }
    }

    fn fits(&self, _: &Held) -> bool {
        self.x.is_none_or(|x| x < f32::INFINITY)
    }
}

/// What a part says at once, before it knows anything about the others: [`Open`](crate::query::Open).
///
/// The keys that come with it ([`Lists::keys`]) are its first tokens, in order, then the tokens that finish
/// the race first, the earliest first. There are fewer of either than were asked for only if there are
/// fewer tokens alive, or within the reach of the race. The finishers are those of a race among the part's
/// own tokens: which of two tokens finishes first does not depend on the other parts.
///
/// The points ([`Lists::points`]) say how the mass of the tokens after its first ones grows along the order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opened {
    /// The first token, and the lowest bad logit.
    pub summit: Summit,
    /// Whether every logit of this part is as the model gave it, in spite of masks and edits.
    pub is_raw: bool,
    /// How many of the keys are first tokens; the others are finishers.
    pub best: u32,
    /// The mass of the tokens after the first ones, within the reach, relative to the part's largest logit.
    pub rest: u64,
}

impl AnswerPart for Opened {
    /// Openings are looked at part by part; of two together only this is of use.
    fn merge(self, other: Self) -> Self {
        let summit = self.summit.merge(other.summit);
        let (best, rest) = (self.best + other.best, self.rest.saturating_add(other.rest));
        Self { summit, is_raw: self.is_raw && other.is_raw, best, rest }
    }

    fn fits(&self, held: &Held) -> bool {
        self.summit.fits(held) && self.best <= held.length && self.rest <= largest_mass(held)
    }
}

/// Whether a key is that of a token which is alive, and which the part holds.
fn is_alive(key: Key, held: &Held) -> bool {
    key < Key::END && !key.logit().is_nan() && held.has(key.token())
}

fn largest_mass(held: &Held) -> u64 {
    u64::from(held.length) * UNIT
}

macro_rules! answers {
    ($($answer:ident),*) => {
        /// Any answer.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Answer {
            $(
                #[doc = concat!("See [`", stringify!($answer), "`].")]
                $answer($answer),
            )*
        }

        impl Answer {
            pub(crate) fn write(&self, to: &mut impl Sink) {
                match self {
                    $(Self::$answer(answer) => answer.write(to),)*
                }
            }
        }

        $(impl From<$answer> for Answer {
            fn from(answer: $answer) -> Self {
                Self::$answer(answer)
            }
        })*
    };
}

answers!(Summit, EmptiedBy, Winner, Count, Weighed, Mass, Spread, Last, Deviations, Listed, Logit, Opened);

fields! {
    Held { start, length },
    Finalist { score, key },
    Summit { top, bad },
    EmptiedBy { edit },
    Winner { finalist },
    Count { tokens },
    Weighed { before, total },
    Mass { total },
    Last { key },
    Deviations { count, sum, squares },
    Listed {},
    Logit { x },
    Opened { summit, is_raw, best, rest },
}

impl Field for BadLogit {
    fn write(&self, to: &mut impl Sink) {
        self.token.write(to);
        u8::from(self.is_nan).write(to);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { token: u32::read(from)?, is_nan: u8::read(from)? == 1 })
    }
}

/// No vocabulary has this id.
impl Absent for BadLogit {
    const ABSENT: Self = BadLogit { token: u32::MAX, is_nan: false };

    fn is_absent(&self) -> bool {
        *self == Self::ABSENT
    }
}

impl Absent for Finalist {
    const ABSENT: Self = Finalist { score: 0.0, key: Key::ABSENT };

    fn is_absent(&self) -> bool {
        self.key.is_absent()
    }
}
