//! How sequences on the device are changed: in the order of the stream that uses them next, and nobody waits.
#![allow(unsafe_code)]

use onedraw::slots::SequenceId;

use super::member::Changed;
use super::pending::Pending;
use super::sequences::Batch;
use crate::error::CudaError;
use crate::launch;
use crate::record::layout::{ReviseArguments, Revision, Sequence};
use crate::stream::Stream;

impl Batch {
    /// Has a sequence changed before it is used next; `note` says how.
    pub(super) fn change(&mut self, id: SequenceId, note: impl FnOnce(&mut Changed)) {
        let Some(member) = self.members.get_mut(id) else { return };
        if member.changed.is_none() {
            self.pending.changed.push(id);
        }
        note(member.changed.get_or_insert_default());
    }

    /// Sends what is pending, for whatever the stream does next. After an error it is still pending.
    pub(super) fn send_pending(&mut self, stream: Stream<'_>) -> Result<(), CudaError> {
        self.rows.arrays.zero_repeats_and_ids(stream)?;
        if self.rows.take_cut_short() {
            // A draw lets mirostat learn. A sequence of which more is told moves on after it, in a kernel that was
            // perhaps not launched: then mirostat has learned from a token that is not in the text.
            let learners = |&id: &SequenceId| self.members.get(id).is_some_and(|member| member.mus.is_some());
            let ids: Vec<_> = self.members.ids().filter(learners).collect();
            ids.into_iter().for_each(|id| self.change(id, |changed| changed.recalls = true));
        }
        let Pending { copies, changed, released, staging, list } = &mut self.pending;
        while let Some((address, bytes)) = copies.front() {
            // SAFETY: the bytes go to a block of the pool or to a slot, which are memory as long as the batch lives.
            unsafe { staging.send(stream, *address, bytes)? };
            copies.pop_front();
        }
        if changed.is_empty() {
            return Ok(());
        }
        let base = self.rows.arrays.sequences.address();
        let change = |&id: &SequenceId| {
            let member = self.members.get(id)?;
            let sequence = base + (id.slot() as usize * size_of::<Sequence>()) as u64;
            Some(member.change(sequence, member.changed?))
        };
        let changes: Vec<Revision> = changed.iter().filter_map(change).collect();
        if !changes.is_empty() {
            list.post(stream, &changes)?;
            let arguments = ReviseArguments {
                list: list.address(),
                count: changes.len() as u32,
                vocabulary: self.rows.capacity.vocabulary as u32,
            };
            // SAFETY: every change names a slot, each once, and memory as large as it says.
            unsafe { self.rows.device.launch_revise(stream, launch::revise(changes.len()), &arguments)? };
        }
        for id in changed.drain(..) {
            if let Some(member) = self.members.get_mut(id) {
                member.changed = None;
            }
        }
        released.drain(..).for_each(|block| self.pool.give(block));
        Ok(())
    }
}
