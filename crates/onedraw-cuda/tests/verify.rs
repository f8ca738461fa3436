//! Drafts judged on a device beside the CPU: the verdicts are the same in all they say. Without a driver the
//! tests are skipped, and say so.
#![allow(unsafe_code)]

use onedraw::speculate::{Draft, DraftTree, Law, Probabilities, Typical, Verify};
use onedraw::{Row, RowError, SamplingParams, Step};
use onedraw_cuda::{Batch, Capacity, CudaError, Device, DraftTurn, Dtype, SequenceId, Stream};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_row, any_token, by_chance, one_of, params_of_drafts};
use crate::beside::twins::Pair;
use crate::beside::{Lie, Rows, Uploaded, device, rounds};

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
            let sampled = verdict.sampled.iter().map(|sampled| (pair.0, sampled));
            self.gpu.accept_sampled(Stream::default(), sampled).expect("tokens");
            for sampled in &verdict.sampled {
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

/// Several calls, so that histories along paths meet windows and words that began before them. The modes take
/// turns.
fn random_drafts_are_judged_as_on_the_cpu(modes: &[Verify], is_chain: bool) {
    let Some(device) = device() else { return };
    let mut held = 0;
    for round in 0..rounds() {
        let random = &mut SplitMix64::new(7000 + round);
        let vocabulary = one_of(random, &cases::VOCABULARIES);
        let count = 1 + random.below(6);
        let mut judges = Judges::new(&device, count, vocabulary);
        let pairs: Vec<Pair> =
            (0..count).map(|_| judges.add(&params_of_drafts(random, vocabulary))).collect();
        for call in 0..3 {
            let verify = modes[(3 * round as usize + call) % modes.len()];
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
            let what = format!("{verify:?}, round {round}, call {call}, {vocabulary} {dtype:?}");
            held += judges.judge(&cases, dtype, verify, &what);
        }
    }
    assert!(held > 0, "no guess was ever right: nothing was tested");
    println!("{held} guesses held");
}

#[test]
fn chains_are_judged_exactly() {
    random_drafts_are_judged_as_on_the_cpu(&[Verify::Exact], true);
}

#[test]
fn trees_are_judged_exactly() {
    random_drafts_are_judged_as_on_the_cpu(&[Verify::Exact], false);
}

#[test]
fn chains_are_judged_by_rejection() {
    random_drafts_are_judged_as_on_the_cpu(&[Verify::Rejection], true);
}

#[test]
fn trees_are_judged_by_rejection() {
    random_drafts_are_judged_as_on_the_cpu(&[Verify::Rejection], false);
}

#[test]
fn chains_are_judged_as_blocks() {
    random_drafts_are_judged_as_on_the_cpu(&[Verify::Block], true);
}

/// Settings with which a guess is likely by its probability, by the entropy, always, and never.
const TYPICAL: [Verify; 6] = [
    Verify::Typical(Typical { threshold: 0.3, alpha: 0.09 }),
    Verify::Typical(Typical { threshold: 0.05, alpha: 10.0 }),
    Verify::Typical(Typical { threshold: 1.0, alpha: 0.5 }),
    Verify::Typical(Typical { threshold: f64::NAN, alpha: -1.0 }),
    Verify::Typical(Typical { threshold: 1.0, alpha: 1.0 }),
    Verify::Typical(Typical { threshold: f64::INFINITY, alpha: f64::INFINITY }),
];

#[test]
fn likely_chains_are_taken() {
    random_drafts_are_judged_as_on_the_cpu(&TYPICAL, true);
}

#[test]
fn likely_trees_are_taken() {
    random_drafts_are_judged_as_on_the_cpu(&TYPICAL, false);
}

/// Every token is as likely as the bound says, but for the rounding of the entropy: then the terms are added as on
/// the CPU.
#[test]
fn guesses_at_the_bound_are_judged_by_the_bits_of_the_entropy() {
    let Some(device) = device() else { return };
    let mut held = Vec::new();
    for vocabulary in [2, 3, 5, 10, 63, 100, 999, 1000, 3000, 10_000] {
        let mut judges = Judges::new(&device, 1, vocabulary);
        let pair = judges.add(&seeded(3));
        let rows = vec![vec![0.5; vocabulary]; 2];
        let case = Case { pair, draft: Draft::chain(&[1]), rows };
        let typical = Typical { threshold: 1.0, alpha: 1.0 };
        held.push(judges.judge(&[case], Dtype::F32, Verify::Typical(typical), &format!("{vocabulary}")));
    }
    assert!(held.contains(&0) && held.contains(&1), "{held:?}");
}

#[test]
fn the_first_of_the_longest_likely_ways_is_taken() {
    let Some(device) = device() else { return };
    let mut judges = Judges::new(&device, 1, 100);
    let pair = judges.add(&seeded(3));
    // Tokens 0 to 3 are likely, and 4 is not.
    let row: Vec<f32> = (0..100).map(|token| if token < 4 { 9.0 } else { 0.0 }).collect();
    let mut tree = DraftTree::new();
    let [dead, short, late, early] = [4, 0, 2, 1].map(|token| tree.push(None, token));
    let below_dead = tree.push(Some(dead), 0);
    tree.push(Some(below_dead), 0);
    tree.push(Some(short), 4);
    let middle = tree.push(Some(early), 3);
    let first = tree.push(Some(late), 3);
    tree.push(Some(late), 2);
    let draft = Draft { tree, laws: Vec::new() };
    let rows = vec![row; draft.tree.len() + 1];
    let uploaded = Uploaded::new(&device, &Rows::new(Dtype::F32, rows.clone()), Lie::default());
    let turn = DraftTurn { sequence: pair.0, draft: &draft };
    let typical = Verify::Typical(Typical::default());
    let verdicts = judges.gpu.verify(&[turn], &uploaded.matrix(&device), typical).expect("verdicts");
    let verdict = verdicts[0].as_ref().expect("a verdict");
    assert_eq!((verdict.path.as_slice(), verdict.sampled.len()), (&[late, first][..], 3));
    assert!(middle < first, "the way over a later node has the lower number at its end");
    assert_eq!(judges.judge(&[Case { pair, draft, rows }], Dtype::F32, typical, "ways"), 2);
}

/// Mirostat learns from each accepted guess, and the verdict says what. The numbers are those of the formula.
#[test]
fn mirostat_learns_from_guesses() {
    let Some(device) = device() else { return };
    // Four tokens that are as likely as each other: each surprises by two bits.
    let row = vec![0.5; 4];
    let (guesses, likely) = ([1, 2, 0], Verify::Typical(Typical::default()));
    for mirostat in [1, 2] {
        let params = SamplingParams {
            mirostat,
            mirostat_tau: 3.0,
            mirostat_eta: 0.5,
            mirostat_mu: Some(6.0),
            ..seeded(7)
        };
        let mut judges = Judges::new(&device, 1, 4);
        let pair = judges.add(&params);
        let uploaded = Uploaded::new(&device, &Rows::new(Dtype::F32, vec![row.clone(); 4]), Lie::default());
        let draft = Draft::chain(&guesses);
        let turn = DraftTurn { sequence: pair.0, draft: &draft };
        let verdicts = judges.gpu.verify(&[turn], &uploaded.matrix(&device), likely).expect("verdicts");
        let verdict = verdicts[0].as_ref().expect("a verdict");
        let mus: Vec<f64> = verdict.sampled.iter().filter_map(|sampled| sampled.mirostat_mu).collect();
        assert_eq!((verdict.path.as_slice(), mus.as_slice()), (&[0, 1, 2][..], &[6.5, 7.0, 7.5, 8.0][..]));
        // The sequence goes on from there.
        let taken = verdict.sampled.iter().map(|sampled| (pair.0, sampled));
        judges.gpu.accept_sampled(Stream::default(), taken).expect("tokens");
        judges.gpu.accept(Stream::default(), &[(pair.0, 3)]).expect("a token");
        let one = Uploaded::new(&device, &Rows::new(Dtype::F32, vec![row.clone()]), Lie::default());
        let next =
            judges.gpu.sample(&[onedraw_cuda::Turn::new(pair.0)], &one.matrix(&device)).expect("a step");
        let next = next[0].as_ref().expect("a token");
        assert_eq!((next.mirostat_mu, next.position), (Some(8.5), 5));
    }
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
    let draft = Draft::given(DraftTree::chain(&[1, 2]));
    let turn = DraftTurn { sequence: pair.0, draft: &draft };
    for verify in Verify::ALL {
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
    for (top_p, verify) in
        [1.0, 0.5].into_iter().flat_map(|top_p| [(top_p, Verify::Exact), (top_p, Verify::ALL[3])])
    {
        let params = SamplingParams { frequency_penalty: 0.5, top_p, logprobs: Some(2), ..seeded(9) };
        let mut judges = Judges::new(&device, 1, 300);
        let pair = judges.add(&params);
        let random = &mut SplitMix64::new(5);
        for guesses in [[5, 300, 6], [5, 319, u32::MAX], [u32::MAX, 5, 5]] {
            let rows = (0..4).map(|_| any_row(random, cases::Shape::Zipf, 300)).collect();
            let case = Case { pair, draft: Draft::chain(&guesses), rows };
            judges.judge(&[case], Dtype::F32, verify, "no tokens");
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
    for verify in Verify::ALL {
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
    let lacking = judges.gpu.verify(&turn(&right), &matrix, Verify::Block).expect("a verdict");
    assert_eq!(lacking, [Err(RowError::DraftWithoutLaws)]);
}
