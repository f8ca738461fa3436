//! Which request has which slot, and its memory.

use onedraw::{ParamError, SamplingParams};

use crate::device::Device;
use crate::error::CudaError;
use crate::memory::{Block, Inbox, Pool, Staging};
use crate::record::chain::Record;
use crate::record::layout::{Revision, Sequence, Task, TurnRecord};
use crate::record::tables::Tables;
use crate::rows::{Capacity, Rows};
use crate::stream::Stream;

/// Requests of an engine that keeps their texts on the device, by slots that the engine gives out and uses
/// again. A request follows its text there, draws, and moves on by what it drew, and the host never waits: the
/// tokens stay on the device too. A row's token is the one that [`onedraw::Batch`] draws.
///
/// Everything happens in the order of one stream. An engine that uses several must order them.
#[derive(Debug)]
pub struct Requests {
    pub(super) members: Vec<Option<Member>>,
    /// The memory of requests. That of a request that is gone may be written at once: in the stream's order, its
    /// steps come before.
    pub(super) pool: Pool,
    staging: Staging,
    /// Requests whose texts get room.
    pub(super) changes: Inbox<Revision>,
    /// The number of steps so far.
    pub(super) steps: u64,
    /// Memory in which the tasks and turns of a step are made.
    pub(super) next: (Vec<Task>, Vec<TurnRecord>),
    /// Dropped last, because it holds the device.
    pub(super) rows: Rows,
}

/// A request.
#[derive(Debug)]
pub(super) struct Member {
    pub record: Sequence,
    pub takes_best: bool,
    /// Whether it has still to follow its text.
    pub is_new: bool,
    /// The last step that it took part in.
    pub last_step: u64,
    /// Whether an edit reads its text, so that the device keeps it.
    pub reads_text: bool,
    /// The most tokens that its text may have; 0 before the first step.
    pub most: usize,
    pub text: Option<Block>,
    tables: Option<Block>,
}

impl Requests {
    /// Room for so many slots (`sequences`) and rows. It is an error if the device cannot have so much.
    pub fn new(device: &Device, capacity: Capacity) -> Result<Self, CudaError> {
        let context = device.context();
        Ok(Self {
            members: (0..capacity.sequences).map(|_| None).collect(),
            pool: Pool::new(context),
            staging: Staging::new(context, size_of::<Sequence>())?,
            changes: Inbox::new(context, capacity.sequences)?,
            steps: 0,
            next: Default::default(),
            rows: Rows::with_turns(device, capacity)?,
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

    /// Whether a slot has a request.
    pub fn has(&self, slot: usize) -> bool {
        self.members.get(slot).is_some_and(Option::is_some)
    }

    /// Puts a request into a slot, in the place of one that may be there. Its text is where the engine keeps it, and it is
    /// read in the request's next step: the first `prompt` tokens are the prompt. With `takes_best`, every row
    /// takes the first token of the order, and not the one that is drawn; the parameters must ask for a
    /// logprob.
    ///
    /// A parameter that the device does not know is an error, and then the slot is empty.
    pub fn add<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        slot: usize,
        params: &SamplingParams,
        prompt: u32,
        takes_best: bool,
    ) -> Result<(), CudaError> {
        let (given, capacity) = (slot + 1, self.members.len());
        let place = self.members.get_mut(slot);
        let place = place.ok_or(CudaError::TooMany { what: "sequences", given, capacity })?;
        if let Some(member) = place.take() {
            [member.tables, member.text].into_iter().flatten().for_each(|block| self.pool.give(block));
        }
        let record = self.checked(params, takes_best)?;
        self.rows.arrays.make_room(&self.rows.device, &self.rows.capacity, &record.sequence)?;
        let tables = Tables::before_text(params, &record, self.rows.capacity.vocabulary);
        let reads_text = record.reads_text;
        let memory = match tables.words.len() + tables.left_open {
            0 => None,
            words => Some(self.pool.take(size_of::<u32>() * words)?),
        };
        let address = memory.as_ref().map_or(0, |block| block.address);
        let record = Sequence { prompt, length: prompt, ..tables.point(&record.sequence, address) };
        let stream = stream.into();
        // SAFETY: the block is as large as the tables, and memory as long as the pool.
        #[allow(unsafe_code)]
        unsafe {
            self.staging.send(stream, address, bytemuck::cast_slice(&tables.words))?
        };
        self.rows.arrays.sequences.send(stream, &mut self.staging, slot, &[record])?;
        let (is_new, tables) = (true, memory);
        let member =
            Member { record, takes_best, is_new, last_step: 0, reads_text, most: 0, text: None, tables };
        self.members[slot] = Some(member);
        Ok(())
    }

    /// The record of parameters that a request may have.
    fn checked(&self, params: &SamplingParams, takes_best: bool) -> Result<Record, CudaError> {
        for (field, given) in
            [("prompt_token_ids", &params.prompt_token_ids), ("output_token_ids", &params.output_token_ids)]
        {
            if !given.is_empty() {
                return Err(ParamError::new(field, "is read where the engine keeps it").into());
            }
        }
        let Some(seed) = params.seed else {
            return Err(ParamError::new("seed", "must be given for a request of an engine").into());
        };
        let mut record = Record::new(params)?;
        record.plan.check_vocabulary(self.rows.capacity.vocabulary)?;
        record.sequence.logprobs = self.rows.capacity.admit("logprobs", record.sequence.logprobs)?;
        if takes_best && record.sequence.logprobs < 2 {
            return Err(ParamError::new("logprobs", "must list the best token, which is to be taken").into());
        }
        record.sequence.seed = seed;
        if takes_best {
            // Mirostat learns from tokens that it has drawn, and takes none here.
            record.sequence.eta = 0.0;
        }
        Ok(record)
    }
}
