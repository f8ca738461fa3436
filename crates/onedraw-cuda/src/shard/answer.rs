//! Every question of a draw, put to the kernel, and its answer in the library's types.

use onedraw::answer::{
    Answer, BadLogit, Count, Deviations, EmptiedBy, Finalist, Last, Listed, Lists, Logit, Mass, Summit,
    Weighed, Winner,
};
use onedraw::key::Key;
use onedraw::mass::{Interval, Spread};
use onedraw::query::{Measure, Question, Sketch, Stretch, SumByKey};

use super::arguments::{AskArguments, QuestionKind, score};
use super::row::ShardRow;
use super::sequence::FIRST_BIN;
use crate::error::CudaError;
use crate::record::shared::{ANSWER_WORDS, MAX_BINS};

// Every histogram that a draw asks for fits the bins.
const _: () = assert!(SumByKey::MAX_INTERVALS <= MAX_BINS && Sketch::BUCKETS <= MAX_BINS);

/// Listing so many keys more than are asked for costs less than one more pass over the part for another
/// digit: 8 KB are copied in about the time of a launch.
const SPARE: u64 = 1024;

impl ShardRow<'_> {
    /// The answer. Keys and bins go to the lists, which are empty before.
    pub(super) fn answer(&mut self, question: &Question, lists: &mut Lists) -> Result<Answer, CudaError> {
        Ok(match question {
            Question::FindSummit(_) => self.summit()?.into(),
            Question::FindEmptied(_) => {
                let [edits, ..] = self.put(AskArguments::new(QuestionKind::Emptied))?;
                EmptiedBy { edit: self.shard.library_edit(edits as i32 - 1, self.mask != 0) }.into()
            }
            Question::Restore(_) => {
                (self.is_raw, self.head) = (true, 0);
                self.summit()?.into()
            }
            Question::Behead(q) if q.xtc.is_none() => {
                self.head = self.head.max(q.head.number());
                self.summit()?.into()
            }
            Question::RunRace(q) => {
                let before = q.before.unwrap_or(Key::last_of(f32::NEG_INFINITY));
                let ask = AskArguments::new(QuestionKind::Race);
                let ask = AskArguments { x_max: q.x_max, factor: q.temperature.inverse, ..ask };
                let [order, runner, ..] = self.put(ask.last(before))?;
                let key = Key::new(f32::from_bits(runner as u32), !((runner >> 32) as u32));
                Winner { finalist: (order > 0).then(|| Finalist { score: score(order), key }) }.into()
            }
            Question::CountBefore(q) => {
                let [count, ..] = self.put(AskArguments::new(QuestionKind::CountBefore).last(q.key))?;
                Count { tokens: count as u32 }.into()
            }
            Question::Weigh(q) => {
                let ask = AskArguments::new(QuestionKind::Weigh).last(q.key).softmax(q.softmax);
                let [before, total, ..] = self.put(ask)?;
                let exactly = |mass| Interval { least: mass, most: mass };
                Weighed { before: exactly(before), total: exactly(total) }.into()
            }
            Question::SumMass(q) => {
                let ask = AskArguments::new(QuestionKind::Total).last(q.last).softmax(q.softmax);
                let [total, ..] = self.put(ask)?;
                Mass { total }.into()
            }
            Question::SumSpread(q) => {
                let ask = AskArguments::new(QuestionKind::Spread).last(q.last).softmax(q.softmax);
                let [total, surprise, count, _] = self.put(ask)?;
                Spread { count: count as u32, total, surprise }.into()
            }
            Question::FindLast(q) => {
                let [latest, ..] = self.put(AskArguments::new(QuestionKind::Last).last(q.last))?;
                Last { key: (latest > 0).then(|| Key::from_number(latest)) }.into()
            }
            Question::SumDeviations(q) => {
                let ask = AskArguments::new(QuestionKind::Deviations).last(q.last);
                let ask = AskArguments { x_max: q.x_max, factor: q.factor(), ..ask };
                let [count, sum, high, low] = self.put(ask)?;
                let squares = (u128::from(high) << 40) + u128::from(low);
                Deviations { count: count as u32, sum, squares }.into()
            }
            Question::SumByDistance(q) => {
                let bins = (u64::from(q.first), u32::from(q.shift), 1 << q.width);
                let ask =
                    AskArguments::new(QuestionKind::Distances).last(q.last).bins(bins.0, bins.1, bins.2);
                let ask = ask.softmax(q.centre.temperature.softmax(q.centre.x_max));
                let ask = AskArguments { factor: q.centre.temperature.inverse, mean: q.centre.mean, ..ask };
                self.put_bins(ask, &mut lists.sums)?;
                Listed {}.into()
            }
            Question::SumByKey(q) => {
                let ask = match q.measure {
                    Measure::Count => AskArguments::new(QuestionKind::Counts),
                    Measure::Mass(softmax) => AskArguments::new(QuestionKind::Masses).softmax(softmax),
                };
                let ask = ask.bins(q.first.number(), u32::from(q.shift), 1 << q.width);
                self.put_bins(ask, &mut lists.sums)?;
                Listed {}.into()
            }
            Question::Sketch(q) => {
                let ask =
                    AskArguments::new(QuestionKind::Sketch).softmax(q.softmax).bins(0, 0, Sketch::BUCKETS);
                let scale = q.softmax.scale * Sketch::STEPS as f32;
                self.put_bins(AskArguments { scale, ..ask }, &mut lists.sums)?;
                // The second half of the counts is for tokens of a sample: here all tokens were counted.
                lists.sums.resize(2 * Sketch::BUCKETS, 0);
                Listed {}.into()
            }
            Question::ListBand(q) => {
                // Without an inner stretch: one that no logit is in.
                let none = Stretch { highest: q.outer.highest, lowest: f32::INFINITY };
                let inner = q.inner.unwrap_or(none);
                let last = q.last.min(Key::last_of(q.outer.lowest));
                let ask = AskArguments::new(QuestionKind::Band).last(last).softmax(q.softmax);
                let ask = AskArguments { inner_highest: inner.highest, inner_lowest: inner.lowest, ..ask };
                let [total, ..] = self.put(AskArguments { outer_highest: q.outer.highest, ..ask })?;
                // If there are more than there is room for, the draw sees that there are too many, and does
                // not use them.
                lists.keys.extend(self.shard.listed()?.into_iter().map(Key::from_number));
                Mass { total }.into()
            }
            Question::ListBest(q) => {
                self.best(q.count as usize, &mut lists.keys)?;
                Listed {}.into()
            }
            Question::ListKept(q) => {
                self.kept(q.last, &mut lists.keys)?;
                Listed {}.into()
            }
            Question::ReadLogit(q) => Logit { x: self.logit(q.token)? }.into(),
            Question::Narrow(_) => return Err(CudaError::unsupported("an edit after a truncation")),
            Question::Behead(_) => return Err(CudaError::unsupported("xtc")),
            Question::Smooth(_) => return Err(CudaError::unsupported("smoothing")),
            Question::EditTokens(_) | Question::KeepOnly(_) => {
                return Err(CudaError::unsupported("a custom stage"));
            }
            other => return Err(CudaError::unsupported(other.name())),
        })
    }

    /// Asks the device about all tokens of the part.
    fn put(&mut self, ask: AskArguments) -> Result<[u64; ANSWER_WORDS], CudaError> {
        let (logits, length) = (self.part.address, self.part.vocabulary as u32);
        self.put_of(AskArguments { logits, start: self.start, length, ..ask })
    }

    /// Asks the device about the tokens that the arguments name.
    fn put_of(&mut self, ask: AskArguments) -> Result<[u64; ANSWER_WORDS], CudaError> {
        let (head, is_raw, ahead) = (self.head, self.is_raw.into(), self.ahead);
        let ask = AskArguments { mask: self.mask, head, is_raw, ahead, ..ask };
        self.shard.answer(self.part.dtype, &ask)
    }

    /// Asks the device for sums in bins.
    fn put_bins(&mut self, ask: AskArguments, bins: &mut Vec<u64>) -> Result<(), CudaError> {
        let (given, capacity) = (ask.bin_count as usize, MAX_BINS);
        if given > capacity {
            return Err(CudaError::TooMany { what: "intervals", given, capacity });
        }
        self.put(ask)?;
        bins.clear();
        bins.extend_from_slice(&self.shard.read[FIRST_BIN..]);
        Ok(())
    }

    /// The first token of the order, or what is wrong with the part.
    fn summit(&mut self) -> Result<Summit, CudaError> {
        let [top, bad, ..] = self.put(AskArguments::new(QuestionKind::Summit))?;
        let bad = (bad > 0).then_some(BadLogit { token: (!bad >> 1) as u32, is_nan: !bad & 1 == 1 });
        Ok(Summit { top: (top > 0 && bad.is_none()).then(|| Key::from_number(!top)), bad })
    }

    /// The logit of a token; `None` if it is not in this part.
    fn logit(&mut self, token: u32) -> Result<Option<f32>, CudaError> {
        let Some(place) =
            token.checked_sub(self.start).filter(|&place| (place as usize) < self.part.vocabulary)
        else {
            return Ok(None);
        };
        let logits = self.part.address + u64::from(place) * self.part.dtype.size() as u64;
        let [bits, ..] = self.put_of(AskArguments {
            logits,
            start: token,
            length: 1,
            ..AskArguments::new(QuestionKind::Logit)
        })?;
        Ok(Some(f32::from_bits(bits as u32)))
    }

    /// Lists the keys up to `last`.
    fn kept(&mut self, last: Key, keys: &mut Vec<Key>) -> Result<(), CudaError> {
        let ask = AskArguments::new(QuestionKind::Kept).last(last.min(Key::END));
        self.put(ask)?;
        if self.shard.grow()? {
            self.put(ask)?;
        }
        keys.extend(self.shard.listed()?.into_iter().map(Key::from_number));
        Ok(())
    }

    /// Lists the first `count` keys: a radix select narrows down, digit by digit, where about as many keys
    /// end; these are listed.
    fn best(&mut self, count: usize, keys: &mut Vec<Key>) -> Result<(), CudaError> {
        let Some(mut unit) = (count as u64).checked_sub(1) else { return Ok(()) };
        let (mut first, mut last) = (0, Key::END);
        let mut bins = Vec::new();
        for (shift, width) in SumByKey::DIGITS {
            let ask = AskArguments::new(QuestionKind::Counts).bins(first, u32::from(shift), 1 << width);
            self.put_bins(ask, &mut bins)?;
            // There may be fewer keys.
            let Some((bin, rest)) = SumByKey::interval_of(&bins, unit) else { break };
            unit = rest;
            first += (bin as u64) << shift;
            last = Key::from_number(first + ((1 << shift) - 1));
            if bins[bin] - unit <= SPARE {
                break;
            }
        }
        self.kept(last, keys)?;
        if keys.len() > count {
            keys.select_nth_unstable(count);
            keys.truncate(count);
        }
        Ok(())
    }
}
