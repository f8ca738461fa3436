//! Asking a row: the questions that need an answer and nothing else, and those that take several.

use crate::mass::Softmax;
use crate::order::Key;
use crate::question::{Answer, Answers, Measure, Question, Reply};

/// A row to ask, and where its answers go.
pub(crate) struct Inquiry<'a> {
    row: &'a mut dyn Answers,
    reply: &'a mut Reply,
}

impl<'a> Inquiry<'a> {
    pub(crate) fn new(row: &'a mut dyn Answers, reply: &'a mut Reply) -> Self {
        Self { row, reply }
    }

    pub(crate) fn ask(&mut self, question: Question) -> Answer {
        self.row.ask(&question, self.reply);
        self.reply.answer
    }

    /// The keys that came with the last answer.
    pub(crate) fn keys(&mut self) -> &mut Vec<Key> {
        &mut self.reply.keys
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

    /// The token in which unit number `unit` of the measure lies, counted in the order from 0; [`Key::END`] if there is less.
    ///
    /// A radix select over keys: each pass sums one digit's buckets and follows the one that holds the unit.
    pub(crate) fn locate(&mut self, measure: Measure, mut unit: u64) -> Key {
        // Digits of the logit, then of the id, which has 20 bits: its upper 12 are 0.
        const DIGITS: [(u32, u32); 5] = [(53, 11), (42, 11), (32, 10), (10, 10), (0, 10)];
        let mut first = 0;
        for (shift, width) in DIGITS {
            self.ask(Question::Histogram { first: Key::from_number(first), shift, width, measure });
            let holds_unit = |&sum: &u64| {
                let is_there = unit < sum;
                unit -= if is_there { 0 } else { sum };
                is_there
            };
            let Some(bucket) = self.reply.histogram.iter().position(holds_unit) else { return Key::END };
            first += (bucket as u64) << shift;
        }
        Key::from_number(first)
    }
}
