//! Batches over ranks whose parts lie on the device: the messages are those that a CPU sends, to the byte, and
//! the tokens are those of the whole rows. Without a driver the tests are skipped, and say so.
#![allow(unsafe_code)] // A launch reads memory that the test keeps.

use std::ops::Range;

use onedraw::stop::Rewind;
use onedraw::{
    Batch, Exchange, Rank, RankMemory, RowError, Sampled, SamplingParams, SequenceId, Stage, Step,
};
use onedraw_cuda::{CudaError, Device, Dtype, RankParts, RankTurn, Stream};
use onedraw_testkit::rows::{self, SplitMix64};

use crate::beside::cases::{self, any_dtype, any_row, by_chance, one_of, params_of_parts};
use crate::beside::{Lie, Rows, Uploaded, device, rounds};

/// `count` parts that together hold every token, none of them empty.
fn any_parts(random: &mut SplitMix64, count: usize, vocabulary: usize) -> Vec<Range<usize>> {
    let mut edges: Vec<usize> = (1..count).map(|_| 1 + random.below(vocabulary.max(2) - 1)).collect();
    edges.extend([0, vocabulary]);
    edges.sort_unstable();
    edges.dedup();
    edges.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// One rank: its sequences on the host, and on the device.
struct Member {
    batch: Batch,
    memory: RankMemory,
    parts: RankParts,
    range: Range<usize>,
}

/// A batch that every rank has.
struct World {
    device: Device,
    members: Vec<Member>,
    whole: Batch,
    ids: Vec<SequenceId>,
    vocabulary: usize,
}

/// The rows of a step, and their masks.
struct Given {
    rows: Rows,
    masks: Vec<Option<Vec<u32>>>,
}

impl Given {
    fn new(dtype: Dtype, rows: Vec<Vec<f32>>) -> Self {
        let masks = vec![None; rows.len()];
        Self { rows: Rows::new(dtype, rows), masks }
    }

    fn steps(&self, ids: &[SequenceId], range: &Range<usize>) -> Vec<Step<'_>> {
        let step = |(row, &sequence): (usize, &SequenceId)| Step {
            sequence,
            row: self.rows.row(row).part(range.clone()),
            mask: self.masks[row].as_deref(),
        };
        ids.iter().enumerate().map(step).collect()
    }

    fn turns(&self, ids: &[SequenceId]) -> Vec<RankTurn<'_>> {
        let turn =
            |(row, &sequence): (usize, &SequenceId)| RankTurn { sequence, mask: self.masks[row].as_deref() };
        ids.iter().enumerate().map(turn).collect()
    }
}

impl World {
    fn new(device: &Device, params: &[SamplingParams], parts: Vec<Range<usize>>) -> Self {
        let vocabulary = parts.last().map_or(0, |part| part.end);
        let batch = || {
            let mut batch = Batch::new();
            let ids: Vec<_> =
                params.iter().map(|params| batch.add(params.clone()).expect("valid parameters")).collect();
            (batch, ids)
        };
        let (whole, ids) = batch();
        let member = |range| {
            let parts = RankParts::new(device).expect("memory");
            Member { batch: batch().0, memory: RankMemory::default(), parts, range }
        };
        Self {
            device: device.clone(),
            members: parts.into_iter().map(member).collect(),
            whole,
            ids,
            vocabulary,
        }
    }

    /// Draws once from each row: every message of the device is that of the CPU, and every token is that of
    /// the whole row. Returns how many messages there were.
    fn step(&mut self, given: &Given, ahead: u32, lie: Lie, what: &str) -> usize {
        let Self { device, members, whole, ids, vocabulary } = self;
        let expected = whole.peek(&given.steps(ids, &(0..*vocabulary)), ahead);
        let count = members.len();
        let uploaded: Vec<Uploaded> = members
            .iter()
            .map(|member| Uploaded::new(device, &part_of(&given.rows, &member.range), lie))
            .collect();
        let mut exchanges = Vec::new();
        let mut messages = Vec::new();
        for (member, uploaded) in members.iter_mut().zip(&uploaded) {
            let Member { batch, memory, parts, range } = member;
            let rank = Rank { count, vocabulary: *vocabulary, start: range.start };
            let steps = given.steps(ids, range);
            let cpu = batch.exchange(&steps, &rank, ahead, memory).message().expect("opens").to_vec();
            let matrix = uploaded.matrix(device);
            let turns = given.turns(ids);
            // SAFETY: the rows are kept to the end of the step.
            let exchange = unsafe { parts.exchange(batch, &turns, &matrix, &rank, ahead, Stream::default()) };
            let exchange = exchange.unwrap_or_else(|error| panic!("{what}: {error}"));
            let message = exchange.message().expect("a message");
            for (row, (found, right)) in
                message.chunks(Exchange::SLOT).zip(cpu.chunks(Exchange::SLOT)).enumerate()
            {
                let first = found.iter().zip(right).position(|(a, b)| a != b);
                assert_eq!(first, None, "{what}, row {row}, tokens {range:?}: {found:?} {right:?}");
            }
            assert_eq!(message.len(), cpu.len());
            messages.push(message);
            exchanges.push(exchange.into_exchange());
        }
        let mut sent = 0;
        while sent == 0 || exchanges[0].message().is_some() {
            exchanges.iter_mut().for_each(|exchange| exchange.receive(&messages));
            messages =
                exchanges.iter().filter_map(|exchange| exchange.message().map(<[u8]>::to_vec)).collect();
            sent += 1;
        }
        for results in exchanges.into_iter().map(Exchange::results) {
            assert_eq!(results, expected, "{what}");
        }
        sent
    }

    /// Appends what the whole rows draw, everywhere.
    fn accept(&mut self, given: &Given) {
        let mut results = self.whole.peek(&given.steps(&self.ids, &(0..self.vocabulary)), 0);
        for member in &mut self.members {
            member.batch.accept_results(self.ids.iter().copied(), &mut results);
        }
        self.whole.accept_results(self.ids.iter().copied(), &mut results);
    }
}

fn part_of(rows: &Rows, range: &Range<usize>) -> Rows {
    match rows {
        Rows::F32(rows) => Rows::F32(rows.iter().map(|row| row[range.clone()].to_vec()).collect()),
        Rows::F16(rows) => Rows::F16(rows.iter().map(|row| row[range.clone()].to_vec()).collect()),
        Rows::BF16(rows) => Rows::BF16(rows.iter().map(|row| row[range.clone()].to_vec()).collect()),
    }
}

fn any_given(random: &mut SplitMix64, count: usize, vocabulary: usize) -> Given {
    let rows = (0..count).map(|_| {
        let shape = one_of(random, &cases::SHAPES);
        let mut row = any_row(random, shape, vocabulary);
        for bad in [f32::NAN, f32::INFINITY] {
            if by_chance(random, 0.02) {
                row[random.below(vocabulary)] = bad;
            }
        }
        row
    });
    let rows = rows.collect();
    let mut given = Given::new(any_dtype(random), rows);
    for mask in &mut given.masks {
        *mask = by_chance(random, 0.2).then(|| cases::any_mask(random, vocabulary));
    }
    given
}

/// Where rows lie: aligned or not, with gaps or without.
fn any_lie(random: &mut SplitMix64) -> Lie {
    Lie {
        offset: one_of(random, &[0, 0, 4, 1]),
        padding: one_of(random, &[0, 0, 8, 3]),
        is_reversed: by_chance(random, 0.2),
    }
}

/// Everything at random: parameters, rows, masks, types, ranks, and several steps, so that counts, windows and
/// ends move along.
#[test]
fn openings_on_the_device_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        for count in [2, 3, 5, 16] {
            let random = &mut SplitMix64::new(1000 * round + count as u64);
            let vocabulary = one_of(random, &cases::VOCABULARIES[..11]).max(2);
            let params: Vec<_> = (0..6).map(|_| params_of_parts(random, vocabulary)).collect();
            let parts = any_parts(random, count, vocabulary);
            let mut world = World::new(&device, &params, parts);
            for step in 0..3 {
                let given = any_given(random, params.len(), vocabulary);
                let ahead = one_of(random, &[0, 0, 1, 7]);
                let what = format!("round {round}, {count} ranks, step {step}, {vocabulary} logits");
                world.step(&given, ahead, any_lie(random), &what);
                world.accept(&given);
            }
        }
    }
}

/// The chains that one message is made for.
const USUAL: [&str; 10] = [
    r#"{"temperature": 0}"#,
    r#"{"temperature": 0.8}"#,
    r#"{"temperature": 0.8, "min_p": 0.05}"#,
    r#"{"temperature": 0.8, "top_k": 50}"#,
    r#"{"temperature": 0.8, "top_p": 0.9}"#,
    r#"{"temperature": 0.8, "top_k": 50, "top_p": 0.9}"#,
    r#"{"temperature": 0.8, "min_p": 0.02, "top_p": 0.9}"#,
    r#"{"temperature": 0.8, "top_p": 0.9, "order": "top_p,temperature"}"#,
    r#"{"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.2, "frequency_penalty": 0.3,
        "logit_bias": {"3": 4, "700": -2}, "prompt_token_ids": [1, 2, 3, 500, 999]}"#,
    r#"{"temperature": 0.8, "top_k": 20, "logprobs": 3, "logprobs_mode": "raw_logprobs"}"#,
];

fn usual(seed: u64) -> Vec<SamplingParams> {
    let read =
        |json: &&str| SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    USUAL.iter().map(read).map(|params| SamplingParams { seed: Some(seed), ..params }).collect()
}

/// Rows on which the lists of the kernel overflow, or which are hard to prune, and those of models.
#[test]
fn usual_chains_on_every_kind_of_row() {
    let Some(device) = device() else { return };
    const VOCABULARY: usize = 9000;
    let mut rising: Vec<f32> = (0..VOCABULARY).map(|i| i as f32 * 1e-3).collect();
    let kinds = [
        ("peaked", rows::peaked(1, VOCABULARY)),
        ("flat", rows::gaussian(2, VOCABULARY, 1.0)),
        ("equal", rows::flat(VOCABULARY, 1.5)),
        ("ties", rows::ties(3, VOCABULARY, 3)),
        ("masked", rows::masked(4, VOCABULARY, 0.997)),
        ("extreme", rows::extreme(5, VOCABULARY)),
        ("denormal", rows::denormal(6, VOCABULARY)),
        ("rising", rising.clone()),
        ("falling", {
            rising.reverse();
            rising
        }),
        ("huge", rows::gaussian(7, VOCABULARY, 1e37)),
    ];
    for (seed, (name, row)) in kinds.into_iter().enumerate() {
        let params = usual(seed as u64);
        for (parts, dtype) in [
            (vec![0..1, 1..4500, 4500..9000], Dtype::F32),
            (vec![0..4480, 4480..9000], Dtype::BF16),
            ((0..16).map(|i| i * 9000 / 16..(i + 1) * 9000 / 16).collect(), Dtype::F16),
        ] {
            let given = Given::new(dtype, vec![row.clone(); params.len()]);
            let what = format!("{name} {dtype:?}, {} ranks", parts.len());
            World::new(&device, &params, parts).step(&given, 0, Lie::default(), &what);
        }
    }
}

/// Rows like those of a model over eight ranks: one message is enough.
#[test]
fn one_message_draws_a_step() {
    let Some(device) = device() else { return };
    let parts: Vec<_> = (0..8).map(|i| i * 4008..(i + 1) * 4008).collect();
    let mut world = World::new(&device, &usual(5), parts);
    let mut sent = 0;
    for step in 0..4 {
        let rows = (0..USUAL.len() as u64).map(|i| rows::peaked(100 * step + i, 32_064)).collect();
        let given = Given::new(Dtype::F32, rows);
        sent += world.step(&given, 0, Lie::default(), &format!("step {step}"));
        world.accept(&given);
    }
    // Raw logprobs need the total of the row, which is asked for.
    assert!(sent <= 8, "{sent} messages for 4 steps");
}

/// Each stage that changes the parts, with and without masks, at once and ahead, and each sequence twice.
#[test]
fn every_stage_changes_its_parts() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(19);
    let vocabulary = 2000;
    let params = cases::params_that_change_parts(random.next_u64());
    let mut world = World::new(&device, &params, vec![0..4, 4..700, 700..2000]);
    for step in 0..6 {
        let rows = params.iter().map(|_| cases::row_of_few(random, vocabulary)).collect();
        let mut given = Given::new(any_dtype(random), rows);
        for (mask, params) in given.masks.iter_mut().zip(&params) {
            let is_named = params.order.as_ref().is_none_or(|order| order.names(&Stage::Allowed));
            *mask = (step % 2 == 1 && is_named).then(|| cases::any_mask(random, vocabulary));
        }
        world.step(&given, [0, 0, 3][step % 3], Lie::default(), &format!("step {step}"));
        world.accept(&given);
    }
    // The parts of all rows of a step are changed side by side, also those of one sequence.
    let once = world.ids.clone();
    world.ids.extend(once);
    let rows = world.ids.iter().map(|_| cases::row_of_few(random, vocabulary)).collect();
    world.step(&Given::new(Dtype::F32, rows), 0, Lie::default(), "twice");
}

/// Texts that grow past `max_tokens`, one token at a time and many at once.
#[test]
fn long_texts_are_followed() {
    let Some(device) = device() else { return };
    let seeded = SamplingParams { seed: Some(6), max_tokens: 2, ..Default::default() };
    let params = [
        SamplingParams { dry_multiplier: 1.0, dry_allowed_length: 1, ..seeded.clone() },
        SamplingParams { no_repeat_ngram_size: 2, ..seeded },
    ];
    let mut world = World::new(&device, &params, vec![0..7, 7..20]);
    let given =
        |seed: u64| Given::new(Dtype::F32, (0..2).map(|i| rows::gaussian(seed + i, 20, 1.0)).collect());
    for step in 0..10 {
        world.step(&given(10 * step), 0, Lie::default(), &format!("step {step}"));
        world.accept(&given(10 * step));
    }
    let ids = world.ids.clone();
    for batch in world.members.iter_mut().map(|member| &mut member.batch).chain([&mut world.whole]) {
        for token in (0..40).map(|i| i * i % 19) {
            ids.iter().for_each(|&id| assert!(batch.accept(id, token)));
        }
    }
    world.step(&given(1000), 0, Lie::default(), "forty more");
}

/// Sequences that are taken back, removed and added follow those of the host.
#[test]
fn sequences_follow_the_host() {
    let Some(device) = device() else { return };
    let penalties = SamplingParams {
        frequency_penalty: 3.0,
        repetition_penalty: 1.5,
        penalty_window: 5,
        seed: Some(3),
        ..SamplingParams::default()
    };
    let mut world = World::new(&device, &[penalties.clone(), penalties.clone()], vec![0..130, 130..300]);
    let given =
        |seed: u64| Given::new(Dtype::F32, (0..2).map(|i| rows::gaussian(seed + i, 300, 1.0)).collect());
    let everywhere = |world: &mut World, change: &dyn Fn(&mut Batch, SequenceId)| {
        let id = world.ids[0];
        change(&mut world.whole, id);
        world.members.iter_mut().for_each(|member| change(&mut member.batch, id));
    };
    for step in 0..8 {
        world.step(&given(10 * step), 0, Lie::default(), &format!("step {step}"));
        world.accept(&given(10 * step));
    }
    // Several tokens at once, then fewer, then others.
    everywhere(&mut world, &|batch, id| (0..7).for_each(|token| assert!(batch.accept(id, token))));
    world.step(&given(100), 0, Lie::default(), "seven more");
    everywhere(&mut world, &|batch, id| assert!(batch.rewind(id, 2)));
    world.step(&given(110), 0, Lie::default(), "taken back to two");
    everywhere(&mut world, &|batch, id| assert!(batch.accept(id, 250)));
    world.step(&given(120), 0, Lie::default(), "another token");
    // A new sequence in the slot of an old one.
    let old = world.ids[0];
    everywhere(&mut world, &|batch, id| assert!(batch.remove(id)));
    world.step(&given(130), 0, Lie::default(), "nobody");
    let cold = SamplingParams { temperature: 0.5, ..penalties };
    for batch in world.members.iter_mut().map(|member| &mut member.batch).chain([&mut world.whole]) {
        world.ids[0] = batch.add(cold.clone()).expect("valid parameters");
    }
    assert!(old != world.ids[0] && old.slot() == world.ids[0].slot());
    world.step(&given(140), 0, Lie::default(), "a new one");
}

/// What the device cannot do is an error of the call, before anything is sent.
#[test]
fn what_the_device_refuses() {
    let Some(device) = device() else { return };
    let mut parts = RankParts::new(&device).expect("memory");
    let mut batch = Batch::new();
    let seeded = SamplingParams { seed: Some(1), ..SamplingParams::default() };
    let plain = batch.add(seeded.clone()).expect("valid");
    let rows = Rows::new(Dtype::F32, vec![rows::gaussian(1, 100, 1.0)]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let rank = Rank { count: 1, vocabulary: 100, start: 0 };
    let echo = |message: &[u8], _| Ok::<_, CudaError>(vec![message.to_vec()]);
    let mut sample = |batch: &mut Batch, turns: &[RankTurn<'_>], rank: &Rank| {
        parts.sample_over(batch, turns, &matrix, rank, Stream::default(), echo)
    };
    assert_eq!(sample(&mut batch, &[], &rank), Err(CudaError::Rows { rows: 1, turns: 0 }));
    let turn = RankTurn::new(plain);
    let shifted = Rank { start: 1, ..rank };
    let too_many = CudaError::TooMany { what: "logits", given: 101, capacity: 100 };
    assert_eq!(sample(&mut batch, &[turn], &shifted), Err(too_many));
    // A short mask is the error of its row.
    let masked = RankTurn { mask: Some(&[1, 2]), ..turn };
    let short = RowError::MaskTooShort { words: 2, needed: 4 };
    assert_eq!(sample(&mut batch, &[masked], &rank), Ok(vec![Err(short)]));
    assert_eq!(
        sample(&mut batch, &[RankTurn::new(SequenceId::NOBODY)], &rank),
        Ok(vec![Err(RowError::UnknownSequence)])
    );
    let expected: Vec<Result<Sampled, RowError>> = batch.peek(&[Step::new(plain, rows.row(0))], 0);
    assert_eq!(sample(&mut batch, &[turn], &rank), Ok(expected));
    assert_eq!(batch.output(plain).map(<[u32]>::len), Some(1), "it was appended");
    batch.take_back(plain, &Rewind { length: 0, token: 5, phrase: 0 });
    let expected = batch.peek(&[Step::new(plain, rows.row(0))], 0);
    assert_eq!(sample(&mut batch, &[turn], &rank), Ok(expected), "with other noise, and without token 5");
}

/// More edits than a record holds, in one segment and in several.
#[test]
fn chains_of_many_edits_are_drawn_over_ranks() {
    let Some(device) = device() else { return };
    let (random, vocabulary) = (&mut SplitMix64::new(9), 40);
    let params = cases::long_chains(9);
    let mut world = World::new(&device, &params, vec![0..7, 7..24, 24..40]);
    for step in 0..5 {
        let mut given = any_given(random, params.len(), vocabulary);
        if step == 4 {
            // What is left is a bad word, which comes after forty other edits.
            let lone = |token| if token == 9 { 1.0 } else { f32::NEG_INFINITY };
            given = Given::new(Dtype::F32, vec![(0..vocabulary).map(lone).collect(); params.len()]);
        }
        world.step(&given, 0, Lie::default(), &format!("step {step}"));
        world.accept(&given);
    }
}
