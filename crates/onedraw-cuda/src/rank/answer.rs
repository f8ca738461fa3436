//! Every question as one that the kernel answers, and back.

use onedraw::mass::{Interval, Spread};
use onedraw::key::Key;
use onedraw::question::{Answer, BadLogit, Finalist, Measure, Question, Reply, Stretch};

use super::asking::{Ask, Asking, BINS, key, number, score};
use super::{FIRST_BIN, Rank};
use crate::error::CudaError;

/// Buckets of a sketch for each power of two of weight, and how many there are: `onedraw::sketch`.
const STEPS: f32 = 32.0;
const BUCKETS: usize = 44 * 32;
/// Distances of top-n-sigma are whole numbers of 2^−40 of the range.
const DEPTH: i32 = 40;
/// Digits of a key from the highest on, each as its shift and width; the upper 12 bits of an id are 0.
const DIGITS: [(u32, u32); 5] = [(53, 11), (42, 11), (32, 10), (10, 10), (0, 10)];
/// So many keys more than are asked for are listed rather than another digit looked at.
const SPARE: u64 = 1024;

impl Rank<'_> {
    /// The answer; keys and bins go to the reply, which is empty.
    pub(super) fn reply(&mut self, question: &Question, reply: &mut Reply) -> Result<Answer, CudaError> {
        Ok(match *question {
            Question::Summit => self.summit()?,
            Question::EmptiedBy => {
                let [edits, ..] = self.put(Ask::new(Asking::Emptied))?;
                Answer::EmptiedBy(self.shard.edit(edits as i32 - 1, self.mask != 0))
            }
            Question::Raw => {
                (self.is_raw, self.head) = (true, 0);
                self.summit()?
            }
            Question::Behead { head, xtc: None } => {
                self.head = self.head.max(number(head));
                self.summit()?
            }
            Question::Race { x_max, temperature, before } => {
                let before = before.unwrap_or(Key::last_of(f32::NEG_INFINITY));
                let ask = Ask { x_max, factor: temperature.inverse, ..Ask::new(Asking::Race) };
                let [order, runner, ..] = self.put(ask.last(before))?;
                let key = Key::new(f32::from_bits(runner as u32), !((runner >> 32) as u32));
                Answer::Winner((order > 0).then(|| Finalist { score: score(order), key }))
            }
            Question::Rank { key, enough: _ } => {
                let [count, ..] = self.put(Ask::new(Asking::CountBefore).last(key))?;
                Answer::Rank(count as u32)
            }
            Question::Weigh { key, softmax, depth: _ } => {
                let [before, total, ..] = self.put(Ask::new(Asking::Weigh).last(key).softmax(softmax))?;
                let exactly = |mass| Interval { least: mass, most: mass };
                Answer::Weighed { before: exactly(before), total: exactly(total) }
            }
            Question::Total { last, softmax } => {
                let [total, ..] = self.put(Ask::new(Asking::Total).last(last).softmax(softmax))?;
                Answer::Total(total)
            }
            Question::Spread { last, softmax } => {
                let ask = Ask::new(Asking::Spread).last(last).softmax(softmax);
                let [total, surprise, count, _] = self.put(ask)?;
                Answer::Spread(Spread { count: count as u32, total, surprise })
            }
            Question::Last { last } => {
                let [latest, ..] = self.put(Ask::new(Asking::Last).last(last))?;
                Answer::Last((latest > 0).then(|| key(latest)))
            }
            Question::Deviations { last, x_max, exponent } => {
                let factor = f64::from_bits(((DEPTH - exponent + 1023) as u64) << 52);
                let ask = Ask { x_max, factor, ..Ask::new(Asking::Deviations) };
                let [count, sum, high, low] = self.put(ask.last(last))?;
                let squares = (u128::from(high) << 40) + u128::from(low);
                Answer::Deviations { count: count as u32, sum, squares: squares.into() }
            }
            Question::Distances { centre, last, first, shift, width } => {
                let ask = Ask::new(Asking::Distances).last(last).bins(u64::from(first), shift, 1 << width);
                let ask = ask.softmax(centre.temperature.softmax(centre.x_max));
                let ask = Ask { factor: centre.temperature.inverse, mean: centre.mean, ..ask };
                self.put_bins(ask, &mut reply.histogram)?
            }
            Question::Histogram { first, shift, width, measure } => {
                let ask = match measure {
                    Measure::Count => Ask::new(Asking::Counts),
                    Measure::Mass(softmax) => Ask::new(Asking::Masses).softmax(softmax),
                };
                self.put_bins(ask.bins(number(first), shift, 1 << width), &mut reply.histogram)?
            }
            Question::Sketch { softmax } => {
                let ask = Ask::new(Asking::Sketch).softmax(softmax).bins(0, 0, BUCKETS);
                let answer =
                    self.put_bins(Ask { scale: softmax.scale * STEPS, ..ask }, &mut reply.histogram)?;
                // All tokens were counted, and none sampled.
                reply.histogram.resize(2 * BUCKETS, 0);
                answer
            }
            Question::Band { inner, outer, last, softmax } => {
                // No logit is in a stretch from infinity on.
                let inner = inner.unwrap_or(Stretch { highest: outer.highest, lowest: f32::INFINITY });
                let ask = Ask::new(Asking::Band).last(last.min(Key::last_of(outer.lowest))).softmax(softmax);
                let ask = Ask { inner_highest: inner.highest, inner_lowest: inner.lowest, ..ask };
                let [total, ..] = self.put(Ask { outer_highest: outer.highest, ..ask })?;
                // Where there are more than there is room for, an asker has no use for them.
                reply.keys.extend(self.shard.listed()?.into_iter().map(key));
                Answer::Total(total)
            }
            Question::Best { count } => {
                self.best(count as usize, &mut reply.keys)?;
                Answer::Keys
            }
            Question::Kept { last } => {
                self.kept(number(last), &mut reply.keys)?;
                Answer::Keys
            }
            Question::Logit { token } => Answer::Logit(self.logit(token)?),
            Question::Narrow { .. } => return Err(CudaError::unsupported("an edit after a truncation")),
            Question::Behead { xtc: Some(_), .. } => return Err(CudaError::unsupported("xtc")),
            Question::Smooth { .. } => return Err(CudaError::unsupported("smoothing")),
            Question::Edit { .. } | Question::KeepOnly { .. } => {
                return Err(CudaError::unsupported("a custom stage"));
            }
        })
    }

    /// Asks the device, of all tokens of the part.
    fn put(&mut self, ask: Ask) -> Result<[u64; 4], CudaError> {
        let (logits, length) = (self.part.address, self.part.vocabulary as u32);
        self.put_of(Ask { logits, start: self.start, length, ..ask })
    }

    /// Asks the device, of the tokens that are named already.
    fn put_of(&mut self, ask: Ask) -> Result<[u64; 4], CudaError> {
        let ask = Ask { mask: self.mask, head: self.head, is_raw: self.is_raw.into(), ..ask };
        self.shard.answer(self.part.dtype, &ask)
    }

    fn put_bins(&mut self, ask: Ask, bins: &mut Vec<u64>) -> Result<Answer, CudaError> {
        let (given, capacity) = (ask.bin_count as usize, BINS);
        if given > capacity {
            return Err(CudaError::TooMany { what: "intervals", given, capacity });
        }
        self.put(ask)?;
        bins.clear();
        bins.extend_from_slice(&self.shard.read[FIRST_BIN..]);
        Ok(Answer::Histogram)
    }

    fn summit(&mut self) -> Result<Answer, CudaError> {
        let [top, bad, ..] = self.put(Ask::new(Asking::Summit))?;
        let bad = (bad > 0).then_some(BadLogit { token: (!bad >> 1) as u32, is_nan: !bad & 1 == 1 });
        Ok(Answer::Summit { top: (top > 0 && bad.is_none()).then(|| key(!top)), bad })
    }

    /// The logit of a token, if it is held here.
    fn logit(&mut self, token: u32) -> Result<Option<f32>, CudaError> {
        let Some(place) =
            token.checked_sub(self.start).filter(|&place| (place as usize) < self.part.vocabulary)
        else {
            return Ok(None);
        };
        let logits = self.part.address + u64::from(place) * self.part.dtype.size() as u64;
        let [bits, ..] = self.put_of(Ask { logits, start: token, length: 1, ..Ask::new(Asking::Logit) })?;
        Ok(Some(f32::from_bits(bits as u32)))
    }

    /// The keys up to `last`.
    fn kept(&mut self, last: u64, keys: &mut Vec<Key>) -> Result<(), CudaError> {
        let ask = Ask { last: last.min(number(Key::END)), ..Ask::new(Asking::Kept) };
        self.put(ask)?;
        if self.shard.grow()? {
            self.put(ask)?;
        }
        keys.extend(self.shard.listed()?.into_iter().map(key));
        Ok(())
    }

    /// The first `count` keys: digit by digit to where about as many end, then a list.
    fn best(&mut self, count: usize, keys: &mut Vec<Key>) -> Result<(), CudaError> {
        let Some(mut unit) = (count as u64).checked_sub(1) else { return Ok(()) };
        let (mut first, mut last) = (0, number(Key::END));
        let mut bins = Vec::new();
        for (shift, width) in DIGITS {
            self.put_bins(Ask::new(Asking::Counts).bins(first, shift, 1 << width), &mut bins)?;
            let holds_unit = |&sum: &u64| {
                let is_there = unit < sum;
                unit -= if is_there { 0 } else { sum };
                is_there
            };
            // There are not so many.
            let Some(bin) = bins.iter().position(holds_unit) else { break };
            first += (bin as u64) << shift;
            last = first + ((1 << shift) - 1);
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
