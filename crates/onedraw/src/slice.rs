//! One part of a vocabulary, loaded and edited, that answers questions by opening only the blocks that matter.

use crate::edit::temperature::Temperature;
use crate::edit::{Context, Edit, saturated};
use crate::error::RowError;
use crate::kernels::passes::Passes;
use crate::mass::{Softmax, margin};
use crate::noise::{BLOCK, Noise};
use crate::order::Key;
use crate::plan::Segment;
use crate::question::{Answer, Answers, BadLogit, Finalist, Measure, Question, Reply};
use crate::race::{Field, Race};
use crate::row::{Overlay, Row, Span};
use crate::skyline::Skyline;

/// The memory of a slice, kept from step to step so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceMemory {
    overlay: Overlay,
    skyline: Skyline,
    race: Race,
    /// The bits of an allowed list.
    listed: Vec<u64>,
    /// Block maxima to select from.
    maxima: Vec<f32>,
}

/// The tokens `start..start + row.len()` of a vocabulary, under the chain's edits.
pub(crate) struct Slice<'a> {
    span: Span<'a>,
    segments: &'a [Segment],
    context: Context<'a>,
    noise: Noise,
    passes: Passes,
    memory: &'a mut SliceMemory,
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
        let mut slice = Self {
            span: Span { row, start },
            segments,
            context,
            noise,
            passes,
            memory,
            bad: None,
            emptied_by: None,
        };
        slice.memory.race.forget();
        slice.begin(slice.segments[0].edits.len());
        slice
    }

    /// The row with the first `count` edits of the first segment.
    fn begin(&mut self, count: usize) {
        let edits = &self.segments[0].edits[..count];
        self.memory.overlay.reset(&self.span);
        self.narrow_to_allowed(edits);
        self.bad = match self.memory.skyline.scan(self.passes, &self.span, &self.memory.overlay) {
            Err(RowError::NanLogit { token }) => Some(BadLogit { token, is_nan: true }),
            Err(RowError::InfiniteLogit { token }) => Some(BadLogit { token, is_nan: false }),
            _ => None,
        };
        if self.bad.is_none() {
            self.apply(edits);
        }
    }

    /// Dense masks commute with every other edit, so they are made first, where the skyline pass sees them.
    fn narrow_to_allowed(&mut self, edits: &[Edit]) {
        for edit in edits {
            if let Edit::Allowed(allowed) = edit {
                let memory = &mut *self.memory;
                allowed.narrow(&self.span, self.context.mask, &mut memory.overlay.alive, &mut memory.listed);
            }
        }
    }

    fn apply(&mut self, edits: &[Edit]) {
        let context = self.context;
        for edit in edits {
            edit.apply(self, &context);
        }
        self.memory.skyline.repair(self.passes, &self.span, &self.memory.overlay);
    }

    /// Changes the logit of a token, if this slice holds it and it is alive.
    #[inline]
    pub(crate) fn edit(&mut self, token: u32, change: impl FnOnce(f32) -> f32) {
        let Some((block, lane)) = self.span.place(token) else { return };
        let old = self.memory.overlay.get(&self.span, block, lane);
        if old == f32::NEG_INFINITY {
            return;
        }
        let new = saturated(change(old));
        self.memory.overlay.set(block, lane, new);
        self.memory.skyline.changed(block, old, new);
    }

    /// Masks a token, if this slice holds it.
    pub(crate) fn mask(&mut self, token: u32) {
        let Some((block, lane)) = self.span.place(token) else { return };
        let old = self.memory.overlay.get(&self.span, block, lane);
        self.memory.overlay.mask(block, lane);
        self.memory.skyline.changed(block, old, f32::NEG_INFINITY);
    }

    /// Keeps the tokens up to `last`, makes the temperature part of their logits, then makes the edits of `segment`.
    fn narrow(&mut self, last: Key, temperature: Temperature, segment: usize) {
        let mut buffer = [0.0; BLOCK];
        for block in 0..self.span.blocks() {
            if self.memory.skyline.maxima[block] < last.logit() {
                self.memory.overlay.alive[block] = 0;
                continue;
            }
            let lanes = *self.memory.overlay.lanes(&self.span, block, &mut buffer);
            for (lane, &x) in lanes.iter().enumerate() {
                if Key::new(x, self.span.token(block, lane)) > last {
                    self.memory.overlay.mask(block, lane);
                } else if temperature != Temperature::ONE {
                    self.memory.overlay.set(block, lane, temperature.divide(x));
                }
            }
        }
        self.emptied_by = Some(-1);
        let context = self.context;
        for (i, edit) in self.segments[segment].edits.iter().enumerate() {
            let was_empty = self.is_empty();
            self.narrow_to_allowed(std::slice::from_ref(edit));
            edit.apply(self, &context);
            if !was_empty && self.is_empty() {
                self.emptied_by = Some(i as i32);
            }
        }
        self.memory.skyline.rebuild(self.passes, &self.span, &self.memory.overlay);
    }

    /// Whether every token is masked. Exact after `narrow`, where a token of −inf is masked too.
    fn is_empty(&self) -> bool {
        self.memory.overlay.alive.iter().all(|&alive| alive == 0)
    }

    /// Opens the blocks that may hold a token up to `last` and shows each such token.
    #[inline]
    fn visit(&self, last: Key, mut each: impl FnMut(Key)) {
        let mut buffer = [0.0; BLOCK];
        for block in 0..self.span.blocks() {
            if self.memory.skyline.maxima[block] < last.logit() {
                continue;
            }
            let lanes = self.memory.overlay.lanes(&self.span, block, &mut buffer);
            for (lane, &x) in lanes.iter().enumerate() {
                let key = Key::new(x, self.span.token(block, lane));
                if key <= last {
                    each(key);
                }
            }
        }
    }

    fn summit(&self) -> Answer {
        let x_max = self.memory.skyline.summit();
        let mut top = None;
        if self.bad.is_none() && x_max > f32::NEG_INFINITY {
            let mut buffer = [0.0; BLOCK];
            let block = self.memory.skyline.maxima.iter().position(|&x| x == x_max).unwrap_or(0);
            let lanes = self.memory.overlay.lanes(&self.span, block, &mut buffer);
            let lane = lanes.iter().position(|&x| x == x_max).unwrap_or(0);
            top = Some(Key::new(x_max, self.span.token(block, lane)));
        }
        Answer::Summit { top, bad: self.bad }
    }

    /// Which edit of the first segment masked the last token: the cold path of a row that nobody can draw from.
    #[cold]
    fn find_emptied_by(&mut self) -> i32 {
        for count in 0..=self.segments[0].edits.len() {
            self.begin(count);
            if self.memory.skyline.summit() == f32::NEG_INFINITY {
                return count as i32 - 1;
            }
        }
        -1
    }

    /// Tokens before `key`, counted until there are `enough`.
    fn rank(&self, key: Key, enough: u32) -> u32 {
        // Every block whose maximum is larger holds at least one: often enough to answer without opening any.
        let higher = self.memory.skyline.maxima.iter().filter(|&&x| x > key.logit()).count();
        if higher >= enough as usize {
            return enough;
        }
        let mut rank = 0;
        self.visit(key, |other| rank += u32::from(other < key));
        rank
    }

    /// Exact in the blocks that reach up to `key`, an interval below.
    fn weigh(&self, key: Key, softmax: Softmax) -> Answer {
        let (mut before, mut least, mut most) = (0, 0u64, 0u64);
        let mut buffer = [0.0; BLOCK];
        let mut weights = [0; BLOCK];
        for (group, maxima) in self.memory.skyline.maxima.chunks(BLOCK).enumerate() {
            self.passes.weights(maxima, softmax, &mut weights);
            let mut opened = 0u64;
            for (i, (&maximum, &weight)) in maxima.iter().zip(&weights).enumerate() {
                let is_opened = maximum >= key.logit();
                opened |= u64::from(is_opened) << i;
                let (low, high) = if is_opened { (0, 0) } else { margin(weight) };
                least += low;
                most += BLOCK as u64 * high;
            }
            while opened != 0 {
                let block = group * BLOCK + opened.trailing_zeros() as usize;
                opened &= opened - 1;
                let lanes = self.memory.overlay.lanes(&self.span, block, &mut buffer);
                self.passes.weights(lanes, softmax, &mut weights);
                for (lane, (&x, &weight)) in lanes.iter().zip(&weights).enumerate() {
                    least += weight;
                    most += weight;
                    before += if Key::new(x, self.span.token(block, lane)) < key { weight } else { 0 };
                }
            }
        }
        Answer::Weighed { before, least, most }
    }

    fn total(&self, last: Key, softmax: Softmax) -> u64 {
        let mut total = 0;
        let mut buffer = [0.0; BLOCK];
        let mut weights = [0; BLOCK];
        for (block, &maximum) in self.memory.skyline.maxima.iter().enumerate() {
            if maximum < last.logit() {
                continue;
            }
            let lanes = self.memory.overlay.lanes(&self.span, block, &mut buffer);
            if last == Key::END {
                // A masked token weighs 0.
                total += self.passes.mass(lanes, softmax);
                continue;
            }
            self.passes.weights(lanes, softmax, &mut weights);
            for (lane, (&x, &weight)) in lanes.iter().zip(&weights).enumerate() {
                total += if Key::new(x, self.span.token(block, lane)) <= last { weight } else { 0 };
            }
        }
        total
    }

    /// The first `count` keys: all of them stand in blocks whose maximum is among the `count` largest maxima.
    fn best(&mut self, count: usize, keys: &mut Vec<Key>) {
        let memory = &mut *self.memory;
        let mut floor = f32::NEG_INFINITY;
        if count > 0 && count < memory.skyline.maxima.len() {
            memory.maxima.clear();
            memory.maxima.extend_from_slice(&memory.skyline.maxima);
            floor = *memory.maxima.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1;
        }
        self.visit(Key::last_of(floor).min(Key::END), |key| keys.push(key));
        if count < keys.len() {
            keys.select_nth_unstable(count);
            keys.truncate(count);
        }
    }

    fn histogram(&self, first: Key, shift: u32, width: u32, measure: Measure, sums: &mut Vec<u64>) {
        sums.resize(1 << width, 0);
        let last =
            Key::from_number(first.number().saturating_add(u64::MAX >> (64 - shift - width))).min(Key::END);
        let mut buffer = [0.0; BLOCK];
        let mut amounts = [1; BLOCK];
        for (block, &maximum) in self.memory.skyline.maxima.iter().enumerate() {
            if maximum < last.logit() {
                continue;
            }
            let lanes = self.memory.overlay.lanes(&self.span, block, &mut buffer);
            if let Measure::Mass(softmax) = measure {
                self.passes.weights(lanes, softmax, &mut amounts);
            }
            for (lane, (&x, amount)) in lanes.iter().zip(&amounts).enumerate() {
                let key = Key::new(x, self.span.token(block, lane));
                if key >= first && key <= last {
                    sums[((key.number() - first.number()) >> shift) as usize] += amount;
                }
            }
        }
    }

    fn race(&mut self, x_max: f32, temperature: Temperature, before: Option<Key>) -> Option<Finalist> {
        let memory = &mut *self.memory;
        let field = Field {
            passes: self.passes,
            span: &self.span,
            overlay: &memory.overlay,
            skyline: &memory.skyline,
            noise: &self.noise,
            x_max,
            temperature,
            before,
        };
        memory.race.run(&field)
    }
}

impl Answers for Slice<'_> {
    fn ask(&mut self, question: &Question, reply: &mut Reply) {
        reply.clear();
        reply.answer = match *question {
            Question::Summit => self.summit(),
            Question::EmptiedBy => {
                Answer::EmptiedBy(self.emptied_by.unwrap_or_else(|| self.find_emptied_by()))
            }
            Question::Raw => {
                self.begin(0);
                self.summit()
            }
            Question::Narrow { last, temperature, segment } => {
                self.narrow(last, temperature, segment as usize);
                self.summit()
            }
            Question::Race { x_max, temperature, before } => {
                Answer::Winner(self.race(x_max, temperature, before))
            }
            Question::Rank { key, enough } => Answer::Rank(self.rank(key, enough)),
            Question::Weigh { key, softmax } => self.weigh(key, softmax),
            Question::Total { last, softmax } => Answer::Total(self.total(last, softmax)),
            Question::Best { count } => {
                self.best(count as usize, &mut reply.keys);
                Answer::Keys
            }
            Question::Kept { last } => {
                self.visit(last, |key| reply.keys.push(key));
                Answer::Keys
            }
            Question::Histogram { first, shift, width, measure } => {
                self.histogram(first, shift, width, measure, &mut reply.histogram);
                Answer::Histogram
            }
            Question::Logit { token } => {
                let place = self.span.place(token);
                Answer::Logit(place.map(|(block, lane)| self.memory.overlay.get(&self.span, block, lane)))
            }
        };
    }
}
