//! Requests of an engine that keeps their texts, beside the CPU: the same tokens, counts, logprobs and kept sets.
//! Without a driver the tests are skipped, and say so.
#![allow(unsafe_code)]

mod engine;
mod failures;

use onedraw::{KeptMode, LogprobsMode, PenaltyScope, Row, RowError, SamplingParams, Step};
use onedraw_cuda::{CudaError, Dtype, RequestTurn, Sets, Texts, Written};
use onedraw_testkit::rows::SplitMix64;

use self::engine::{Asked, BEST, Engine, LONGEST, SLOTS, Text, WIDTH};
use crate::beside::cases::{self, any_dtype, any_row, any_token, by_chance, one_of, params_of_drafts};
use crate::beside::{Lie, Rows, Uploaded, device, rounds};

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
                if by_chance(random, 0.08) {
                    engine.preempt(slot, random.below(3));
                }
                if engine.slots[slot].is_none() && by_chance(random, 0.6) && engine.resume(slot) {
                    continue;
                }
                if engine.slots[slot].is_none() || by_chance(random, 0.03) {
                    let (params, prompt, output) = any_request(random, vocabulary);
                    engine.add(slot, &params, prompt, output);
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
    engine.requests.add(&engine.stream, 0, "best", &params, 2, true).expect("a request");
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
        engine.requests.add(&engine.stream, 0, "another", &params, 2, takes_best).expect("a request");
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

/// A request that is taken away goes on where it stood: with the text that is left of it, in another slot, however
/// often, and whoever had its slot meanwhile. One of the same name but another owner begins anew, and so does one
/// that was forgotten.
#[test]
fn mirostat_remembers_what_it_learned_while_a_request_is_away() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(23);
    let params = |seed, mirostat| SamplingParams {
        seed: Some(seed),
        mirostat,
        mirostat_tau: 2.5,
        mirostat_eta: 0.9,
        mirostat_mu: Some(1.0),
        kept: KeptMode::Ids,
        ..Default::default()
    };
    let row = |random: &mut SplitMix64| any_row(random, cases::Shape::Zipf, 1000);
    for (mirostat, lost) in [(1, 0), (2, 0), (1, 2), (2, 2)] {
        let mut engine = Engine::new(&device, 1000);
        engine.add(0, &params(1, mirostat), vec![3, 4], vec![]);
        let draw = |engine: &mut Engine, random: &mut SplitMix64, what: &str| {
            let slots: Vec<usize> = (0..SLOTS).filter(|&slot| engine.slots[slot].is_some()).collect();
            let one = |slot| Asked { slot, guesses: vec![], refused: vec![0], rows: vec![row(random)] };
            let asked: Vec<Asked> = slots.into_iter().map(one).collect();
            engine.step(&asked, Dtype::F32, &[], what);
        };
        for turn in 0..4 {
            let what = format!("mirostat {mirostat}, {lost} lost, turn {turn}");
            for _ in 0..4 {
                draw(&mut engine, random, &what);
            }
            engine.preempt(turn, lost);
            engine.add(turn, &params(100 + turn as u64, mirostat), vec![5], vec![]);
            draw(&mut engine, random, &what);
            assert!(engine.resume(turn + 1));
        }
        // The CPU's text begins anew.
        for is_forgotten in [true, false] {
            let Text { name, tokens, twin, .. } = engine.slots[4].take().expect("a request");
            assert!(engine.cpu.remove(twin));
            if is_forgotten {
                engine.requests.forget(&name);
                assert!(!engine.requests.has(4));
            }
            let tau = if is_forgotten { 2.5 } else { 2.0 };
            let params = SamplingParams { mirostat_tau: tau, ..params(1, mirostat) };
            let whole = SamplingParams {
                prompt_token_ids: tokens[..2].to_vec(),
                output_token_ids: tokens[2..].to_vec(),
                ..params.clone()
            };
            let twin = engine.cpu.add(whole).expect("valid parameters");
            let needed = tokens.len();
            engine.put(4, Text { name, params, prompt: 2, tokens, needed, read: 0, twin });
            draw(&mut engine, random, "another request");
            draw(&mut engine, random, "another request");
        }
    }
}

#[test]
fn what_a_request_cannot_have_is_said() {
    let Some(device) = device() else { return };
    let mut engine = Engine::new(&device, 40);
    let seeded = || SamplingParams { seed: Some(1), ..Default::default() };
    let mut add = |slot, params: SamplingParams, best| {
        engine.requests.add(&engine.stream, slot, "one", &params, 0, best).expect_err("an error")
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
            sets: None,
        },
    );
    let mut step = |turns: &[RequestTurn]| {
        // SAFETY: nothing is launched, since all of these are errors.
        unsafe { engine.requests.step(&engine.stream, &row.matrix(&device), turns, &texts, &written) }
            .expect_err("an error")
    };
    let turn = RequestTurn { slot: 0, rows: 1, guesses: 0, needed: 0 };
    assert_eq!(step(&[turn]), RowError::UnknownSequence.into());
    engine.requests.add(&engine.stream, 0, "one", &seeded(), 0, false).expect("a request");
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
    let too_many = CudaError::TooMany { what: "tokens of a text", given: LONGEST + 1, capacity: LONGEST };
    let error = engine.requests.add(&engine.stream, 1, "long", &seeded(), LONGEST as u32 + 1, false);
    assert_eq!(error, Err(too_many.clone()));
    let two = [RequestTurn { rows: 2, guesses: 8, ..turn }];
    let mut step = |texts: Texts, written: Written| {
        // SAFETY: as above.
        unsafe { engine.requests.step(&engine.stream, &row.matrix(&device), &two, &texts, &written) }
    };
    let longer = Texts { stride: LONGEST as u64 + 1, ..texts };
    assert_eq!(step(longer, written), Err(too_many));
    let longest = Texts { stride: u64::MAX, ..texts };
    let given = usize::try_from(u64::MAX).unwrap_or(usize::MAX);
    let too_many = CudaError::TooMany { what: "tokens of a text", given, capacity: LONGEST };
    assert_eq!(step(longest, written), Err(too_many));
    let sets = Some(Sets { counts: 0, bits: 24, ids: 0, most: 0 });
    assert_eq!(
        step(texts, Written { sets, ..written }),
        Err(CudaError::Misaligned { address: 24, size: 16 })
    );
}
