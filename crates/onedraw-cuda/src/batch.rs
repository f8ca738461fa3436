//! Many sequences on a device, each with its own parameters, seed and history.

mod drawn;
mod position;
mod step;
mod verify;

use onedraw::{ParamError, RowError, SamplingParams};

use crate::device::{Device, Kernel};
use crate::error::CudaError;
use crate::launch;
use crate::matrix::Mask;
use crate::memory::{Array, Inbox, Pinned};
use crate::record::chain::{Masks, Record};
use crate::record::tables::Tables;
use crate::record::{Entry, Outcome, Report, Sequence, Step, TABULATED, Task};
use crate::slots::{SequenceId, Slots};
use crate::stream::Stream;

pub use drawn::Drawn;
pub use step::Form;
pub use verify::DraftTurn;

/// How much a batch has room for. All of it is allocated at once, so that a step allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sequences.
    pub sequences: usize,
    /// Rows of a step, 65,535 at most.
    pub rows: usize,
    /// Logits of a row.
    pub vocabulary: usize,
    /// The largest `logprobs` of a sequence, 1024 at most. Where any is asked for, so many are read for every row of a step.
    pub logprobs: usize,
}

/// A sequence's turn: row i of a matrix is for turn i.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Whose turn it is.
    pub sequence: SequenceId,
    /// The tokens that a grammar allows.
    pub mask: Option<Mask>,
}

impl Turn {
    /// A turn without a mask.
    pub fn new(sequence: SequenceId) -> Self {
        Self { sequence, mask: None }
    }
}

/// Sequences that come and go between steps. A row's token depends on its own sequence alone, and is the one that
/// [`onedraw::Batch`] draws.
///
/// What is told a stream happens in the stream's order; whoever uses several orders them.
#[derive(Debug)]
pub struct Batch {
    capacity: Capacity,
    members: Slots<Member>,
    /// Memory of removed sequences, which a launch under way may still read.
    retired: Vec<Array<u32>>,
    /// Whether a sequence was removed since the device was last waited for.
    has_removed: bool,
    arrays: Arrays,
    tasks: Inbox<Task>,
    accepted: (Inbox<Task>, Inbox<Outcome>),
    /// The steps so far.
    calls: u64,
    /// Who has the rows of the step, or why nobody.
    rows: Vec<Result<SequenceId, RowError>>,
    /// Memory to make tasks in.
    next_tasks: Vec<Task>,
    form: Form,
    /// Whether turns are prepared whose results were not read.
    is_prepared: bool,
    /// The rows of the turns that were prepared last.
    last_rows: usize,
    /// Whether tokens may have been drawn that nobody read, so that the device alone knows the positions.
    is_behind: bool,
    outcomes: Pinned<Outcome>,
    reports: Vec<Report>,
    entries: Vec<Entry>,
    /// After all memory, whose freeing waits for the kernels that it holds.
    device: Device,
}

/// What the host knows of a sequence.
#[derive(Debug)]
struct Member {
    /// As it was when the sequence was added.
    record: Sequence,
    masks: Masks,
    /// The number of output tokens, as far as results were read.
    position: u32,
    /// The last step that it has a row in.
    last_call: u64,
    memory: Option<Array<u32>>,
}

/// What all sequences and rows share on the device.
#[derive(Debug)]
struct Arrays {
    /// One a slot, and one more for rows that nobody has.
    sequences: Array<Sequence>,
    peaks: Array<f32>,
    sums: Array<f32>,
    references: Array<f32>,
    lucks: Array<f32>,
    raw_tops: Array<f32>,
    summits: Array<u32>,
    raw_summits: Array<u32>,
    weights: Array<u64>,
    /// Two numbers each.
    edited: Array<[f32; 2]>,
    bad: Array<u32>,
    results: Array<Outcome>,
    reports: Array<Report>,
    entries: Array<Entry>,
}

impl Arrays {
    fn new(device: &Device, capacity: &Capacity) -> Result<Self, CudaError> {
        let context = device.context();
        let rows = capacity.rows;
        let blocks = rows * launch::pitch(capacity.vocabulary);
        Ok(Self {
            sequences: Array::filled(context, capacity.sequences + 1, 0)?,
            peaks: Array::filled(context, blocks, 0)?,
            sums: Array::filled(context, blocks, 0)?,
            references: Array::filled(context, blocks, 0)?,
            lucks: Array::filled(context, blocks, 0)?,
            raw_tops: Array::filled(context, blocks, 0)?,
            summits: Array::filled(context, rows * launch::SUMMIT_PITCH, 0)?,
            raw_summits: Array::filled(context, rows * launch::SUMMIT_PITCH, 0)?,
            weights: Array::filled(context, rows, 0)?,
            edited: Array::filled(context, rows * TABULATED, 0)?,
            bad: Array::filled(context, rows, 0xff)?,
            // Until something is drawn.
            results: Array::filled(context, rows, 0xff)?,
            reports: Array::filled(context, rows, 0)?,
            entries: Array::filled(context, rows * capacity.width(), 0)?,
        })
    }

    /// What the kernels of a step leave behind for the next one, as it must be: for a step of which not all were launched.
    fn clear(&self, stream: Stream<'_>) -> Result<(), CudaError> {
        self.bad.fill(stream, 0xff)?;
        self.summits.fill(stream, 0)?;
        self.raw_summits.fill(stream, 0)?;
        self.weights.fill(stream, 0)
    }
}

impl Capacity {
    /// Entries of a row: the drawn token's, and the best.
    fn width(&self) -> usize {
        self.logprobs + 1
    }

    fn check(&self, device: &Device) -> Result<(), CudaError> {
        if self.vocabulary == 0 {
            return Err(RowError::EmptyRow.into());
        }
        let limits = [
            ("vocabulary", self.vocabulary, device.max_vocabulary()),
            ("rows", self.rows, launch::MAX_ROWS),
            ("sequences", self.sequences, i32::MAX as usize),
            ("logprobs", self.logprobs, 1024),
        ];
        match limits.into_iter().find(|(_, given, most)| given > most) {
            Some((what, given, capacity)) => Err(CudaError::TooMany { what, given, capacity }),
            None => Ok(()),
        }
    }
}

impl Batch {
    /// No sequences yet, and room for so many.
    pub fn new(device: &Device, capacity: Capacity) -> Result<Self, CudaError> {
        capacity.check(device)?;
        let context = device.context();
        let arrays = Arrays::new(device, &capacity)?;
        // A row that nobody has is drawn greedily and its token thrown away.
        let nobody = Record::new(&SamplingParams { temperature: 0.0, ..Default::default() })?.sequence;
        arrays.sequences.write(device.uploads(), capacity.sequences, &[nobody])?;
        Ok(Self {
            device: device.clone(),
            capacity,
            members: Slots::new(capacity.sequences),
            retired: Vec::new(),
            has_removed: false,
            arrays,
            tasks: Inbox::new(context, capacity.rows)?,
            accepted: (Inbox::new(context, capacity.sequences)?, Inbox::new(context, capacity.sequences)?),
            calls: 0,
            rows: Vec::new(),
            next_tasks: Vec::new(),
            form: Form::default(),
            is_prepared: false,
            last_rows: 0,
            is_behind: false,
            outcomes: Pinned::new(context, capacity.rows)?,
            reports: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// The device that it draws on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What it has room for.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// The number of sequences.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the first sequence of the parameters. Where one was removed before, it waits until the device has done what it was told.
    pub fn add(&mut self, params: &SamplingParams) -> Result<SequenceId, CudaError> {
        let ids = self.add_first(params, 1)?;
        ids.first().copied().ok_or(CudaError::Row(RowError::UnknownSequence))
    }

    /// Adds all `n` sequences of the parameters, which share one seed; all or none.
    pub fn add_all(&mut self, params: &SamplingParams) -> Result<Vec<SequenceId>, CudaError> {
        self.add_first(params, params.n)
    }

    /// Adds the first `count` of the parameters' sequences.
    fn add_first(&mut self, params: &SamplingParams, count: u32) -> Result<Vec<SequenceId>, CudaError> {
        let record = Record::new(params)?;
        record.plan.check_vocabulary(self.capacity.vocabulary)?;
        let (asked, capacity) = (record.sequence.logprobs as usize, self.capacity.width());
        if asked > capacity {
            return Err(CudaError::TooMany { what: "logprobs", given: asked - 1, capacity: capacity - 1 });
        }
        if count as usize > self.members.room() {
            return Err(self.no_room(count as usize));
        }
        self.settle()?;
        let seed = seed(params)?;
        let tables = Tables::new(params, &record.sequence, self.capacity.vocabulary);
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

    /// A removed sequence's slot and memory may be used again once no launch reads them.
    fn settle(&mut self) -> Result<(), CudaError> {
        if self.has_removed {
            self.device.synchronize()?;
            self.retired.clear();
            self.has_removed = false;
        }
        Ok(())
    }

    fn insert(&mut self, record: &Record, tables: &Tables) -> Result<SequenceId, CudaError> {
        let slot = self.members.next().ok_or_else(|| self.no_room(1))?;
        let (context, uploads) = (self.device.context(), self.device.uploads());
        let memory = match tables.words.len() {
            0 => None,
            words => Some(Array::uninitialised(context, words)?),
        };
        if let Some(memory) = &memory {
            memory.write(uploads, 0, &tables.words)?;
        }
        let sequence = tables.point(&record.sequence, memory.as_ref().map_or(0, Array::address));
        self.arrays.sequences.write(uploads, slot as usize, &[sequence])?;
        let member = Member {
            record: sequence,
            masks: record.masks,
            position: sequence.position,
            last_call: 0,
            memory,
        };
        self.members.insert(member).ok_or_else(|| self.no_room(1))
    }

    /// For so many more.
    fn no_room(&self, more: usize) -> CudaError {
        let (given, capacity) = (self.len() + more, self.capacity.sequences);
        CudaError::TooMany { what: "sequences", given, capacity }
    }

    /// Removes a sequence; whether it was there. A launch that is under way may still draw for it.
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

    /// Draws go on with another seed, once the device has done what it was told.
    pub fn set_seed(&mut self, id: SequenceId, seed: u64) -> Result<(), CudaError> {
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        self.device.synchronize()?;
        let start = id.slot() as usize * size_of::<Sequence>() + std::mem::offset_of!(Sequence, seed);
        self.arrays.sequences.write_bytes(self.device.uploads(), start, bytemuck::bytes_of(&seed))?;
        member.record.seed = seed;
        Ok(())
    }

    /// Appends tokens that were chosen elsewhere to their sequences. A sequence may have several, first to last. Nothing is appended if a sequence is unknown or a token is none.
    pub fn accept<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        tokens: &[(SequenceId, u32)],
    ) -> Result<(), CudaError> {
        let (stream, vocabulary) = (stream.into(), self.capacity.vocabulary);
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

    /// Appends the first token of each sequence; the others are handed back.
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
        let step = Step {
            sequences: self.arrays.sequences.address(),
            tasks: self.accepted.0.address(),
            results: self.accepted.1.address(),
            rows: tasks.len() as u32,
            vocabulary: self.capacity.vocabulary as u32,
            ..bytemuck::Zeroable::zeroed()
        };
        // SAFETY: both inboxes hold so many rows, and slots are those of members.
        #[allow(unsafe_code)]
        unsafe {
            self.device.launch(stream, Kernel::Append, launch::append(tasks.len()), &step)?;
        }
        ids.into_iter().for_each(|id| self.advance(id));
        Ok(rest)
    }

    /// A token more, as far as the host knows.
    fn advance(&mut self, id: SequenceId) {
        if let Some(member) = self.members.get_mut(id) {
            member.position = member.position.wrapping_add(1);
        }
    }
}

/// The one given, or one from the system.
fn seed(params: &SamplingParams) -> Result<u64, CudaError> {
    match params.seed {
        Some(seed) => Ok(seed),
        None => Ok(getrandom::u64().map_err(|error| {
            ParamError::new("seed", format!("the system gave no random number: {error}"))
        })?),
    }
}
