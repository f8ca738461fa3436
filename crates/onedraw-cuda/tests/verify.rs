//! Drafts judged on a device beside the CPU: the verdicts are the same in all they say. Without a driver the
//! tests are skipped, and say so.
#![allow(unsafe_code)]

use onedraw::speculate::{Draft, Law, Probabilities, Typical, Verify};
use onedraw::{Row, RowError, SamplingParams, Step};
use onedraw_cuda::{Batch, Capacity, CudaError, Device, DraftTurn, Dtype, SequenceId, Stream};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_params, any_row, any_token, by_chance, one_of};
use crate::beside::twins::Pair;
use crate::beside::{Lie, Rows, Uploaded, device, rounds};

/// Ways to judge that the device has.
const MODES: [Verify; 3] = [Verify::Exact, Verify::Rejection, Verify::Block];
/// The most rows of a call.
const ROWS: usize = 64;

struct Judges {
    device: Device,
    gpu: Batch,
    cpu: onedraw::Batch,
}

/// A draft of a sequence, and the target's rows for it.
struct Case {
    pair: Pair,
    draft: Draft,
    rows: Vec<Vec<f32>>,
}

impl Judges {
    fn new(device: &Device, sequences: usize, vocabulary: usize) -> Self {
        let capacity = Capacity { sequences, rows: ROWS, vocabulary, logprobs: cases::MOST_LOGPROBS };
        let gpu = Batch::new(device, capacity).expect("a batch");
        Self { device: device.clone(), gpu, cpu: onedraw::Batch::new() }
    }

    fn add(&mut self, params: &SamplingParams) -> Pair {
        let gpu = self.gpu.add(params).unwrap_or_else(|error| panic!("{error}: {params:?}"));
        (gpu, self.cpu.add(params.clone()).expect("valid parameters"))
    }

    /// Judges on both sides and compares; then the sequences take the first verdicts, so that histories go
    /// on.
    fn judge(&mut self, cases: &[Case], dtype: Dtype, verify: Verify, what: &str) -> usize {
        let rows = Rows::new(dtype, cases.iter().flat_map(|case| case.rows.clone()).collect());
        let uploaded = Uploaded::new(&self.device, &rows, Lie::default());
        let turns: Vec<DraftTurn<'_>> =
            cases.iter().map(|case| DraftTurn { sequence: case.pair.0, draft: &case.draft }).collect();
        let verdicts = self.gpu.verify(&turns, &uploaded.matrix(&self.device), verify).expect("verdicts");
        assert_eq!(verdicts.len(), cases.len());
        let (mut first, mut held) = (0, 0);
        let mut moved = Vec::new();
        for (i, (case, verdict)) in cases.iter().zip(verdicts).enumerate() {
            let own: Vec<Row<'_>> = (first..first + case.rows.len()).map(|row| rows.row(row)).collect();
            first += own.len();
            let expected = self.cpu.verify(case.pair.1, &case.draft, &own, None, verify);
            let saved = self.cpu.save(case.pair.1);
            assert_eq!(verdict, expected, "{what}, draft {i}: {:?} of {saved:?}", case.draft.tree);
            let Ok(verdict) = verdict else { continue };
            held += verdict.path.len();
            // A second draft of the sequence was judged where the sequence stood before.
            if !cases[..i].iter().any(|other| other.pair == case.pair) {
                moved.push((case.pair, verdict));
            }
        }
        for (pair, verdict) in moved {
            for sampled in &verdict.sampled {
                self.gpu.accept(Stream::default(), &[(pair.0, sampled.token)]).expect("a token");
                self.cpu.accept_sampled(pair.1, sampled);
            }
        }
        held
    }

    /// A random draft of at most so many nodes. Guesses are drawn from a row like the target's, or given:
    /// what the target itself draws, or anything.
    fn draft(&mut self, random: &mut SplitMix64, pair: Pair, most: usize, is_chain: bool) -> Case {
        let vocabulary = self.gpu.capacity().vocabulary;
        let shape = one_of(random, &cases::SHAPES);
        let (mut draft, mut rows) = (Draft::default(), vec![any_row(random, shape, vocabulary)]);
        let begun = self.cpu.output(pair.1).expect("a sequence").len();
        let mut open = vec![None];
        while let Some(node) = open.pop() {
            let left = most - draft.tree.len();
            let count = if is_chain { left.min(1) } else { random.below(4).min(left) };
            if count == 0 {
                continue;
            }
            let fork = self.cpu.fork(pair.1).expect("a sequence");
            for step in node.map_or(Vec::new(), |node| draft.tree.path(node)) {
                self.cpu.accept(fork, draft.tree.tokens()[step]);
            }
            let row = rows[node.map_or(0, |node: usize| node + 1)].clone();
            let (tokens, law) = self.guesses(random, fork, row, count, begun);
            self.cpu.remove(fork);
            for child in draft.grow(node, &tokens, law) {
                // Of a guess that is there already there is a row already.
                if rows.len() == child + 1 {
                    rows.push(any_row(random, shape, vocabulary));
                    open.insert(0, Some(child));
                }
            }
        }
        if by_chance(random, 0.1) {
            let (row, token) = (random.below(rows.len()), random.below(vocabulary));
            rows[row][token] = one_of(random, &[f32::NAN, f32::INFINITY]);
        }
        Case { pair, draft, rows }
    }

    fn guesses(
        &mut self,
        random: &mut SplitMix64,
        fork: onedraw::SequenceId,
        row: Vec<f32>,
        count: usize,
        begun: usize,
    ) -> (Vec<u32>, Law) {
        let vocabulary = row.len();
        let mut tokens: Vec<u32> = (0..count).map(|_| any_token(random, vocabulary)).collect();
        match random.below(5) {
            0 => {}
            1 => {
                if let Some(Ok(sampled)) = self.cpu.sample(&[Step::new(fork, &row[..])]).pop() {
                    tokens[random.below(count)] = sampled.token;
                }
            }
            _ => {
                let far = one_of(random, &[0.0, 0.0, 0.3, 2.0]);
                let near: Vec<f32> = row.iter().map(|x| x + far * random.uniform() as f32).collect();
                if let Ok((tokens, law)) = self.cpu.guess(&Step::new(fork, &near[..]), count, begun) {
                    return (tokens, law);
                }
            }
        }
        (tokens, Law::Given)
    }
}

fn seeded(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), ..Default::default() }
}

/// Several calls, so that histories along paths meet windows and words that began before them.
fn random_drafts_are_judged_as_on_the_cpu(verify: Verify, is_chain: bool) {
    let Some(device) = device() else { return };
    let mut held = 0;
    for round in 0..rounds() {
        let random = &mut SplitMix64::new(7000 + round);
        let vocabulary = one_of(random, &cases::VOCABULARIES);
        let count = 1 + random.below(6);
        let mut judges = Judges::new(&device, count, vocabulary);
        let pairs: Vec<Pair> = (0..count).map(|_| judges.add(&any_params(random, vocabulary))).collect();
        for call in 0..3 {
            let most = ROWS / (count + 1) - 1;
            let mut drafted = pairs.clone();
            // A sequence may have two drafts.
            drafted.push(pairs[random.below(count)]);
            let cases: Vec<Case> = drafted
                .into_iter()
                .map(|pair| {
                    let nodes = random.below(most.min(9) + 1);
                    judges.draft(random, pair, nodes, is_chain)
                })
                .collect();
            let dtype = any_dtype(random);
            let what = format!("{verify}, round {round}, call {call}, {vocabulary} {dtype:?}");
            held += judges.judge(&cases, dtype, verify, &what);
        }
    }
    assert!(held > 0, "no guess was ever right: nothing was tested");
    println!("{held} guesses held");
}

#[test]
fn chains_are_judged_exactly() {
    random_drafts_are_judged_as_on_the_cpu(Verify::Exact, true);
}

#[test]
fn trees_are_judged_exactly() {
    random_drafts_are_judged_as_on_the_cpu(Verify::Exact, false);
}

#[test]
fn chains_are_judged_by_rejection() {
    random_drafts_are_judged_as_on_the_cpu(Verify::Rejection, true);
}

#[test]
fn trees_are_judged_by_rejection() {
    random_drafts_are_judged_as_on_the_cpu(Verify::Rejection, false);
}

#[test]
fn chains_are_judged_as_blocks() {
    random_drafts_are_judged_as_on_the_cpu(Verify::Block, true);
}

#[test]
fn verification_moves_nobody_and_the_next_step_is_sound() {
    let Some(device) = device() else { return };
    let params = SamplingParams { frequency_penalty: 0.5, penalty_window: 2, logprobs: Some(3), ..seeded(4) };
    let mut judges = Judges::new(&device, 1, 300);
    let pair = judges.add(&params);
    let random = &mut SplitMix64::new(5);
    let row = any_row(random, cases::Shape::Zipf, 300);
    let rows = Rows::new(Dtype::F32, vec![row; 3]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let draft = Draft::given(onedraw::speculate::DraftTree::chain(&[1, 2]));
    let turn = DraftTurn { sequence: pair.0, draft: &draft };
    for verify in MODES {
        let first = judges.gpu.verify(&[turn], &matrix, verify).expect("verdicts");
        assert_eq!(judges.gpu.verify(&[turn], &matrix, verify).expect("verdicts"), first);
        assert_eq!(judges.gpu.position(pair.0), Ok(0));
        assert_eq!(judges.gpu.results(Stream::default()), Err(CudaError::NoResults), "nothing is prepared");
    }
    let one = Uploaded::new(&device, &Rows::new(Dtype::F32, vec![vec![0.5; 300]]), Lie::default());
    let drawn = judges.gpu.sample(&[onedraw_cuda::Turn::new(pair.0)], &one.matrix(&device)).expect("a step");
    let expected = judges.cpu.sample(&[Step::new(pair.1, &vec![0.5_f32; 300][..])]);
    assert_eq!(drawn, expected);
}

#[test]
fn guesses_that_are_no_tokens_are_never_taken() {
    let Some(device) = device() else { return };
    for top_p in [1.0, 0.5] {
        let params = SamplingParams { frequency_penalty: 0.5, top_p, logprobs: Some(2), ..seeded(9) };
        let mut judges = Judges::new(&device, 1, 300);
        let pair = judges.add(&params);
        let random = &mut SplitMix64::new(5);
        for guesses in [[5, 300, 6], [5, 319, u32::MAX], [u32::MAX, 5, 5]] {
            let rows = (0..4).map(|_| any_row(random, cases::Shape::Zipf, 300)).collect();
            let case = Case { pair, draft: Draft::chain(&guesses), rows };
            judges.judge(&[case], Dtype::F32, Verify::Exact, "no tokens");
        }
    }
}

#[test]
fn what_cannot_be_judged_is_told() {
    let Some(device) = device() else { return };
    let mut judges = Judges::new(&device, 2, 100);
    let pair = judges.add(&seeded(1));
    let mut tree = Draft::default();
    tree.grow(None, &[1, 2], Law::Given);
    let mut impossible = Draft::default();
    impossible.grow(None, &[1], Law::Drawn(Probabilities::certain(2)));
    let mut outside = Draft::default();
    outside.grow(None, &[1], Law::Drawn(Probabilities::new([(1, 0.5), (100, 0.5)]).expect("a law")));
    let mut short = Draft::chain(&[1]);
    short.laws = vec![Law::Given];
    let stranger = (SequenceId::NOBODY, onedraw::SequenceId::NOBODY);
    let drafts = [
        (pair, tree),
        (pair, Draft::chain(&[1])),
        (pair, impossible),
        (pair, outside),
        (stranger, Draft::default()),
        (pair, short),
        (pair, Draft::chain(&[1000])),
        (pair, Draft::default()),
    ];
    for verify in MODES {
        let row = |draft: &Draft| vec![vec![0.25; 100]; draft.tree.len() + 1];
        let cases: Vec<Case> = drafts
            .iter()
            .map(|(pair, draft)| Case { pair: *pair, draft: draft.clone(), rows: row(draft) })
            .collect();
        judges.judge(&cases, Dtype::F32, verify, &format!("{verify}"));
    }
    let rows = Rows::new(Dtype::F32, vec![vec![0.25; 100]; 2]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let (long, right, none) = (Draft::chain(&[1; ROWS]), Draft::chain(&[1]), Draft::default());
    let turn = |draft| [DraftTurn { sequence: pair.0, draft }];
    assert_eq!(
        judges.gpu.verify(&turn(&long), &matrix, Verify::Exact),
        Err(CudaError::TooMany { what: "rows", given: ROWS + 1, capacity: ROWS })
    );
    assert_eq!(
        judges.gpu.verify(&turn(&none), &matrix, Verify::Exact),
        Err(CudaError::Rows { rows: 2, turns: 1 })
    );
    let typical = judges.gpu.verify(&turn(&right), &matrix, Verify::Typical(Typical::default()));
    let message = "typical verification is not on the device yet; draw these rows on the CPU";
    assert_eq!(typical.expect_err("not on the device").to_string(), message);
    let lacking = judges.gpu.verify(&turn(&right), &matrix, Verify::Block).expect("a verdict");
    assert_eq!(lacking, [Err(RowError::DraftWithoutLaws)]);
}
