//! A sequence on a device that holds one shard of every row of it.
#![allow(unsafe_code)]

use std::mem::offset_of;

use cudarc::driver::result;
use onedraw::noise::Noise;
use onedraw::query::ListBand;
use onedraw::{ParamError, RowError, SamplingParams};

use super::arguments::{AskArguments, MAX_THREAD_BLOCKS};
use super::desks::Desks;
use super::repeats::Repeats;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::CudaError;
use crate::kernel::Kernel;
use crate::launch;
use crate::matrix::Mask;
use crate::memory::{Array, bytes_of_text};
use crate::record::chain::{Masks, Record};
use crate::record::layout::{Outcome, Sequence, StepArguments, Task};
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

/// How often a sequence's text was taken back because of what was drawn, and the tokens that it bans next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TakenBack {
    pub round: u32,
    pub banned: Vec<u32>,
}

/// A sequence on a device that holds one part of every row of it.
#[derive(Debug)]
pub struct Shard {
    pub(super) device: Device,
    pub(super) vocabulary: usize,
    pub(super) record: Record,
    /// The tokens written so far.
    position: u32,
    sequence: Array<Sequence>,
    /// The memory behind the sequence's addresses.
    _tables: Option<Array<u32>>,
    /// The text, if an edit reads it.
    text: Option<Array<u32>>,
    /// What the text repeats, if an edit asks for it.
    pub(super) repeats: Option<Repeats>,
    /// Where changed rows lie.
    pub(super) desks: Desks,
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
    /// is greedy. A user's own stages, logprobs and what else the host does are none of the device's: they are
    /// not refused.
    pub fn new(device: &Device, params: &SamplingParams, vocabulary: usize) -> Result<Self, CudaError> {
        Self::number(device, params, 0, vocabulary, &Desks::default())
    }

    /// All `n` sequences of the parameters.
    pub fn sequences(
        device: &Device,
        params: &SamplingParams,
        vocabulary: usize,
    ) -> Result<Vec<Self>, CudaError> {
        let desks = Desks::default();
        let number = |sequence| Self::number(device, params, sequence, vocabulary, &desks);
        (0..params.n).map(number).collect()
    }

    pub(super) fn number(
        device: &Device,
        params: &SamplingParams,
        sequence: u32,
        vocabulary: usize,
        desks: &Desks,
    ) -> Result<Self, CudaError> {
        Self::standing(device, params, sequence, TakenBack::default(), vocabulary, desks)
    }

    /// The same, after text was taken back.
    pub(super) fn standing(
        device: &Device,
        params: &SamplingParams,
        sequence: u32,
        taken_back: TakenBack,
        vocabulary: usize,
        desks: &Desks,
    ) -> Result<Self, CudaError> {
        let mut record = Record::of_part(params)?;
        (record.sequence.round, record.banned) = (taken_back.round, taken_back.banned);
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
        let text = [&params.prompt_token_ids[..], &params.output_token_ids].concat();
        let text = match record.reads_text {
            true => Some(text_with_room(device, &text, text.len())?),
            false => None,
        };
        let (history, room) = text.as_ref().map_or((0, 0), |text| (text.address(), text.len() as u32));
        record.sequence = Sequence { sequence, history, room, ..tables.point(&record.sequence, address) };
        let on_device = Array::uninitialised(context, 1)?;
        on_device.write(uploads, 0, &[record.sequence])?;
        let repeats = match record.sequence.has_repeats() {
            true => Some(Repeats::new(device, on_device.address(), vocabulary)?),
            false => None,
        };
        Ok(Self {
            device: device.clone(),
            vocabulary,
            position: record.sequence.position,
            record,
            sequence: on_device,
            _tables: memory,
            text,
            repeats,
            desks: desks.clone(),
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
        let Sequence { seed, sequence, round, is_greedy, .. } = self.record.sequence;
        let seed = if is_greedy == 0 { seed } else { 0 };
        Noise { seed, position: self.position.wrapping_add(ahead), sequence, round }
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
        match self.record.masks {
            _ if words < needed => Err(RowError::MaskTooShort { words, needed }.into()),
            Masks::Early | Masks::Late => Ok(()),
            Masks::Unnamed => Err(RowError::MaskWithoutStage.into()),
        }
    }

    /// Makes room for so many more tokens. If the text must move, it waits for the device.
    pub(super) fn make_room(&mut self, tokens: usize) -> Result<(), CudaError> {
        let length = self.record.sequence.prompt as usize + self.position as usize;
        let Some(text) = self.text.as_ref().filter(|text| length + tokens > text.len()) else {
            return Ok(());
        };
        self.device.synchronize()?;
        let mut old = vec![0; length.min(text.len())];
        text.read(self.device.uploads(), 0, &mut old)?;
        let larger = text_with_room(&self.device, &old, length + tokens)?;
        (self.record.sequence.history, self.record.sequence.room) = (larger.address(), larger.len() as u32);
        for (place, bytes) in [
            (offset_of!(Sequence, history), bytemuck::bytes_of(&self.record.sequence.history)),
            (offset_of!(Sequence, room), bytemuck::bytes_of(&self.record.sequence.room)),
        ] {
            self.sequence.write_bytes(self.device.uploads(), place, bytes)?;
        }
        self.text = Some(larger);
        Ok(())
    }

    /// Appends the drawn token, whichever shard holds it.
    pub fn accept(&mut self, token: u32) -> Result<(), CudaError> {
        let vocabulary = self.vocabulary;
        if token as usize >= vocabulary {
            return Err(RowError::OutsideVocabulary { field: "output_token_ids", token, vocabulary }.into());
        }
        self.make_room(1)?;
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
            repeats: self.repeats.as_ref().map_or(0, Repeats::address),
            key_count: address(0),
            answers: address(ANSWERS),
            bins: address(FIRST_BIN),
            keys: self.keys.address(),
            key_capacity: self.key_capacity as u32,
            ..*ask
        };
        self.device.context().bind_to_thread().map_err(CudaError::launch)?;
        let bytes = size_of::<u64>() * if bins > 0 { FIRST_BIN + bins } else { ANSWERS };
        // SAFETY: `words` is longer than what is set. The kernel takes this one struct, which the driver copies
        // before it returns. The part of the row and the mask are borrowed as long as the row, which has a desk for
        // as many tokens if the question writes or reads one; the rest is ours and as large as the kernel is told.
        // What the kernel does is waited for below.
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
}

/// Memory of a text, with room for at least so many tokens.
fn text_with_room(device: &Device, text: &[u32], tokens: usize) -> Result<Array<u32>, CudaError> {
    let memory = Array::uninitialised(device.context(), bytes_of_text(tokens) / size_of::<u32>())?;
    memory.write(device.uploads(), 0, text)?;
    Ok(memory)
}
