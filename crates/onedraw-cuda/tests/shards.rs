//! Rows split over shards, some on the device and some on the CPU: what is drawn is what the CPU draws from
//! the whole row. Without a driver the tests are skipped, and say so.
#![allow(unsafe_code)]

use std::ops::Range;

use onedraw::custom::{Change, Custom, Keep, View};
use onedraw::fault::Problem;
use onedraw::{Fault, Row, RowError, Sampled, Sampler, SamplingParams, ShardMemory, Shards, Stage};
use onedraw_cuda::{Copied, CudaError, Device, Shard};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_row, by_chance, one_of, params_of_parts};
use crate::beside::{MaskPair, Rows, device, rounds};

/// A shard on either side.
enum Either<'a> {
    Cpu(onedraw::Shard<'a>),
    Device(onedraw_cuda::ShardRow<'a>),
}

impl Either<'_> {
    fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        match self {
            Either::Cpu(shard) => shard.reply(question),
            Either::Device(shard) => shard.reply(question),
        }
    }
}

/// A shard that may answer from either side.
struct Member {
    range: Range<usize>,
    shard: Shard,
    sampler: Sampler,
    memory: ShardMemory,
}

/// One sequence over shards, and the same one over whole rows.
struct Split {
    device: Device,
    members: Vec<Member>,
    asker: Sampler,
    whole: Sampler,
    vocabulary: usize,
}

impl Split {
    /// Shards without tokens are left out.
    fn new(device: &Device, params: &SamplingParams, vocabulary: usize, shards: &Shards) -> Self {
        let sampler = || Sampler::new(params.clone()).expect("valid parameters");
        let member = |range| {
            let shard = Shard::new(device, params, vocabulary);
            let shard = shard.unwrap_or_else(|error| panic!("{error}: {params:?}"));
            Member { range, shard, sampler: sampler(), memory: ShardMemory::default() }
        };
        let ranges = (0..shards.count()).map(|shard| shards.range(shard, vocabulary));
        let members = ranges.filter(|range| !range.is_empty()).map(member).collect();
        Self { device: device.clone(), members, asker: sampler(), whole: sampler(), vocabulary }
    }

    /// Draws over the shards, those for which `on_device` holds on the device, and from the whole row. Returns
    /// what both drew.
    fn step(
        &mut self,
        row: Row<'_>,
        mask: Option<&MaskPair>,
        mut on_device: impl FnMut() -> bool,
        what: &str,
    ) -> Result<Sampled, RowError> {
        let expected = match mask {
            Some(mask) => self.whole.sample_masked(row, &mask.words),
            None => self.whole.sample(row),
        };
        let drawn = self.draw(row, mask, &mut on_device);
        assert_eq!(drawn, expected, "{what}: {:?}", self.whole.save());
        if let Ok(sampled) = &drawn {
            for member in &mut self.members {
                member.shard.accept(sampled.token).expect("a token");
                member.sampler.accept_sampled(sampled);
            }
        }
        drawn
    }

    fn draw(
        &mut self,
        row: Row<'_>,
        mask: Option<&MaskPair>,
        on_device: &mut dyn FnMut() -> bool,
    ) -> Result<Sampled, RowError> {
        let part = |range: &Range<usize>| row.part(range.clone());
        let copy = |member: &Member| Copied::new(&self.device, part(&member.range)).expect("memory");
        let copies: Vec<_> = self.members.iter().map(copy).collect();
        let shards = self.members.iter_mut().zip(&copies).map(|(member, copy)| {
            let Range { start, end } = member.range;
            if on_device() {
                let matrix = copy.matrix(1, end - start, end - start).expect("a matrix");
                let mask = mask.map(|mask| mask.mask(&self.device));
                Either::Device(member.shard.row(&matrix, start, mask).expect("a shard"))
            } else {
                let words = mask.map(|mask| &mask.words[..]);
                let shard = member.sampler.shard(part(&member.range), start, words, &mut member.memory);
                Either::Cpu(shard.expect("a shard"))
            }
        });
        let mut shards: Vec<_> = shards.collect();
        self.asker.sample_over(self.vocabulary, shards.len(), mask.is_some(), |question| {
            shards.iter_mut().map(|shard| shard.reply(question)).enumerate().collect()
        })
    }
}

/// Several steps of a sequence, so that counts, windows and ends move along.
fn random_sequence(device: &Device, random: &mut SplitMix64, count: usize, share: f64, what: &str) {
    let vocabulary = one_of(random, &cases::VOCABULARIES);
    let params = params_of_parts(random, vocabulary);
    let points: Vec<usize> = (1..count).map(|_| random.below(vocabulary + 1)).collect();
    let mut split = Split::new(device, &params, vocabulary, &Shards::at(points));
    for step in 0..4 {
        let (dtype, shape) = (any_dtype(random), one_of(random, &cases::SHAPES));
        let mut row = any_row(random, shape, vocabulary);
        for bad in [f32::NAN, f32::INFINITY] {
            if by_chance(random, 0.02) {
                row[random.below(vocabulary)] = bad;
            }
        }
        let rows = Rows::new(dtype, vec![row]);
        let mask = by_chance(random, 0.3).then(|| MaskPair::new(device, cases::any_mask(random, vocabulary)));
        let what = format!("{what}, step {step}, {vocabulary} {dtype:?} {shape:?}");
        _ = split.step(rows.row(0), mask.as_ref(), || by_chance(random, share), &what);
    }
}

#[test]
fn shards_on_the_device_draw_as_the_whole_row() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        for count in [1, 2, 3, 7, 16] {
            let random = &mut SplitMix64::new(100 * round + count as u64);
            random_sequence(&device, random, count, 1.0, &format!("round {round}, {count} shards"));
        }
    }
}

#[test]
fn shards_on_both_sides_draw_as_the_whole_row() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        for count in [2, 3, 7, 16] {
            let random = &mut SplitMix64::new(1_000_000 + 100 * round + count as u64);
            random_sequence(&device, random, count, 0.6, &format!("round {round}, {count} mixed shards"));
        }
    }
}

/// Each truncation alone, where its questions are the hard ones: many tokens, and ties.
#[test]
fn every_truncation_asks_over_shards() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(7);
    let vocabulary = 50_257;
    for json in [
        r#"{"top_p": 0.95}"#,
        r#"{"top_p": 0.5, "min_p": 0.001, "temperature": 1.5}"#,
        r#"{"top_k": 40}"#,
        r#"{"top_k": 1000, "top_p": 0.9}"#,
        r#"{"top_k": 20000}"#,
        r#"{"typical_p": 0.3}"#,
        r#"{"typical_p": 0.9, "top_p": 0.9, "temperature": 0.7}"#,
        r#"{"epsilon_cutoff": 0.0001}"#,
        r#"{"eta_cutoff": 0.001}"#,
        r#"{"top_a": 0.2}"#,
        r#"{"top_n_sigma": 1.0}"#,
        r#"{"temperature": 0, "logprobs": 20, "logprobs_mode": "processed_logprobs"}"#,
        r#"{"top_p": 0.9, "logprobs": 1024, "logprobs_mode": "raw_logits"}"#,
    ] {
        let params = SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let params = SamplingParams { seed: Some(random.next_u64()), ..params };
        for shape in cases::SHAPES {
            let shards = Shards::at([1, 63, 20_000, 20_000, 45_001]);
            let mut split = Split::new(&device, &params, vocabulary, &shards);
            let rows = Rows::new(any_dtype(random), vec![any_row(random, shape, vocabulary)]);
            _ = split.step(rows.row(0), None, || true, &format!("{json} {shape:?}"));
        }
    }
}

/// Each stage that changes the parts, with and without a mask, over several steps.
#[test]
fn every_stage_changes_its_parts() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(9);
    let vocabulary = 3000;
    for (i, params) in cases::params_that_change_parts(random.next_u64()).into_iter().enumerate() {
        let mut split = Split::new(&device, &params, vocabulary, &Shards::at([3, 65, 1100]));
        for step in 0..6 {
            let rows = Rows::new(any_dtype(random), vec![cases::row_of_few(random, vocabulary)]);
            let has_mask =
                step % 2 == 1 && params.order.as_ref().is_none_or(|order| order.names(&Stage::Allowed));
            let mask = has_mask.then(|| MaskPair::new(&device, cases::any_mask(random, vocabulary)));
            _ = split.step(rows.row(0), mask.as_ref(), || true, &format!("stage {i}, step {step}"));
        }
    }
}

/// Rows of six tokens over two shards, of which one can see what must be drawn.
#[test]
fn stages_draw_what_they_leave() {
    let Some(device) = device() else { return };
    let (even, rising) = ([3.0, 2.9, 2.8, 2.7, -5.0, -6.0], [1.0, 3.0, 2.0, 0.0, 0.0, 0.0]);
    let xtc = r#""xtc_probability": 1, "xtc_threshold": 0.1"#;
    let text = r#""prompt_token_ids": [0, 1, 0]"#;
    let nothing = |stage| Err(RowError::NothingLeft { stage: Some(stage) });
    for (json, row, mask, expected) in [
        (xtc.to_owned(), even, None, Ok(3)),
        (format!(r#"{xtc}, "xtc_protected_token_ids": [5, 1]"#), even, None, Ok(1)),
        (format!(r#""no_repeat_ngram_size": 2, {text}"#), rising, None, Ok(2)),
        (format!(r#""dry_multiplier": 5, "dry_allowed_length": 1, {text}"#), rising, None, Ok(2)),
        (format!(r#""dry_multiplier": 1.5, "dry_allowed_length": 1, {text}"#), even, None, Ok(0)),
        (
            r#""top_k": 2, "logit_bias": {"3": 90}, "order": "top_k,logit_bias,temperature""#.into(),
            rising,
            None,
            Ok(1),
        ),
        (
            r#""top_k": 2, "logit_bias": {"2": 1.5}, "order": "top_k,logit_bias,temperature""#.into(),
            rising,
            None,
            Ok(2),
        ),
        (r#""top_k": 2, "order": "top_k,allowed,temperature""#.into(), rising, Some(0b1100), Ok(2)),
        (
            r#""top_k": 2, "order": "top_k,allowed,temperature""#.into(),
            rising,
            Some(0b1001),
            nothing(Stage::Allowed),
        ),
        (
            r#""top_k": 2, "allowed_token_ids": [2, 3], "order": "top_k,allowed,temperature""#.into(),
            rising,
            None,
            Ok(2),
        ),
        (
            r#""top_k": 2, "logit_bias": {"1": 1}, "bad_words_ids": [[2], [1]],
               "order": "top_k,logit_bias,bad_words,temperature""#
                .into(),
            rising,
            None,
            nothing(Stage::BadWords),
        ),
    ] {
        let params = SamplingParams::from_json(&format!(r#"{{"temperature": 0, "seed": 1, {json}}}"#));
        let params = params.unwrap_or_else(|error| panic!("{json}: {error}"));
        let mut split = Split::new(&device, &params, 6, &Shards::at([3]));
        let mask = mask.map(|bits| MaskPair::new(&device, vec![bits]));
        let drawn = split.step(Row::from(&row[..]), mask.as_ref(), || true, &json);
        assert_eq!(drawn.map(|sampled| sampled.token), expected, "{json}");
    }
}

/// A user's own stages run where the draw runs; the device makes their changes.
#[test]
fn stages_of_ones_own() {
    let Some(device) = device() else { return };
    let sparse = Custom::edit("sparse", |view: &View<'_>| {
        let of = |token: u32| (token, view.logits()[token as usize] + 3.0);
        Ok(Change::Sparse(vec![of(40), (41, f32::NEG_INFINITY), of(700), (701, 1e30), (701, 4.0)]))
    });
    let dense = Custom::edit("dense", |view: &View<'_>| {
        Ok(Change::Dense(view.logits().iter().map(|x| x * 0.5).collect()))
    });
    let odd = Custom::truncation("odd", |_: &View<'_>| Ok(Keep::Only((1..1000).step_by(2).collect())));
    let without = Custom::truncation("without", |_: &View<'_>| Ok(Keep::AllBut(vec![1, 41, 701])));
    let [sparse, dense, odd, without] =
        [sparse, dense, odd, without].map(|stage| Stage::Custom(stage.expect("a good name")));
    let random = &mut SplitMix64::new(11);
    for (i, mut stages) in [
        vec![sparse.clone()],
        vec![dense.clone(), Stage::TopP],
        vec![Stage::TopK, odd.clone()],
        vec![Stage::Temperature, without, Stage::LogitBias, sparse, Stage::Xtc, dense, Stage::Allowed, odd],
    ]
    .into_iter()
    .enumerate()
    {
        // All that is on must be named.
        for stage in [Stage::LogitBias, Stage::Temperature, Stage::TopK, Stage::TopP, Stage::Xtc] {
            if !stages.contains(&stage) {
                stages.push(stage);
            }
        }
        let params = SamplingParams {
            temperature: 0.8,
            top_k: 300,
            top_p: 0.9,
            xtc_probability: 1.0,
            logit_bias: [(3, 1.0), (999, 5.0)].into(),
            seed: Some(random.next_u64()),
            order: Some(onedraw::Order::of(stages)),
            ..Default::default()
        };
        let mut split = Split::new(&device, &params, 1000, &Shards::at([64, 700]));
        for step in 0..4 {
            let rows = Rows::new(any_dtype(random), vec![cases::row_of_few(random, 1000)]);
            let drawn = split.step(rows.row(0), None, || true, &format!("stages {i}, step {step}"));
            assert!(drawn.is_ok(), "{drawn:?}");
        }
    }
}

/// More edits than a record holds, in one segment and in several, with a mask and without.
#[test]
fn a_chain_may_have_any_number_of_edits() {
    let Some(device) = device() else { return };
    let (random, vocabulary) = (&mut SplitMix64::new(8), 40);
    let lone: Vec<f32> =
        (0..vocabulary).map(|token| if token == 9 { 1.0 } else { f32::NEG_INFINITY }).collect();
    let mask = MaskPair::new(&device, vec![!(1 << 5), u32::MAX]);
    for (i, params) in cases::long_chains(8).into_iter().enumerate() {
        let names = |stage| params.order.as_ref().is_some_and(|order| order.names(&stage));
        let (has_words, has_mask) = (names(Stage::BadWords), names(Stage::Allowed));
        let mut split = Split::new(&device, &params, vocabulary, &Shards::at([8, 24]));
        for step in 0..4 {
            let (row, what) =
                (any_row(random, cases::Shape::Zipf, vocabulary), format!("chain {i}, step {step}"));
            let mask = (has_mask && step % 2 == 1).then_some(&mask);
            let drawn = split.step(Row::from(&row[..]), mask, || step < 2 || by_chance(random, 0.5), &what);
            assert!(drawn.is_ok(), "{what}: {drawn:?}");
            // What is left is a bad word.
            let drawn = split.step(Row::from(&lone[..]), mask, || true, &what);
            match has_words {
                true => {
                    assert_eq!(drawn, Err(RowError::NothingLeft { stage: Some(Stage::BadWords) }), "{what}")
                }
                false => assert_eq!(drawn.map(|sampled| sampled.token), Ok(9), "{what}"),
            }
        }
    }
}

/// Nobody has to stop at `max_tokens`, and all of the text counts.
#[test]
fn texts_grow_past_what_was_said() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(12);
    for json in [
        r#"{"dry_multiplier": 0.5, "dry_allowed_length": 1, "max_tokens": 3}"#,
        r#"{"dry_multiplier": 0.5, "dry_allowed_length": 1, "dry_penalty_last_n": 20, "max_tokens": 3}"#,
        r#"{"no_repeat_ngram_size": 3, "max_tokens": 1}"#,
    ] {
        let params = SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let mut split =
            Split::new(&device, &SamplingParams { seed: Some(4), ..params }, 12, &Shards::at([5]));
        for step in 0..60 {
            let row = any_row(random, cases::Shape::Flat, 12);
            let drawn = split.step(Row::from(&row[..]), None, || true, &format!("{json}, step {step}"));
            assert!(drawn.is_ok(), "{drawn:?}");
        }
    }
}

#[test]
fn sequences_of_one_request_differ_by_their_number() {
    let Some(device) = device() else { return };
    let params = SamplingParams { n: 3, seed: Some(5), temperature: 2.0, ..Default::default() };
    let row = any_row(&mut SplitMix64::new(3), cases::Shape::Flat, 1000);
    let copy = Copied::new(&device, Row::from(&row[..])).expect("memory");
    let matrix = copy.matrix(1, 1000, 1000).expect("a matrix");
    let shards = Shard::sequences(&device, &params, 1000).expect("sequences");
    let askers = Sampler::sequences(params.clone()).expect("valid parameters");
    let wholes = Sampler::sequences(params).expect("valid parameters");
    assert_eq!(shards.len(), 3);
    for ((mut shard, mut asker), mut whole) in shards.into_iter().zip(askers).zip(wholes) {
        let mut shard = shard.row(&matrix, 0, None).expect("a shard");
        let drawn = asker.sample_over(1000, 1, false, |question| vec![(0, shard.reply(question))]);
        assert_eq!(drawn, whole.sample(&row[..]));
    }
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let Some(device) = device() else { return };
    let new = |params: &SamplingParams| Shard::new(&device, params, 100).map(|_| ());
    let seeded = SamplingParams { seed: Some(1), ..Default::default() };
    let wide = SamplingParams { penalty_window: (1 << 20) + 1, ..seeded.clone() };
    assert_eq!(new(&SamplingParams { repetition_penalty: 2.0, ..wide }), Ok(()));
    assert!(matches!(new(&SamplingParams::default()), Err(CudaError::Params(_))), "no seed");
    assert_eq!(new(&SamplingParams { temperature: 0.0, ..Default::default() }), Ok(()));

    let mut shard = Shard::new(&device, &seeded, 100).expect("a shard");
    let copy = Copied::new(&device, Row::from(&[0.5_f32; 60][..])).expect("memory");
    let matrix = copy.matrix(1, 60, 60).expect("a matrix");
    let given = shard.row(&matrix, 41, None).err();
    assert_eq!(given, Some(CudaError::TooMany { what: "logits", given: 101, capacity: 100 }));
    let rows = copy.matrix(2, 30, 30).expect("a matrix");
    assert_eq!(shard.row(&rows, 0, None).err(), Some(CudaError::Rows { rows: 2, turns: 1 }));
    let mask = MaskPair::new(&device, vec![u32::MAX; 3]);
    let short = shard.row(&matrix, 40, Some(mask.mask(&device))).err();
    assert_eq!(short, Some(RowError::MaskTooShort { words: 3, needed: 4 }.into()));
    assert!(matches!(shard.accept(100), Err(CudaError::Row(RowError::OutsideVocabulary { .. }))));

    // A draw of another chain ends with what the device says.
    let order = Some("top_k,logit_bias".parse().expect("a valid order"));
    let later = SamplingParams { top_k: 5, logit_bias: [(1, 1.0)].into(), order, ..seeded.clone() };
    let asker = Sampler::new(later).expect("valid parameters");
    let mut shard = Shard::new(&device, &seeded, 60).expect("a shard");
    let mut row = shard.row(&matrix, 0, None).expect("a shard");
    let drawn = asker.clone().sample_over(60, 1, false, |question| vec![(0, row.reply(question))]);
    let problem = Problem::Failed("the chain has no segment 1".to_owned());
    assert_eq!(drawn, Err(RowError::Shard(Fault::Reply { shard: 0, problem })));
    // And so does one at another position.
    let mut asker = Sampler::new(seeded).expect("valid parameters");
    asker.accept(3);
    let drawn = asker.sample_over(60, 1, false, |question| vec![(0, row.reply(question))]);
    let problem = Problem::Failed("the question is about another draw: position 1, here 0".to_owned());
    assert_eq!(drawn, Err(RowError::Shard(Fault::Reply { shard: 0, problem })));
}
