//! An engine of six slots that keeps its texts on the device, and the CPU beside it.
#![allow(unsafe_code)]

use std::sync::Arc;

use onedraw::speculate::{Draft, Verify};
use onedraw::{KeptMode, Row, RowError, Sampled, SamplingParams, TokenLogprob};
use onedraw_cuda::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use onedraw_cuda::{
    Capacity, CudaError, Device, Dtype, Listed, Matrix, RequestTurn, Requests, Sets, Texts, Written,
};

use crate::beside::{Lie, Rows, Uploaded, cases};

pub(super) const SLOTS: usize = 6;
/// The most rows of a turn.
pub(super) const WIDTH: usize = 4;
pub(super) const LONGEST: usize = 300;
/// The most best tokens that are listed.
pub(super) const BEST: usize = 20;
/// The most ids of a set that are handed out as numbers.
const MOST: usize = 30;

/// What the engine has of a request.
pub(super) struct Text {
    pub(super) name: String,
    pub(super) params: SamplingParams,
    pub(super) prompt: usize,
    pub(super) tokens: Vec<u32>,
    /// How long the text was when it came.
    pub(super) needed: usize,
    /// How much of it the model has read.
    pub(super) read: usize,
    /// The CPU's sequence.
    pub(super) twin: onedraw::SequenceId,
}

/// What a step hands to the engine.
#[derive(Debug, PartialEq)]
pub(super) struct Handed {
    pub(super) tokens: Vec<i64>,
    pub(super) count: i32,
    pub(super) rejected: i32,
    pub(super) failure: i32,
    /// For each token of a request that has not failed, the ids and logprobs of its list, and its rank.
    pub(super) listed: Vec<(Vec<i32>, Vec<u32>, i64)>,
    /// For each place of a token the set that it was drawn from; empty where there is no token.
    pub(super) sets: Vec<Vec<u32>>,
}

/// An engine of six slots on the device, and the CPU beside it.
pub(super) struct Engine {
    pub(super) device: Device,
    pub(super) stream: Arc<CudaStream>,
    pub(super) vocabulary: usize,
    pub(super) requests: Requests,
    pub(super) cpu: onedraw::Batch,
    pub(super) slots: Vec<Option<Text>>,
    /// Requests that were taken away and will come back.
    pub(super) away: Vec<Text>,
    /// How many requests there were so far.
    pub(super) added: usize,
    pub(super) texts: CudaSlice<u32>,
    pub(super) lengths: CudaSlice<u32>,
}

/// A turn and what the engine says of it.
pub(super) struct Asked {
    pub(super) slot: usize,
    pub(super) guesses: Vec<u32>,
    pub(super) refused: Vec<u8>,
    pub(super) rows: Vec<Vec<f32>>,
}

impl Engine {
    pub(super) fn new(device: &Device, vocabulary: usize) -> Self {
        Self::with_logprobs(device, vocabulary, cases::MOST_LOGPROBS)
    }

    /// Requests may ask for so many logprobs.
    pub(super) fn with_logprobs(device: &Device, vocabulary: usize, logprobs: usize) -> Self {
        let capacity = Capacity { sequences: SLOTS, rows: SLOTS * WIDTH, vocabulary, logprobs };
        let stream = device.context().new_stream().expect("a stream");
        Self {
            device: device.clone(),
            vocabulary,
            requests: Requests::new(device, capacity, LONGEST).expect("requests"),
            cpu: onedraw::Batch::new(),
            slots: (0..SLOTS).map(|_| None).collect(),
            away: Vec::new(),
            added: 0,
            texts: stream.clone_htod(&vec![u32::MAX; SLOTS * LONGEST]).expect("memory"),
            lengths: stream.clone_htod(&[0; SLOTS]).expect("memory"),
            stream,
        }
    }

    /// Puts a request with its text into a slot, on both sides.
    pub(super) fn add(&mut self, slot: usize, params: &SamplingParams, prompt: Vec<u32>, output: Vec<u32>) {
        self.leave(slot);
        self.added += 1;
        let whole = SamplingParams {
            prompt_token_ids: prompt.clone(),
            output_token_ids: output.clone(),
            ..params.clone()
        };
        let tokens = [&prompt[..], &output].concat();
        let text = Text {
            name: format!("request {}", self.added),
            params: params.clone(),
            prompt: prompt.len(),
            needed: tokens.len(),
            tokens,
            read: 0,
            twin: self.cpu.add(whole).expect("valid parameters"),
        };
        self.put(slot, text);
    }

    /// Puts a request into a slot of the device.
    pub(super) fn put(&mut self, slot: usize, text: Text) {
        let added = self.try_put(slot, &text);
        added.unwrap_or_else(|error| panic!("{error}: {:?}", text.params));
        self.slots[slot] = Some(text);
    }

    /// Puts a request into a slot of the device, where that works.
    pub(super) fn try_put(&mut self, slot: usize, text: &Text) -> Result<(), CudaError> {
        let Text { name, params, prompt, .. } = text;
        self.requests.add(&self.stream, slot, name, params, *prompt as u32, false)
    }

    /// Ends a request. Engines may say so.
    pub(super) fn leave(&mut self, slot: usize) {
        if let Some(text) = self.slots[slot].take() {
            assert!(self.cpu.remove(text.twin));
            if self.added.is_multiple_of(2) {
                self.requests.forget(&text.name);
                assert!(!self.requests.has(slot));
            }
        }
    }

    /// Takes a request away. The engine may have lost the last tokens of its text by then, up to so many.
    pub(super) fn preempt(&mut self, slot: usize, lost: usize) {
        let Some(mut text) = self.slots[slot].take() else { return };
        text.tokens.truncate((text.tokens.len() - lost.min(text.tokens.len())).max(text.needed));
        assert!(self.cpu.rewind(text.twin, text.tokens.len() - text.prompt));
        (text.needed, text.read) = (text.tokens.len(), 0);
        self.away.push(text);
    }

    /// Lets the request that was taken away first come back, if there is one.
    pub(super) fn resume(&mut self, slot: usize) -> bool {
        if self.away.is_empty() {
            return false;
        }
        let text = self.away.remove(0);
        self.put(slot, text);
        true
    }

    /// What the CPU draws for a turn, and the engine's numbers for it.
    fn expected(&mut self, asked: &Asked, rows: &[Row<'_>], read: usize) -> (Handed, Vec<Sampled>) {
        let text = self.slots[asked.slot].as_ref().expect("a request");
        let is_complete = read >= text.needed;
        let was_read = read >= text.needed + rows.len();
        let usable = (0..asked.guesses.len())
            .take_while(|&i| (asked.guesses[i] as usize) < self.vocabulary && asked.refused[i + 1] == 0);
        let guesses: Vec<u32> =
            if was_read { usable.map(|i| asked.guesses[i]).collect() } else { Vec::new() };
        let draft = Draft::chain(&guesses);
        let verdict = self.cpu.verify(text.twin, &draft, &rows[..guesses.len() + 1], None, Verify::Exact);
        let verdict = verdict.expect("a verdict");
        let count = if is_complete { verdict.sampled.len().max(1) } else { 0 };
        let mut tokens: Vec<i64> = verdict.sampled.iter().map(|sampled| sampled.token.into()).collect();
        tokens.resize(WIDTH, 0);
        let handed = Handed {
            tokens,
            count: count as i32,
            rejected: if is_complete { (rows.len() - count) as i32 } else { 0 },
            failure: match &verdict.error {
                Some(error) if is_complete => status(error) << 16 | verdict.sampled.len() as i32,
                _ => 0,
            },
            listed: match text.params.logprobs {
                Some(_) if is_complete && verdict.error.is_none() => {
                    verdict.sampled.iter().map(|sampled| self.line(sampled)).collect()
                }
                _ => Vec::new(),
            },
            sets: (0..WIDTH).map(|place| set(text, verdict.sampled.get(place))).collect(),
        };
        (handed, if is_complete { verdict.sampled } else { Vec::new() })
    }

    /// A line of the table: the drawn token, the best tokens in order, other ids.
    fn line(&self, sampled: &Sampled) -> (Vec<i32>, Vec<u32>, i64) {
        let mut best: Vec<&TokenLogprob> = sampled.logprobs.iter().collect();
        best.sort_by_key(|entry| entry.rank);
        // The drawn token may stand far below the others.
        let listed = best.iter().enumerate().filter(|(i, entry)| entry.rank as usize == i + 1);
        let ordered: Vec<(u32, f64)> = listed.map(|(_, entry)| (entry.token, entry.logprob)).collect();
        let first = (sampled.token, sampled.logprob.expect("a logprob"));
        let mut line: Vec<(u32, f64)> = [first].into_iter().chain(ordered).take(BEST + 1).collect();
        let others = (0..self.vocabulary as u32)
            .filter(|&id| sampled.logprobs.iter().all(|entry| entry.token != id))
            .chain(std::iter::repeat(sampled.token));
        line.extend(others.take(BEST + 1 - line.len()).map(|id| (id, f64::NEG_INFINITY)));
        let tokens = line.iter().map(|&(token, _)| token as i32).collect();
        let logprobs = line.iter().map(|&(_, logprob)| (logprob as f32).to_bits()).collect();
        (tokens, logprobs, sampled.rank.expect("a rank").into())
    }

    /// Draws on both sides and compares, and lets the texts go on.
    pub(super) fn step(&mut self, asked: &[Asked], dtype: Dtype, unread: &[usize], what: &str) -> usize {
        let rows = Rows::new(dtype, asked.iter().flat_map(|asked| asked.rows.clone()).collect());
        let uploaded = Uploaded::new(&self.device, &rows, Lie::default());
        let read: Vec<usize> = asked.iter().map(|asked| self.read_with(asked, unread)).collect();
        let handed = self.draw(asked, &read, &uploaded.matrix(&self.device));
        let (mut first, mut guessed) = (0, 0);
        for (i, asked) in asked.iter().enumerate() {
            let own: Vec<Row<'_>> = (first..first + asked.rows.len()).map(|row| rows.row(row)).collect();
            first += own.len();
            let (expected, sampled) = self.expected(asked, &own, read[i]);
            let text = self.slots[asked.slot].as_mut().expect("a request");
            let saved = self.cpu.save(text.twin);
            assert_eq!(handed[i], expected, "{what}, turn {i}, guesses {:?}: {saved:?}", asked.guesses);
            guessed += sampled.len().saturating_sub(1);
            text.tokens.extend(sampled.iter().map(|sampled| sampled.token));
            text.read = read[i].min(text.tokens.len());
            for sampled in &sampled {
                self.cpu.accept_sampled(text.twin, sampled);
            }
            if expected.failure != 0 {
                self.leave(asked.slot);
            }
        }
        guessed
    }

    /// How much of a text the model has read with this step; less than it needs for those that are unread.
    pub(super) fn read_with(&self, asked: &Asked, unread: &[usize]) -> usize {
        let text = self.slots[asked.slot].as_ref().expect("a request");
        match unread.contains(&asked.slot) && text.tokens.len() == text.needed {
            true => text.needed.saturating_sub(1),
            false => text.tokens.len() + asked.guesses.len(),
        }
    }

    /// Launches a step, and reads what it handed out.
    pub(super) fn draw(&mut self, asked: &[Asked], read: &[usize], matrix: &Matrix<'_>) -> Vec<Handed> {
        self.try_draw(asked, read, matrix).expect("a step")
    }

    /// Launches a step, and reads what it handed out, where that works.
    pub(super) fn try_draw(
        &mut self,
        asked: &[Asked],
        read: &[usize],
        matrix: &Matrix<'_>,
    ) -> Result<Vec<Handed>, CudaError> {
        let (mut texts, mut lengths) = (vec![u32::MAX; SLOTS * LONGEST], vec![0; SLOTS]);
        for (slot, text) in self.slots.iter().enumerate() {
            let Some(text) = text else { continue };
            texts[slot * LONGEST..][..text.tokens.len()].copy_from_slice(&text.tokens);
            lengths[slot] = text.tokens.len() as u32;
        }
        self.stream.memcpy_htod(&texts, &mut self.texts).expect("a copy");
        self.stream.memcpy_htod(&lengths, &mut self.lengths).expect("a copy");
        let guesses: Vec<u32> = asked.iter().flat_map(|asked| asked.guesses.clone()).collect();
        let guesses = self.sent(&[&guesses[..], &[0]].concat());
        let refused: Vec<u8> = asked.iter().flat_map(|asked| asked.refused.clone()).collect();
        let refused = self.sent(&refused);
        let read_lengths = self.sent(&read.iter().map(|&read| read as u32).collect::<Vec<_>>());
        let (turns, rows) = (asked.len(), refused.len());
        let (tokens, counts) = (self.empty::<i64>(turns * WIDTH), self.empty::<i32>(3 * turns));
        let (listed, logprobs) = (self.empty::<i32>(rows * (BEST + 1)), self.empty::<f32>(rows * (BEST + 1)));
        let ranks = self.empty::<i64>(rows);
        let words = 4 * self.vocabulary.div_ceil(128);
        let (bits, ids) = (self.empty::<u32>(turns * WIDTH * words), self.empty::<u32>(turns * WIDTH * MOST));
        let kept = self.sent(&vec![-1; turns * WIDTH]);
        let written = Written {
            read_lengths: self.address(&read_lengths),
            refused: self.address(&refused),
            tokens: self.address(&tokens),
            width: WIDTH as u32,
            counts: self.address(&counts),
            rejected: self.address(&counts) + 4 * turns as u64,
            failures: self.address(&counts) + 8 * turns as u64,
            listed: Some(Listed {
                best: BEST as u32,
                tokens: self.address(&listed),
                logprobs: self.address(&logprobs),
                ranks: self.address(&ranks),
            }),
            sets: Some(Sets {
                counts: self.address(&kept),
                bits: self.address(&bits),
                ids: self.address(&ids),
                most: MOST as u32,
            }),
        };
        let mut place = self.address(&guesses);
        let turn = |asked: &Asked| {
            let text = self.slots[asked.slot].as_ref().expect("a request");
            let (slot, rows, needed) = (asked.slot as u32, asked.rows.len() as u32, text.needed as u32);
            let turn = RequestTurn { slot, rows, needed, guesses: if rows > 1 { place } else { 0 } };
            place += 4 * asked.guesses.len() as u64;
            turn
        };
        let all: Vec<RequestTurn> = asked.iter().map(turn).collect();
        let texts = Texts {
            tokens: self.address(&self.texts),
            stride: LONGEST as u64,
            lengths: self.address(&self.lengths),
        };
        // SAFETY: all of it is there until the results are read.
        unsafe { self.requests.step(&self.stream, matrix, &all, &texts, &written) }?;
        let tokens = self.back(&tokens);
        let counts = self.back(&counts);
        let listed = self.back(&listed);
        let logprobs = self.back(&logprobs);
        let ranks = self.back(&ranks);
        let (bits, ids, kept) = (self.back(&bits), self.back(&ids), self.back(&kept));
        // The bits say the set, and the ids its beginning.
        let set = |place: usize| {
            let own = &bits[place * words..(place + 1) * words];
            let count = kept[place] as usize;
            let all: Vec<u32> =
                (0..32 * words as u32).filter(|id| own[*id as usize / 32] >> (id % 32) & 1 == 1).collect();
            let set = if count == 0 { Vec::new() } else { all };
            assert_eq!(set.len(), count);
            let listed = count.min(MOST);
            assert_eq!(ids[place * MOST..][..listed], set[..listed]);
            set
        };
        let mut first = 0;
        let handed = |(i, asked): (usize, &Asked)| {
            let own = &tokens[i * WIDTH..(i + 1) * WIDTH];
            let line = |row: usize| {
                let line = row * (BEST + 1)..(row + 1) * (BEST + 1);
                let bits = logprobs[line.clone()].iter().map(|logprob| logprob.to_bits()).collect();
                (listed[line].to_vec(), bits, ranks[row])
            };
            let asks = self.slots[asked.slot].as_ref().is_some_and(|text| text.params.logprobs.is_some());
            let drawn = if asks && counts[2 * turns + i] == 0 { counts[i] as usize } else { 0 };
            let handed = Handed {
                tokens: own.to_vec(),
                count: counts[i],
                rejected: counts[turns + i],
                failure: counts[2 * turns + i],
                listed: (first..first + drawn).map(line).collect(),
                sets: (i * WIDTH..(i + 1) * WIDTH).map(set).collect(),
            };
            first += asked.rows.len();
            handed
        };
        Ok(asked.iter().enumerate().map(handed).collect())
    }

    fn sent<T: DeviceRepr>(&self, host: &[T]) -> CudaSlice<T> {
        self.stream.clone_htod(host).expect("memory")
    }

    fn empty<T: DeviceRepr + ValidAsZeroBits>(&self, length: usize) -> CudaSlice<T> {
        self.stream.alloc_zeros(length).expect("memory")
    }

    fn back<T: DeviceRepr>(&self, slice: &CudaSlice<T>) -> Vec<T> {
        let host = self.stream.clone_dtoh(slice).expect("a copy");
        self.stream.synchronize().expect("a copy");
        host
    }

    fn address<T>(&self, slice: &CudaSlice<T>) -> u64 {
        slice.device_ptr(&self.stream).0
    }
}

/// The set that a token was drawn from, if its request asks for the ids.
fn set(text: &Text, sampled: Option<&Sampled>) -> Vec<u32> {
    match sampled {
        Some(sampled) if text.params.kept == KeptMode::Ids => {
            sampled.kept.as_ref().and_then(|kept| kept.ids.clone()).expect("ids")
        }
        _ => Vec::new(),
    }
}

/// The number that the device has for a row's error.
fn status(error: &RowError) -> i32 {
    match error {
        RowError::NanLogit { .. } => 1,
        RowError::InfiniteLogit { .. } => 2,
        RowError::NothingLeft { .. } => 3,
        other => panic!("{other}"),
    }
}
