//! The draw: run the race first, ask after.
//!
//! Most truncations keep a prefix of the order. So nobody has to build the kept set to draw from it: the winner of the
//! race over *all* tokens is also the winner among the kept, if it is kept. If it is not, nothing after it in the order
//! is, and the race goes on among the tokens before it.

use std::cmp::Ordering;

use crate::edit::Edit;
use crate::edit::temperature::Temperature;
use crate::error::RowError;
use crate::inquiry::Inquiry;
use crate::kernels::passes::Passes;
use crate::mass::{Softmax, UNIT, relative};
use crate::math::ln;
use crate::noise::Noise;
use crate::order::Key;
use crate::plan::Segment;
use crate::question::{Answer, Answers, BadLogit, Finalist, Question, Reply};
use crate::selection::Weighed;
use crate::truncate::{Prefix, Verdict};

/// The memory of a draw, kept from step to step.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrawMemory {
    reply: Reply,
    pending: Vec<Pending>,
    /// How rows are read, and what is listed of them.
    pub passes: Passes,
}

/// A truncation that was not made, only asked about, with what became known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub prefix: Prefix,
    /// In force at its place.
    pub temperature: Temperature,
    /// The last token it keeps.
    pub cut: Option<Key>,
    /// The mass of what stood before it, at its temperature.
    pub mass_before: Option<u64>,
}

/// One draw from one row, at the end of the chain, with the last prefixes pending. `walk.rs` leads there.
pub(crate) struct Draw<'a> {
    pub row: Inquiry<'a>,
    pub pending: &'a mut Vec<Pending>,
    pub summit: Key,
    pub temperature: Temperature,
    pub is_greedy: bool,
    /// The last token kept and the mass up to it, once known.
    kept: Option<(Key, u64)>,
}

impl<'a> Draw<'a> {
    /// The row as it came, before any edit, at temperature 1. What was edited is forgotten.
    pub(crate) fn raw(row: &'a mut dyn Answers, memory: &'a mut DrawMemory) -> Result<Self, RowError> {
        Self::open(row, memory, Question::Raw, None)
    }

    pub(crate) fn open(
        row: &'a mut dyn Answers,
        memory: &'a mut DrawMemory,
        question: Question,
        segment: Option<&Segment>,
    ) -> Result<Self, RowError> {
        let DrawMemory { reply, pending, passes } = memory;
        let mut row = Inquiry::new(row, reply, *passes);
        pending.clear();
        let summit = summit(&mut row, question, segment)?;
        Ok(Self { row, pending, summit, temperature: Temperature::ONE, is_greedy: false, kept: None })
    }

    /// The largest logit alive.
    pub(crate) fn x_max(&self) -> f32 {
        self.summit.logit()
    }

    pub(crate) fn softmax(&self) -> Softmax {
        self.temperature.softmax(self.x_max())
    }

    /// The token: the first of the order if greedy, else the winner of the race among the kept.
    pub(crate) fn winner(&mut self) -> Key {
        if self.is_greedy {
            return self.summit;
        }
        let (x_max, temperature) = (self.x_max(), self.temperature);
        let is_cut_first = |pending: &&Pending| pending.cut.is_some() || pending.prefix.has_cut_first();
        let cut = self.pending.iter().take_while(is_cut_first).count();
        let mut before = (cut > 0).then(|| self.cut_before(cut).next());
        loop {
            let answer = self.row.ask(Question::Race { x_max, temperature, before });
            // Every truncation keeps the first token of the order, so the race never runs dry before it.
            let Answer::Winner(Some(winner)) = answer else { return self.summit };
            match (0..self.pending.len()).find(|&index| !self.keeps(index, winner.key)) {
                None => return winner.key,
                Some(index) => before = Some(self.narrowed(index, winner.key)),
            }
        }
    }

    /// The winner and those who come in after it, the earliest first, at most `count` together. Only the winner is certain: of the others, those
    /// are looked at that a draft could reasonably bet on, the most likely tokens.
    pub(crate) fn runners(&mut self, count: usize, noise: &Noise) -> Vec<Finalist> {
        /// Tokens that are looked at, from the most likely on.
        const LISTED: u32 = 16;
        let (x_max, temperature, is_greedy) = (self.x_max(), self.temperature, self.is_greedy);
        let finalist = |key: Key| {
            let scaled = temperature.scaled(key.logit(), x_max);
            // A greedy row has no race: the order decides, and the logits say by how much.
            let score = if is_greedy { scaled } else { scaled - ln(noise.token(key.token())) };
            Finalist { score, key }
        };
        let first = finalist(self.winner());
        let mut runners = vec![first];
        if count < 2 {
            return runners;
        }
        let others = self.best(Some(LISTED)).iter().filter(|&&key| key != first.key);
        let mut others: Vec<Finalist> = others.map(|&key| finalist(key)).collect();
        others.sort_by(|a, b| if a.beats(b) { Ordering::Less } else { Ordering::Greater });
        for runner in others {
            if is_greedy || (0..self.pending.len()).all(|index| self.keeps(index, runner.key)) {
                runners.push(runner);
            }
            if runners.len() == count {
                break;
            }
        }
        runners
    }

    /// Where the race goes on, exclusive, after truncation number `index` rejected `key`: before `key`, or no later than the
    /// truncations' own cut where that is cheap to find.
    fn narrowed(&mut self, index: usize, key: Key) -> Key {
        let is_cheap = self.pending[..=index]
            .iter()
            .all(|pending| pending.cut.is_some() || pending.prefix.has_cheap_cut());
        if is_cheap { key.min(self.cut_before(index + 1).next()) } else { key }
    }

    fn keeps(&mut self, index: usize, key: Key) -> bool {
        let Pending { prefix, temperature, cut, .. } = self.pending[index];
        if let Some(cut) = cut {
            return key <= cut;
        }
        match prefix.judge(&mut self.row, self.summit.logit(), temperature, key, index == 0) {
            Verdict::Kept => true,
            Verdict::Dropped => false,
            Verdict::HangsOnTotal => {
                let before = self.row.total(key.previous(), temperature.softmax(self.x_max()));
                prefix.settle(before, self.mass_before(index))
            }
            Verdict::HangsOnCut => key <= self.cut_before(index + 1),
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
        let (last, total) = self.kept();
        // uniform · 2^64 is exact; the product's upper half is below the total.
        let share = (uniform * 18_446_744_073_709_551_616.0) as u64;
        let unit = (u128::from(share) * u128::from(total)) >> 64;
        let kept = Weighed { last, softmax: self.softmax(), total };
        Ok(self.row.locate_mass(kept, unit as u64))
    }

    /// The last token that all pending truncations keep.
    pub(crate) fn cut(&mut self) -> Key {
        self.cut_before(self.pending.len())
    }

    /// The last token that the truncations before number `index` keep.
    fn cut_before(&mut self, index: usize) -> Key {
        let mut cut = Key::END;
        for i in 0..index {
            let Pending { prefix, temperature, cut: known, .. } = self.pending[i];
            cut = match known {
                Some(known) => known,
                None => prefix.cut(&mut self.row, self.summit.logit(), temperature, cut),
            };
            self.pending[i].cut = Some(cut);
        }
        cut
    }

    /// The mass of what truncation number `index` finds, at its temperature.
    fn mass_before(&mut self, index: usize) -> u64 {
        if let Some(mass) = self.pending[index].mass_before {
            return mass;
        }
        let last = self.cut_before(index);
        let mass = self.row.total(last, self.pending[index].temperature.softmax(self.x_max()));
        self.pending[index].mass_before = Some(mass);
        mass
    }

    /// The last token kept by the whole chain, and the mass up to it at the final temperature.
    fn kept(&mut self) -> (Key, u64) {
        if let Some(kept) = self.kept {
            return kept;
        }
        let (last, total) = if self.is_greedy {
            (self.summit, UNIT)
        } else {
            let last = self.cut();
            (last, self.row.total(last, self.softmax()))
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
        scaled - ln(relative(total))
    }

    /// The logit of a token after all edits and the temperature; −inf if the chain removed it.
    pub(crate) fn logit(&mut self, key: Key) -> f64 {
        if key > self.kept().0 { f64::NEG_INFINITY } else { self.temperature.logit(key) }
    }

    /// 1 + the tokens before it.
    pub(crate) fn rank(&mut self, key: Key) -> u32 {
        self.row.rank(key, u32::MAX).saturating_add(1)
    }

    /// The place of a token in the order.
    pub(crate) fn key_of(&mut self, token: u32) -> Key {
        match self.row.ask(Question::Logit { token }) {
            Answer::Logit(Some(x)) => Key::new(x, token),
            _ => Key::new(f32::NEG_INFINITY, token),
        }
    }

    /// The first `count` tokens of the order, sorted, whether the truncations keep them or not; `None`: all that are alive.
    pub(crate) fn best(&mut self, count: Option<u32>) -> &[Key] {
        match count {
            Some(count) => self.row.ask(Question::Best { count }),
            None => self.row.ask(Question::Kept { last: Key::END }),
        };
        let keys = self.row.keys();
        // Whole blocks come back, so there may be many more than are asked for.
        if let Some(count) = count.map(|count| count as usize).filter(|&count| count < keys.len()) {
            keys.select_nth_unstable(count);
            keys.truncate(count);
        }
        keys.sort_unstable();
        keys
    }

    /// Every token that the chain keeps, sorted.
    pub(crate) fn support(&mut self) -> &[Key] {
        let (last, _) = self.kept();
        self.row.ask(Question::Kept { last });
        let keys = self.row.keys();
        keys.sort_unstable();
        keys
    }
}

/// The first token of the order, which `question` asks for, or the error the row ends in.
pub(crate) fn summit(
    row: &mut Inquiry<'_>,
    question: Question,
    segment: Option<&Segment>,
) -> Result<Key, RowError> {
    match row.ask(question) {
        Answer::Summit { bad: Some(BadLogit { token, is_nan: true }), .. } => {
            Err(RowError::NanLogit { token })
        }
        Answer::Summit { bad: Some(BadLogit { token, .. }), .. } => Err(RowError::InfiniteLogit { token }),
        Answer::Summit { top: Some(top), .. } => Ok(top),
        _ => {
            let Answer::EmptiedBy(edit) = row.ask(Question::EmptiedBy) else {
                return Err(RowError::EmptyRow);
            };
            let edit = usize::try_from(edit).ok().and_then(|edit| segment?.edits.get(edit));
            Err(RowError::NothingLeft { stage: edit.map(Edit::stage) })
        }
    }
}
