//! One part of a row, loaded and edited: it answers questions by opening only the blocks that matter.

use crate::kernels::bend::Bend;
use crate::kernels::passes::{Passes, vectorized};
use crate::kernels::row::Row;
use crate::logits::answer::{BadLogit, Held, Lists, Opened, Summit};
use crate::logits::edited::{EditedMemory, EditedRow};
use crate::logits::finalist::{Finalist, MAX_FINISHERS};
use crate::logits::measure::curve::Tail;
use crate::logits::measure::head::{self, Head};
use crate::logits::measure::{curve, sums, visit};
use crate::logits::questions::Open;
use crate::logits::race::{Race, Runners};
use crate::logits::span::Span;
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::numeric::noise::Noise;
use crate::numeric::temperature::Temperature;

/// Up to this many tokens race faster one by one than as parts of their blocks.
const MAX_LISTED_RUNNERS: usize = 256;

/// The chain's edits of single tokens, which whoever holds a part of the row makes on that part.
pub(crate) trait Edits {
    /// How many edits a segment of the chain has; `None` if there is no such segment.
    fn count(&self, segment: usize) -> Option<usize>;

    /// Makes that part of an edit which masks tokens by a list of all that stay. In the first segment this
    /// happens before the row is read, so that the one pass over it sees the masks.
    fn mask(&mut self, segment: usize, edit: usize, row: &mut EditedRow<'_>);

    /// Makes the rest of an edit: changes of single tokens.
    fn apply(&mut self, segment: usize, edit: usize, row: &mut EditedRow<'_>);

    /// The tokens that an XTC stage never removes; none if there is no such stage there.
    fn protected(&self, segment: u32, operation: u32) -> &[u32];
}

/// The memory of a slice, kept from step to step so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceMemory {
    edited: EditedMemory,
    race: Race,
    head: Head,
}

/// The tokens `start..start + row.len()` of a vocabulary, under the chain's edits.
pub(crate) struct Slice<'a, E> {
    edited: EditedRow<'a>,
    edits: E,
    noise: Noise,
    race: &'a mut Race,
    head: &'a mut Head,
    bad: Option<BadLogit>,
    /// In a later segment: the edit that masked the last token, or −1.
    emptied_by: Option<i32>,
}

impl<'a, E: Edits> Slice<'a, E> {
    /// Reads the row once and makes the edits of the first segment.
    pub(crate) fn load(
        row: Row<'a>,
        start: usize,
        edits: E,
        noise: Noise,
        passes: Passes,
        memory: &'a mut SliceMemory,
    ) -> Self {
        let SliceMemory { edited, race, head } = memory;
        let edited = EditedRow { span: Span { row, start }, passes, memory: edited };
        let mut slice = Self { edited, edits, noise, race, head, bad: None, emptied_by: None };
        slice.race.forget(slice.edited.span.blocks());
        slice.head.forget();
        slice.begin(slice.first_edits());
        slice
    }

    fn first_edits(&self) -> usize {
        self.edits.count(0).unwrap_or(0)
    }

    /// Whether the chain has a segment of this number.
    pub(crate) fn has_segment(&self, segment: u32) -> bool {
        self.edits.count(segment as usize).is_some()
    }

    /// How many tokens there are, and the id of the first.
    pub(crate) fn held(&self) -> Held {
        let Span { row, start } = self.edited.span;
        Held { start: start as u32, length: row.len() as u32 }
    }

    /// Loads the row with the first `count` edits of the first segment.
    fn begin(&mut self, count: usize) {
        self.edited.reset();
        // Masks commute with every other edit, so they are made first, where the pass over the row sees them.
        for edit in 0..count {
            self.edits.mask(0, edit, &mut self.edited);
        }
        self.bad = self.edited.scan().err();
        if self.bad.is_none() {
            for edit in 0..count {
                self.edits.apply(0, edit, &mut self.edited);
            }
            self.edited.repair();
        }
    }

    /// The row as it is now.
    #[inline]
    pub(crate) fn row(&self) -> &EditedRow<'a> {
        &self.edited
    }

    /// The largest logit alive; −inf if none is.
    pub(crate) fn x_max(&self) -> f32 {
        self.edited.passes.highest(self.edited.maxima())
    }

    pub(crate) fn summit(&self) -> Summit {
        let top = if self.bad.is_none() { self.edited.first() } else { None };
        Summit { top, bad: self.bad }
    }

    /// The edit that masked the last token, or −1 if there was none to begin with.
    pub(crate) fn emptied_by(&mut self) -> i32 {
        self.head.forget();
        self.emptied_by.unwrap_or_else(|| self.find_emptied_by())
    }

    /// Which edit of the first segment masked the last token. Slow: only rows that cannot be drawn from come
    /// here.
    #[cold]
    fn find_emptied_by(&mut self) -> i32 {
        for count in 0..=self.first_edits() {
            self.begin(count);
            if self.edited.first().is_none() {
                return count as i32 - 1;
            }
        }
        -1
    }

    /// Forgets every edit.
    pub(crate) fn restore(&mut self) -> Summit {
        self.head.forget();
        if !self.edited.is_clean() {
            self.begin(0);
        }
        self.summit()
    }

    /// Keeps the tokens up to `last`, makes the temperature part of their logits, then makes the edits of
    /// `segment`.
    pub(crate) fn narrow(&mut self, last: Key, temperature: Temperature, segment: usize) -> Summit {
        self.head.forget();
        self.edited.keep_up_to(last, temperature);
        self.emptied_by = Some(-1);
        for edit in 0..self.edits.count(segment).unwrap_or(0) {
            let was_empty = self.edited.is_empty();
            self.edits.mask(segment, edit, &mut self.edited);
            self.edits.apply(segment, edit, &mut self.edited);
            if !was_empty && self.edited.is_empty() {
                self.emptied_by = Some(edit as i32);
            }
        }
        self.edited.rebuild();
        self.summit()
    }

    /// Masks the tokens up to `head`, except those that an XTC stage protects.
    pub(crate) fn behead(&mut self, head: Key, xtc: Option<(u32, u32)>) -> Summit {
        self.head.forget();
        let protected = xtc.map_or(&[][..], |(segment, operation)| self.edits.protected(segment, operation));
        self.edited.behead(head, protected);
        self.summit()
    }

    /// Bends every logit.
    pub(crate) fn smooth(&mut self, bend: &Bend, x_max: f32) -> Summit {
        self.head.forget();
        self.edited.bend(bend, x_max);
        self.summit()
    }

    /// Gives tokens new logits; −inf masks a token.
    pub(crate) fn edit_tokens(&mut self, logits: &[(u32, f32)]) -> Summit {
        self.head.forget();
        for &(token, logit) in logits {
            if logit == f32::NEG_INFINITY {
                self.edited.mask(token);
            } else {
                self.edited.edit(token, |_| logit);
            }
        }
        self.edited.repair();
        self.summit()
    }

    /// Masks all tokens but these.
    pub(crate) fn keep_only(&mut self, ids: &[u32]) -> Summit {
        self.head.forget();
        self.edited.keep_listed(ids);
        self.edited.rebuild();
        self.summit()
    }

    /// The winner of the race. Where all runners are in the head's list, and they are few, they race one by
    /// one.
    pub(crate) fn race(
        &mut self,
        x_max: f32,
        temperature: Temperature,
        before: Option<Key>,
    ) -> Option<Finalist> {
        let Self { edited, noise, race, head, .. } = self;
        let runners = Runners { edited, noise, x_max, temperature, before };
        let listed = before.and_then(|before| head.up_to(before.previous()));
        match listed {
            Some(listed) if listed.len() <= MAX_LISTED_RUNNERS => runners.run_listed(listed),
            _ => race.run(&runners, 1).winner(),
        }
    }

    /// The mass up to and including `last`.
    pub(crate) fn mass(&self, last: Key, softmax: Softmax) -> u64 {
        match self.head.up_to(last) {
            Some(keys) => {
                vectorized!(self.edited.passes, simd => head::mass(simd, keys, softmax, Key::logit))
            }
            None => sums::mass(&self.edited, last, softmax),
        }
    }

    /// How many tokens come before `key`; where there are `enough` or more, it may return `enough`.
    pub(crate) fn count_before(&self, key: Key, enough: u32) -> u32 {
        match self.head.up_to(key.previous()) {
            Some(keys) => keys.len() as u32,
            None => sums::count_before(&self.edited, key, enough),
        }
    }

    /// The first `count` tokens.
    pub(crate) fn best(&mut self, count: usize) -> &[Key] {
        self.head.list(&self.edited, count)
    }

    /// Lists the tokens up to and including `last`.
    pub(crate) fn list_kept(&self, last: Key, keys: &mut Vec<Key>) {
        match self.head.up_to(last) {
            Some(listed) => keys.extend_from_slice(listed),
            None => visit(&self.edited, last, |key| keys.push(key)),
        }
    }

    /// What this part can say before it knows anything about the others.
    pub(crate) fn open(&mut self, query: &Open, lists: &mut Lists) -> Opened {
        let summit = self.summit();
        let is_raw = summit.bad.is_none() && self.edited.is_raw();
        lists.points.resize(if query.masses.is_some() { curve::POINTS } else { 0 }, 0);
        let Some(top) = summit.top else { return Opened { summit, is_raw, best: 0, rest: 0 } };
        let (x_max, end) = (top.logit(), query.end(top.logit()));
        let wanted = query.best as usize;
        let Self { edited, noise, race, head, .. } = self;
        let best = head.list(edited, wanted);
        lists.keys.extend_from_slice(best);
        if let Some(temperature) = query.race {
            let before = (end < Key::END).then(|| end.next());
            let runners = Runners { edited, noise, x_max, temperature, before };
            let lead = race.run(&runners, MAX_FINISHERS);
            lists.keys.extend(lead.finishers().iter().map(|finalist| finalist.key));
        }
        let mut rest = 0;
        if let (Some(temperature), Some(&last)) = (query.masses, best.last())
            && best.len() == wanted
        {
            let softmax = temperature.softmax(x_max);
            let listed = best.iter().map(|key| softmax.weight(key.logit())).sum();
            let tail = Tail { last, end, softmax, listed, focus: query.focus };
            rest = curve::draw(edited, &tail, &mut lists.points);
        }
        Opened { summit, is_raw, best: best.len() as u32, rest }
    }
}
