//! One shard of one row, loaded, ready to be asked.

use std::ops::Range;

use onedraw::answer::Held;
use onedraw::float_mode::Standard;
use onedraw::query::Question;
use onedraw::wire;

use super::desks::Desk;
use super::sequence::Shard;
use crate::error::CudaError;
use crate::matrix::{Mask, Matrix};
use crate::stream::Stream;

/// One device's part of one row, ready to be asked. Made by [`Shard::row`].
#[derive(Debug)]
pub struct ShardRow<'a> {
    shard: &'a mut Shard,
    row: PartOfRow<'a>,
}

/// A part of a row, and what the questions so far have made of it.
#[derive(Debug)]
pub(super) struct PartOfRow<'a> {
    pub part: Matrix<'a>,
    /// The id of the part's first logit.
    pub start: u32,
    /// The address of the row's mask.
    pub mask: Option<u64>,
    /// Positions after the sequence's next.
    pub ahead: u32,
    /// Whether masks and edits are ignored from now on.
    pub is_raw: bool,
    /// Where the part lies once a question has changed it.
    pub desk: Option<Desk>,
    /// Whether it lies there.
    pub is_on_desk: bool,
    /// In a later segment: the edit of it that masked the part's last token, or −1.
    pub emptied_by: Option<i32>,
}

/// A part of a row, and the sequence that it is asked for.
pub(super) struct Asked<'r, 'a> {
    pub shard: &'r mut Shard,
    pub row: &'r mut PartOfRow<'a>,
}

impl Shard {
    /// The device's part of the next row: a matrix of one row, whose first logit has id `start`. A mask is
    /// that of the whole row. A device whose part has no tokens need not be asked. Questions are answered on
    /// the legacy default stream.
    pub fn row<'a>(
        &'a mut self,
        part: &Matrix<'a>,
        start: usize,
        mask: Option<Mask>,
    ) -> Result<ShardRow<'a>, CudaError> {
        let ordinal = self.device.ordinal();
        if part.ordinal != ordinal {
            return Err(CudaError::NotOnDevice { address: part.address });
        }
        if part.rows != 1 {
            return Err(CudaError::Rows { rows: part.rows, turns: 1 });
        }
        let (given, capacity) = (start.saturating_add(part.vocabulary), self.vocabulary);
        if given > capacity {
            return Err(CudaError::TooMany { what: "logits", given, capacity });
        }
        if let Some(mask) = mask {
            self.admit(mask, given)?;
        }
        if let Some(repeats) = &self.repeats {
            repeats.find(&self.device, Stream::default())?;
        }
        Ok(ShardRow { row: PartOfRow::new(*part, start as u32, mask, 0), shard: self })
    }
}

impl ShardRow<'_> {
    /// The reply to a question, both as messages. Where the device fails, or cannot answer, the reply says
    /// so, and the draw ends with an error that names this shard.
    pub fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        Asked { shard: self.shard, row: &mut self.row }.reply(question)
    }
}

impl<'a> PartOfRow<'a> {
    pub(super) fn new(part: Matrix<'a>, start: u32, mask: Option<Mask>, ahead: u32) -> Self {
        let mask = mask.map(|mask| mask.address);
        Self { part, start, mask, ahead, is_raw: false, desk: None, is_on_desk: false, emptied_by: None }
    }

    pub(super) fn held(&self) -> Held {
        Held { start: self.start, length: self.part.vocabulary as u32 }
    }
}

impl Asked<'_, '_> {
    pub(super) fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        let _mode = Standard::enter();
        let noise = self.shard.noise(self.row.ahead);
        wire::reply(noise, self.row.held(), question, |question, lists| {
            if let Question::Narrow(narrow) = question
                && self.edits(narrow.segment).is_none()
            {
                return Err(format!("the chain has no segment {}", narrow.segment));
            }
            self.answer(question, lists).map_err(|error| error.to_string())
        })
    }

    /// Where the record has the edits of a segment; `None` if the chain has no such segment.
    pub(super) fn edits(&self, segment: u32) -> Option<Range<usize>> {
        self.shard.record.segment(self.row.mask.is_some(), segment as usize)
    }
}
