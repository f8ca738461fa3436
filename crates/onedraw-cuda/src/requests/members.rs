//! Which request has which slot, and its memory.

use onedraw::{ParamError, SamplingParams};

use super::names::{Learned, Named, Names};
use crate::device::Device;
use crate::error::CudaError;
use crate::memory::{Block, Pool, Staging, bytes_of_text};
use crate::record::chain::Record;
use crate::record::layout::{Sequence, Task, TurnRecord};
use crate::record::tables::Tables;
use crate::rows::{Capacity, Rows};
use crate::stream::Stream;

/// Requests of an engine that keeps their texts on the device, by slots that the engine gives out and uses
/// again. A request follows its text there, draws, and moves on by what it drew, and the host never waits: the
/// tokens stay on the device too. A row's token is the one that [`onedraw::Batch`] draws.
///
/// The engine may take a request away and add it again later, in any slot, with the text that it has by then: it
/// goes on as if it had never been away. It is known by its name until the engine says that it has ended
/// ([`Requests::forget`]).
///
/// Everything happens in the order of one stream. An engine that uses several must order them.
#[derive(Debug)]
pub struct Requests {
    pub(super) members: Vec<Option<Member>>,
    names: Names,
    /// The most tokens of a text.
    pub(super) longest: usize,
    /// The memory of requests. That of a request that is gone may be written at once: in the stream's order, its
    /// steps come before.
    pool: Pool,
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
    name: String,
    pub record: Sequence,
    pub takes_best: bool,
    /// Whether it has still to follow its text.
    pub is_new: bool,
    /// The last step that it took part in.
    pub last_step: u64,
    /// What the parameters list, and the text, if an edit reads it.
    memory: [Option<Block>; 2],
}

impl Requests {
    /// Room for so many slots (`sequences`) and rows. The engine's texts have at most `longest` tokens, prompt and
    /// output together. It is an error if the device cannot have so much.
    pub fn new(device: &Device, capacity: Capacity, longest: usize) -> Result<Self, CudaError> {
        let context = device.context();
        Ok(Self {
            members: (0..capacity.sequences).map(|_| None).collect(),
            names: Names::new(),
            longest,
            pool: Pool::new(context),
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

    /// Takes the memory now that rows of requests with such parameters share. Without this, the first of these requests
    /// takes it in [`Requests::add`], where it may be missing by then.
    pub fn reserve(&mut self, params: &SamplingParams) -> Result<(), CudaError> {
        let mut sequence = Record::new(params)?.sequence;
        sequence.logprobs = self.rows.capacity.admit("logprobs", sequence.logprobs)?;
        self.rows.arrays.make_room(&self.rows.device, &self.rows.capacity, &sequence)
    }

    /// Puts a request into a slot, in the place of one that may be there. Its text is where the engine keeps it, and
    /// it is read in the request's next step: the first `prompt` tokens are the prompt. With `takes_best`, every row
    /// takes the first token of the order, and not the one that is drawn; the parameters must ask for a logprob.
    ///
    /// A request of the same name, prompt length and parameters as an earlier one is that request, which comes back; it
    /// leaves the slot that it had.
    ///
    /// A parameter that cannot be used is an error, and so are a device without memory for this request and a copy
    /// that fails. Then the slot is empty, and the other requests go on. A request that was to come back can be added
    /// again, and goes on where it was.
    pub fn add<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        slot: usize,
        name: &str,
        params: &SamplingParams,
        prompt: u32,
        takes_best: bool,
    ) -> Result<(), CudaError> {
        let stream = self.rows.device.admit(stream)?;
        let (given, capacity) = (slot.saturating_add(1), self.members.len());
        if given > capacity {
            return Err(CudaError::TooMany { what: "sequences", given, capacity });
        }
        self.vacate(slot);
        if let Some(before) = self.names.get(name).and_then(|named| named.slot) {
            self.vacate(before);
        }
        let (given, capacity) = (prompt as usize, self.longest);
        if given > capacity {
            return Err(CudaError::TooMany { what: "tokens of a text", given, capacity });
        }
        let record = self.checked(params, takes_best)?;
        self.rows.arrays.make_room(&self.rows.device, &self.rows.capacity, &record.sequence)?;
        let tables = Tables::before_text(params, &record, self.rows.capacity.vocabulary);
        let sequence = Sequence { prompt, length: prompt, ..record.sequence };
        let known = self.names.get(name).and_then(|named| named.learned.as_ref());
        let is_back = known.is_some_and(|learned| learned.is_of(&sequence));
        let words = tables.words.len() + tables.left_open;
        let [of_tables, of_text, of_mus] = self.pool.take_all([
            (words > 0).then_some(size_of::<u32>() * words),
            record.reads_text.then(|| bytes_of_text(self.longest)),
            (Learned::is_needed(&sequence) && !is_back).then(|| Learned::bytes(self.longest, prompt)),
        ])?;
        let address = of_tables.as_ref().map_or(0, |block| block.address);
        let mut record = tables.point(&sequence, address);
        if let Some(block) = &of_text {
            record.history = block.address;
            record.room = u32::try_from(block.bytes / size_of::<u32>()).unwrap_or(u32::MAX);
        }
        let begun = if is_back { None } else { self.begin_to_learn(name, &record, of_mus) };
        let named = self.names.entry(name.to_owned()).or_default();
        named.slot = Some(slot);
        if let Some(learned) = &named.learned {
            record = learned.point(record);
        }
        let (is_new, memory) = (true, [of_tables, of_text]);
        let member = Member { name: name.to_owned(), record, takes_best, is_new, last_step: 0, memory };
        self.members[slot] = Some(member);
        let sent = self.send(stream, slot, (address, &tables.words), begun);
        if sent.is_err() {
            // Nobody knows how much of it is there. What one that comes back has learned was there before.
            if is_back {
                self.vacate(slot);
            } else {
                self.forget(name);
            }
        }
        sent
    }

    /// Lets a request learn in that memory, or not at all, and gives back what one of its name has learned before.
    /// Returns what the memory begins with, and where it is.
    fn begin_to_learn(
        &mut self,
        name: &str,
        record: &Sequence,
        memory: Option<Block>,
    ) -> Option<(u64, [u64; 2])> {
        let learned = memory.map(|memory| Learned::new(memory, record));
        let begun = learned.as_ref().map(|learned| (learned.address(), Learned::beginning(record)));
        let named = self.names.entry(name.to_owned()).or_default();
        let unused = std::mem::replace(&mut named.learned, learned);
        unused.into_iter().for_each(|learned| self.pool.give(learned.into_memory()));
        begun
    }

    /// Copies what is new of the request in a slot to the device.
    fn send(
        &mut self,
        stream: Stream<'_>,
        slot: usize,
        tables: (u64, &[u32]),
        begun: Option<(u64, [u64; 2])>,
    ) -> Result<(), CudaError> {
        let Some(member) = &self.members[slot] else { return Ok(()) };
        // SAFETY: the blocks are as large as what is copied there, and memory as long as the pool.
        #[allow(unsafe_code)]
        unsafe {
            self.staging.send(stream, tables.0, bytemuck::cast_slice(tables.1))?;
            if let Some((address, numbers)) = begun {
                self.staging.send(stream, address, bytemuck::cast_slice(&numbers))?;
            }
        }
        self.rows.arrays.sequences.send(stream, &mut self.staging, slot, &[member.record])
    }

    /// Forgets a request that has ended: its slot is empty, and its memory is used for others. It does nothing if
    /// there is no request of that name.
    pub fn forget(&mut self, name: &str) {
        if let Some(slot) = self.names.get(name).and_then(|named| named.slot) {
            self.vacate(slot);
        }
        let learned = self.names.remove(name).and_then(|named| named.learned);
        learned.into_iter().for_each(|learned| self.pool.give(learned.into_memory()));
    }

    /// Empties a slot. Its request may come back.
    fn vacate(&mut self, slot: usize) {
        let Some(member) = self.members[slot].take() else { return };
        member.memory.into_iter().flatten().for_each(|block| self.pool.give(block));
        match self.names.get_mut(&member.name) {
            Some(named @ Named { learned: Some(_), .. }) => named.slot = None,
            // All that there is to know of it is its text.
            _ => _ = self.names.remove(&member.name),
        }
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
