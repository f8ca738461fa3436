//! What the host knows of a sequence.

use std::sync::Arc;

use super::path::Path;
use crate::memory::Block;
use crate::record::chain::Masks;
use crate::record::layout::{Revision, Sequence};

/// What the host knows of a sequence.
#[derive(Debug)]
pub(super) struct Member {
    /// The record, but for what draws change.
    pub record: Sequence,
    pub masks: Masks,
    /// The position of the next draw, as far as results were read.
    pub position: u32,
    /// The number of output tokens, as far as results were read. It is the position, unless that was set.
    pub written: u32,
    /// The most output tokens that it may have.
    pub most: u32,
    /// The last step or append that it took part in.
    pub last_call: u64,
    pub prompt: Prompt,
    pub path: Path,
    /// How it is to be changed, if it is.
    pub changed: Option<Changed>,
    pub tables: Option<Block>,
    /// The text, if an edit reads it or undoing needs it.
    pub text: Option<Block>,
    /// Where mirostat stood.
    pub mus: Option<Block>,
    /// The tokens that are banned at the next position.
    pub bans: Option<Block>,
    /// The touched tokens of a sequence that has none but banned ones.
    pub touched: Option<Block>,
}

/// A sequence's prompt, and what is reported of it.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub tokens: Arc<[u32]>,
    /// Entries of each row.
    pub entries: u32,
    /// Whether logits are reported instead of logprobs.
    pub is_logits: bool,
}

/// What changes of a sequence, beside what the host knows of it anyway.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Its text is counted for the first time.
    pub is_new: bool,
    /// Its text is taken back to the tokens that the host has counted.
    pub is_shorter: bool,
    /// The next draw is that of the host's position.
    pub is_moved: bool,
    /// Mirostat stands where it stood after the text, as long as that is on the device.
    pub recalls: bool,
}

impl Member {
    /// All its memory.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = Block> {
        [self.tables, self.text, self.mus, self.bans, self.touched].into_iter().flatten()
    }

    /// Stands where the device says.
    pub(super) fn stand(&mut self, record: &Sequence) {
        self.position = record.position;
        self.written = record.length.saturating_sub(record.prompt);
    }

    /// Its memory of a text, from now on.
    pub(super) fn set_text(&mut self, block: Block) -> Option<Block> {
        (self.record.history, self.record.room) = (block.address, room::<u32>(&block));
        self.text.replace(block)
    }

    /// Its memory of where mirostat stood, from now on.
    pub(super) fn set_mus(&mut self, block: Block) -> Option<Block> {
        (self.record.mus, self.record.mu_room) = (block.address, room::<f64>(&block));
        self.mus.replace(block)
    }

    /// What the sequence at an address is to be.
    pub(super) fn change(&self, sequence: u64, changed: Changed) -> Revision {
        let Sequence { history, mus, bans, touched, edit_list, seed, .. } = self.record;
        let Sequence { room, mu_room, round, ban_count, ban_place, prompt, .. } = self.record;
        Revision {
            sequence,
            history,
            mus,
            bans,
            touched,
            edit_list,
            seed,
            room,
            mu_room,
            round,
            ban_count,
            ban_place,
            is_new: changed.is_new.into(),
            // To stay as long as it is lets mirostat go back too.
            is_shorter: (changed.is_shorter || changed.recalls).into(),
            length: if changed.is_shorter { prompt.saturating_add(self.written) } else { u32::MAX },
            is_moved: changed.is_moved.into(),
            position: self.position,
        }
    }
}

/// The elements that a block has room for. Positions have 32 bits.
fn room<T>(block: &Block) -> u32 {
    u32::try_from(block.bytes / size_of::<T>()).unwrap_or(u32::MAX)
}
