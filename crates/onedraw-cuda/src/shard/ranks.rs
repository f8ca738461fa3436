//! A rank whose parts of the rows lie on a device: the draws run on the host, as on every rank, and the device
//! answers for its part. It makes the first messages of all rows in one launch, with the bytes that a CPU
//! would send, so ranks on devices and on CPUs can draw together.
#![allow(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use bytemuck::Zeroable;
use onedraw::answer::Held;
use onedraw::{Batch, Exchange, Part, PartStep, Rank, RowError, Sampled, SequenceId};

use super::follow::Followers;
use super::opening::{OpenTask, Openings};
use super::repeats::{Repeating, Repeats};
use super::row::{Asked, PartOfRow};
use super::sequence::Shard;
use crate::device::Device;
use crate::error::CudaError;
use crate::launch::MAX_ROWS;
use crate::matrix::{Mask, Matrix};
use crate::record::chain::Masks;
use crate::record::shared::OPEN_SLOT;
use crate::stream::Stream;

/// What one row of a step over ranks is drawn for.
#[derive(Clone, Copy, Debug)]
pub struct RankTurn<'m> {
    /// Whose turn it is.
    pub sequence: SequenceId,
    /// The tokens a grammar allows in the whole row, 32 per word, lowest bit first. They are in the host's
    /// memory, because all ranks compare them.
    pub mask: Option<&'m [u32]>,
}

impl RankTurn<'_> {
    /// A turn without a mask.
    pub fn new(sequence: SequenceId) -> Self {
        Self { sequence, mask: None }
    }
}

/// The device's side of a rank: a copy of every sequence of a [`Batch`], which follows it, and memory for the
/// messages.
///
/// ```no_run
/// use onedraw::{Batch, Rank, SamplingParams};
/// use onedraw_cuda::{Copied, CudaError, Device, RankParts, RankTurn, Stream};
///
/// let device = Device::new(0)?;
/// let (mut batch, mut parts) = (Batch::new(), RankParts::new(&device)?);
/// let story = batch.add(SamplingParams::builder().top_p(0.9).seed(5).build()?)?;
/// let logits = Copied::new(&device, (&[0.1_f32, 2.0, 1.5, -1.0][..]).into())?;
/// let rank = Rank { count: 1, vocabulary: 4, start: 0 };
/// // With several ranks, `gather` sends the message to all of them.
/// let gather = |message: &[u8], _| Ok::<_, CudaError>(vec![message.to_vec()]);
/// let (turns, rows) = ([RankTurn::new(story)], logits.matrix(1, 4, 4)?);
/// let results = parts.sample_over(&mut batch, &turns, &rows, &rank, Stream::default(), gather)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RankParts {
    device: Device,
    followers: Followers,
    openings: Openings,
}

impl RankParts {
    /// For the sequences of one batch, whichever it will be.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let (followers, openings) = (Followers::new(device), Openings::new(device)?);
        Ok(Self { device: device.clone(), followers, openings })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// As [`Batch::exchange`], with parts on the device: row i of the matrix is this rank's part of the row of
    /// turn i. What is wrong with one row is that row's error. It is an error of the call if the device has no
    /// memory for one of the sequences; the batch stands where it stood, and the next call works.
    ///
    /// The messages are under way on the stream when this returns, and nobody has waited for them.
    ///
    /// # Safety
    ///
    /// The rows are device memory that nobody frees or writes until the stream has made the messages, even if
    /// the exchange is dropped.
    pub unsafe fn exchange<'a>(
        &'a mut self,
        batch: &'a Batch,
        turns: &[RankTurn<'a>],
        rows: &Matrix<'a>,
        rank: &Rank,
        ahead: u32,
        stream: Stream<'a>,
    ) -> Result<RankExchange<'a>, CudaError> {
        let stream = self.device.admit(stream)?;
        let held = self.held(turns, rows, rank)?;
        let Self { device, followers, openings } = self;
        let follow = |turn: &RankTurn<'_>| followers.follow(batch, turn.sequence, rank.vocabulary);
        let known: Result<Vec<_>, CudaError> = turns.iter().map(follow).collect();
        let known = known.and_then(|known| followers.move_on(stream, openings).map(|()| known));
        let known = known.inspect_err(|_| followers.forget())?;
        let followers: &'a Followers = followers;

        let words: Vec<u32> = turns.iter().filter_map(|turn| turn.mask).flatten().copied().collect();
        let mut address = if words.is_empty() { 0 } else { openings.post_masks(stream, &words)? };
        let mut steps = Vec::with_capacity(turns.len());
        for (row, (turn, known)) in turns.iter().zip(known).enumerate() {
            let mask = turn.mask.map(|mask| Mask { ordinal: device.ordinal(), address, words: mask.len() });
            address += turn.mask.map_or(0, size_of_val) as u64;
            let shard = known.and_then(|()| followers.shard(turn.sequence).ok_or(RowError::UnknownSequence));
            let part = match shard.map(|shard| admitted(shard, mask, &held)) {
                Ok(Ok(shard)) => {
                    Ok(RankRow { shard, row: PartOfRow::new(rows.row(row), held.start, mask, ahead) })
                }
                Err(error) | Ok(Err(CudaError::Row(error))) => Err(error),
                Ok(Err(error)) => return Err(error),
            };
            steps.push(PartStep { sequence: turn.sequence, part, mask: turn.mask });
        }
        let begun: Vec<_> = steps.iter().map(|step| step.part.as_ref().ok().map(RankRow::begin)).collect();
        let repeating = begun.iter().flatten().filter_map(|(_, repeating)| *repeating).collect();
        openings.find_repeats(stream, repeating, rank.vocabulary)?;
        let exchange = batch.exchange_parts(steps, rank, ahead);

        let slots = openings.reserve(turns.len())?;
        let (mut tasks, mut refused) = (Vec::with_capacity(turns.len()), Vec::new());
        for (row, (question, begun)) in exchange.first_questions().zip(begun).enumerate() {
            match (question, begun) {
                (Ok(question), Some((task, _))) => {
                    tasks.push(task.ask(&question, held, slots + (row * OPEN_SLOT) as u64));
                }
                (Err(slot), _) => refused.push((row, slot)),
                (Ok(_), None) => unreachable!("a row without a part has no question"),
            }
        }
        for (row, slot) in refused {
            openings.slots().write_bytes(stream, row * OPEN_SLOT, &slot)?;
        }
        // SAFETY: the rows and masks hold as many tokens as `held` says, and were admitted; how long the rows
        // live is the caller's promise. Masks, sequences and slots live as long as `self`, and what replaces
        // them waits for the device.
        unsafe { openings.open(stream, rows.dtype, held, &tasks) }?;
        Ok(RankExchange { exchange, openings, rows: turns.len(), stream })
    }

    /// The tokens that each row holds, if the rows fit.
    fn held(&self, turns: &[RankTurn<'_>], rows: &Matrix<'_>, rank: &Rank) -> Result<Held, CudaError> {
        if rows.ordinal != self.device.ordinal() {
            return Err(CudaError::NotOnDevice { address: rows.address });
        }
        if rows.rows != turns.len() {
            return Err(CudaError::Rows { rows: rows.rows, turns: turns.len() });
        }
        let too_many = |what, given, capacity| Err(CudaError::TooMany { what, given, capacity });
        let (end, most) = (rank.start.saturating_add(rows.vocabulary), self.device.max_part());
        match () {
            () if turns.len() > MAX_ROWS => too_many("rows", turns.len(), MAX_ROWS),
            () if end > rank.vocabulary => too_many("logits", end, rank.vocabulary),
            () if rows.vocabulary > most => too_many("logits", rows.vocabulary, most),
            () => Ok(Held { start: rank.start as u32, length: rows.vocabulary as u32 }),
        }
    }

    /// As [`Batch::peek_over`], with parts on the device.
    #[allow(clippy::too_many_arguments)] // They are those of the CPU, and where the rows lie.
    pub fn peek_over<M: AsRef<[u8]>, E: From<CudaError>>(
        &mut self,
        batch: &Batch,
        turns: &[RankTurn<'_>],
        rows: &Matrix<'_>,
        rank: &Rank,
        ahead: u32,
        stream: Stream<'_>,
        mut gather: impl FnMut(&[u8], usize) -> Result<Vec<M>, E>,
    ) -> Result<Vec<Result<Sampled, RowError>>, E> {
        // SAFETY: the rows are borrowed until the next line has waited for the messages.
        let exchange = unsafe { self.exchange(batch, turns, rows, rank, ahead, stream)? };
        let message = exchange.message()?;
        let mut exchange = exchange.into_exchange();
        exchange.receive(&gather(&message, message.len())?);
        exchange.finish(gather)
    }

    /// As [`Batch::sample_over`], with parts on the device.
    pub fn sample_over<M: AsRef<[u8]>, E: From<CudaError>>(
        &mut self,
        batch: &mut Batch,
        turns: &[RankTurn<'_>],
        rows: &Matrix<'_>,
        rank: &Rank,
        stream: Stream<'_>,
        gather: impl FnMut(&[u8], usize) -> Result<Vec<M>, E>,
    ) -> Result<Vec<Result<Sampled, RowError>>, E> {
        let mut results = self.peek_over(batch, turns, rows, rank, 0, stream, gather)?;
        batch.accept_results(turns.iter().map(|turn| turn.sequence), &mut results);
        Ok(results)
    }
}

/// The shard, if its rows may come with this mask.
fn admitted<'a>(
    shard: &'a Mutex<Shard>,
    mask: Option<Mask>,
    held: &Held,
) -> Result<&'a Mutex<Shard>, CudaError> {
    if let Some(mask) = mask {
        let end = (held.start + held.length) as usize;
        shard.lock().unwrap_or_else(PoisonError::into_inner).admit(mask, end)?;
    }
    Ok(shard)
}

/// A step of a rank whose first message is on the device.
pub struct RankExchange<'a> {
    exchange: Exchange<'a, RankRow<'a>>,
    openings: &'a Openings,
    rows: usize,
    stream: Stream<'a>,
}

impl<'a> RankExchange<'a> {
    /// Where the first message lies on the device. It is written in the stream's order.
    pub fn address(&self) -> u64 {
        self.openings.slots().address()
    }

    /// The bytes of the first message: [`Exchange::SLOT`] for each row.
    pub fn length(&self) -> usize {
        self.rows * OPEN_SLOT
    }

    /// Waits for the first message and copies it to the host.
    pub fn message(&self) -> Result<Vec<u8>, CudaError> {
        let mut message = vec![0; self.length()];
        self.openings.slots().read(self.stream, 0, &mut message)?;
        Ok(message)
    }

    /// The exchange, which goes on when it receives the first messages of all ranks.
    pub fn into_exchange(self) -> Exchange<'a, RankRow<'a>> {
        self.exchange
    }
}

/// One device's part of a row in an exchange.
#[derive(Debug)]
pub struct RankRow<'a> {
    shard: &'a Mutex<Shard>,
    row: PartOfRow<'a>,
}

impl RankRow<'_> {
    /// What the first message is made from, without the question; and what its text repeats, if that must be
    /// found before. A mask that comes late is not part of it: the first message is about the first segment.
    fn begin(&self) -> (OpenTask, Option<Repeating>) {
        let PartOfRow { part, mask, ahead, .. } = &self.row;
        let shard = self.shard.lock().unwrap_or_else(PoisonError::into_inner);
        let task = OpenTask {
            logits: part.address,
            sequence: shard.address(),
            mask: mask.filter(|_| shard.record.masks == Masks::Early).unwrap_or(0),
            repeats: shard.repeats.as_ref().map_or(0, Repeats::address),
            ahead: *ahead,
            ..Zeroable::zeroed()
        };
        (task, shard.repeats.as_ref().map(Repeats::repeating))
    }
}

impl Part for RankRow<'_> {
    fn held(&self) -> Held {
        self.row.held()
    }

    fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        let mut shard = self.shard.lock().unwrap_or_else(PoisonError::into_inner);
        Asked { shard: &mut shard, row: &mut self.row }.reply(question)
    }
}
