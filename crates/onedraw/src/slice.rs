//! One part of a vocabulary, loaded and edited, that answers questions by opening only the blocks that matter.

use crate::edit::Context;
use crate::edit::temperature::Temperature;
use crate::edited::{Edited, EditedMemory};
use crate::error::RowError;
use crate::head::{self, Half, Head};
use crate::kernels::passes::{Passes, vectorized};
use crate::mass::Softmax;
use crate::noise::Noise;
use crate::order::Key;
use crate::plan::{Segment, Step};
use crate::question::{Answer, Answers, BadLogit, Finalist, Question, Reply};
use crate::race::{Field, Race};
use crate::row::{Row, Span};
use crate::truncate::Truncation;

/// So many tokens race faster by themselves than as parts of blocks.
const FEW: usize = 256;

/// The memory of a slice, kept from step to step so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceMemory {
    edited: EditedMemory,
    race: Race,
    head: Head,
}

/// The tokens `start..start + row.len()` of a vocabulary, under the chain's edits.
pub(crate) struct Slice<'a> {
    edited: Edited<'a>,
    segments: &'a [Segment],
    context: Context<'a>,
    noise: Noise,
    race: &'a mut Race,
    head: &'a mut Head,
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
        let SliceMemory { edited, race, head } = memory;
        let edited = Edited { span: Span { row, start }, passes, memory: edited };
        let mut slice = Self { edited, segments, context, noise, race, head, bad: None, emptied_by: None };
        slice.race.forget(slice.edited.span.blocks());
        slice.head.forget();
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

    /// The winner of the race: among the listed tokens where these are all that run, and few.
    fn race(&mut self, x_max: f32, temperature: Temperature, before: Option<Key>) -> Option<Finalist> {
        let Self { edited, noise, race, head, .. } = self;
        let field = Field { edited, noise, x_max, temperature, before };
        let runners = before.and_then(|before| head.up_to(before.previous()));
        match runners {
            Some(runners) if runners.len() <= FEW => field.run_listed(runners),
            _ => race.run(&field),
        }
    }

    fn total(&self, last: Key, softmax: Softmax) -> u64 {
        match self.head.up_to(last) {
            Some(keys) => {
                vectorized!(self.edited.passes, simd => head::mass(simd, keys, Half::Upper, softmax))
            }
            None => self.edited.total(last, softmax),
        }
    }

    fn rank(&self, key: Key, enough: u32) -> u32 {
        match self.head.up_to(key.previous()) {
            Some(keys) => keys.len() as u32,
            None => self.edited.rank(key, enough),
        }
    }

    fn kept(&self, last: Key, keys: &mut Vec<Key>) {
        match self.head.up_to(last) {
            Some(listed) => keys.extend_from_slice(listed),
            None => self.edited.visit(last, |key| keys.push(key)),
        }
    }
}

impl Answers for Slice<'_> {
    fn ask(&mut self, question: &Question, reply: &mut Reply) {
        reply.clear();
        if question.changes_the_row() {
            self.head.forget();
        }
        reply.answer = match question {
            Question::Summit => self.summit(),
            Question::EmptiedBy => {
                Answer::EmptiedBy(self.emptied_by.unwrap_or_else(|| self.find_emptied_by()))
            }
            Question::Raw => {
                if !self.edited.is_clean() {
                    self.begin(0);
                }
                self.summit()
            }
            Question::Narrow { last, temperature, segment } => {
                self.narrow(*last, *temperature, *segment as usize);
                self.summit()
            }
            Question::Race { x_max, temperature, before } => {
                Answer::Winner(self.race(*x_max, *temperature, *before))
            }
            Question::Rank { key, enough } => Answer::Rank(self.rank(*key, *enough)),
            Question::Weigh { key, softmax, depth } => {
                let (before, total) = self.edited.weigh(*key, *softmax, *depth);
                Answer::Weighed { before, total }
            }
            Question::Total { last, softmax } => Answer::Total(self.total(*last, *softmax)),
            Question::Spread { last, softmax } => Answer::Spread(self.edited.spread(*last, *softmax)),
            Question::Last { last } => Answer::Last(self.edited.last(*last)),
            Question::Deviations { last, x_max, exponent } => {
                self.edited.deviations(*last, *x_max, *exponent)
            }
            Question::Distances { centre, last, first, shift, width } => {
                self.edited.distances(centre, *last, (*first, *shift, *width), &mut reply.histogram);
                Answer::Histogram
            }
            Question::Sketch { softmax } => {
                self.edited.sketch(*softmax, &mut reply.histogram);
                Answer::Histogram
            }
            Question::Band { inner, outer, last, softmax } => {
                Answer::Total(self.edited.band((*inner, *outer), *last, *softmax, &mut reply.keys))
            }
            Question::Behead { head, xtc } => {
                let protected = xtc.and_then(|(segment, step)| self.protected(segment, step)).unwrap_or(&[]);
                self.edited.behead(*head, protected);
                self.summit()
            }
            Question::Smooth { smoothing, x_max } => {
                self.edited.bend(smoothing, *x_max);
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
                reply.keys.extend_from_slice(self.head.list(&self.edited, *count as usize));
                Answer::Keys
            }
            Question::Kept { last } => {
                self.kept(*last, &mut reply.keys);
                Answer::Keys
            }
            Question::Histogram { first, shift, width, measure } => {
                self.edited.histogram((*first, *shift, *width), *measure, &mut reply.histogram);
                Answer::Histogram
            }
            Question::Logit { token } => Answer::Logit(self.edited.logit(*token)),
        };
    }
}
