//! Which request has which slot, and its memory.

use onedraw::{ParamError, SamplingParams};

use crate::device::Device;
use crate::error::CudaError;
use crate::memory::{Array, Staging};
use crate::record::chain::Record;
use crate::record::layout::{Sequence, Task, TurnRecord};
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
    /// Memory of earlier requests.
    spare: Vec<Array<u32>>,
    staging: Staging,
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
    memory: Option<Array<u32>>,
}

impl Requests {
    /// Room for so many slots (`sequences`) and rows. It is an error if the device cannot have so much.
    pub fn new(device: &Device, capacity: Capacity) -> Result<Self, CudaError> {
        let context = device.context();
        Ok(Self {
            members: (0..capacity.sequences).map(|_| None).collect(),
            spare: Vec::new(),
            staging: Staging::new(context, size_of::<Sequence>())?,
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
        self.spare.extend(place.take().and_then(|member| member.memory));
        let record = self.checked(params, takes_best)?;
        let tables = Tables::before_text(params, &record, self.rows.capacity.vocabulary);
        let memory = self.memory(tables.words.len() + tables.left_open)?;
        let address = memory.as_ref().map_or(0, Array::address);
        let record = Sequence { prompt, ..tables.point(&record.sequence, address) };
        let stream = stream.into();
        if let Some(memory) = &memory {
            memory.send(stream, &mut self.staging, 0, &tables.words)?;
        }
        self.rows.arrays.sequences.send(stream, &mut self.staging, slot, &[record])?;
        self.members[slot] = Some(Member { record, takes_best, is_new: true, last_step: 0, memory });
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
        let (asked, capacity) = (record.sequence.logprobs as usize, self.rows.capacity.width());
        if asked > capacity {
            return Err(CudaError::TooMany { what: "logprobs", given: asked - 1, capacity: capacity - 1 });
        }
        if takes_best && asked < 2 {
            return Err(ParamError::new("logprobs", "must list the best token, which is to be taken").into());
        }
        record.sequence.seed = seed;
        Ok(record)
    }

    /// Memory of so many words: that of an earlier request, if it is large enough and not much larger. It may be
    /// written at once: in the stream's order, the steps of the earlier request come before.
    fn memory(&mut self, words: usize) -> Result<Option<Array<u32>>, CudaError> {
        if words == 0 {
            return Ok(None);
        }
        let room = words.next_power_of_two();
        match self.spare.iter().position(|spare| spare.len() == room) {
            Some(place) => Ok(Some(self.spare.swap_remove(place))),
            None => Array::uninitialised(self.rows.device.context(), room).map(Some),
        }
    }
}
