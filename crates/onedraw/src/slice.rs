//! One part of a vocabulary, loaded and edited, that answers questions by opening only the blocks that matter.

use crate::edit::Context;
use crate::edit::temperature::Temperature;
use crate::edited::{Edited, EditedMemory};
use crate::error::RowError;
use crate::kernels::passes::Passes;
use crate::mass::{Softmax, Spread, margin};
use crate::math::power_of_two;
use crate::noise::{BLOCK, Noise};
use crate::order::Key;
use crate::plan::{Segment, Step};
use crate::question::{Answer, Answers, BadLogit, Measure, Question, Reply};
use crate::race::{Field, Race};
use crate::row::{Row, Span};
use crate::truncate::Truncation;
use crate::truncate::top_n_sigma::DEPTH;
use crate::truncate::typical::Centre;

/// The memory of a slice, kept from step to step so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceMemory {
    edited: EditedMemory,
    race: Race,
    /// Blocks to select from, each as its earliest place.
    earliest: Vec<Key>,
}

/// The tokens `start..start + row.len()` of a vocabulary, under the chain's edits.
pub(crate) struct Slice<'a> {
    edited: Edited<'a>,
    segments: &'a [Segment],
    context: Context<'a>,
    noise: Noise,
    race: &'a mut Race,
    earliest: &'a mut Vec<Key>,
    bad: Option<BadLogit>,
    /// In a later segment: the edit that masked the last token, or −1.
    emptied_by: Option<i32>,
}

impl<'a> Slice<'a> {
    /// Reads the row once and makes the first edits.
    pub(crate) fn load(
        row: Row<'a>,
        start: usize,
        segments: &'a [Segment],
        context: Context<'a>,
        noise: Noise,
        passes: Passes,
        memory: &'a mut SliceMemory,
    ) -> Self {
        let SliceMemory { edited, race, earliest } = memory;
        let edited = Edited { span: Span { row, start }, passes, memory: edited };
        let mut slice =
            Self { edited, segments, context, noise, race, earliest, bad: None, emptied_by: None };
        slice.race.forget();
        slice.begin(slice.segments[0].edits.len());
        slice
    }

    /// The row with the first `count` edits of the first segment.
    fn begin(&mut self, count: usize) {
        let edits = &self.segments[0].edits[..count];
        self.edited.reset();
        // Dense masks commute with every other edit, so they are made first, where the skyline pass sees them.
        edits.iter().for_each(|edit| edit.apply_dense(&mut self.edited, &self.context));
        self.bad = match self.edited.scan() {
            Err(RowError::NanLogit { token }) => Some(BadLogit { token, is_nan: true }),
            Err(RowError::InfiniteLogit { token }) => Some(BadLogit { token, is_nan: false }),
            _ => None,
        };
        if self.bad.is_none() {
            edits.iter().for_each(|edit| edit.apply(&mut self.edited, &self.context));
            self.edited.repair();
        }
    }

    /// Keeps the tokens up to `last`, makes the temperature part of their logits, then makes the edits of `segment`.
    fn narrow(&mut self, last: Key, temperature: Temperature, segment: usize) {
        self.edited.keep_up_to(last, temperature);
        self.emptied_by = Some(-1);
        for (i, edit) in self.segments[segment].edits.iter().enumerate() {
            let was_empty = self.edited.is_empty();
            edit.apply_dense(&mut self.edited, &self.context);
            edit.apply(&mut self.edited, &self.context);
            if !was_empty && self.edited.is_empty() {
                self.emptied_by = Some(i as i32);
            }
        }
        self.edited.rebuild();
    }

    /// The tokens that an XTC stage of the chain never removes.
    fn protected(&self, segment: u32, step: u32) -> Option<&'a [u32]> {
        match self.segments.get(segment as usize)?.steps.get(step as usize)? {
            Step::Truncate(_, Truncation::Xtc(xtc)) => Some(&xtc.protected),
            _ => None,
        }
    }

    fn summit(&self) -> Answer {
        let top = if self.bad.is_none() { self.edited.first() } else { None };
        Answer::Summit { top, bad: self.bad }
    }

    /// Which edit of the first segment masked the last token: the cold path of a row that nobody can draw from.
    #[cold]
    fn find_emptied_by(&mut self) -> i32 {
        for count in 0..=self.segments[0].edits.len() {
            self.begin(count);
            if self.edited.first().is_none() {
                return count as i32 - 1;
            }
        }
        -1
    }

    /// Tokens before `key`, counted until there are `enough`.
    fn rank(&self, key: Key, enough: u32) -> u32 {
        // Every block whose maximum is larger holds at least one: often enough to answer without opening any.
        let higher = self.edited.maxima().iter().filter(|&&x| x > key.logit()).count();
        if higher >= enough as usize {
            return enough;
        }
        let mut rank = 0;
        // A masked token comes after all that are alive.
        self.edited.visit(key.min(Key::END), |other| rank += u32::from(other < key));
        rank
    }

    /// Exact in the blocks that reach up to `key`, an interval below.
    fn weigh(&self, key: Key, softmax: Softmax) -> Answer {
        let (mut before, mut least, mut most) = (0, 0u64, 0u64);
        let mut buffer = [0.0; BLOCK];
        let mut weights = [0; BLOCK];
        for (group, maxima) in self.edited.maxima().chunks(BLOCK).enumerate() {
            self.edited.passes.weights(maxima, softmax, &mut weights);
            let mut opened = 0u64;
            for (i, (&maximum, &weight)) in maxima.iter().zip(&weights).enumerate() {
                let is_opened = self.edited.earliest(group * BLOCK + i, maximum) < key;
                opened |= u64::from(is_opened) << i;
                let (low, high) = if is_opened { (0, 0) } else { margin(weight) };
                least += low;
                most += BLOCK as u64 * high;
            }
            while opened != 0 {
                let block = group * BLOCK + opened.trailing_zeros() as usize;
                opened &= opened - 1;
                let lanes = self.edited.lanes(block, &mut buffer);
                self.edited.passes.weights(lanes, softmax, &mut weights);
                for (lane, (&x, &weight)) in lanes.iter().zip(&weights).enumerate() {
                    least += weight;
                    most += weight;
                    before += if Key::new(x, self.edited.span.token(block, lane)) < key { weight } else { 0 };
                }
            }
        }
        Answer::Weighed { before, least, most }
    }

    fn total(&self, last: Key, softmax: Softmax) -> u64 {
        let mut total = 0;
        let mut weights = [0; BLOCK];
        self.edited.open(last, |block, lanes| {
            if last == Key::END {
                // A masked token weighs 0.
                total += self.edited.passes.mass(lanes, softmax);
                return;
            }
            self.edited.passes.weights(lanes, softmax, &mut weights);
            for (lane, (&x, &weight)) in lanes.iter().zip(&weights).enumerate() {
                total += if Key::new(x, self.edited.span.token(block, lane)) <= last { weight } else { 0 };
            }
        });
        total
    }

    /// The lanes up to `last`; −inf for the others.
    fn up_to<'b>(
        &self,
        last: Key,
        block: usize,
        lanes: &'b [f32; BLOCK],
        buffer: &'b mut [f32; BLOCK],
    ) -> &'b [f32; BLOCK] {
        if last == Key::END {
            return lanes;
        }
        for (lane, (to, &x)) in buffer.iter_mut().zip(lanes).enumerate() {
            let is_counted = Key::new(x, self.edited.span.token(block, lane)) <= last;
            *to = if is_counted { x } else { f32::NEG_INFINITY };
        }
        buffer
    }

    fn spread(&self, last: Key, softmax: Softmax) -> Spread {
        let mut spread = Spread::default();
        let mut buffer = [0.0; BLOCK];
        self.edited.open(last, |block, lanes| {
            let lanes = self.up_to(last, block, lanes, &mut buffer);
            let (total, surprise) = self.edited.passes.surprise(lanes, softmax);
            spread.count += lanes.iter().map(|&x| u32::from(x > f32::NEG_INFINITY)).sum::<u32>();
            spread.total += total;
            spread.surprise += surprise;
        });
        spread
    }

    fn last(&self, last: Key) -> Option<Key> {
        let mut latest = None;
        self.edited.visit(last, |key| latest = latest.max(Some(key)));
        latest
    }

    fn deviations(&self, last: Key, x_max: f32, exponent: i32) -> Answer {
        let scale = power_of_two(DEPTH - exponent);
        let (mut count, mut sum, mut squares) = (0, 0, 0u128);
        self.edited.visit(last, |key| {
            let q = ((f64::from(x_max) - f64::from(key.logit())) * scale) as u64;
            count += 1;
            sum += q;
            squares += u128::from(q) * u128::from(q);
        });
        Answer::Deviations { count, sum, squares: squares.into() }
    }

    fn distances(&self, centre: &Centre, last: Key, first: u32, shift: u32, width: u32, sums: &mut Vec<u64>) {
        sums.resize(1 << width, 0);
        let softmax = centre.temperature.softmax(centre.x_max);
        let (mut weights, mut buffer) = ([0; BLOCK], [0.0; BLOCK]);
        self.edited.open(last, |block, lanes| {
            let lanes = self.up_to(last, block, lanes, &mut buffer);
            self.edited.passes.weights(lanes, softmax, &mut weights);
            if weights.iter().all(|&weight| weight == 0) {
                return;
            }
            let distances = self.edited.passes.distances(lanes, centre);
            for (distance, &weight) in distances.iter().zip(&weights) {
                // What is masked weighs nothing, wherever it falls.
                if let Some(sum) = sums.get_mut((distance.wrapping_sub(first) >> shift) as usize) {
                    *sum += weight;
                }
            }
        });
    }

    /// The first `count` keys: all of them stand in the `count` blocks whose earliest places come first. For a token of another
    /// block, each of these holds one that is larger, or as large with a lower id.
    fn best(&mut self, count: usize, keys: &mut Vec<Key>) {
        let mut last = Key::END;
        if count > 0 && count < self.edited.maxima().len() {
            self.earliest.clear();
            let maxima = self.edited.maxima().iter().enumerate();
            self.earliest.extend(maxima.map(|(block, &maximum)| self.edited.earliest(block, maximum)));
            let place = *self.earliest.select_nth_unstable(count - 1).1;
            last = Key::new(place.logit(), place.token() + BLOCK as u32 - 1).min(Key::END);
        }
        self.edited.visit(last, |key| keys.push(key));
        if count < keys.len() {
            keys.select_nth_unstable(count);
            keys.truncate(count);
        }
    }

    fn histogram(&self, first: Key, shift: u32, width: u32, measure: Measure, sums: &mut Vec<u64>) {
        sums.resize(1 << width, 0);
        let last =
            Key::from_number(first.number().saturating_add(u64::MAX >> (64 - shift - width))).min(Key::END);
        let mut amounts = [1; BLOCK];
        self.edited.open(last, |block, lanes| {
            if let Measure::Mass(softmax) = measure {
                self.edited.passes.weights(lanes, softmax, &mut amounts);
            }
            for (lane, (&x, amount)) in lanes.iter().zip(&amounts).enumerate() {
                let key = Key::new(x, self.edited.span.token(block, lane));
                if key >= first && key <= last {
                    sums[((key.number() - first.number()) >> shift) as usize] += amount;
                }
            }
        });
    }
}

impl Answers for Slice<'_> {
    fn ask(&mut self, question: &Question, reply: &mut Reply) {
        reply.clear();
        reply.answer = match question {
            Question::Summit => self.summit(),
            Question::EmptiedBy => {
                Answer::EmptiedBy(self.emptied_by.unwrap_or_else(|| self.find_emptied_by()))
            }
            Question::Raw => {
                self.begin(0);
                self.summit()
            }
            Question::Narrow { last, temperature, segment } => {
                self.narrow(*last, *temperature, *segment as usize);
                self.summit()
            }
            Question::Race { x_max, temperature, before } => {
                let Self { edited, noise, race, .. } = self;
                let (x_max, temperature, before) = (*x_max, *temperature, *before);
                Answer::Winner(race.run(&Field { edited, noise, x_max, temperature, before }))
            }
            Question::Rank { key, enough } => Answer::Rank(self.rank(*key, *enough)),
            Question::Weigh { key, softmax } => self.weigh(*key, *softmax),
            Question::Total { last, softmax } => Answer::Total(self.total(*last, *softmax)),
            Question::Spread { last, softmax } => Answer::Spread(self.spread(*last, *softmax)),
            Question::Last { last } => Answer::Last(self.last(*last)),
            Question::Deviations { last, x_max, exponent } => self.deviations(*last, *x_max, *exponent),
            Question::Distances { centre, last, first, shift, width } => {
                self.distances(centre, *last, *first, *shift, *width, &mut reply.histogram);
                Answer::Histogram
            }
            Question::Behead { head, xtc } => {
                let protected = xtc.and_then(|(segment, step)| self.protected(segment, step)).unwrap_or(&[]);
                self.edited.behead(*head, protected);
                self.summit()
            }
            Question::Smooth { smoothing, x_max } => {
                self.edited.map(|x| smoothing.bend(x, *x_max));
                self.summit()
            }
            Question::Edit { logits, masked } => {
                logits.iter().for_each(|&(token, logit)| self.edited.edit(token, |_| logit));
                masked.iter().for_each(|&token| self.edited.mask(token));
                self.edited.repair();
                self.summit()
            }
            Question::KeepOnly { ids } => {
                self.edited.keep_listed(ids);
                self.edited.rebuild();
                self.summit()
            }
            Question::Best { count } => {
                self.best(*count as usize, &mut reply.keys);
                Answer::Keys
            }
            Question::Kept { last } => {
                self.edited.visit(*last, |key| reply.keys.push(key));
                Answer::Keys
            }
            Question::Histogram { first, shift, width, measure } => {
                self.histogram(*first, *shift, *width, *measure, &mut reply.histogram);
                Answer::Histogram
            }
            Question::Logit { token } => Answer::Logit(self.edited.logit(*token)),
        };
    }
}
