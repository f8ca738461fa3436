//! The edits of a plan, as a holder of a part of the row makes them.

use crate::logits::edited::EditedRow;
use crate::logits::slice::Edits;
use crate::plan::{Operation, Segment};
use crate::stages::edit::EditMemory;
use crate::stages::edit::context::Context;
use crate::stages::truncate::Truncation;

/// The edits of the chain for one row.
pub(crate) struct ChainEdits<'a> {
    pub segments: &'a [Segment],
    pub context: Context<'a>,
    pub memory: &'a mut EditMemory,
}

impl Edits for ChainEdits<'_> {
    fn count(&self, segment: usize) -> Option<usize> {
        self.segments.get(segment).map(|segment| segment.edits.len())
    }

    fn mask(&mut self, segment: usize, edit: usize, row: &mut EditedRow<'_>) {
        self.segments[segment].edits[edit].mask(row, &self.context);
    }

    fn apply(&mut self, segment: usize, edit: usize, row: &mut EditedRow<'_>) {
        self.segments[segment].edits[edit].apply(row, &self.context, self.memory);
    }

    fn protected(&self, segment: u32, operation: u32) -> &[u32] {
        let segment = self.segments.get(segment as usize);
        match segment.and_then(|segment| segment.operations.get(operation as usize)) {
            Some(Operation::Truncate(_, Truncation::Xtc(xtc))) => &xtc.protected,
            _ => &[],
        }
    }
}
