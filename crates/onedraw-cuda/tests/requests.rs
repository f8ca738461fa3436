//! Requests of an engine that keeps their texts, beside the CPU: the same tokens, counts and logprobs. Without
//! a driver the tests are skipped, and say so.
#![allow(unsafe_code)]

use std::sync::Arc;

use onedraw::speculate::{Draft, Verify};
use onedraw::{LogprobsMode, PenaltyScope, Row, RowError, Sampled, SamplingParams, Step, TokenLogprob};
use onedraw_cuda::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use onedraw_cuda::{
    Capacity, CudaError, Device, Dtype, Listed, Matrix, RequestTurn, Requests, Texts, Written,
};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_row, any_token, by_chance, one_of, params_of_drafts};
use crate::beside::{Lie, Rows, Uploaded, device, rounds};

const SLOTS: usize = 6;
/// The most rows of a turn.
const WIDTH: usize = 4;
const LONGEST: usize = 300;
/// The most best tokens that are listed.
const BEST: usize = 20;

/// What the engine has of a request.
struct Text {
    params: SamplingParams,
    prompt: usize,
    tokens: Vec<u32>,
    /// How long the text was when it came.
    needed: usize,
    /// How much of it the model has read.
    read: usize,
    /// The CPU's sequence.
    twin: onedraw::SequenceId,
}

/// What a step hands to the engine.
#[derive(Debug, PartialEq)]
struct Handed {
    tokens: Vec<i64>,
    count: i32,
    rejected: i32,
    failure: i32,
    /// For each token of a request that has not failed, the ids and logprobs of its list, and its rank.
    listed: Vec<(Vec<i32>, Vec<u32>, i64)>,
}

/// An engine of six slots on the device, and the CPU beside it.
struct Engine {
    device: Device,
    stream: Arc<CudaStream>,
    vocabulary: usize,
    requests: Requests,
    cpu: onedraw::Batch,
    slots: Vec<Option<Text>>,
    texts: CudaSlice<u32>,
    lengths: CudaSlice<u32>,
}

/// A turn and what the engine says of it.
struct Asked {
    slot: usize,
    guesses: Vec<u32>,
    refused: Vec<u8>,
    rows: Vec<Vec<f32>>,
}

impl Engine {
    fn new(device: &Device, vocabulary: usize) -> Self {
        let capacity =
            Capacity { sequences: SLOTS, rows: SLOTS * WIDTH, vocabulary, logprobs: cases::MOST_LOGPROBS };
        let stream = device.context().new_stream().expect("a stream");
        Self {
            device: device.clone(),
            vocabulary,
            requests: Requests::new(device, capacity).expect("requests"),
            cpu: onedraw::Batch::new(),
            slots: (0..SLOTS).map(|_| None).collect(),
            texts: stream.clone_htod(&vec![u32::MAX; SLOTS * LONGEST]).expect("memory"),
            lengths: stream.clone_htod(&[0; SLOTS]).expect("memory"),
            stream,
        }
    }

    /// Puts a request with its text into a slot, on both sides.
    fn add(&mut self, slot: usize, params: &SamplingParams, prompt: Vec<u32>, output: Vec<u32>) {
        self.leave(slot);
        self.requests
            .add(&self.stream, slot, params, prompt.len() as u32, false)
            .unwrap_or_else(|error| panic!("{error}: {params:?}"));
        let whole = SamplingParams {
            prompt_token_ids: prompt.clone(),
            output_token_ids: output.clone(),
            ..params.clone()
        };
        let twin = self.cpu.add(whole).expect("valid parameters");
        let tokens = [&prompt[..], &output].concat();
        let (needed, read) = (tokens.len(), 0);
        self.slots[slot] =
            Some(Text { params: params.clone(), prompt: prompt.len(), tokens, needed, read, twin });
    }

    fn leave(&mut self, slot: usize) {
        if let Some(text) = self.slots[slot].take() {
            assert!(self.cpu.remove(text.twin));
        }
    }

    /// Takes a request away, and adds it again with what it has written.
    fn preempt(&mut self, slot: usize) {
        let Some(text) = self.slots[slot].as_ref() else { return };
        let (params, (prompt, output)) = (text.params.clone(), text.tokens.split_at(text.prompt));
        let (prompt, output) = (prompt.to_vec(), output.to_vec());
        self.add(slot, &params, prompt, output);
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
    fn step(&mut self, asked: &[Asked], dtype: Dtype, unread: &[usize], what: &str) -> usize {
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
    fn read_with(&self, asked: &Asked, unread: &[usize]) -> usize {
        let text = self.slots[asked.slot].as_ref().expect("a request");
        match unread.contains(&asked.slot) && text.tokens.len() == text.needed {
            true => text.needed.saturating_sub(1),
            false => text.tokens.len() + asked.guesses.len(),
        }
    }

    /// Launches a step, and reads what it handed out.
    fn draw(&mut self, asked: &[Asked], read: &[usize], matrix: &Matrix<'_>) -> Vec<Handed> {
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
        unsafe { self.requests.step(&self.stream, matrix, &all, &texts, &written) }.expect("a step");
        let tokens = self.back(&tokens);
        let counts = self.back(&counts);
        let listed = self.back(&listed);
        let logprobs = self.back(&logprobs);
        let ranks = self.back(&ranks);
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
            };
            first += asked.rows.len();
            handed
        };
        asked.iter().enumerate().map(handed).collect()
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

/// The number that the device has for a row's error.
fn status(error: &RowError) -> i32 {
    match error {
        RowError::NanLogit { .. } => 1,
        RowError::InfiniteLogit { .. } => 2,
        RowError::NothingLeft { .. } => 3,
        other => panic!("{other}"),
    }
}

/// Parameters of a request, and its prompt and output.
fn any_request(random: &mut SplitMix64, vocabulary: usize) -> (SamplingParams, Vec<u32>, Vec<u32>) {
    let mut params = params_of_drafts(random, vocabulary);
    let prompt = std::mem::take(&mut params.prompt_token_ids);
    let output = std::mem::take(&mut params.output_token_ids);
    params.logprobs = params.logprobs.map(|asked| asked.min(BEST as i64));
    (params, prompt, output)
}

/// Rows and guesses for a request: what the target draws, anything, or no token at all.
fn any_asked(engine: &mut Engine, random: &mut SplitMix64, slot: usize, has_guesses: bool) -> Asked {
    let (vocabulary, shape) = (engine.vocabulary, one_of(random, &cases::SHAPES));
    let rows = if has_guesses { 1 + random.below(WIDTH) } else { 1 };
    let mut rows: Vec<Vec<f32>> = (0..rows).map(|_| any_row(random, shape, vocabulary)).collect();
    if by_chance(random, 0.03) {
        let row = random.below(rows.len());
        rows[row][vocabulary / 2] = f32::NAN;
    }
    let twin = engine.slots[slot].as_ref().expect("a request").twin;
    let fork = engine.cpu.fork(twin).expect("a sequence");
    let mut guesses = Vec::new();
    for row in &rows[..rows.len() - 1] {
        let drawn = engine.cpu.sample(&[Step { sequence: fork, row: Row::from(&row[..]), mask: None }]);
        let right = drawn[0].as_ref().map_or(0, |sampled| sampled.token);
        guesses.push(match random.below(10) {
            0 => u32::MAX,
            1 => vocabulary as u32,
            2 => any_token(random, vocabulary),
            _ => right,
        });
    }
    engine.cpu.remove(fork);
    let refused = rows.iter().map(|_| u8::from(by_chance(random, 0.05))).collect();
    Asked { slot, guesses, refused, rows }
}

#[test]
fn requests_come_and_go_and_guess() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(3);
    let mut guessed = 0;
    for round in 0..4 * rounds() {
        let vocabulary = one_of(random, &[2, 17, 65, 1000, 1025, 4096, 32_000]);
        let mut engine = Engine::new(&device, vocabulary);
        for step in 0..20 {
            for slot in 0..SLOTS {
                if engine.slots[slot].is_none() || by_chance(random, 0.03) {
                    let (params, prompt, output) = any_request(random, vocabulary);
                    engine.add(slot, &params, prompt, output);
                } else if by_chance(random, 0.05) {
                    engine.preempt(slot);
                }
            }
            let mut slots: Vec<usize> = (0..SLOTS).collect();
            random.shuffle(&mut slots);
            slots.truncate(1 + random.below(SLOTS));
            let has_guesses = by_chance(random, 0.7);
            let asked: Vec<Asked> =
                slots.iter().map(|&slot| any_asked(&mut engine, random, slot, has_guesses)).collect();
            let unread: Vec<usize> = (0..SLOTS).filter(|_| by_chance(random, 0.3)).collect();
            let what = format!("round {round}, step {step}, {vocabulary} tokens");
            guessed += engine.step(&asked, any_dtype(random), &unread, &what);
        }
    }
    assert!(guessed > 50, "{guessed} guesses were right");
}

/// Ids that stand for a picture have a place in the text, and nothing else. On the CPU a token that can never be
/// drawn stands there.
#[test]
fn ids_that_are_no_tokens_are_not_counted() {
    let Some(device) = device() else { return };
    let vocabulary = 40;
    let filler = vocabulary as u32 - 1;
    let random = &mut SplitMix64::new(11);
    for window in [0, 1, 3, 8, 30] {
        let mut engine = Engine::new(&device, vocabulary);
        let params = SamplingParams {
            seed: Some(window.into()),
            repetition_penalty: 1.5,
            frequency_penalty: 0.5,
            penalty_window: window,
            penalty_scope: PenaltyScope::All,
            bad_words_ids: vec![vec![2, 7], vec![5, 1, 3]],
            ..Default::default()
        };
        let prompt = vec![filler, 3, filler, filler, 5, 6, filler, 3, 5, filler, filler];
        engine.add(0, &params, prompt, vec![]);
        let text = engine.slots[0].as_mut().expect("a request");
        for (place, token) in text.tokens.iter_mut().enumerate().filter(|(_, token)| **token == filler) {
            *token = [u32::MAX, vocabulary as u32, 1 << 31][place % 3];
        }
        for step in 0..25 {
            let mut row = any_row(random, cases::Shape::Flat, vocabulary);
            row[filler as usize] = f32::NEG_INFINITY;
            let asked = Asked { slot: 0, guesses: vec![], refused: vec![0], rows: vec![row] };
            engine.step(&[asked], Dtype::F32, &[], &format!("window {window}, step {step}"));
        }
    }
}

/// More requests come at once than pinned memory was made for.
#[test]
fn many_requests_come_at_once() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(12);
    let mut engine = Engine::new(&device, 1000);
    for step in 0..3 {
        for turn in 0..400 {
            let (params, prompt, output) = any_request(random, 1000);
            engine.add(turn % SLOTS, &params, prompt, output);
        }
        let asked: Vec<Asked> = (0..SLOTS).map(|slot| any_asked(&mut engine, random, slot, true)).collect();
        engine.step(&asked, Dtype::F32, &[], &format!("step {step}"));
    }
}

#[test]
fn the_best_token_is_taken_where_it_is_asked_for() {
    let Some(device) = device() else { return };
    let mut engine = Engine::new(&device, 40);
    let random = &mut SplitMix64::new(9);
    let params = SamplingParams {
        seed: Some(1),
        logprobs: Some(4),
        logprobs_mode: LogprobsMode::ProcessedLogprobs,
        temperature: 1.0,
        ..Default::default()
    };
    engine.add(0, &params, vec![3, 4], vec![]);
    engine.requests.add(&engine.stream, 0, &params, 2, true).expect("a request");
    for _ in 0..10 {
        let row = any_row(random, cases::Shape::Flat, 40);
        let asked = [Asked { slot: 0, guesses: vec![], refused: vec![0], rows: vec![row.clone()] }];
        let uploaded = Uploaded::new(&device, &Rows::new(Dtype::F32, vec![row.clone()]), Lie::default());
        let handed = &engine.draw(&asked, &[2], &uploaded.matrix(&device))[0];
        let text = engine.slots[0].as_ref().expect("a request");
        let step = Step { sequence: text.twin, row: Row::from(&row[..]), mask: None };
        let sampled = engine.cpu.peek(&[step], 0)[0].clone().expect("a token");
        let mut best = sampled.logprobs.clone();
        best.sort_by_key(|entry| entry.rank);
        assert_eq!(handed.tokens[0], i64::from(best[0].token));
        let (tokens, logprobs, rank) = &handed.listed[0];
        let ids: Vec<i32> = best.iter().map(|entry| entry.token as i32).collect();
        assert_eq!((tokens[0], &tokens[1..5], *rank), (ids[0], &ids[..4], 1));
        assert_eq!(f32::from_bits(logprobs[0]), best[0].logprob as f32);
        engine.cpu.accept(text.twin, best[0].token);
    }
}

/// Mirostat learns from guesses as from other tokens, but not from tokens that are taken whatever is drawn.
#[test]
fn mirostat_learns_from_what_it_draws() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(21);
    let mut guessed = 0;
    for (mirostat, takes_best) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut engine = Engine::new(&device, 1000);
        let params = SamplingParams {
            seed: Some(5),
            mirostat,
            mirostat_tau: 2.0,
            mirostat_eta: 0.7,
            logprobs: Some(4),
            logprobs_mode: LogprobsMode::ProcessedLogprobs,
            ..Default::default()
        };
        engine.add(0, &params, vec![3, 4], vec![]);
        engine.requests.add(&engine.stream, 0, &params, 2, takes_best).expect("a request");
        for step in 0..6 {
            let what = format!("mirostat {mirostat}, step {step}");
            let mut asked = any_asked(&mut engine, random, 0, true);
            asked.refused.fill(0);
            // No row is bad.
            asked.rows.iter_mut().for_each(|row| row[500] = 0.0);
            if !takes_best {
                guessed += engine.step(&[asked], Dtype::F32, &[], &what);
                continue;
            }
            // The CPU accepts the best token of each row, as one that was chosen elsewhere.
            let twin = engine.slots[0].as_ref().expect("a request").twin;
            let mut expected = Vec::new();
            asked.guesses.clear();
            for row in &asked.rows {
                let drawn = engine.cpu.peek(&[Step::new(twin, &row[..])], 0);
                let sampled = drawn[0].clone().expect("a token");
                let best = *sampled.logprobs.iter().find(|entry| entry.rank == 1).expect("the best");
                engine.cpu.accept(twin, best.token);
                asked.guesses.push(best.token);
                expected.push((i64::from(best.token), (best.logprob as f32).to_bits()));
            }
            asked.guesses.pop();
            let rows = Rows::new(Dtype::F32, asked.rows.clone());
            let uploaded = Uploaded::new(&device, &rows, Lie::default());
            let read = engine.slots[0].as_ref().expect("a request").tokens.len() + asked.guesses.len();
            let handed = &engine.draw(&[asked], &[read.max(100)], &uploaded.matrix(&device))[0];
            let found = handed.tokens.iter().zip(&handed.listed).map(|(&token, line)| (token, line.1[0]));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{what}");
            guessed += expected.len() - 1;
        }
    }
    assert!(guessed > 10, "{guessed} guesses were right");
}

#[test]
fn what_a_request_cannot_have_is_said() {
    let Some(device) = device() else { return };
    let mut engine = Engine::new(&device, 40);
    let seeded = || SamplingParams { seed: Some(1), ..Default::default() };
    let mut add = |slot, params: SamplingParams, best| {
        engine.requests.add(&engine.stream, slot, &params, 0, best).expect_err("an error")
    };
    let too_many = CudaError::TooMany { what: "sequences", given: SLOTS + 1, capacity: SLOTS };
    assert_eq!(add(SLOTS, seeded(), false), too_many);
    let field = |error: CudaError| match error {
        CudaError::Params(error) => error.field().to_owned(),
        other => other.to_string(),
    };
    assert_eq!(field(add(0, SamplingParams::default(), false)), "seed");
    let prompt = SamplingParams { prompt_token_ids: vec![1], ..seeded() };
    assert_eq!(field(add(0, prompt, false)), "prompt_token_ids");
    assert_eq!(field(add(0, SamplingParams { logprobs: Some(0), ..seeded() }, true)), "logprobs");
    assert!(!engine.requests.has(0));

    let row = Uploaded::new(&device, &Rows::new(Dtype::F32, vec![vec![0.0; 40]; 2]), Lie::default());
    let (texts, written) = (
        Texts { tokens: 0, stride: 0, lengths: 0 },
        Written {
            read_lengths: 0,
            refused: 0,
            tokens: 0,
            width: 2,
            counts: 0,
            rejected: 0,
            failures: 0,
            listed: None,
        },
    );
    let mut step = |turns: &[RequestTurn]| {
        // SAFETY: nothing is launched, since all of these are errors.
        unsafe { engine.requests.step(&engine.stream, &row.matrix(&device), turns, &texts, &written) }
            .expect_err("an error")
    };
    let turn = RequestTurn { slot: 0, rows: 1, guesses: 0, needed: 0 };
    assert_eq!(step(&[turn]), RowError::UnknownSequence.into());
    engine.requests.add(&engine.stream, 0, &seeded(), 0, false).expect("a request");
    assert!(engine.requests.has(0));
    let mut step = |turns: &[RequestTurn]| {
        // SAFETY: as above.
        unsafe { engine.requests.step(&engine.stream, &row.matrix(&device), turns, &texts, &written) }
            .expect_err("an error")
    };
    assert_eq!(step(&[turn, turn]), RowError::RepeatedSequence.into());
    assert_eq!(step(&[turn]), CudaError::Rows { rows: 2, turns: 1 });
    assert_eq!(step(&[RequestTurn { rows: 2, ..turn }]), CudaError::NullAddress);
    let too_many = CudaError::TooMany { what: "rows of a turn", given: 3, capacity: 2 };
    assert_eq!(step(&[RequestTurn { rows: 3, guesses: 8, ..turn }]), too_many);
}
