//! The draw: through the chain, then race first and ask after. `engine/mod.rs` has the same as pseudo-code.

use crate::error::RowError;
use crate::kernels::passes::Passes;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::answer::{BadLogit, Lists, Summit};
use crate::logits::query::{
    Behead, FindEmptied, FindSummit, ListKept, Narrow, Place, Query, Restore, RunRace, Smooth,
};
use crate::numeric::key::Key;
use crate::numeric::mass::{Interval, MAX_VOCABULARY, Softmax, UNIT, relative};
use crate::numeric::noise::Noise;
use crate::numeric::temperature::Temperature;
use crate::params::GREEDY_BELOW;
use crate::params::chain::Stage;
use crate::params::custom::{Custom, View};
use crate::plan::{Operation, Segment};
use crate::stages::custom::{self, Asked};
use crate::stages::edit::Edit;
use crate::stages::temperature::Heat;
use crate::stages::truncate::{Membership, Prefix, Truncation};
use crate::state::history::History;

/// The memory of a draw, kept from step to step.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrawMemory {
    lists: Lists,
    pending: Vec<Pending>,
    /// How rows are read, and lists worked on.
    pub passes: Passes,
}

impl DrawMemory {
    pub(crate) fn with(passes: Passes) -> Self {
        Self { passes, ..Self::default() }
    }
}

/// What a token depends on beside the row and the chain.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub noise: Noise,
    pub history: &'a History,
    /// The number of logits in the row.
    pub vocabulary: usize,
    /// Mirostat's state.
    pub mu: f64,
}

/// A truncation that was not carried out: it is only asked about the winner.
#[derive(Clone, Copy, Debug)]
struct Pending {
    prefix: Prefix,
    /// In force at its place in the chain.
    temperature: Temperature,
    /// The last token it keeps, once known.
    cut: Option<Key>,
    /// The mass of what the earlier truncations left, at its temperature, once known.
    mass_before: Option<u64>,
}

/// One draw from one row.
pub(crate) struct Draw<'a, R> {
    pub row: Asker<'a, R>,
    pending: &'a mut Vec<Pending>,
    /// The first token of the order.
    pub summit: Key,
    pub temperature: Temperature,
    pub is_greedy: bool,
    /// The last token that the whole chain keeps and the mass up to it, once known.
    kept: Option<(Key, u64)>,
}

/// A race that is run among at least one token has a winner.
const NO_WINNER: RowError = RowError::contradiction("nobody won the race, though a token is left");
const NO_END: RowError = RowError::contradiction("there were more races than tokens");
const FOREIGN_WINNER: RowError = RowError::contradiction("the winner of the race did not run in it");

impl<'a, R: RowAccess> Draw<'a, R> {
    /// A draw that has gone through the whole chain.
    pub(crate) async fn through(
        row: &'a mut R,
        segments: &[Segment],
        is_greedy: bool,
        moment: &Moment<'_>,
        memory: &'a mut DrawMemory,
    ) -> Result<Self, RowError> {
        let mut draw = Self::begin(row, segments.first(), is_greedy, memory).await?;
        for (i, segment) in segments.iter().enumerate() {
            if i > 0 {
                draw.enter(i, segment).await?;
            }
            for (j, operation) in segment.operations.iter().enumerate() {
                let place = Place { segment: i as u32, operation: j as u32 };
                draw.take(operation, place, moment).await?;
            }
        }
        Ok(draw)
    }

    /// A draw at the beginning of the chain. Whoever holds the row has made the edits of the first segment.
    pub(crate) async fn begin(
        row: &'a mut R,
        first: Option<&Segment>,
        is_greedy: bool,
        memory: &'a mut DrawMemory,
    ) -> Result<Self, RowError> {
        let mut draw = Self::open(row, &FindSummit {}, first, memory).await?;
        draw.is_greedy = is_greedy;
        Ok(draw)
    }

    /// The unmodified row at temperature 1. The edits are forgotten.
    pub(crate) async fn raw(row: &'a mut R, memory: &'a mut DrawMemory) -> Result<Self, RowError> {
        Self::open(row, &Restore {}, None, memory).await
    }

    async fn open(
        row: &'a mut R,
        query: &impl Query<Answer = Summit>,
        segment: Option<&Segment>,
        memory: &'a mut DrawMemory,
    ) -> Result<Self, RowError> {
        let DrawMemory { lists, pending, passes } = memory;
        let mut row = Asker { row, lists, passes: *passes };
        pending.clear();
        let summit = summit(&mut row, query, segment).await?;
        Ok(Self { row, pending, summit, temperature: Temperature::ONE, is_greedy: false, kept: None })
    }

    /// Begins segment number `index`: what the operations so far left is made part of the row, then the
    /// segment's edits are made.
    pub(crate) async fn enter(&mut self, index: usize, segment: &Segment) -> Result<(), RowError> {
        let last = self.cut().await?;
        let query = Narrow { last, temperature: self.temperature, segment: index as u32 };
        self.summit = summit(&mut self.row, &query, Some(segment)).await?;
        self.temperature = Temperature::ONE;
        self.pending.clear();
        Ok(())
    }

    /// Carries out one operation. Prefixes are left pending.
    pub(crate) async fn take(
        &mut self,
        operation: &Operation,
        place: Place,
        moment: &Moment<'_>,
    ) -> Result<(), RowError> {
        match operation {
            Operation::Heat(heat) => self.heat(*heat).await,
            Operation::Truncate(_, truncation) => self.truncate(truncation, place, moment).await,
            Operation::Smooth(bend) => {
                let query = Smooth { bend: *bend, x_max: self.x_max() };
                self.summit = summit(&mut self.row, &query, None).await?;
                Ok(())
            }
            Operation::Custom(custom) => self.custom(custom, moment).await,
        }
    }

    async fn heat(&mut self, heat: Heat) -> Result<(), RowError> {
        let temperature = match heat {
            Heat::Fixed(temperature) => temperature,
            Heat::Dynamic { low, high, exponent } => {
                let last = self.cut().await?;
                let spread = self.row.spread(last, self.softmax()).await?;
                Heat::dynamic(low, high, exponent, &spread)
            }
        };
        if temperature < GREEDY_BELOW {
            self.is_greedy = true;
        } else {
            self.temperature = self.temperature.then(temperature);
        }
        Ok(())
    }

    async fn truncate(
        &mut self,
        truncation: &Truncation,
        place: Place,
        moment: &Moment<'_>,
    ) -> Result<(), RowError> {
        match truncation {
            Truncation::Prefix(prefix) => self.leave_pending(*prefix),
            Truncation::Mirostat(mirostat) => {
                let last = self.cut().await?;
                let Moment { vocabulary, mu, .. } = *moment;
                let prefix = match mirostat.cutoff(mu) {
                    Some(cutoff) => Prefix::Cutoff(cutoff),
                    None => {
                        let temperature = self.temperature;
                        Prefix::TopK(mirostat.top_k(&mut self.row, mu, temperature, vocabulary, last).await?)
                    }
                };
                self.leave_pending(prefix);
            }
            Truncation::Typical(typical) => {
                let last = self.cut().await?;
                let x_max = self.x_max();
                let window = typical.window(&mut self.row, x_max, self.temperature, last).await?;
                if let Some(head) = window.head {
                    self.behead(head, None).await?;
                }
                self.leave_pending(Prefix::UpTo(window.last));
            }
            Truncation::Xtc(xtc) => {
                if xtc.acts(&moment.noise) {
                    let last = self.cut().await?;
                    let (summit, temperature) = (self.summit, self.temperature);
                    let stays = xtc.last_top_choice(&mut self.row, summit, temperature, last).await?;
                    if let Some(stays) = stays {
                        self.behead(stays.previous(), Some(place)).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn leave_pending(&mut self, prefix: Prefix) {
        let temperature = self.temperature;
        self.pending.push(Pending { prefix, temperature, cut: None, mass_before: None });
    }

    /// Masks the tokens up to `head`. The caller has found the cut of every pending truncation, and a token
    /// after `head` stays.
    async fn behead(&mut self, head: Key, xtc: Option<Place>) -> Result<(), RowError> {
        self.summit = summit(&mut self.row, &Behead { head, xtc }, None).await?;
        Ok(())
    }

    /// Shows the row to a user's stage and does what it says.
    async fn custom(&mut self, custom: &Custom, moment: &Moment<'_>) -> Result<(), RowError> {
        let stage = || Stage::Custom(custom.clone());
        let (last, x_max, temperature) = (self.cut().await?, self.x_max(), self.temperature);
        let mass = relative(self.row.mass(last, temperature.softmax(x_max)).await?);
        self.row.ask(&ListKept { last }).await?;
        let asked = {
            let mut logits = vec![f32::NEG_INFINITY; moment.vocabulary];
            for key in &self.row.lists.keys {
                let logit = logits.get_mut(key.token() as usize);
                *logit.ok_or(RowError::contradiction("a token outside the vocabulary"))? = key.logit();
            }
            let Moment { noise: Noise { position, .. }, history, .. } = *moment;
            let view = View { logits: &logits, history, position, temperature, x_max, mass };
            custom::ask(custom, &view).map_err(|message| RowError::CustomStage { stage: stage(), message })?
        };
        let found = match asked {
            Asked::Edit(query) => summit(&mut self.row, &query, None).await,
            Asked::KeepOnly(query) => summit(&mut self.row, &query, None).await,
        };
        self.summit = match found {
            Err(RowError::NothingLeft { .. }) => Err(RowError::NothingLeft { stage: Some(stage()) }),
            other => other,
        }?;
        // The first token may be one that a prefix before this stage dropped.
        if self.summit > last {
            return Err(RowError::NothingLeft { stage: Some(stage()) });
        }
        Ok(())
    }

    /// The largest logit alive.
    pub(crate) fn x_max(&self) -> f32 {
        self.summit.logit()
    }

    pub(crate) fn softmax(&self) -> Softmax {
        self.temperature.softmax(self.x_max())
    }

    /// The drawn token: the first of the order if greedy, otherwise the winner of the race among the kept
    /// tokens.
    pub(crate) async fn winner(&mut self) -> Result<Key, RowError> {
        if self.is_greedy {
            return Ok(self.summit);
        }
        let (x_max, temperature) = (self.x_max(), self.temperature);
        let is_cut_before_race =
            |pending: &&Pending| pending.cut.is_some() || pending.prefix.is_cut_before_race();
        let mut before = match self.pending.iter().take_while(is_cut_before_race).count() {
            0 => None,
            cheap => Some(self.cut_before(cheap).await?.next()),
        };
        // Every rejection leaves a token less.
        for _ in 0..MAX_VOCABULARY {
            let race = RunRace { x_max, temperature, before };
            let winner = self.row.ask(&race).await?.finalist.ok_or(NO_WINNER)?.key;
            if winner < self.summit || before.is_some_and(|before| winner >= before) {
                return Err(FOREIGN_WINNER);
            }
            match self.rejected_by(winner).await? {
                None => return Ok(winner),
                Some(index) => before = Some(self.narrowed(index, winner).await?),
            }
        }
        Err(NO_END)
    }

    /// The first pending truncation that drops `key`; `None` if all keep it.
    pub(crate) async fn rejected_by(&mut self, key: Key) -> Result<Option<usize>, RowError> {
        for index in 0..self.pending.len() {
            if !self.keeps(index, key).await? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Where the race goes on, exclusive, after truncation number `index` dropped `key`: before `key`, or
    /// within the truncation's own cut where that is cheap to find.
    async fn narrowed(&mut self, index: usize, key: Key) -> Result<Key, RowError> {
        let is_cheap = self.pending[..=index]
            .iter()
            .all(|pending| pending.cut.is_some() || pending.prefix.has_cheap_cut());
        Ok(if is_cheap { key.min(self.cut_before(index + 1).await?.next()) } else { key })
    }

    async fn keeps(&mut self, index: usize, key: Key) -> Result<bool, RowError> {
        let Pending { prefix, temperature, cut, .. } = self.pending[index];
        if let Some(cut) = cut {
            return Ok(key <= cut);
        }
        let x_max = self.x_max();
        match prefix.judge(&mut self.row, x_max, temperature, key, index == 0).await? {
            Membership::Kept => Ok(true),
            Membership::Dropped => Ok(false),
            Membership::NeedsMass(share) => {
                let softmax = temperature.softmax(x_max);
                if let Some(before) = self.row.row.bounds(key.previous(), softmax) {
                    let last = self.cut_before(index).await?;
                    let total = self.row.row.bounds(last, softmax).unwrap_or(Interval::UNKNOWN);
                    if share.is_above(before.most, total.least) {
                        return Ok(true);
                    }
                    if !share.is_above(before.least, total.most) {
                        return Ok(false);
                    }
                }
                let before = self.row.mass(key.previous(), softmax).await?;
                Ok(share.is_above(before, self.mass_before(index).await?))
            }
            Membership::NeedsCut => Ok(key <= self.cut_before(index + 1).await?),
        }
    }

    /// The last token that all pending truncations keep.
    pub(crate) async fn cut(&mut self) -> Result<Key, RowError> {
        self.cut_before(self.pending.len()).await
    }

    /// The last token that the truncations before number `index` keep.
    async fn cut_before(&mut self, index: usize) -> Result<Key, RowError> {
        let mut cut = Key::END;
        for i in 0..index {
            let Pending { prefix, temperature, cut: known, .. } = self.pending[i];
            cut = match known {
                Some(known) => known,
                None => prefix.cut(&mut self.row, self.summit.logit(), temperature, cut).await?,
            };
            self.pending[i].cut = Some(cut);
        }
        Ok(cut)
    }

    /// The mass of what the truncations before number `index` left, at its temperature.
    async fn mass_before(&mut self, index: usize) -> Result<u64, RowError> {
        if let Some(mass) = self.pending[index].mass_before {
            return Ok(mass);
        }
        let last = self.cut_before(index).await?;
        let softmax = self.pending[index].temperature.softmax(self.x_max());
        let mass = self.row.mass(last, softmax).await?;
        self.pending[index].mass_before = Some(mass);
        Ok(mass)
    }

    /// The last token that the whole chain keeps, and the mass up to it at the final temperature.
    pub(crate) async fn kept(&mut self) -> Result<(Key, u64), RowError> {
        if let Some(kept) = self.kept {
            return Ok(kept);
        }
        let kept = if self.is_greedy {
            (self.summit, UNIT)
        } else {
            let last = self.cut().await?;
            (last, self.row.mass(last, self.softmax()).await?)
        };
        self.kept = Some(kept);
        Ok(kept)
    }
}

/// The first token of the order, which `query` asks for, or the error that the row ends in.
async fn summit<R: RowAccess>(
    row: &mut Asker<'_, R>,
    query: &impl Query<Answer = Summit>,
    segment: Option<&Segment>,
) -> Result<Key, RowError> {
    match row.ask(query).await? {
        Summit { bad: Some(BadLogit { token, is_nan: true }), .. } => Err(RowError::NanLogit { token }),
        Summit { bad: Some(BadLogit { token, is_nan: false }), .. } => Err(RowError::InfiniteLogit { token }),
        Summit { top: Some(top), .. } => Ok(top),
        Summit { top: None, bad: None } => {
            let emptied = row.ask(&FindEmptied {}).await?;
            let edit = usize::try_from(emptied.edit).ok().and_then(|edit| segment?.edits.get(edit));
            Err(RowError::NothingLeft { stage: edit.map(Edit::stage) })
        }
    }
}
