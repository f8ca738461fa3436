//! Rows split over shards, some on the device and some on the CPU: what is drawn is what the CPU draws from
//! the whole row. Without a driver the tests are skipped, and say so.
#![allow(unsafe_code)]

use std::ops::Range;

use onedraw::custom::{Custom, Keep, View};
use onedraw::fault::Problem;
use onedraw::{Fault, Order, Row, RowError, Sampled, Sampler, SamplingParams, ShardMemory, Shards, Stage};
use onedraw_cuda::{Copied, CudaError, Device, Shard};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_params, any_row, by_chance, one_of};
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

    /// Draws over the shards, those for which `on_device` holds on the device, and from the whole row.
    fn step(
        &mut self,
        row: Row<'_>,
        mask: Option<&MaskPair>,
        mut on_device: impl FnMut() -> bool,
        what: &str,
    ) {
        let expected = match mask {
            Some(mask) => self.whole.sample_masked(row, &mask.words),
            None => self.whole.sample(row),
        };
        let drawn = self.draw(row, mask, &mut on_device);
        assert_eq!(drawn, expected, "{what}: {:?}", self.whole.save());
        if let Ok(sampled) = drawn {
            for member in &mut self.members {
                member.shard.accept(sampled.token).expect("a token");
                member.sampler.accept_sampled(&sampled);
            }
        }
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
    let params = any_params(random, vocabulary);
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
        split.step(rows.row(0), mask.as_ref(), || by_chance(random, share), &what);
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
            split.step(rows.row(0), None, || true, &format!("{json} {shape:?}"));
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
    let xtc = SamplingParams { xtc_probability: 0.5, ..seeded.clone() };
    assert!(matches!(new(&xtc), Err(CudaError::Unsupported { .. })));
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

    // A draw that asks for more than the device can ends with what the device says.
    let keep = Custom::truncation("keep", |_: &View<'_>| Ok(Keep::Only(vec![50]))).expect("a good name");
    let order = Some(Order::of([Stage::Custom(keep)]));
    let asker = Sampler::new(SamplingParams { order, ..seeded.clone() }).expect("valid parameters");
    let mut shard = Shard::new(&device, &seeded, 60).expect("a shard");
    let mut row = shard.row(&matrix, 0, None).expect("a shard");
    let drawn = asker.clone().sample_over(60, 1, false, |question| vec![(0, row.reply(question))]);
    let problem = Problem::Failed(unsupported("a custom stage").to_string());
    assert_eq!(drawn, Err(RowError::Shard(Fault::Reply { shard: 0, problem })));
    // And so does one at another position.
    let mut asker = Sampler::new(seeded).expect("valid parameters");
    asker.accept(3);
    let drawn = asker.sample_over(60, 1, false, |question| vec![(0, row.reply(question))]);
    let problem = Problem::Failed("the question is about another draw: position 1, here 0".to_owned());
    assert_eq!(drawn, Err(RowError::Shard(Fault::Reply { shard: 0, problem })));
}

fn unsupported(what: &str) -> CudaError {
    CudaError::Unsupported { what: what.into() }
}
