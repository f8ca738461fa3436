//! A sequence on a device that holds one shard of every row of it.
#![allow(unsafe_code)]

use cudarc::driver::result;
use onedraw::noise::Noise;
use onedraw::query::ListBand;
use onedraw::{ParamError, RowError, SamplingParams};

use super::arguments::{AskArguments, MAX_THREAD_BLOCKS};
use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::CudaError;
use crate::kernel::Kernel;
use crate::launch;
use crate::matrix::Mask;
use crate::memory::Array;
use crate::record::chain::{Masks, Record};
use crate::record::layout::{EditKind, Outcome, Sequence, StepArguments, Task};
use crate::record::shared::{ANSWER_WORDS, ASK_THREADS, MAX_BINS};
use crate::record::tables::Tables;
use crate::stream::Stream;

/// Keys that there is room for at first: one more than a draw takes of a band, so that it sees when there are
/// too many.
const FIRST_KEY_CAPACITY: usize = ListBand::MAX_KEYS + 1;
/// Where the words of an answer lie: first the number of keys that were found, then what each thread block
/// answers, then the bins.
const ANSWERS: usize = 1;
pub(super) const FIRST_BIN: usize = ANSWERS + MAX_THREAD_BLOCKS * ANSWER_WORDS;

/// A sequence on a device that holds one part of every row of it.
#[derive(Debug)]
pub struct Shard {
    pub(super) device: Device,
    pub(super) vocabulary: usize,
    record: Sequence,
    masks: Masks,
    /// The tokens written so far.
    position: u32,
    sequence: Array<Sequence>,
    /// The memory behind the sequence's addresses.
    _tables: Option<Array<u32>>,
    task: Array<Task>,
    accepted: Array<Outcome>,
    /// An answer: see [`ANSWERS`].
    words: Array<u64>,
    keys: Array<u64>,
    key_capacity: usize,
    /// What was last read of `words`.
    pub(super) read: Vec<u64>,
}

impl Shard {
    /// The first sequence of the parameters, over rows of `vocabulary` logits, of which the device holds a
    /// part. All shards and the host that asks them need the same seed, so it must be given, unless the draw
    /// is greedy. What the device cannot do is [`CudaError::Unsupported`], as [`check`](crate::check) says
    /// it.
    pub fn new(device: &Device, params: &SamplingParams, vocabulary: usize) -> Result<Self, CudaError> {
        Self::number(device, params, 0, vocabulary)
    }

    /// All `n` sequences of the parameters.
    pub fn sequences(
        device: &Device,
        params: &SamplingParams,
        vocabulary: usize,
    ) -> Result<Vec<Self>, CudaError> {
        (0..params.n).map(|sequence| Self::number(device, params, sequence, vocabulary)).collect()
    }

    pub(super) fn number(
        device: &Device,
        params: &SamplingParams,
        sequence: u32,
        vocabulary: usize,
    ) -> Result<Self, CudaError> {
        let record = Record::new(params)?;
        record.plan.check_vocabulary(vocabulary)?;
        if params.seed.is_none() && !record.plan.is_greedy() {
            return Err(ParamError::new("seed", "all shards of a row need the same one: give it").into());
        }
        let (context, uploads) = (device.context(), device.uploads());
        let tables = Tables::new(params, &record, vocabulary);
        let memory = match tables.words.len() {
            0 => None,
            words => Some(Array::uninitialised(context, words)?),
        };
        if let Some(memory) = &memory {
            memory.write(uploads, 0, &tables.words)?;
        }
        let address = memory.as_ref().map_or(0, Array::address);
        let masks = record.masks;
        let record = Sequence { sequence, ..tables.point(&record.sequence, address) };
        let on_device = Array::uninitialised(context, 1)?;
        on_device.write(uploads, 0, &[record])?;
        Ok(Self {
            device: device.clone(),
            vocabulary,
            record,
            masks,
            position: record.position,
            sequence: on_device,
            _tables: memory,
            task: Array::filled(context, 1, 0)?,
            accepted: Array::filled(context, 1, 0)?,
            words: Array::filled(context, FIRST_BIN + MAX_BINS, 0)?,
            keys: Array::uninitialised(context, FIRST_KEY_CAPACITY)?,
            key_capacity: FIRST_KEY_CAPACITY,
            read: Vec::new(),
        })
    }

    /// The noise of a draw `ahead` positions after the next, which names it in messages; of a greedy draw,
    /// without the seed.
    pub(super) fn noise(&self, ahead: u32) -> Noise {
        let Sequence { seed, sequence, is_greedy, .. } = self.record;
        let seed = if is_greedy == 0 { seed } else { 0 };
        Noise { seed, position: self.position.wrapping_add(ahead), sequence, round: 0 }
    }

    /// Where the sequence lies on the device.
    pub(super) fn address(&self) -> u64 {
        self.sequence.address()
    }

    /// Counts a token that somebody else appends on the device.
    pub(super) fn move_on(&mut self) {
        self.position += 1;
    }

    /// Checks that rows may come with a mask, and that this one reaches to id `end`.
    pub(super) fn admit(&self, mask: Mask, end: usize) -> Result<(), CudaError> {
        if mask.ordinal != self.device.ordinal() {
            return Err(CudaError::NotOnDevice { address: mask.address });
        }
        let (words, needed) = (mask.words, end.div_ceil(32));
        match self.masks {
            _ if words < needed => Err(RowError::MaskTooShort { words, needed }.into()),
            Masks::Taken => Ok(()),
            Masks::Unnamed => Err(RowError::MaskWithoutStage.into()),
            Masks::TooLate => Err(CudaError::unsupported("a mask after a temperature or a truncation")),
        }
    }

    /// Appends the drawn token, whichever shard holds it.
    pub fn accept(&mut self, token: u32) -> Result<(), CudaError> {
        let vocabulary = self.vocabulary;
        if token as usize >= vocabulary {
            return Err(RowError::OutsideVocabulary { field: "output_token_ids", token, vocabulary }.into());
        }
        let stream = Stream::default();
        self.accepted.write(stream, 0, &[Outcome { token, status: Outcome::DRAWN }])?;
        let arguments = StepArguments {
            sequences: self.sequence.address(),
            tasks: self.task.address(),
            results: self.accepted.address(),
            rows: 1,
            vocabulary: vocabulary as u32,
            ..bytemuck::Zeroable::zeroed()
        };
        // SAFETY: the task names the one sequence, which has tables for every token of the vocabulary.
        unsafe { self.device.launch(stream, Kernel::Append, launch::append(1), &arguments) }?;
        self.position += 1;
        Ok(())
    }

    /// Asks the kernel, waits, and returns the merged words of its thread blocks. The number of keys that
    /// were found is `read[0]`; the bins, if there are any, are `read[FIRST_BIN..]`.
    pub(super) fn answer(
        &mut self,
        dtype: Dtype,
        ask: &AskArguments,
    ) -> Result<[u64; ANSWER_WORDS], CudaError> {
        let stream = Stream::default();
        let (blocks, bins) = (ask.thread_blocks(), ask.bin_count as usize);
        let address = |word: usize| self.words.address() + (word * size_of::<u64>()) as u64;
        let mut ask = AskArguments {
            sequence: self.sequence.address(),
            key_count: address(0),
            answers: address(ANSWERS),
            bins: address(FIRST_BIN),
            keys: self.keys.address(),
            key_capacity: self.key_capacity as u32,
            ..*ask
        };
        self.device.context().bind_to_thread().map_err(CudaError::launch)?;
        let bytes = size_of::<u64>() * if bins > 0 { FIRST_BIN + bins } else { ANSWERS };
        // SAFETY: `words` is longer than what is set. The kernel takes this one struct, which the driver
        // copies before it returns. The part of the row and the mask are borrowed as long as the `ShardRow`,
        // the rest is ours and as large as the kernel is told. What the kernel does is waited for below.
        unsafe {
            result::memset_d8_async(self.words.address(), 0, bytes, stream.raw())
                .map_err(CudaError::launch)?;
            let (grid, threads) = ((blocks as u32, 1, 1), (ASK_THREADS, 1, 1));
            let parameters = &mut [(&raw mut ask).cast()];
            result::launch_kernel(self.device.ask(dtype), grid, threads, 0, stream.raw(), parameters)
                .map_err(CudaError::launch)?;
        }
        let words = if bins > 0 { FIRST_BIN + bins } else { ANSWERS + blocks * ANSWER_WORDS };
        self.read.resize(words, 0);
        self.words.read(stream, 0, &mut self.read)?;
        Ok(ask.merged(&self.read[ANSWERS..ANSWERS + blocks * ANSWER_WORDS]))
    }

    /// The keys that the last question listed, as many as there was room for.
    pub(super) fn listed(&mut self) -> Result<Vec<u64>, CudaError> {
        let count = self.read.first().map_or(0, |&count| count as usize);
        let mut keys = vec![0; count.min(self.key_capacity)];
        self.keys.read(Stream::default(), 0, &mut keys)?;
        Ok(keys)
    }

    /// Makes room for all keys that the last question found; returns whether there was too little.
    pub(super) fn grow(&mut self) -> Result<bool, CudaError> {
        let count = self.read.first().map_or(0, |&count| count as usize);
        if count <= self.key_capacity {
            return Ok(false);
        }
        self.keys = Array::uninitialised(self.device.context(), count)?;
        self.key_capacity = count;
        Ok(true)
    }

    /// Where the library's chain has edit number `index` of the record, −1 for none. Its first edit is the
    /// ban of tokens that were taken back, and its edit of allowed tokens is there only if there is a list or
    /// a mask.
    pub(super) fn library_edit(&self, index: i32, has_mask: bool) -> i32 {
        let Ok(index) = usize::try_from(index) else { return -1 };
        let is_idle = |edit: u32| edit == EditKind::Allowed as u32 && !has_mask && self.record.allowed == 0;
        1 + self.record.edit.iter().take(index).filter(|&&edit| !is_idle(edit)).count() as i32
    }
}
