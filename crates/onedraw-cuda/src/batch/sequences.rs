//! The sequences of a batch: how they are added, changed and removed.

use onedraw::slots::{SequenceId, Slots};
use onedraw::{ParamError, RowError, Sampled, SamplingParams};

use super::member::{Member, Prompt};
use super::path::Path;
use super::pending::Pending;
use crate::device::Device;
use crate::error::CudaError;
use crate::kernel::Kernel;
use crate::launch;
use crate::memory::{Inbox, Pinned, Pool, bytes_of_mus, bytes_of_text};
use crate::record::chain::{Record, entries};
use crate::record::layout::{EditKind, Entry, Outcome, Report, Sequence, StepArguments, Task};
use crate::record::tables::Tables;
use crate::rows::{Capacity, Rows};
use crate::stream::Stream;

/// Sequences that come and go between steps. A row's token depends on its own sequence alone, and is the one
/// that [`onedraw::Batch`] draws.
///
/// What is launched on a stream happens in the stream's order. A caller that uses several streams must order
/// them.
///
/// Sequences come, go and change without a wait: what the device must know of it is sent with the next call that
/// names a stream, in the order of that stream. The memory of a sequence that is removed is used again. A text may
/// become as long as it is written; [`Capacity::bytes`] and [`Capacity::sequence_bytes`] say what all of it takes.
#[derive(Debug)]
pub struct Batch {
    pub(super) members: Slots<Member>,
    pub(super) pending: Pending,
    /// The memory of sequences.
    pub(super) pool: Pool,
    pub(super) accepted: (Inbox<Task>, Inbox<Outcome>, Inbox<Report>),
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
    /// Kept tokens, one bit each.
    pub(super) kept_bits: Vec<u32>,
    /// Dropped last, because it holds the device.
    pub(super) rows: Rows,
}

/// A token to append.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    id: SequenceId,
    token: u32,
    /// Where mirostat stands then; `None`: where it stood.
    mu: Option<f64>,
}

impl Batch {
    /// A batch without sequences. It is an error if the device cannot have so much.
    pub fn new(device: &Device, capacity: Capacity) -> Result<Self, CudaError> {
        let context = device.context();
        Ok(Self {
            members: Slots::new(),
            pending: Pending::new(device, capacity.sequences)?,
            pool: Pool::new(context),
            accepted: (
                Inbox::new(context, capacity.sequences)?,
                Inbox::new(context, capacity.sequences)?,
                Inbox::new(context, capacity.sequences)?,
            ),
            calls: 0,
            turns: Vec::new(),
            next_tasks: Vec::new(),
            is_prepared: false,
            last_rows: 0,
            is_behind: false,
            outcomes: Pinned::new(context, capacity.rows)?,
            reports: Vec::new(),
            entries: Vec::new(),
            kept_bits: Vec::new(),
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

    /// Adds the first sequence of the parameters.
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
        let mut record = Record::new(params)?;
        record.plan.check_vocabulary(self.rows.capacity.vocabulary)?;
        record.sequence.logprobs = self.rows.capacity.admit("logprobs", record.sequence.logprobs)?;
        let of_prompt = entries(params.prompt_logprobs.unwrap_or(0));
        let prompt = Prompt {
            tokens: params.prompt_token_ids.as_slice().into(),
            entries: self.rows.capacity.admit("prompt_logprobs", of_prompt)?,
            is_logits: params.logprobs_mode.is_logits(),
        };
        if count as usize > self.rows.capacity.sequences - self.len() {
            return Err(self.no_room(count as usize));
        }
        self.rows.arrays.make_room(&self.rows.device, &self.rows.capacity, &record.sequence)?;
        let seed = seed(params)?;
        let tables = Tables::before_text(params, &record, self.rows.capacity.vocabulary);
        let text = [&params.prompt_token_ids[..], &params.output_token_ids].concat();
        let mut ids = Vec::new();
        for sequence in 0..count {
            let record =
                Record { sequence: Sequence { seed, sequence, ..record.sequence }, ..record.clone() };
            match self.insert(&record, &tables, &text, &prompt) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    ids.into_iter().for_each(|id| _ = self.remove(id));
                    return Err(error);
                }
            }
        }
        Ok(ids)
    }

    /// Adds a sequence with such a text.
    fn insert(
        &mut self,
        record: &Record,
        tables: &Tables,
        text: &[u32],
        prompt: &Prompt,
    ) -> Result<SequenceId, CudaError> {
        let sequence = record.sequence;
        let written = sequence.position as usize;
        let keeps_text = record.reads_text || record.has(EditKind::Penalties);
        let words = tables.words.len() + tables.left_open;
        let needed = [
            (words > 0).then_some(size_of::<u32>() * words),
            keeps_text.then(|| bytes_of_text(text.len())),
            (sequence.mirostat != 0).then(|| bytes_of_mus(written)),
        ];
        let [tables_memory, text_memory, mus_memory] = self.pool.take_all(needed)?;
        let mut member = Member {
            record: tables.point(&sequence, tables_memory.as_ref().map_or(0, |block| block.address)),
            masks: record.masks,
            position: sequence.position,
            written: sequence.position,
            most: sequence.position,
            last_call: 0,
            prompt: prompt.clone(),
            path: Path::default(),
            changed: None,
            tables: None,
            text: None,
            mus: None,
            bans: None,
            touched: None,
        };
        if let Some(block) = &tables_memory {
            self.pending.copy(block.address, &tables.words);
        }
        member.tables = tables_memory;
        if let Some(block) = text_memory {
            self.pending.copy(block.address, text);
            member.set_text(block);
        }
        if let Some(block) = mus_memory {
            // Before the first draw it stands where it begins.
            self.pending.copy(block.address, &vec![sequence.mu; written + 1]);
            member.set_mus(block);
        }
        // Slots are numbered from 0 on without gaps, so the next one is below the capacity if there is room.
        let slot = self.members.next_slot() as usize * size_of::<Sequence>();
        self.pending.copy(self.rows.arrays.sequences.address() + slot as u64, &[member.record]);
        let is_counted = member.record.counts != 0;
        let id = self.members.insert(member);
        if is_counted {
            self.change(id, |changed| changed.is_new = true);
        }
        Ok(id)
    }

    /// The error of adding so many more.
    fn no_room(&self, more: usize) -> CudaError {
        let (given, capacity) = (self.len() + more, self.rows.capacity.sequences);
        CudaError::TooMany { what: "sequences", given, capacity }
    }

    /// Removes a sequence; returns whether it was there. A launch that has not ended may still draw for it.
    pub fn remove(&mut self, id: SequenceId) -> bool {
        let Some(member) = self.members.remove(id) else { return false };
        // What is written there next comes after all that was launched, in the stream's order.
        member.into_blocks().for_each(|block| self.pool.give(block));
        true
    }

    /// A sequence's seed, if it is there: the one given, or the one drawn from the system.
    pub fn seed(&self, id: SequenceId) -> Option<u64> {
        self.members.get(id).map(|member| member.record.seed)
    }

    /// Changes a sequence's seed for the draws of turns that are prepared from now on.
    pub fn set_seed(&mut self, id: SequenceId, seed: u64) -> Result<(), CudaError> {
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        member.record.seed = seed;
        self.change(id, |_| {});
        Ok(())
    }

    /// Appends tokens that were chosen elsewhere to their sequences. A sequence may have several, first to
    /// last. If a sequence is unknown, an id is no token, or there is no memory for a longer text, it is an error
    /// and nothing is appended. Mirostat learns nothing from them.
    pub fn accept<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        tokens: &[(SequenceId, u32)],
    ) -> Result<(), CudaError> {
        let tokens = tokens.iter().map(|&(id, token)| Accepted { id, token, mu: None }).collect();
        self.accept_all(self.rows.device.admit(stream)?, tokens)
    }

    /// As [`Batch::accept`], with what mirostat learned from the tokens: those of a verdict, or those that
    /// [`Batch::peek_on`] drew at the next positions.
    pub fn accept_sampled<'a, 's>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        sampled: impl IntoIterator<Item = (SequenceId, &'s Sampled)>,
    ) -> Result<(), CudaError> {
        let of = |(id, sampled): (_, &Sampled)| {
            let Sampled { token, mirostat_mu: mu, .. } = *sampled;
            Accepted { id, token, mu }
        };
        self.accept_all(self.rows.device.admit(stream)?, sampled.into_iter().map(of).collect())
    }

    fn accept_all(&mut self, stream: Stream<'_>, tokens: Vec<Accepted>) -> Result<(), CudaError> {
        let vocabulary = self.rows.capacity.vocabulary;
        for &Accepted { id, token, .. } in &tokens {
            self.members.get(id).ok_or(RowError::UnknownSequence)?;
            if token as usize >= vocabulary {
                return Err(
                    RowError::OutsideVocabulary { field: "output_token_ids", token, vocabulary }.into()
                );
            }
        }
        for accepted in &tokens {
            self.make_room(accepted.id)?;
        }
        self.send_pending(stream)?;
        let mut rest = tokens;
        while !rest.is_empty() {
            rest = self.append(stream, &rest)?;
        }
        Ok(())
    }

    /// Appends the first token of each sequence, and returns the others.
    fn append(&mut self, stream: Stream<'_>, tokens: &[Accepted]) -> Result<Vec<Accepted>, CudaError> {
        self.calls += 1;
        let (mut ids, mut tasks, mut outcomes, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut reports = Vec::new();
        for &accepted in tokens {
            let Accepted { id, token, mu } = accepted;
            let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
            if member.last_call == self.calls {
                rest.push(accepted);
                continue;
            }
            member.last_call = self.calls;
            ids.push(id);
            tasks.push(Task { slot: id.slot(), ..Task::default() });
            outcomes.push(Outcome { token, status: Outcome::DRAWN });
            reports.push(Report { mu: mu.unwrap_or(f64::NAN), ..Report::default() });
        }
        let is_learned = reports.iter().any(|report| !report.mu.is_nan());
        self.accepted.0.post(stream, &tasks)?;
        self.accepted.1.post(stream, &outcomes)?;
        if is_learned {
            self.accepted.2.post(stream, &reports)?;
        }
        let arguments = StepArguments {
            sequences: self.rows.arrays.sequences.address(),
            tasks: self.accepted.0.address(),
            results: self.accepted.1.address(),
            reports: if is_learned { self.accepted.2.address() } else { 0 },
            rows: tasks.len() as u32,
            vocabulary: self.rows.capacity.vocabulary as u32,
            ..bytemuck::Zeroable::zeroed()
        };
        // SAFETY: the inboxes hold that many rows, and the slots are those of members.
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
            member.written = member.written.wrapping_add(1);
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
