//! Every question of a draw, put to the kernel, and its answer in the library's types.

use onedraw::mass::{Interval, Spread};
use onedraw::order::Key;
use onedraw::question::{Answer, BadLogit, Finalist, Measure, Question, Reply, Stretch};

use super::arguments::{AskArguments, QuestionKind, key, number, score};
use super::row::ShardRow;
use super::sequence::FIRST_BIN;
use crate::error::CudaError;
use crate::record::shared::{ANSWER_WORDS, MAX_BINS};

/// Buckets of a sketch for each power of two of weight, and the number of all buckets: as `sketch.rs` of the
/// library has them.
const SKETCH_STEPS: f32 = 32.0;
const SKETCH_BUCKETS: usize = 44 * 32;
/// Distances of top-n-sigma are whole numbers of 2^−40 of the range: as `truncate/top_n_sigma.rs` of the
/// library has it.
const SIGMA_BITS: i32 = 40;
/// Digits of a key from the highest on, each as its shift and width: as `inquiry.rs` of the library has them.
/// The upper 12 bits of an id are 0.
const DIGITS: [(u32, u32); 5] = [(53, 11), (42, 11), (32, 10), (10, 10), (0, 10)];
/// Listing so many keys more than are asked for costs less than one more pass over the part for another
/// digit: 8 KB are copied in about the time of a launch.
const SPARE: u64 = 1024;

impl ShardRow<'_> {
    /// The answer. Keys and bins go to the reply, which is empty before.
    pub(super) fn reply(&mut self, question: &Question, reply: &mut Reply) -> Result<Answer, CudaError> {
        Ok(match *question {
            Question::Summit => self.summit()?,
            Question::EmptiedBy => {
                let [edits, ..] = self.put(AskArguments::new(QuestionKind::Emptied))?;
                Answer::EmptiedBy(self.shard.library_edit(edits as i32 - 1, self.mask != 0))
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
                let ask = AskArguments {
                    x_max,
                    factor: temperature.inverse,
                    ..AskArguments::new(QuestionKind::Race)
                };
                let [order, runner, ..] = self.put(ask.last(before))?;
                let key = Key::new(f32::from_bits(runner as u32), !((runner >> 32) as u32));
                Answer::Winner((order > 0).then(|| Finalist { score: score(order), key }))
            }
            Question::Rank { key, enough: _ } => {
                let [count, ..] = self.put(AskArguments::new(QuestionKind::CountBefore).last(key))?;
                Answer::Rank(count as u32)
            }
            Question::Weigh { key, softmax, depth: _ } => {
                let [before, total, ..] =
                    self.put(AskArguments::new(QuestionKind::Weigh).last(key).softmax(softmax))?;
                let exactly = |mass| Interval { least: mass, most: mass };
                Answer::Weighed { before: exactly(before), total: exactly(total) }
            }
            Question::Total { last, softmax } => {
                let [total, ..] =
                    self.put(AskArguments::new(QuestionKind::Total).last(last).softmax(softmax))?;
                Answer::Total(total)
            }
            Question::Spread { last, softmax } => {
                let ask = AskArguments::new(QuestionKind::Spread).last(last).softmax(softmax);
                let [total, surprise, count, _] = self.put(ask)?;
                Answer::Spread(Spread { count: count as u32, total, surprise })
            }
            Question::Last { last } => {
                let [latest, ..] = self.put(AskArguments::new(QuestionKind::Last).last(last))?;
                Answer::Last((latest > 0).then(|| key(latest)))
            }
            Question::Deviations { last, x_max, exponent } => {
                let factor = f64::from_bits(((SIGMA_BITS - exponent + 1023) as u64) << 52);
                let ask = AskArguments { x_max, factor, ..AskArguments::new(QuestionKind::Deviations) };
                let [count, sum, high, low] = self.put(ask.last(last))?;
                let squares = (u128::from(high) << 40) + u128::from(low);
                Answer::Deviations { count: count as u32, sum, squares: squares.into() }
            }
            Question::Distances { centre, last, first, shift, width } => {
                let ask = AskArguments::new(QuestionKind::Distances).last(last).bins(
                    u64::from(first),
                    shift,
                    1 << width,
                );
                let ask = ask.softmax(centre.temperature.softmax(centre.x_max));
                let ask = AskArguments { factor: centre.temperature.inverse, mean: centre.mean, ..ask };
                self.put_bins(ask, &mut reply.histogram)?
            }
            Question::Histogram { first, shift, width, measure } => {
                let ask = match measure {
                    Measure::Count => AskArguments::new(QuestionKind::Counts),
                    Measure::Mass(softmax) => AskArguments::new(QuestionKind::Masses).softmax(softmax),
                };
                self.put_bins(ask.bins(number(first), shift, 1 << width), &mut reply.histogram)?
            }
            Question::Sketch { softmax } => {
                let ask = AskArguments::new(QuestionKind::Sketch).softmax(softmax).bins(0, 0, SKETCH_BUCKETS);
                let answer = self.put_bins(
                    AskArguments { scale: softmax.scale * SKETCH_STEPS, ..ask },
                    &mut reply.histogram,
                )?;
                // The second half of the counts is for tokens of a sample: here all tokens were counted.
                reply.histogram.resize(2 * SKETCH_BUCKETS, 0);
                answer
            }
            Question::Band { inner, outer, last, softmax } => {
                // Without an inner stretch: one that no logit is in.
                let inner = inner.unwrap_or(Stretch { highest: outer.highest, lowest: f32::INFINITY });
                let ask = AskArguments::new(QuestionKind::Band)
                    .last(last.min(Key::last_of(outer.lowest)))
                    .softmax(softmax);
                let ask = AskArguments { inner_highest: inner.highest, inner_lowest: inner.lowest, ..ask };
                let [total, ..] = self.put(AskArguments { outer_highest: outer.highest, ..ask })?;
                // If there are more than there is room for, the draw sees that there are too many, and does
                // not use them.
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

    /// Asks the device about all tokens of the part.
    fn put(&mut self, ask: AskArguments) -> Result<[u64; ANSWER_WORDS], CudaError> {
        let (logits, length) = (self.part.address, self.part.vocabulary as u32);
        self.put_of(AskArguments { logits, start: self.start, length, ..ask })
    }

    /// Asks the device about the tokens that the arguments name.
    fn put_of(&mut self, ask: AskArguments) -> Result<[u64; ANSWER_WORDS], CudaError> {
        let ask = AskArguments { mask: self.mask, head: self.head, is_raw: self.is_raw.into(), ..ask };
        self.shard.answer(self.part.dtype, &ask)
    }

    /// Asks the device for sums in bins.
    fn put_bins(&mut self, ask: AskArguments, bins: &mut Vec<u64>) -> Result<Answer, CudaError> {
        let (given, capacity) = (ask.bin_count as usize, MAX_BINS);
        if given > capacity {
            return Err(CudaError::TooMany { what: "intervals", given, capacity });
        }
        self.put(ask)?;
        bins.clear();
        bins.extend_from_slice(&self.shard.read[FIRST_BIN..]);
        Ok(Answer::Histogram)
    }

    /// The first token of the order, or what is wrong with the part.
    fn summit(&mut self) -> Result<Answer, CudaError> {
        let [top, bad, ..] = self.put(AskArguments::new(QuestionKind::Summit))?;
        let bad = (bad > 0).then_some(BadLogit { token: (!bad >> 1) as u32, is_nan: !bad & 1 == 1 });
        Ok(Answer::Summit { top: (top > 0 && bad.is_none()).then(|| key(!top)), bad })
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
    fn kept(&mut self, last: u64, keys: &mut Vec<Key>) -> Result<(), CudaError> {
        let ask = AskArguments { last: last.min(number(Key::END)), ..AskArguments::new(QuestionKind::Kept) };
        self.put(ask)?;
        if self.shard.grow()? {
            self.put(ask)?;
        }
        keys.extend(self.shard.listed()?.into_iter().map(key));
        Ok(())
    }

    /// Lists the first `count` keys: a radix select narrows down, digit by digit, where about as many keys
    /// end; these are listed.
    fn best(&mut self, count: usize, keys: &mut Vec<Key>) -> Result<(), CudaError> {
        let Some(mut unit) = (count as u64).checked_sub(1) else { return Ok(()) };
        let (mut first, mut last) = (0, number(Key::END));
        let mut bins = Vec::new();
        for (shift, width) in DIGITS {
            self.put_bins(AskArguments::new(QuestionKind::Counts).bins(first, shift, 1 << width), &mut bins)?;
            let holds_unit = |&sum: &u64| {
                let is_there = unit < sum;
                unit -= if is_there { 0 } else { sum };
                is_there
            };
            // There are fewer keys.
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
