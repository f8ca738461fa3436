//! A part of a vocabulary on a device, which answers the questions of a draw over all parts.
//!
//! [`onedraw::Sampler::sample_over`] draws on the host. It asks every rank, and a rank on a device answers with a kernel that goes over its
//! part once and a copy of a few KB. Ranks on devices and on CPUs may be asked together.
//!
//! ```no_run
//! use onedraw::question::{Answers, Question, Reply};
//! use onedraw::{Sampler, SamplingParams};
//! use onedraw_cuda::{Copied, Device, Rank, Shard};
//!
//! /// Ranks of one process; across processes the questions and replies are messages.
//! struct Ranks<'a>(Vec<Rank<'a>>);
//!
//! impl Answers for Ranks<'_> {
//!     fn ask(&mut self, question: &Question, reply: &mut Reply) {
//!         *reply = Reply::default();
//!         for rank in &mut self.0 {
//!             let mut own = Reply::default();
//!             rank.ask(question, &mut own);
//!             reply.absorb(&own);
//!         }
//!     }
//! }
//!
//! let devices = [Device::new(0)?, Device::new(1)?];
//! let params = SamplingParams::builder().top_p(0.9).seed(5).build()?;
//! let parts = [&[0.1_f32, 2.0, 1.5][..], &[-1.0, 1.9, 0.4, 2.2][..]];
//! let logits = [Copied::new(&devices[0], parts[0].into())?, Copied::new(&devices[1], parts[1].into())?];
//! let mut low = Shard::new(&devices[0], &params, 7)?;
//! let mut high = Shard::new(&devices[1], &params, 7)?;
//! let ranks = vec![low.rank(&logits[0].matrix(1, 3, 3)?, 0, None)?, high.rank(&logits[1].matrix(1, 4, 4)?, 3, None)?];
//! let mut ranks = Ranks(ranks);
//! let drawn = Sampler::new(params)?.sample_over(&mut ranks, 7, false)?;
//! assert!(ranks.0.iter().all(|rank| rank.error().is_none()));
//! low.accept(drawn.token)?;
//! high.accept(drawn.token)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![allow(unsafe_code)]

mod answer;
mod asking;

use cudarc::driver::result;
use onedraw::float_mode::Standard;
use onedraw::question::{Answer, Answers, Question, Reply};
use onedraw::{ParamError, RowError, SamplingParams};

use crate::device::{Device, Kernel};
use crate::error::CudaError;
use crate::launch;
use crate::matrix::{Dtype, Mask, Matrix};
use crate::memory::Array;
use crate::record::chain::{Masks, Record};
use crate::record::tables::Tables;
use crate::record::{EditKind, Outcome, Sequence, Step, Task};
use crate::stream::Stream;
use asking::{ANSWERED, Ask, BINS, MOST_BLOCKS, THREADS};

/// Keys that there is room for at first: one more than an asker takes of a band.
const ROOM: usize = 16_385;
/// Where the words of an answer lie: how many keys were listed, what blocks of threads say, and the bins.
const ANSWERS: usize = 1;
const FIRST_BIN: usize = ANSWERS + MOST_BLOCKS * ANSWERED;

/// A sequence on a device that holds a part of every row of it.
#[derive(Debug)]
pub struct Shard {
    device: Device,
    vocabulary: usize,
    record: Sequence,
    masks: Masks,
    sequence: Array<Sequence>,
    /// The memory behind the sequence's addresses.
    _tables: Option<Array<u32>>,
    task: Array<Task>,
    accepted: Array<Outcome>,
    words: Array<u64>,
    keys: Array<u64>,
    room: usize,
    /// What was read of `words`.
    read: Vec<u64>,
}

impl Shard {
    /// The first sequence of the parameters, over rows of `vocabulary` logits, of which the device holds a part. All ranks and the asker have one seed: it must be given, unless the
    /// draw is greedy. What the device cannot do is [`CudaError::Unsupported`], as [`check`](crate::check) says it.
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

    fn number(
        device: &Device,
        params: &SamplingParams,
        sequence: u32,
        vocabulary: usize,
    ) -> Result<Self, CudaError> {
        let Record { plan, sequence: record, masks } = Record::new(params)?;
        plan.check_vocabulary(vocabulary)?;
        if params.seed.is_none() && !plan.is_greedy() {
            return Err(ParamError::new("seed", "all ranks of a row need the same one: give it").into());
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
        let record = Sequence { sequence, ..tables.point(&record, address) };
        let on_device = Array::uninitialised(context, 1)?;
        on_device.write(uploads, 0, &[record])?;
        Ok(Self {
            device: device.clone(),
            vocabulary,
            record,
            masks,
            sequence: on_device,
            _tables: memory,
            task: Array::filled(context, 1, 0)?,
            accepted: Array::filled(context, 1, 0)?,
            words: Array::filled(context, FIRST_BIN + BINS, 0)?,
            keys: Array::uninitialised(context, ROOM)?,
            room: ROOM,
            read: Vec::new(),
        })
    }

    /// The device's part of the next row, a matrix of one row, whose first logit has id `start`. A mask is that of the whole row. A part without tokens needs no rank.
    /// Questions are answered on the legacy default stream.
    pub fn rank<'a>(
        &'a mut self,
        part: &Matrix<'a>,
        start: usize,
        mask: Option<Mask>,
    ) -> Result<Rank<'a>, CudaError> {
        let ordinal = self.device.ordinal();
        if part.ordinal != ordinal {
            return Err(CudaError::NotOnDevice { address: part.address });
        }
        if part.rows != 1 {
            return Err(CudaError::Rows { rows: part.rows, turns: 1 });
        }
        let (given, capacity) = (start.saturating_add(part.vocabulary), self.vocabulary);
        if given > capacity {
            return Err(CudaError::TooMany { what: "logits", given, capacity });
        }
        if let Some(mask) = mask {
            self.admit(mask, given)?;
        }
        Ok(Rank {
            part: *part,
            start: start as u32,
            mask: mask.map_or(0, |mask| mask.address),
            is_raw: false,
            head: 0,
            error: None,
            shard: self,
        })
    }

    /// Whether rows may come with a mask, and this one is as long as a row that ends at `end`.
    fn admit(&self, mask: Mask, end: usize) -> Result<(), CudaError> {
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

    /// Appends the token that was drawn, whoever holds it.
    pub fn accept(&mut self, token: u32) -> Result<(), CudaError> {
        let vocabulary = self.vocabulary;
        if token as usize >= vocabulary {
            return Err(RowError::OutsideVocabulary { field: "output_token_ids", token, vocabulary }.into());
        }
        let stream = Stream::default();
        self.accepted.write(stream, 0, &[Outcome { token, status: Outcome::DRAWN }])?;
        let step = Step {
            sequences: self.sequence.address(),
            tasks: self.task.address(),
            results: self.accepted.address(),
            rows: 1,
            vocabulary: vocabulary as u32,
            ..bytemuck::Zeroable::zeroed()
        };
        // SAFETY: the task names the one sequence, which has tables for every token of the vocabulary.
        unsafe { self.device.launch(stream, Kernel::Append, launch::append(1), &step) }
    }

    /// Answers, waits, and reads what blocks of threads said, put together. The bins, if there are any, and the number of keys are in `read`.
    fn answer(&mut self, dtype: Dtype, ask: &Ask) -> Result<[u64; ANSWERED], CudaError> {
        let stream = Stream::default();
        let (blocks, bins) = (ask.blocks(), ask.bin_count as usize);
        let address = |word: usize| self.words.address() + (word * size_of::<u64>()) as u64;
        let mut ask = Ask {
            sequence: self.sequence.address(),
            listed: address(0),
            answers: address(ANSWERS),
            bins: address(FIRST_BIN),
            keys: self.keys.address(),
            room: self.room as u32,
            ..*ask
        };
        self.device.context().bind_to_thread().map_err(CudaError::launch)?;
        let bytes = size_of::<u64>() * if bins > 0 { FIRST_BIN + bins } else { ANSWERS };
        // SAFETY: the words are longer. The kernel takes one such argument, which the driver copies before it returns: the part and the mask are borrowed as long as the rank, the rest is ours and
        // as large as the kernel is told. What it does is waited for below.
        unsafe {
            result::memset_d8_async(self.words.address(), 0, bytes, stream.raw())
                .map_err(CudaError::launch)?;
            let (grid, threads) = ((blocks as u32, 1, 1), (THREADS, 1, 1));
            let arguments = &mut [(&raw mut ask).cast()];
            result::launch_kernel(self.device.ask(dtype), grid, threads, 0, stream.raw(), arguments)
                .map_err(CudaError::launch)?;
        }
        let words = if bins > 0 { FIRST_BIN + bins } else { ANSWERS + blocks * ANSWERED };
        self.read.resize(words, 0);
        self.words.read(stream, 0, &mut self.read)?;
        Ok(ask.merged(&self.read[ANSWERS..ANSWERS + blocks * ANSWERED]))
    }

    /// The keys that the last question listed, as many as there was room for.
    fn listed(&mut self) -> Result<Vec<u64>, CudaError> {
        let count = self.read.first().map_or(0, |&count| count as usize);
        let mut keys = vec![0; count.min(self.room)];
        self.keys.read(Stream::default(), 0, &mut keys)?;
        Ok(keys)
    }

    /// Makes room for all the keys that the last question found; whether there was less.
    fn grow(&mut self) -> Result<bool, CudaError> {
        let count = self.read.first().map_or(0, |&count| count as usize);
        if count <= self.room {
            return Ok(false);
        }
        self.keys = Array::uninitialised(self.device.context(), count)?;
        self.room = count;
        Ok(true)
    }

    /// Where the asker's chain has edit number `index` of the record. Its first edit bans tokens that were taken back, and one that allows tokens is there only if there is a list or a mask.
    fn edit(&self, index: i32, has_mask: bool) -> i32 {
        let Ok(index) = usize::try_from(index) else { return -1 };
        let is_idle = |edit: u32| edit == EditKind::Allowed as u32 && !has_mask && self.record.allowed == 0;
        1 + self.record.edit.iter().take(index).filter(|&&edit| !is_idle(edit)).count() as i32
    }
}

/// A part of a row on a device, ready to be asked. Made by [`Shard::rank`].
#[derive(Debug)]
pub struct Rank<'a> {
    shard: &'a mut Shard,
    part: Matrix<'a>,
    start: u32,
    mask: u64,
    /// Whether masks and edits are forgotten.
    is_raw: bool,
    /// The tokens up to this key are gone.
    head: u64,
    error: Option<CudaError>,
}

impl Rank<'_> {
    /// Why there was no answer. After an error every reply is empty, and what was drawn over the ranks is no draw: look here before it is used.
    pub fn error(&self) -> Option<&CudaError> {
        self.error.as_ref()
    }
}

impl Answers for Rank<'_> {
    fn ask(&mut self, question: &Question, reply: &mut Reply) {
        let _mode = Standard::enter();
        let empty = |reply: &mut Reply| {
            reply.answer = Answer::Nothing;
            reply.keys.clear();
            reply.histogram.clear();
        };
        empty(reply);
        if self.error.is_some() {
            return;
        }
        match self.reply(question, reply) {
            Ok(answer) => reply.answer = answer,
            Err(error) => {
                empty(reply);
                self.error = Some(error);
            }
        }
    }
}
