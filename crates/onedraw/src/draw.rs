//! The draw: run the race first, ask after.
//!
//! A truncation keeps a prefix of the order. So nobody has to build the kept set to draw from it: the winner of the
//! race over *all* tokens is also the winner among the kept, if it is kept. If it is not, nothing after it in the order
//! is, and the race goes on among the tokens before it.

use crate::edit::Edit;
use crate::edit::temperature::Temperature;
use crate::error::RowError;
use crate::mass::{Softmax, UNIT};
use crate::math::{exp, ln};
use crate::order::Key;
use crate::plan::Segment;
use crate::question::{Answer, Answers, BadLogit, Measure, Question, Reply};
use crate::truncate::Truncation;

/// The memory of a draw, kept from step to step.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrawMemory {
    reply: Reply,
    pending: Vec<Pending>,
}

/// A truncation that was not made, only asked about, with what became known of it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    truncation: Truncation,
    temperature: Temperature,
    /// The last token it keeps.
    cut: Option<Key>,
    /// The mass of what stood before it, at its temperature.
    mass_before: Option<u64>,
}

/// One draw from one row: the chain's last segment, with its truncations pending.
pub(crate) struct Draw<'a> {
    row: &'a mut dyn Answers,
    memory: &'a mut DrawMemory,
    summit: Key,
    temperature: Temperature,
    is_greedy: bool,
    /// The last token kept and the mass up to it, once known.
    kept: Option<(Key, u64)>,
}

impl<'a> Draw<'a> {
    /// Goes through the chain up to the draw.
    pub(crate) fn new(
        row: &'a mut dyn Answers,
        segments: &[Segment],
        is_greedy: bool,
        memory: &'a mut DrawMemory,
    ) -> Result<Self, RowError> {
        row.ask(&Question::Summit, &mut memory.reply);
        let summit = self::summit(row, &mut memory.reply, segments.first())?;
        let mut draw = Self { row, memory, summit, temperature: Temperature::ONE, is_greedy, kept: None };
        for (i, segment) in segments.iter().enumerate() {
            if i > 0 {
                let last = draw.cut_before(draw.memory.pending.len());
                draw.ask(Question::Narrow { last, temperature: draw.temperature, segment: i as u32 });
                draw.summit = self::summit(draw.row, &mut draw.memory.reply, Some(segment))?;
            }
            draw.temperature = segment.temperature;
            draw.memory.pending.clear();
            draw.memory.pending.extend(segment.truncations.iter().map(|&(truncation, temperature)| {
                Pending { truncation, temperature, cut: None, mass_before: None }
            }));
        }
        Ok(draw)
    }

    /// The row as it came, before any edit, at temperature 1. What was edited is forgotten.
    pub(crate) fn raw(row: &'a mut dyn Answers, memory: &'a mut DrawMemory) -> Result<Self, RowError> {
        row.ask(&Question::Raw, &mut memory.reply);
        let summit = self::summit(row, &mut memory.reply, None)?;
        memory.pending.clear();
        Ok(Self { row, memory, summit, temperature: Temperature::ONE, is_greedy: false, kept: None })
    }

    pub(crate) fn ask(&mut self, question: Question) -> Answer {
        self.row.ask(&question, &mut self.memory.reply);
        self.memory.reply.answer
    }

    /// The lists that came with the last answer.
    pub(crate) fn reply(&mut self) -> &mut Reply {
        &mut self.memory.reply
    }

    /// The largest logit alive.
    pub(crate) fn x_max(&self) -> f32 {
        self.summit.logit()
    }

    fn softmax(&self) -> Softmax {
        self.temperature.softmax(self.x_max())
    }

    /// The token: the first of the order if greedy, else the winner of the race among the kept.
    pub(crate) fn winner(&mut self) -> Key {
        if self.is_greedy {
            return self.summit;
        }
        let (x_max, temperature) = (self.x_max(), self.temperature);
        let mut before = None;
        loop {
            let answer = self.ask(Question::Race { x_max, temperature, before });
            // Every truncation keeps the first token of the order, so the race never runs dry before it.
            let Answer::Winner(Some(winner)) = answer else { return self.summit };
            match (0..self.memory.pending.len()).find(|&index| !self.keeps(index, winner.key)) {
                None => return winner.key,
                Some(index) => before = Some(self.narrowed(index, winner.key)),
            }
        }
    }

    /// Where the race goes on, exclusive, after truncation number `index` rejected `key`: before `key`, or no later than the
    /// truncations' own cut where that is cheap to find.
    fn narrowed(&mut self, index: usize, key: Key) -> Key {
        let is_cheap = self.memory.pending[..=index].iter().all(|pending| pending.truncation.has_cheap_cut());
        if is_cheap { key.min(self.cut_before(index + 1).next()) } else { key }
    }

    fn keeps(&mut self, index: usize, key: Key) -> bool {
        let Pending { truncation, temperature, cut, .. } = self.memory.pending[index];
        match cut {
            Some(cut) => key <= cut,
            None => truncation.keeps(self, index, temperature, key),
        }
    }

    /// The token at share `uniform` of the kept mass, in the order: the inverse of the distribution function.
    pub(crate) fn at(&mut self, uniform: f64) -> Result<Key, RowError> {
        if !(0.0..1.0).contains(&uniform) {
            return Err(RowError::UniformOutOfRange { uniform });
        }
        if self.is_greedy {
            return Ok(self.summit);
        }
        let (_, total) = self.kept();
        // uniform · 2^64 is exact; the product's upper half is below the total.
        let share = (uniform * 18_446_744_073_709_551_616.0) as u64;
        let unit = (u128::from(share) * u128::from(total)) >> 64;
        Ok(self.locate(Measure::Mass(self.softmax()), unit as u64))
    }

    /// The last token that the truncations before number `index` keep.
    pub(crate) fn cut_before(&mut self, index: usize) -> Key {
        let mut cut = Key::END;
        for i in 0..index {
            let Pending { truncation, temperature, cut: known, .. } = self.memory.pending[i];
            cut = match known {
                Some(known) => known,
                None => truncation.cut(self, temperature, cut),
            };
            self.memory.pending[i].cut = Some(cut);
        }
        cut
    }

    /// The mass up to `last`, which is what truncation number `index` finds, at its temperature.
    pub(crate) fn mass_before(&mut self, index: usize, last: Key, softmax: Softmax) -> u64 {
        if let Some(mass) = self.memory.pending[index].mass_before {
            return mass;
        }
        let mass = self.total(last, softmax);
        self.memory.pending[index].mass_before = Some(mass);
        mass
    }

    pub(crate) fn total(&mut self, last: Key, softmax: Softmax) -> u64 {
        match self.ask(Question::Total { last, softmax }) {
            Answer::Total(total) => total,
            _ => 0,
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
            let mut found = false;
            for (bucket, &sum) in self.memory.reply.histogram.iter().enumerate() {
                if unit < sum {
                    first += (bucket as u64) << shift;
                    found = true;
                    break;
                }
                unit -= sum;
            }
            if !found {
                return Key::END;
            }
        }
        Key::from_number(first)
    }

    /// The last token kept by the whole chain, and the mass up to it at the final temperature.
    fn kept(&mut self) -> (Key, u64) {
        if let Some(kept) = self.kept {
            return kept;
        }
        let (last, total) = if self.is_greedy {
            (self.summit, UNIT)
        } else {
            let last = self.cut_before(self.memory.pending.len());
            (last, self.total(last, self.softmax()))
        };
        self.kept = Some((last, total));
        (last, total)
    }

    /// The logarithm of the probability of a token; −inf if the chain removed it.
    pub(crate) fn logprob(&mut self, key: Key) -> f64 {
        let (last, total) = self.kept();
        if key > last {
            return f64::NEG_INFINITY;
        }
        let scaled = if self.is_greedy { 0.0 } else { self.temperature.scaled(key.logit(), self.x_max()) };
        scaled - ln(total as f64 / UNIT as f64)
    }

    /// The logit of a token after all edits and the temperature; −inf if the chain removed it.
    pub(crate) fn logit(&mut self, key: Key) -> f64 {
        if key > self.kept().0 { f64::NEG_INFINITY } else { self.temperature.logit(key) }
    }

    /// The probability of a token whose logarithm is `logprob`.
    pub(crate) fn probability(logprob: f64) -> f64 {
        exp(logprob)
    }

    /// 1 + the tokens before it.
    pub(crate) fn rank(&mut self, key: Key) -> u32 {
        match self.ask(Question::Rank { key, enough: u32::MAX }) {
            Answer::Rank(rank) => rank + 1,
            _ => 1,
        }
    }

    /// The place of a token in the order.
    pub(crate) fn key_of(&mut self, token: u32) -> Key {
        match self.ask(Question::Logit { token }) {
            Answer::Logit(Some(x)) => Key::new(x, token),
            _ => Key::new(f32::NEG_INFINITY, token),
        }
    }

    /// The first `count` tokens of the order, sorted, whether the truncations keep them or not; `None`: all that are alive.
    pub(crate) fn best(&mut self, count: Option<u32>) -> &[Key] {
        match count {
            Some(count) => self.ask(Question::Best { count }),
            None => self.ask(Question::Kept { last: Key::END }),
        };
        let keys = &mut self.memory.reply.keys;
        keys.sort_unstable();
        keys.truncate(count.map_or(usize::MAX, |count| count as usize));
        keys
    }

    /// Every token that the chain keeps, sorted.
    pub(crate) fn support(&mut self) -> &[Key] {
        let (last, _) = self.kept();
        self.ask(Question::Kept { last });
        self.memory.reply.keys.sort_unstable();
        &self.memory.reply.keys
    }
}

/// The first token of the order from the last answer, or the error the row ends in.
fn summit(row: &mut dyn Answers, reply: &mut Reply, segment: Option<&Segment>) -> Result<Key, RowError> {
    match reply.answer {
        Answer::Summit { bad: Some(BadLogit { token, is_nan: true }), .. } => {
            Err(RowError::NanLogit { token })
        }
        Answer::Summit { bad: Some(BadLogit { token, .. }), .. } => Err(RowError::InfiniteLogit { token }),
        Answer::Summit { top: Some(top), .. } => Ok(top),
        _ => {
            row.ask(&Question::EmptiedBy, reply);
            let Answer::EmptiedBy(edit) = reply.answer else { return Err(RowError::EmptyRow) };
            let edit = usize::try_from(edit).ok().and_then(|edit| segment?.edits.get(edit));
            Err(RowError::NothingLeft { stage: edit.map(Edit::stage) })
        }
    }
}
