//! What is kept of a request that may come back. An engine that needs memory takes a request away, and later adds it
//! again with the text that it has. All that a draw needs follows from that text, except what mirostat has learned.

use std::collections::HashMap;

use crate::memory::{Block, Pool, bytes_of_mus};
use crate::record::layout::Sequence;

/// Requests by the engine's names for them.
pub(super) type Names = HashMap<String, Named>;

/// A request, in a slot or away.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Its slot, unless it is away.
    pub slot: Option<usize>,
    /// What it has learned, if it learns.
    pub learned: Option<Learned>,
}

/// Where mirostat stood after each token of an output. The memory begins with the number of these tokens, 64 bits,
/// which the kernels keep (`kernels/text/requests.cuh`).
#[derive(Debug)]
pub(super) struct Learned {
    memory: Block,
    /// Whose it is: another request may have the same name later.
    owner: Owner,
}

/// The prompt's length, and mirostat's parameters: the version, and the bits of the others.
type Owner = (u32, u32, [u64; 3]);

impl Learned {
    /// Whether a request learns from its tokens.
    pub fn is_needed(record: &Sequence) -> bool {
        record.mirostat != 0 && record.eta != 0.0
    }

    /// Bytes of the memory of a text of so many tokens.
    pub fn bytes(longest: usize, prompt: u32) -> usize {
        Pool::size(size_of::<u64>() + bytes_of_mus(longest.saturating_sub(prompt as usize)))
    }

    pub fn new(memory: Block, record: &Sequence) -> Self {
        Self { memory, owner: owner(record) }
    }

    /// What the memory begins with: it is known where mirostat stands before the first token.
    pub fn beginning(record: &Sequence) -> [u64; 2] {
        [0, record.mu.to_bits()]
    }

    pub fn is_of(&self, record: &Sequence) -> bool {
        self.owner == owner(record)
    }

    /// The record of the request that goes on with it.
    pub fn point(&self, record: Sequence) -> Sequence {
        let numbers = self.memory.bytes / size_of::<f64>() - 1;
        let mus = self.memory.address + size_of::<u64>() as u64;
        Sequence { mus, mu_room: u32::try_from(numbers).unwrap_or(u32::MAX), ..record }
    }

    pub fn address(&self) -> u64 {
        self.memory.address
    }

    pub fn into_memory(self) -> Block {
        self.memory
    }
}

fn owner(record: &Sequence) -> Owner {
    (record.prompt, record.mirostat, [record.mu, record.tau, record.eta].map(f64::to_bits))
}
