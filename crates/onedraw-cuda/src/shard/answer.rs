//! Every question of a draw, put to the kernel, and its answer in the library's types.
//!
//! A question that changes the row writes what it leaves to a desk, from where later questions read it.

use onedraw::answer::{
    Answer, BadLogit, Count, Deviations, EmptiedBy, Finalist, Held, Last, Listed, Lists, Logit, Mass, Summit,
    Weighed, Winner,
};
use onedraw::key::Key;
use onedraw::mass::{Interval, Spread};
use onedraw::query::{Measure, Question, Sketch, Stretch, SumByKey};

use super::arguments::{AskArguments, QuestionKind, score};
use super::change::{Change, Replacements};
use super::row::Asked;
use super::sequence::FIRST_BIN;
use crate::error::CudaError;
use crate::memory::Array;
use crate::record::chain::{Masks, Record};
use crate::record::layout::EditKind;
use crate::record::shared::{ANSWER_WORDS, MAX_BINS};

// Every histogram that a draw asks for fits the bins.
const _: () = assert!(SumByKey::MAX_INTERVALS <= MAX_BINS && Sketch::BUCKETS <= MAX_BINS);

/// Listing so many keys more than are asked for costs less than one more pass over the part for another
/// digit: 8 KB are copied in about the time of a launch.
const SPARE: u64 = 1024;

impl Asked<'_, '_> {
    /// The answer. Keys and bins go to the lists, which are empty before.
    pub(super) fn answer(&mut self, question: &Question, lists: &mut Lists) -> Result<Answer, CudaError> {
        Ok(match question {
            Question::FindSummit(_) => self.summit(AskArguments::new(QuestionKind::Summit))?.0.into(),
            Question::FindEmptied(_) => EmptiedBy { edit: self.emptied_by()? }.into(),
            Question::Restore(_) => {
                (self.row.is_raw, self.row.is_on_desk) = (true, false);
                self.summit(AskArguments::new(QuestionKind::Summit))?.0.into()
            }
            Question::Narrow(q) => {
                let edits = self.edits(q.segment).unwrap_or_default();
                let (summit, survived) = self.change(Change::narrow(q, &edits))?;
                let is_left = survived > edits.len() as u64;
                self.row.emptied_by =
                    Some(if is_left { -1 } else { self.library_edit(edits.start, survived) });
                summit.into()
            }
            Question::Behead(q) => {
                let (shard, has_mask) = (&self.shard, self.row.mask.is_some());
                let is_xtc = q.xtc.is_some_and(|place| shard.record.is_xtc(has_mask, place));
                self.change(Change::behead(q.head, is_xtc))?.0.into()
            }
            Question::Smooth(q) => self.change(Change::smooth(q))?.0.into(),
            Question::EditTokens(q) => {
                let Held { start, length } = self.row.held();
                self.replace(&Replacements::edits(start, length as usize, &q.logits))?.into()
            }
            Question::KeepOnly(q) => {
                let Held { start, length } = self.row.held();
                self.replace(&Replacements::keeps(start, length as usize, &q.ids))?.into()
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
            other => return Err(CudaError::unsupported(other.name())),
        })
    }

    /// Asks the device about all tokens of the part.
    fn put(&mut self, ask: AskArguments) -> Result<[u64; ANSWER_WORDS], CudaError> {
        let Held { start, length } = self.row.held();
        self.put_of(AskArguments { start, length, ..ask })
    }

    /// Asks the device about the tokens that the arguments name, which the part holds.
    fn put_of(&mut self, ask: AskArguments) -> Result<[u64; ANSWER_WORDS], CudaError> {
        let Self { shard, row } = self;
        let place = u64::from(ask.start - row.start);
        let mask = row.mask.unwrap_or(0);
        let (mask, late_mask) = if shard.record.masks == Masks::Late { (0, mask) } else { (mask, 0) };
        let ask = AskArguments {
            logits: row.part.address + place * row.part.dtype.size() as u64,
            desk: row.desk.as_ref().map_or(0, |desk| desk.address() + place * size_of::<f32>() as u64),
            mask,
            late_mask,
            is_raw: row.is_raw.into(),
            is_on_desk: row.is_on_desk.into(),
            ahead: row.ahead,
            ..ask
        };
        shard.answer(row.part.dtype, &ask)
    }

    /// Changes the row; returns its first token, and how many edits of the segment it takes until every token
    /// is gone.
    fn change(&mut self, change: Change) -> Result<(Summit, u64), CudaError> {
        let Self { shard, row } = self;
        if row.desk.is_none() {
            row.desk = Some(shard.desks.take(&shard.device, row.part.vocabulary)?);
        }
        let found = self.summit(AskArguments { change, ..AskArguments::new(QuestionKind::Summit) })?;
        self.row.is_on_desk = true;
        Ok(found)
    }

    /// Gives tokens new logits.
    fn replace(&mut self, replacements: &Replacements) -> Result<Summit, CudaError> {
        let logits = replacements.logits();
        let memory = Array::uninitialised(self.shard.device.context(), logits.len())?;
        memory.write(self.shard.device.uploads(), 0, logits)?;
        Ok(self.change(Change::replace(memory.address()))?.0)
    }

    /// The edit of the last segment that masked the last token, or −1 if there was none to begin with.
    fn emptied_by(&mut self) -> Result<i32, CudaError> {
        if let Some(edit) = self.row.emptied_by {
            return Ok(edit);
        }
        // What later questions changed does not count.
        let is_on_desk = std::mem::take(&mut self.row.is_on_desk);
        let answer = self.put(AskArguments::new(QuestionKind::Emptied));
        self.row.is_on_desk = is_on_desk;
        let [survived, ..] = answer?;
        Ok(self.library_edit(0, survived))
    }

    /// The number, in the library's chain, of the edit that removed the last token of a segment whose edits begin at
    /// `first`: the one after which `survived` of them were made; −1 for none. The library's edit of allowed tokens is
    /// there only if there is a list or a mask.
    fn library_edit(&self, first: usize, survived: u64) -> i32 {
        let Some(before) = (survived as usize).checked_sub(1) else { return -1 };
        let Record { kinds, sequence, .. } = &self.shard.record;
        let has_list = sequence.allowed != 0 || sequence.late_allowed != 0;
        let is_idle = |kind: u8| kind == EditKind::Allowed as u8 && !has_list && self.row.mask.is_none();
        kinds.iter().skip(first).take(before).filter(|&&kind| !is_idle(kind)).count() as i32
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

    /// The first token of the order, or what is wrong with the part; and what [`Asked::change`] returns.
    fn summit(&mut self, ask: AskArguments) -> Result<(Summit, u64), CudaError> {
        let [top, bad, survived, _] = self.put(ask)?;
        let bad = (bad > 0).then_some(BadLogit { token: (!bad >> 1) as u32, is_nan: !bad & 1 == 1 });
        let top = (top > 0 && bad.is_none()).then(|| Key::from_number(!top));
        Ok((Summit { top, bad }, survived))
    }

    /// The logit of a token; `None` if it is not in this part.
    fn logit(&mut self, token: u32) -> Result<Option<f32>, CudaError> {
        if !self.row.held().has(token) {
            return Ok(None);
        }
        let ask = AskArguments { start: token, length: 1, ..AskArguments::new(QuestionKind::Logit) };
        let [bits, ..] = self.put_of(ask)?;
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
