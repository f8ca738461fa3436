//! Asking a row: the questions that need an answer and nothing else, and those that take several.

use crate::kernels::passes::Passes;
use crate::mass::{Softmax, Spread};
use crate::order::Key;
use crate::question::{Answer, Answers, Measure, Question, Reply};

/// A row to ask, and where its answers go.
pub(crate) struct Inquiry<'a> {
    row: &'a mut dyn Answers,
    reply: &'a mut Reply,
    /// For what is listed here.
    pub passes: Passes,
}

impl<'a> Inquiry<'a> {
    pub(crate) fn new(row: &'a mut dyn Answers, reply: &'a mut Reply, passes: Passes) -> Self {
        Self { row, reply, passes }
    }

    pub(crate) fn ask(&mut self, question: Question) -> Answer {
        self.row.ask(&question, self.reply);
        self.reply.answer
    }

    /// The keys that came with the last answer.
    pub(crate) fn keys(&mut self) -> &mut Vec<Key> {
        &mut self.reply.keys
    }

    /// The sums that came with the last answer.
    pub(crate) fn histogram(&self) -> &[u64] {
        &self.reply.histogram
    }

    /// The mass up to and including `last`.
    pub(crate) fn total(&mut self, last: Key, softmax: Softmax) -> u64 {
        match self.ask(Question::Total { last, softmax }) {
            Answer::Total(total) => total,
            _ => 0,
        }
    }

    /// How many tokens stand before `key`; counting may stop at `enough`.
    pub(crate) fn rank(&mut self, key: Key, enough: u32) -> u32 {
        match self.ask(Question::Rank { key, enough }) {
            Answer::Rank(rank) => rank,
            _ => enough,
        }
    }

    /// Count, mass and entropy's sum up to and including `last`.
    pub(crate) fn spread(&mut self, last: Key, softmax: Softmax) -> Spread {
        match self.ask(Question::Spread { last, softmax }) {
            Answer::Spread(spread) => spread,
            _ => Spread::default(),
        }
    }

    /// The last token up to and including `last`.
    pub(crate) fn last(&mut self, last: Key) -> Option<Key> {
        match self.ask(Question::Last { last }) {
            Answer::Last(last) => last,
            _ => None,
        }
    }

    /// The token in which unit number `unit` of the measure lies, counted in the order from 0; [`Key::END`] if there is less.
    pub(crate) fn locate(&mut self, measure: Measure, unit: u64) -> Key {
        // Digits of the logit, then of the id, which has 20 bits: its upper 12 are 0.
        const DIGITS: [(u32, u32); 5] = [(53, 11), (42, 11), (32, 10), (10, 10), (0, 10)];
        let histogram = |first, shift, width| Question::Histogram {
            first: Key::from_number(first),
            shift,
            width,
            measure,
        };
        self.select(&DIGITS, unit, histogram).map_or(Key::END, Key::from_number)
    }

    /// A radix select: each pass sums one digit's buckets and follows the one that holds unit number `unit`. Digits are (shift, width).
    pub(crate) fn select(
        &mut self,
        digits: &[(u32, u32)],
        mut unit: u64,
        histogram: impl Fn(u64, u32, u32) -> Question,
    ) -> Option<u64> {
        let mut first = 0;
        for &(shift, width) in digits {
            self.ask(histogram(first, shift, width));
            let holds_unit = |&sum: &u64| {
                let is_there = unit < sum;
                unit -= if is_there { 0 } else { sum };
                is_there
            };
            let bucket = self.reply.histogram.iter().position(holds_unit)?;
            first += (bucket as u64) << shift;
        }
        Some(first)
    }
}
