//! The questions that a draw asks about a row.
//!
//! A draw never touches a row. It asks small questions, and whoever holds the row answers: one slice for a
//! whole row, or several, each with its part of the vocabulary, whose answers are merged into one. Maxima,
//! sums of integers and lists of keys merge to the same result in any order, so the split cannot change a
//! token.
//!
//! The table at the end of this file says of every question which number it has in a message, what its answer
//! is, and how a slice finds it. To add a question, write its struct, its fields in the list under "As bytes",
//! and its line in the table.

use crate::kernels::bend::Bend;
use crate::kernels::deviation::DEVIATION_BITS;
use crate::logits::answer::{
    Answer, AnswerPart, Count, Deviations, EmptiedBy, Held, Last, Listed, Lists, Logit, Mass, Summit,
    Weighed, Winner,
};
use crate::logits::code::{Absent, Field, Reader, Sink, fields};
use crate::logits::measure::{band, sketch, sums};
use crate::logits::slice::{Edits, Slice};
use crate::numeric::key::Key;
use crate::numeric::mass::{MAX_VOCABULARY, Softmax, Spread, UNIT};
use crate::numeric::math::power_of_two;
use crate::numeric::temperature::Temperature;

pub use crate::logits::measure::band::Stretch;
pub use crate::logits::measure::centre::Centre;
pub use crate::logits::measure::sums::Measure;

/// A question about the logits as the edits so far left them.
pub(crate) trait Query: Field + Sync {
    /// Its number in a message.
    const KIND: u8;
    /// Its name in an error.
    const NAME: &'static str;
    /// Whether keys come with the answer, in [`Lists::keys`].
    const LISTS_KEYS: bool = false;

    type Answer: AnswerPart;

    /// What one slice answers. Lists are added to what `lists` holds already.
    fn answer<E: Edits>(&self, slice: &mut Slice<'_, E>, lists: &mut Lists) -> Self::Answer;

    /// How many sums come with the answer, in [`Lists::sums`].
    fn sums(&self) -> usize {
        0
    }

    /// The largest sum that `length` tokens can have.
    fn largest_sum(&self, length: u32) -> u64 {
        u64::from(length) * UNIT
    }

    /// Whether a part that holds these tokens can answer this.
    fn fits(&self, answer: &Self::Answer, held: &Held) -> bool {
        answer.fits(held)
    }

    /// Whether its numbers can be used as they are: a question from elsewhere may hold anything.
    fn is_sound(&self) -> bool {
        true
    }

    /// How it weighs logits, if it does: none of them may be above this `x_max`.
    fn softmax(&self) -> Option<Softmax> {
        None
    }
}

// ---- The questions ----

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

// ---- The table ----

macro_rules! questions {
    ($(
        $kind:literal $query:ident -> $answer:ident: |$self:ident, $slice:ident, $lists:ident| $body:expr
        $(, { $($more:item)* })?;
    )*) => {
        $(impl Query for $query {
            const KIND: u8 = $kind;
            const NAME: &'static str = stringify!($query);
            type Answer = $answer;

            #[inline]
            fn answer<E: Edits>(&self, $slice: &mut Slice<'_, E>, $lists: &mut Lists) -> $answer {
                let $self = self;
                $body
            }

            $($($more)*)?
        })*

        /// Any question, for those who answer them on another device or in another process.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Question {
            $(
                #[doc = concat!("[`", stringify!($query), "`], answered by [`", stringify!($answer), "`].")]
                $query($query),
            )*
        }

        impl Question {
            /// Its name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$query(_) => $query::NAME,)*
                }
            }

            /// The name of question number `kind`.
            pub(crate) fn name_of(kind: u8) -> Option<&'static str> {
                match kind {
                    $($kind => Some($query::NAME),)*
                    _ => None,
                }
            }

            /// Reads question number `kind`; `None` where the bytes mean nothing.
            pub(crate) fn read(kind: u8, from: &mut Reader<'_>) -> Option<Self> {
                let question = match kind {
                    $($kind => Self::$query($query::read(from).filter(is_sound)?),)*
                    _ => return None,
                };
                from.is_empty().then_some(question)
            }

            /// Whether keys come with the answer.
            pub(crate) fn lists_keys(&self) -> bool {
                match self {
                    $(Self::$query(_) => $query::LISTS_KEYS,)*
                }
            }

            /// How it weighs logits, if it does.
            pub(crate) fn softmax(&self) -> Option<Softmax> {
                match self {
                    $(Self::$query(query) => Query::softmax(query),)*
                }
            }

            /// What a slice answers.
            pub(crate) fn answer<E: Edits>(&self, slice: &mut Slice<'_, E>, lists: &mut Lists) -> Answer {
                match self {
                    $(Self::$query(query) => query.answer(slice, lists).into(),)*
                }
            }

            /// Whether an answer, with its lists, is one to this question.
            pub(crate) fn is_answered_by(&self, answer: &Answer, lists: &Lists) -> bool {
                match (self, answer) {
                    $((Self::$query(query), Answer::$answer(_)) => {
                        lists.sums.len() == query.sums() && ($query::LISTS_KEYS || lists.keys.is_empty())
                    })*
                    _ => false,
                }
            }
        }
    };
}

questions! {
    0 FindSummit -> Summit: |_q, slice, _lists| slice.summit();
    1 FindEmptied -> EmptiedBy: |_q, slice, _lists| EmptiedBy { edit: slice.emptied_by() };
    2 Restore -> Summit: |_q, slice, _lists| slice.restore();
    3 RunRace -> Winner: |q, slice, _lists| {
        Winner { finalist: slice.race(q.x_max, q.temperature, q.before) }
    }, {
        fn is_sound(&self) -> bool {
            self.x_max.is_finite() && self.temperature.is_sound()
        }
    };
    4 CountBefore -> Count: |q, slice, _lists| Count { tokens: slice.count_before(q.key, q.enough) };
    5 Weigh -> Weighed: |q, slice, _lists| {
        let (before, total) = sums::weigh(slice.row(), q.key, q.softmax, q.depth);
        Weighed { before, total }
    }, {
        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    6 SumMass -> Mass: |q, slice, _lists| Mass { total: slice.mass(q.last, q.softmax) }, {
        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    7 SumSpread -> Spread: |q, slice, _lists| sums::spread(slice.row(), q.last, q.softmax), {
        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    8 FindLast -> Last: |q, slice, _lists| Last { key: sums::last(slice.row(), q.last) };
    9 SumDeviations -> Deviations: |q, slice, _lists| {
        let (count, sum, squares) = sums::deviations(slice.row(), q.last, q.x_max, q.factor());
        Deviations { count, sum, squares }
    }, {
        /// The range of two f32 lies between 2^-149 and 2^129.
        fn is_sound(&self) -> bool {
            (-149..=129).contains(&self.exponent)
        }

        /// Distances are not weights, but they are taken from the largest logit too.
        fn softmax(&self) -> Option<Softmax> {
            Some(Softmax { x_max: self.x_max, scale: 1.0 })
        }
    };
    10 SumByDistance -> Listed: |q, slice, lists| {
        let sums = lists.sums_of(q.sums());
        sums::by_distance(slice.row(), &q.centre, q.last, (q.first, u32::from(q.shift)), sums);
        Listed {}
    }, {
        fn sums(&self) -> usize {
            1 << self.width
        }

        fn is_sound(&self) -> bool {
            (1..=MAX_WIDTH).contains(&self.width)
                && self.shift < 32
                && self.centre.mean.is_finite()
                && self.centre.temperature.is_sound()
        }

        fn softmax(&self) -> Option<Softmax> {
            Some(self.centre.temperature.softmax(self.centre.x_max))
        }
    };
    11 Sketch -> Listed: |q, slice, lists| {
        sketch::count(slice.row(), q.softmax, lists.sums_of(q.sums()));
        Listed {}
    }, {
        fn sums(&self) -> usize {
            2 * sketch::BUCKETS
        }

        fn largest_sum(&self, length: u32) -> u64 {
            length.into()
        }

        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    12 ListBand -> Mass: |q, slice, lists| {
        let bands = (q.inner, q.outer);
        Mass { total: band::band(slice.row(), bands, q.last, q.softmax, &mut lists.keys) }
    }, {
        const LISTS_KEYS: bool = true;

        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    13 ListBest -> Listed: |q, slice, lists| {
        lists.keys.extend_from_slice(slice.best(q.count as usize));
        Listed {}
    }, {
        const LISTS_KEYS: bool = true;

        fn is_sound(&self) -> bool {
            self.count as usize <= MAX_VOCABULARY
        }
    };
    14 ListKept -> Listed: |q, slice, lists| {
        slice.list_kept(q.last, &mut lists.keys);
        Listed {}
    }, {
        const LISTS_KEYS: bool = true;
    };
    15 SumByKey -> Listed: |q, slice, lists| {
        let intervals = (q.first, u32::from(q.shift), u32::from(q.width));
        sums::by_key(slice.row(), intervals, q.measure, lists.sums_of(q.sums()));
        Listed {}
    }, {
        fn sums(&self) -> usize {
            1 << self.width
        }

        fn is_sound(&self) -> bool {
            (1..=MAX_WIDTH).contains(&self.width) && u32::from(self.shift) + u32::from(self.width) <= 64
        }

        fn softmax(&self) -> Option<Softmax> {
            match self.measure {
                Measure::Count => None,
                Measure::Mass(softmax) => Some(softmax),
            }
        }
    };
    16 ReadLogit -> Logit: |q, slice, _lists| Logit { x: slice.row().logit(q.token) }, {
        fn fits(&self, answer: &Logit, held: &Held) -> bool {
            answer.fits(held) && answer.x.is_some() == held.has(self.token)
        }
    };
    17 Narrow -> Summit: |q, slice, _lists| slice.narrow(q.last, q.temperature, q.segment as usize), {
        fn is_sound(&self) -> bool {
            self.temperature.is_sound()
        }
    };
    18 Behead -> Summit: |q, slice, _lists| slice.behead(q.head, q.xtc.map(|place| (place.segment, place.operation)));
    19 Smooth -> Summit: |q, slice, _lists| slice.smooth(&q.bend, q.x_max), {
        fn is_sound(&self) -> bool {
            let Bend { factor, quadratic, cubic } = self.bend;
            [factor, quadratic, cubic].iter().all(|number| number.is_finite()) && self.x_max.is_finite()
        }
    };
    20 EditTokens -> Summit: |q, slice, _lists| slice.edit_tokens(&q.logits), {
        fn is_sound(&self) -> bool {
            self.logits.iter().all(|(_, logit)| *logit < f32::INFINITY)
        }
    };
    21 KeepOnly -> Summit: |q, slice, _lists| slice.keep_only(&q.ids);
}

/// Whether a question from elsewhere can be answered: its own numbers and its weights can be used.
fn is_sound<Q: Query>(query: &Q) -> bool {
    let can_weigh =
        |softmax: Softmax| softmax.x_max.is_finite() && softmax.scale.is_finite() && softmax.scale > 0.0;
    query.is_sound() && query.softmax().is_none_or(can_weigh)
}

/// Histograms of a radix select have at most 2^11 intervals.
const MAX_WIDTH: u8 = 11;

/// The most sums that come with any answer: those of a sketch.
pub(crate) const LONGEST_SUMS: usize = 2 * sketch::BUCKETS;
