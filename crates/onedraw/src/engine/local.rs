//! A row of this process, whole or split into shards. It answers every question at once.

use crate::engine::edits::ChainEdits;
use crate::engine::split::{Shards, Traffic};
use crate::error::RowError;
use crate::kernels::passes::Passes;
use crate::kernels::row::Row;
use crate::logits::access::RowAccess;
use crate::logits::answer::{Lists, merged};
use crate::logits::code::Field;
use crate::logits::query::Query;
use crate::logits::slice::{Slice, SliceMemory};
use crate::numeric::noise::Noise;
use crate::plan::Segment;
use crate::stages::edit::EditMemory;
use crate::stages::edit::context::Context;

/// The memory of one shard, kept from step to step so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct ShardMemory {
    slice: SliceMemory,
    edits: EditMemory,
}

/// What a row is drawn with: the chain, and what its edits and its race look at.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub segments: &'a [Segment],
    pub context: Context<'a>,
    pub noise: Noise,
    pub passes: Passes,
}

/// A part of a row that begins with token `start`, with the edits of the first segment.
pub(crate) fn load<'a>(
    part: Row<'a>,
    start: usize,
    setting: Setting<'a>,
    memory: &'a mut ShardMemory,
) -> Slice<'a, ChainEdits<'a>> {
    let Setting { segments, context, noise, passes } = setting;
    let edits = ChainEdits { segments, context, memory: &mut memory.edits };
    Slice::load(part, start, edits, noise, passes, &mut memory.slice)
}

/// A row of this process.
pub(crate) enum LocalRow<'a> {
    Whole(Slice<'a, ChainEdits<'a>>),
    Split(SplitRow<'a>),
}

impl<'a> LocalRow<'a> {
    /// Loads the row. There is one memory for each shard.
    pub(crate) fn load(
        row: Row<'a>,
        shards: &Shards,
        setting: Setting<'a>,
        memory: &'a mut [ShardMemory],
    ) -> Self {
        if let [whole] = memory {
            return Self::Whole(load(row, 0, setting, whole));
        }
        let load = |(shard, memory)| {
            let range = shards.range(shard, row.len());
            load(row.part(range.clone()), range.start, setting, memory)
        };
        let slices = memory.iter_mut().enumerate().map(load).collect();
        Self::Split(SplitRow { slices, traffic: Traffic::default() })
    }

    /// What the draw would have sent if the shards were in other processes.
    pub(crate) fn traffic(&self) -> Traffic {
        match self {
            Self::Whole(_) => Traffic::default(),
            Self::Split(split) => split.traffic,
        }
    }
}

impl RowAccess for LocalRow<'_> {
    #[inline]
    async fn ask<Q: Query>(&mut self, query: &Q, lists: &mut Lists) -> Result<Q::Answer, RowError> {
        lists.clear();
        match self {
            Self::Whole(slice) => Ok(query.answer(slice, lists)),
            Self::Split(split) => split.ask(query, lists),
        }
    }
}

/// All shards of a row.
pub(crate) struct SplitRow<'a> {
    slices: Vec<Slice<'a, ChainEdits<'a>>>,
    traffic: Traffic,
}

impl SplitRow<'_> {
    /// Every slice adds its lists to what the others listed; the rest of the answers is merged.
    fn ask<Q: Query>(&mut self, query: &Q, lists: &mut Lists) -> Result<Q::Answer, RowError> {
        self.traffic.rounds += 1;
        merged(self.slices.iter_mut().map(|slice| {
            let listed = lists.keys.len();
            let answer = query.answer(slice, lists);
            let numbers = lists.keys.len() - listed + lists.sums.len();
            // Two bytes say what is asked and answered, and four how many keys there are.
            let fixed = 2 + if Q::LISTS_KEYS { 4 } else { 0 };
            self.traffic.bytes += (fixed + size(query) + size(&answer) + 8 * numbers) as u64;
            Ok(answer)
        }))
    }
}

/// The bytes that a field takes.
fn size(field: &impl Field) -> usize {
    let mut bytes = 0usize;
    field.write(&mut bytes);
    bytes
}
