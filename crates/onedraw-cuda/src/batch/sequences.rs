//! The sequences of a batch: how they are added, changed and removed.

use onedraw::slots::{SequenceId, Slots};
use onedraw::{ParamError, RowError, SamplingParams};

use crate::device::Device;
use crate::error::CudaError;
use crate::kernel::Kernel;
use crate::launch;
use crate::memory::{Array, Inbox, Pinned};
use crate::record::chain::{Masks, Record};
use crate::record::layout::{Entry, Outcome, Report, Sequence, StepArguments, Task};
use crate::record::tables::Tables;
use crate::rows::{Capacity, Rows};
use crate::stream::Stream;

/// Sequences that come and go between steps. A row's token depends on its own sequence alone, and is the one
/// that [`onedraw::Batch`] draws.
///
/// What is launched on a stream happens in the stream's order. A caller that uses several streams must order
/// them.
#[derive(Debug)]
pub struct Batch {
    pub(super) members: Slots<Member>,
    /// Memory of removed sequences, which a launch that has not ended may still read.
    pub(super) retired: Vec<Array<u32>>,
    /// Whether a sequence was removed since the device was last waited for.
    pub(super) has_removed: bool,
    pub(super) accepted: (Inbox<Task>, Inbox<Outcome>),
    /// The number of steps and appends so far.
    pub(super) calls: u64,
    /// For each prepared turn its sequence, or why it has none.
    pub(super) turns: Vec<Result<SequenceId, RowError>>,
    /// Memory in which tasks are made.
    pub(super) next_tasks: Vec<Task>,
    /// Whether turns are prepared whose results were not read yet.
    pub(super) is_prepared: bool,
    /// The number of rows of the turns that were prepared last.
    pub(super) last_rows: usize,
    /// Whether tokens may have been drawn that were never read, so that only the device knows the positions.
    pub(super) is_behind: bool,
    pub(super) outcomes: Pinned<Outcome>,
    pub(super) reports: Vec<Report>,
    pub(super) entries: Vec<Entry>,
    /// Dropped last, because it holds the device.
    pub(super) rows: Rows,
}

/// What the host knows of a sequence.
#[derive(Debug)]
pub(super) struct Member {
    /// The record as it was when the sequence was added.
    pub record: Sequence,
    pub masks: Masks,
    /// The number of output tokens, as far as results were read.
    pub position: u32,
    /// The last step or append that it took part in.
    pub last_call: u64,
    memory: Option<Array<u32>>,
}

impl Batch {
    /// A batch without sequences. It is an error if the device cannot have so much.
    pub fn new(device: &Device, capacity: Capacity) -> Result<Self, CudaError> {
        let context = device.context();
        Ok(Self {
            members: Slots::new(),
            retired: Vec::new(),
            has_removed: false,
            accepted: (Inbox::new(context, capacity.sequences)?, Inbox::new(context, capacity.sequences)?),
            calls: 0,
            turns: Vec::new(),
            next_tasks: Vec::new(),
            is_prepared: false,
            last_rows: 0,
            is_behind: false,
            outcomes: Pinned::new(context, capacity.rows)?,
            reports: Vec::new(),
            entries: Vec::new(),
            rows: Rows::new(device, capacity)?,
        })
    }

    /// The device that it draws on.
    pub fn device(&self) -> &Device {
        &self.rows.device
    }

    /// What it has room for.
    pub fn capacity(&self) -> Capacity {
        self.rows.capacity
    }

    /// The number of sequences.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the first sequence of the parameters. If a sequence was removed before, it waits until the device
    /// has done what was launched.
    pub fn add(&mut self, params: &SamplingParams) -> Result<SequenceId, CudaError> {
        let ids = self.add_first(params, 1)?;
        ids.first().copied().ok_or(CudaError::Row(RowError::UnknownSequence))
    }

    /// Adds all `n` sequences of the parameters, which share one seed. If there is an error, none is added.
    pub fn add_all(&mut self, params: &SamplingParams) -> Result<Vec<SequenceId>, CudaError> {
        self.add_first(params, params.n)
    }

    /// Adds the first `count` of the parameters' sequences.
    fn add_first(&mut self, params: &SamplingParams, count: u32) -> Result<Vec<SequenceId>, CudaError> {
        let record = Record::new(params)?;
        record.plan.check_vocabulary(self.rows.capacity.vocabulary)?;
        let (asked, capacity) = (record.sequence.logprobs as usize, self.rows.capacity.width());
        if asked > capacity {
            return Err(CudaError::TooMany { what: "logprobs", given: asked - 1, capacity: capacity - 1 });
        }
        if count as usize > self.rows.capacity.sequences - self.len() {
            return Err(self.no_room(count as usize));
        }
        self.settle()?;
        let seed = seed(params)?;
        let tables = Tables::new(params, &record, self.rows.capacity.vocabulary);
        let mut ids = Vec::new();
        for sequence in 0..count {
            let record =
                Record { sequence: Sequence { seed, sequence, ..record.sequence }, ..record.clone() };
            match self.insert(&record, &tables) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    ids.into_iter().for_each(|id| _ = self.remove(id));
                    return Err(error);
                }
            }
        }
        Ok(ids)
    }

    /// Waits until no launch reads the slots and the memory of removed sequences, which may then be used
    /// again.
    fn settle(&mut self) -> Result<(), CudaError> {
        if self.has_removed {
            self.rows.device.synchronize()?;
            self.retired.clear();
            self.has_removed = false;
        }
        Ok(())
    }

    fn insert(&mut self, record: &Record, tables: &Tables) -> Result<SequenceId, CudaError> {
        // Slots are numbered from 0 on without gaps, so the next one is below the capacity if there is room.
        let slot = self.members.next_slot();
        let (context, uploads) = (self.rows.device.context(), self.rows.device.uploads());
        let memory = match tables.words.len() {
            0 => None,
            words => Some(Array::uninitialised(context, words)?),
        };
        if let Some(memory) = &memory {
            memory.write(uploads, 0, &tables.words)?;
        }
        let sequence = tables.point(&record.sequence, memory.as_ref().map_or(0, Array::address));
        self.rows.arrays.sequences.write(uploads, slot as usize, &[sequence])?;
        let member = Member {
            record: sequence,
            masks: record.masks,
            position: sequence.position,
            last_call: 0,
            memory,
        };
        Ok(self.members.insert(member))
    }

    /// The error of adding so many more.
    fn no_room(&self, more: usize) -> CudaError {
        let (given, capacity) = (self.len() + more, self.rows.capacity.sequences);
        CudaError::TooMany { what: "sequences", given, capacity }
    }

    /// Removes a sequence; returns whether it was there. A launch that has not ended may still draw for it.
    pub fn remove(&mut self, id: SequenceId) -> bool {
        let Some(member) = self.members.remove(id) else { return false };
        self.retired.extend(member.memory);
        self.has_removed = true;
        true
    }

    /// A sequence's seed, if it is there: the one given, or the one drawn from the system.
    pub fn seed(&self, id: SequenceId) -> Option<u64> {
        self.members.get(id).map(|member| member.record.seed)
    }

    /// Changes a sequence's seed for later draws. It waits until the device has done what was launched.
    pub fn set_seed(&mut self, id: SequenceId, seed: u64) -> Result<(), CudaError> {
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        self.rows.device.synchronize()?;
        let start = id.slot() as usize * size_of::<Sequence>() + std::mem::offset_of!(Sequence, seed);
        self.rows.arrays.sequences.write_bytes(
            self.rows.device.uploads(),
            start,
            bytemuck::bytes_of(&seed),
        )?;
        member.record.seed = seed;
        Ok(())
    }

    /// Appends tokens that were chosen elsewhere to their sequences. A sequence may have several, first to
    /// last. If a sequence is unknown or an id is no token, it is an error and nothing is appended.
    pub fn accept<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        tokens: &[(SequenceId, u32)],
    ) -> Result<(), CudaError> {
        let (stream, vocabulary) = (stream.into(), self.rows.capacity.vocabulary);
        for &(id, token) in tokens {
            self.members.get(id).ok_or(RowError::UnknownSequence)?;
            if token as usize >= vocabulary {
                return Err(
                    RowError::OutsideVocabulary { field: "output_token_ids", token, vocabulary }.into()
                );
            }
        }
        let mut rest = tokens.to_vec();
        while !rest.is_empty() {
            rest = self.append(stream, &rest)?;
        }
        Ok(())
    }

    /// Appends the first token of each sequence, and returns the others.
    fn append(
        &mut self,
        stream: Stream<'_>,
        tokens: &[(SequenceId, u32)],
    ) -> Result<Vec<(SequenceId, u32)>, CudaError> {
        self.calls += 1;
        let (mut ids, mut tasks, mut outcomes, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for &(id, token) in tokens {
            let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
            if member.last_call == self.calls {
                rest.push((id, token));
                continue;
            }
            member.last_call = self.calls;
            ids.push(id);
            tasks.push(Task { slot: id.slot(), ..Task::default() });
            outcomes.push(Outcome { token, status: Outcome::DRAWN });
        }
        self.accepted.0.post(stream, &tasks)?;
        self.accepted.1.post(stream, &outcomes)?;
        let arguments = StepArguments {
            sequences: self.rows.arrays.sequences.address(),
            tasks: self.accepted.0.address(),
            results: self.accepted.1.address(),
            rows: tasks.len() as u32,
            vocabulary: self.rows.capacity.vocabulary as u32,
            ..bytemuck::Zeroable::zeroed()
        };
        // SAFETY: both inboxes hold that many rows, and the slots are those of members.
        #[allow(unsafe_code)]
        unsafe {
            self.rows.device.launch(stream, Kernel::Append, launch::append(tasks.len()), &arguments)?;
        }
        ids.into_iter().for_each(|id| self.advance(id));
        Ok(rest)
    }

    /// Counts a token that was appended to a sequence.
    pub(super) fn advance(&mut self, id: SequenceId) {
        if let Some(member) = self.members.get_mut(id) {
            member.position = member.position.wrapping_add(1);
        }
    }
}

/// The seed of the parameters, or one from the system.
fn seed(params: &SamplingParams) -> Result<u64, CudaError> {
    match params.seed {
        Some(seed) => Ok(seed),
        None => Ok(getrandom::u64().map_err(|error| {
            ParamError::new("seed", format!("the system gave no random number: {error}"))
        })?),
    }
}
