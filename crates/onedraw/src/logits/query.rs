//! The questions that a draw asks about a row.
//!
//! A draw never touches a row. It asks small questions, and whoever holds the row answers: one slice for a
//! whole row, or several, each with its part of the vocabulary, whose answers are merged into one. Maxima,
//! sums of integers and lists of keys merge to the same result in any order, so the split cannot change a
//! token.
//!
//! The questions themselves are in `logits/questions.rs`. The table at the end of this file says of every
//! question which number it has in a message, what its answer is, and how a slice finds it. To add a
//! question, write its struct and its fields there, and its line in the table here.
//!
//! A draw over shards in other processes may begin with [`Open`]. What the shards say then often answers
//! later questions without asking: `Query::known`.

use crate::kernels::bend::Bend;
use crate::logits::answer::{
    Answer, AnswerPart, Count, Deviations, EmptiedBy, Held, Last, Listed, Lists, Logit, Mass, Opened, Summit,
    Weighed, Winner,
};
use crate::logits::code::{Field, Reader};
use crate::logits::known::Known;
use crate::logits::measure::curve::POINTS;
use crate::logits::measure::{band, sketch, sums};
use crate::logits::questions::MAX_WIDTH;
use crate::logits::slice::{Edits, Slice};
use crate::numeric::key::Key;
use crate::numeric::mass::{MAX_VOCABULARY, Softmax, Spread, UNIT};
use crate::numeric::temperature::Temperature;

pub use crate::logits::questions::{
    Behead, Centre, CountBefore, EditTokens, FindEmptied, FindLast, FindSummit, KeepOnly, ListBand, ListBest,
    ListKept, Measure, Narrow, Open, Place, ReadLogit, Restore, RunRace, Sketch, Smooth, Stretch,
    SumByDistance, SumByKey, SumDeviations, SumMass, SumSpread, Weigh,
};

/// A question about the logits as the edits so far left them.
pub(crate) trait Query: Field + Sync {
    /// Its number in a message.
    const KIND: u8;
    /// Its name in an error.
    const NAME: &'static str;
    /// Whether keys come with the answer, in [`Lists::keys`].
    const LISTS_KEYS: bool = false;
    /// Whether the row is another one after the answer: what was known about it is forgotten.
    const CHANGES_ROW: bool = false;

    type Answer: AnswerPart;

    /// What one slice answers. Lists are added to what `lists` holds already.
    fn answer<E: Edits>(&self, slice: &mut Slice<'_, E>, lists: &mut Lists) -> Self::Answer;

    /// The answer of all parts together, as far as it follows from their openings; `None`: they must be
    /// asked.
    fn known(&self, _: &Known, _: &mut Lists) -> Option<Self::Answer> {
        None
    }

    /// How many sums come with the answer, in [`Lists::sums`].
    fn sums(&self) -> usize {
        0
    }

    /// How many points come with the answer, in [`Lists::points`].
    fn points(&self) -> usize {
        0
    }

    /// The most keys that a part of `length` tokens can list.
    fn most_keys(&self, length: u32) -> u32 {
        length
    }

    /// The most entries of 8 bytes that come with the answer of a part of so many tokens.
    fn most_entries(&self, vocabulary: usize) -> usize {
        if Self::LISTS_KEYS { vocabulary } else { self.sums() }
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

            /// The most entries of 8 bytes that come with the answer of a part of so many tokens.
            pub(crate) fn most_entries(&self, vocabulary: usize) -> usize {
                match self {
                    $(Self::$query(query) => query.most_entries(vocabulary),)*
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
                        lists.sums.len() == query.sums()
                            && lists.points.len() == query.points()
                            && ($query::LISTS_KEYS || lists.keys.is_empty())
                    })*
                    _ => false,
                }
            }
        }
    };
}

questions! {
    0 FindSummit -> Summit: |_q, slice, _lists| slice.summit(), {
        fn known(&self, known: &Known, _: &mut Lists) -> Option<Summit> {
            Some(known.summit())
        }
    };
    1 FindEmptied -> EmptiedBy: |_q, slice, _lists| EmptiedBy { edit: slice.emptied_by() };
    2 Restore -> Summit: |_q, slice, _lists| slice.restore(), {
        const CHANGES_ROW: bool = true;

        fn known(&self, known: &Known, _: &mut Lists) -> Option<Summit> {
            known.is_raw().then(|| known.summit())
        }
    };
    3 RunRace -> Winner: |q, slice, _lists| {
        Winner { finalist: slice.race(q.x_max, q.temperature, q.before) }
    }, {
        fn known(&self, known: &Known, _: &mut Lists) -> Option<Winner> {
            known.race(self.x_max, self.temperature, self.before)
        }

        fn is_sound(&self) -> bool {
            self.x_max.is_finite() && self.temperature.is_sound()
        }
    };
    4 CountBefore -> Count: |q, slice, _lists| Count { tokens: slice.count_before(q.key, q.enough) }, {
        fn known(&self, known: &Known, _: &mut Lists) -> Option<Count> {
            known.count_before(self.key, self.enough).map(|tokens| Count { tokens })
        }
    };
    5 Weigh -> Weighed: |q, slice, _lists| {
        let (before, total) = sums::weigh(slice.row(), q.key, q.softmax, q.depth);
        Weighed { before, total }
    }, {
        fn known(&self, known: &Known, _: &mut Lists) -> Option<Weighed> {
            let before = known.bounds(self.key.previous(), self.softmax)?;
            Some(Weighed { before, total: known.bounds(Key::END, self.softmax)? })
        }

        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    6 SumMass -> Mass: |q, slice, _lists| Mass { total: slice.mass(q.last, q.softmax) }, {
        fn known(&self, known: &Known, _: &mut Lists) -> Option<Mass> {
            known.mass(self.last, self.softmax).map(|total| Mass { total })
        }

        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    7 SumSpread -> Spread: |q, slice, _lists| sums::spread(slice.row(), q.last, q.softmax), {
        fn softmax(&self) -> Option<Softmax> {
            Some(self.softmax)
        }
    };
    8 FindLast -> Last: |q, slice, _lists| Last { key: sums::last(slice.row(), q.last) }, {
        fn known(&self, known: &Known, _: &mut Lists) -> Option<Last> {
            Some(Last { key: known.listed(self.last)?.max() })
        }
    };
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

        fn known(&self, known: &Known, lists: &mut Lists) -> Option<Listed> {
            known.best(self.count as usize, &mut lists.keys).then_some(Listed {})
        }

        fn most_entries(&self, vocabulary: usize) -> usize {
            vocabulary.min(self.count as usize)
        }

        fn is_sound(&self) -> bool {
            self.count as usize <= MAX_VOCABULARY
        }
    };
    14 ListKept -> Listed: |q, slice, lists| {
        slice.list_kept(q.last, &mut lists.keys);
        Listed {}
    }, {
        const LISTS_KEYS: bool = true;

        fn known(&self, known: &Known, lists: &mut Lists) -> Option<Listed> {
            lists.keys.extend(known.listed(self.last)?);
            Some(Listed {})
        }
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
        fn known(&self, known: &Known, _: &mut Lists) -> Option<Logit> {
            known.logit(self.token).map(|x| Logit { x: Some(x) })
        }

        fn fits(&self, answer: &Logit, held: &Held) -> bool {
            answer.fits(held) && answer.x.is_some() == held.has(self.token)
        }
    };
    17 Narrow -> Summit: |q, slice, _lists| slice.narrow(q.last, q.temperature, q.segment as usize), {
        const CHANGES_ROW: bool = true;

        fn is_sound(&self) -> bool {
            self.temperature.is_sound()
        }
    };
    18 Behead -> Summit: |q, slice, _lists| slice.behead(q.head, q.xtc.map(|place| (place.segment, place.operation))), {
        const CHANGES_ROW: bool = true;
    };
    19 Smooth -> Summit: |q, slice, _lists| slice.smooth(&q.bend, q.x_max), {
        const CHANGES_ROW: bool = true;

        fn is_sound(&self) -> bool {
            let Bend { factor, quadratic, cubic } = self.bend;
            [factor, quadratic, cubic].iter().all(|number| number.is_finite()) && self.x_max.is_finite()
        }
    };
    20 EditTokens -> Summit: |q, slice, _lists| slice.edit_tokens(&q.logits), {
        const CHANGES_ROW: bool = true;

        fn is_sound(&self) -> bool {
            self.logits.iter().all(|(_, logit)| *logit < f32::INFINITY)
        }
    };
    21 KeepOnly -> Summit: |q, slice, _lists| slice.keep_only(&q.ids), {
        const CHANGES_ROW: bool = true;
    };
    22 Open -> Opened: |q, slice, lists| slice.open(q, lists), {
        const LISTS_KEYS: bool = true;

        /// A token may be one of the best and a finisher.
        fn most_keys(&self, length: u32) -> u32 {
            length + length.min(Open::FINISHERS as u32)
        }

        fn points(&self) -> usize {
            if self.masses.is_some() { POINTS } else { 0 }
        }

        fn is_sound(&self) -> bool {
            let is_sound = |temperature: Option<Temperature>| temperature.is_none_or(Temperature::is_sound);
            // Masses are those of what is not listed.
            self.best <= Open::MAX_BEST
                && is_sound(self.race)
                && is_sound(self.masses)
                && (self.best > 0 || self.masses.is_none())
                && self.reach <= 0.0
                && self.focus <= 1 << 53
        }
    };
}

/// Whether a question from elsewhere can be answered: its own numbers and its weights can be used.
fn is_sound<Q: Query>(query: &Q) -> bool {
    let can_weigh =
        |softmax: Softmax| softmax.x_max.is_finite() && softmax.scale.is_finite() && softmax.scale > 0.0;
    query.is_sound() && query.softmax().is_none_or(can_weigh)
}

/// The most sums that come with any answer: those of a sketch.
pub(crate) const LONGEST_SUMS: usize = 2 * sketch::BUCKETS;
