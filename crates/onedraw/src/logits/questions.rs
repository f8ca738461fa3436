//! The questions that a draw asks about a row, as data. `logits/query.rs` says what they are for and how each
//! is answered.

use crate::kernels::bend::Bend;
use crate::kernels::deviation::DEVIATION_BITS;
use crate::logits::code::{Absent, Field, Reader, Sink, fields};
use crate::logits::finalist::MAX_FINISHERS;
use crate::logits::measure::{band, curve, sketch};
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::numeric::math::power_of_two;
use crate::numeric::temperature::Temperature;

pub use crate::logits::measure::band::Stretch;
pub use crate::logits::measure::centre::Centre;
pub use crate::logits::measure::sums::Measure;

/// The first token of the order, or what is wrong with the row.
#[derive(Clone, Debug, PartialEq)]
pub struct FindSummit {}

/// Where no token is left: which edit masked the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct FindEmptied {}

/// Forget every edit, then as [`FindSummit`]. From here on questions are about the unmodified row.
#[derive(Clone, Debug, PartialEq)]
pub struct Restore {}

/// The winner of the race among the tokens before `before`, or among all.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRace {
    /// The largest logit of the whole row.
    pub x_max: f32,
    /// The temperature of the race.
    pub temperature: Temperature,
    /// Exclusive.
    pub before: Option<Key>,
}

/// How many tokens come before `key`. Where there are `enough` or more, the answer may be `enough`.
#[derive(Clone, Debug, PartialEq)]
pub struct CountBefore {
    /// The token asked about.
    pub key: Key,
    /// A count that the asker need not tell from a larger one.
    pub enough: u32,
}

/// The mass before `key` and that of the whole row, as intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Weigh {
    /// The token asked about.
    pub key: Key,
    /// How logits become weights.
    pub softmax: Softmax,
    /// Blocks that reach this logit, or that of `key`, are opened; the others are only bounded.
    pub depth: f32,
}

/// The mass of the tokens up to and including `last`.
#[derive(Clone, Debug, PartialEq)]
pub struct SumMass {
    /// The last token that counts.
    pub last: Key,
    /// How logits become weights.
    pub softmax: Softmax,
}

/// Count, mass and the entropy's sum of the tokens up to and including `last`.
#[derive(Clone, Debug, PartialEq)]
pub struct SumSpread {
    /// The last token that counts.
    pub last: Key,
    /// How logits become weights.
    pub softmax: Softmax,
}

/// The last token that comes no later than `last`.
#[derive(Clone, Debug, PartialEq)]
pub struct FindLast {
    /// The last token that counts.
    pub last: Key,
}

/// Count, sum and sum of squares of `floor((x_max − x) / 2^exponent · 2^40)` over the tokens up to and
/// including `last`.
#[derive(Clone, Debug, PartialEq)]
pub struct SumDeviations {
    /// The last token that counts.
    pub last: Key,
    /// The largest logit.
    pub x_max: f32,
    /// 2^exponent is at least the range of the logits that count.
    pub exponent: i32,
}

/// Masses by distance from a centre, the distance taken as the bits of an f32: 2^`width` intervals of
/// 2^`shift` each, from `first` on.
#[derive(Clone, Debug, PartialEq)]
pub struct SumByDistance {
    /// What the distance is measured from, and at what temperature.
    pub centre: Centre,
    /// The last token that counts.
    pub last: Key,
    /// The lowest distance.
    pub first: u32,
    /// The log2 of an interval's length.
    pub shift: u8,
    /// The log2 of the number of intervals.
    pub width: u8,
}

/// How many tokens there are of every weight, counted on a part of the row and sampled on the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// How logits become weights.
    pub softmax: Softmax,
}

/// The mass of the tokens within `inner`, and the keys of those within `outer` that are not in `inner`.
#[derive(Clone, Debug, PartialEq)]
pub struct ListBand {
    /// `None`: no token.
    pub inner: Option<Stretch>,
    /// Contains `inner`.
    pub outer: Stretch,
    /// The last token that counts.
    pub last: Key,
    /// How logits become weights.
    pub softmax: Softmax,
}

/// The keys of the first `count` tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct ListBest {
    /// How many.
    pub count: u32,
}

/// The keys up to and including `last`.
#[derive(Clone, Debug, PartialEq)]
pub struct ListKept {
    /// The last token that counts.
    pub last: Key,
}

/// Sums of `measure` by key: 2^`width` intervals of 2^`shift` keys each, from `first` on.
#[derive(Clone, Debug, PartialEq)]
pub struct SumByKey {
    /// The lowest key.
    pub first: Key,
    /// The log2 of an interval's length.
    pub shift: u8,
    /// The log2 of the number of intervals.
    pub width: u8,
    /// What is summed.
    pub measure: Measure,
}

/// The logit of one token.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadLogit {
    /// The id.
    pub token: u32,
}

/// Begin the next segment of the chain: only the tokens up to `last` stay, their logits are divided by the
/// temperature, and the edits of `segment` are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Narrow {
    /// The last token that stays.
    pub last: Key,
    /// The temperature in force, made part of the logits.
    pub temperature: Temperature,
    /// The segment whose edits come next.
    pub segment: u32,
}

/// Mask the tokens up to and including `head`, except those that an XTC stage protects.
#[derive(Clone, Debug, PartialEq)]
pub struct Behead {
    /// The last token that goes.
    pub head: Key,
    /// The XTC stage whose protected tokens stay; `None`: none stay.
    pub xtc: Option<Place>,
}

/// The place of an operation in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment.
    pub segment: u32,
    /// The operation within it.
    pub operation: u32,
}

/// Bend every logit around the best.
#[derive(Clone, Debug, PartialEq)]
pub struct Smooth {
    /// The curve.
    pub bend: Bend,
    /// The largest logit of the whole row.
    pub x_max: f32,
}

/// Give tokens new logits; −inf masks a token.
#[derive(Clone, Debug, PartialEq)]
pub struct EditTokens {
    /// Tokens with their new logits.
    pub logits: Vec<(u32, f32)>,
}

/// Mask all tokens but these.
#[derive(Clone, Debug, PartialEq)]
pub struct KeepOnly {
    /// The ids that stay.
    pub ids: Vec<u32>,
}

/// Everything that a part can say before it knows anything about the others: the first question of a draw
/// over ranks, whose answers decide most draws. The answer is [`Opened`](crate::answer::Opened).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Open {
    /// How many of the first tokens to list.
    pub best: u32,
    /// The temperature of the race whose first finishers are wanted, if they are.
    pub race: Option<Temperature>,
    /// The temperature at which the tokens that are not among the best are weighed, if they are.
    pub masses: Option<Temperature>,
    /// Tokens whose logits are further than this from the part's largest one neither race nor are weighed:
    /// at most 0; −inf where all are.
    pub reach: f64,
    /// The share of the mass, of 2^53, around which masses are told most precisely; 0: all alike.
    pub focus: u64,
}

/// Histograms of a radix select have at most 2^11 intervals.
pub(crate) const MAX_WIDTH: u8 = 11;

// ---- What those who answer share with those who ask ----

impl SumDeviations {
    /// What a distance is multiplied by before it is rounded down: `2^(40 − exponent)`.
    pub fn factor(&self) -> f64 {
        power_of_two(DEVIATION_BITS - self.exponent)
    }
}

impl Sketch {
    /// Buckets for each power of two of weight.
    pub const STEPS: usize = sketch::STEPS;
    /// All buckets. The answer has twice as many sums: what was counted, then what was sampled.
    pub const BUCKETS: usize = sketch::BUCKETS;
}

impl ListBand {
    /// A list of more keys than this is of no use to the asker: it may end anywhere after one key more.
    pub const MAX_KEYS: usize = band::MAX_BAND;
}

impl SumByKey {
    /// The digits of a key as (shift, width) for a radix select: first those of the logit, then those of the
    /// id, which has 20 bits; the 12 bits between them are 0.
    pub const DIGITS: [(u8, u8); 5] = [(53, 11), (42, 11), (32, 10), (10, 10), (0, 10)];
    /// The most intervals of a histogram, by key or by distance.
    pub const MAX_INTERVALS: usize = 1 << MAX_WIDTH;

    /// The interval that holds unit number `unit`, counted from 0, and the unit's number within it; `None` if
    /// all intervals together hold less.
    pub fn interval_of(sums: &[u64], mut unit: u64) -> Option<(usize, u64)> {
        for (interval, &sum) in sums.iter().enumerate() {
            if unit < sum {
                return Some((interval, unit));
            }
            unit -= sum;
        }
        None
    }
}

impl Open {
    /// The most tokens that are listed.
    pub const MAX_BEST: u32 = 50;
    /// How many of the first finishers of the race come with the answer, where as many run.
    pub const FINISHERS: usize = MAX_FINISHERS;
    /// How many points come with the answer.
    pub const POINTS: usize = curve::POINTS;
    /// How many steps a point may lie at.
    pub const STEPS: usize = curve::STEPS;
    /// How many of them make a power of two of weight.
    pub const STEPS_PER_OCTAVE: f32 = curve::STEPS_PER_OCTAVE;
    /// The points around an expected cut lie within one part in so many of the mass, on either side.
    pub const FOCUS: u64 = curve::FOCUS;

    /// The last place of the order that is within reach, in a part whose largest logit is `x_max`. A part's
    /// largest logit is at most that of the row, so what min-p keeps of the row is within it.
    pub fn end(&self, x_max: f32) -> Key {
        Key::last_within(x_max, self.reach)
    }
}

// ---- As bytes ----

fields! {
    FindSummit {}, FindEmptied {}, Restore {},
    RunRace { x_max, temperature, before },
    CountBefore { key, enough },
    Weigh { key, softmax, depth },
    SumMass { last, softmax },
    SumSpread { last, softmax },
    FindLast { last },
    SumDeviations { last, x_max, exponent },
    SumByDistance { centre, last, first, shift, width },
    Sketch { softmax },
    ListBand { inner, outer, last, softmax },
    ListBest { count },
    ListKept { last },
    SumByKey { first, shift, width, measure },
    ReadLogit { token },
    Narrow { last, temperature, segment },
    Behead { head, xtc },
    Smooth { bend, x_max },
    EditTokens { logits },
    KeepOnly { ids },
    Open { best, race, masses, reach, focus },
    Centre { x_max, temperature, mean },
    Stretch { highest, lowest },
    Place { segment, operation },
}

impl Absent for Stretch {
    const ABSENT: Self = Stretch { highest: f32::NAN, lowest: f32::NAN };

    fn is_absent(&self) -> bool {
        self.highest.is_nan()
    }
}

impl Absent for Place {
    const ABSENT: Self = Place { segment: u32::MAX, operation: u32::MAX };

    fn is_absent(&self) -> bool {
        *self == Self::ABSENT
    }
}

/// The softmax; absent where tokens are counted.
impl Field for Measure {
    fn write(&self, to: &mut impl Sink) {
        let softmax = match *self {
            Measure::Count => None,
            Measure::Mass(softmax) => Some(softmax),
        };
        softmax.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Option::read(from)?.map_or(Measure::Count, Measure::Mass))
    }
}
