//! A vocabulary that is split over ranks, each of which runs the same draws: every token is that of the
//! whole row.

use std::ops::Range;

use onedraw::fault::Problem;
use onedraw::{
    Batch, Exchange, Fault, Kernel, Rank, RankMemory, RowError, Sampled, SamplingParams, SequenceId, Step,
};
use onedraw_testkit::parameters::any_case;
use onedraw_testkit::rows::{self, SplitMix64};
use proptest::prelude::*;

/// Where the ranks' parts end and begin: `count` parts that together hold every token, some of them none.
fn uneven(seed: u64, count: usize, vocabulary: usize) -> Vec<Range<usize>> {
    let mut random = SplitMix64::new(seed);
    let mut edges: Vec<usize> = (1..count).map(|_| random.below(vocabulary + 1)).collect();
    edges.extend([0, vocabulary]);
    edges.sort_unstable();
    edges.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

fn even(count: usize, vocabulary: usize) -> Vec<Range<usize>> {
    (0..count).map(|i| i * vocabulary / count..(i + 1) * vocabulary / count).collect()
}

/// The same batch on every rank, with all of its memory.
struct World {
    ranks: Vec<(Batch, RankMemory)>,
    sequences: Vec<SequenceId>,
    parts: Vec<Range<usize>>,
    vocabulary: usize,
}

/// What a step came to: the results of every rank, and how many messages it took.
struct Outcome {
    results: Vec<Vec<Result<Sampled, RowError>>>,
    exchanges: usize,
    bytes: usize,
}

impl World {
    fn new(params: &[SamplingParams], parts: &[Range<usize>]) -> Self {
        let mut sequences = Vec::new();
        let kernels = [Kernel::Auto, Kernel::Scalar];
        let mut rank = |number: usize| {
            // Ranks may be different machines.
            let mut batch = Batch::new().kernel(kernels[number % 2]).threads(1 + number % 3 / 2);
            sequences = params.iter().map(|params| batch.add(params.clone()).expect("valid")).collect();
            (batch, RankMemory::default())
        };
        let ranks = (0..parts.len()).map(&mut rank).collect();
        let vocabulary = parts.last().map_or(0, |part| part.end);
        Self { ranks, sequences, parts: parts.to_vec(), vocabulary }
    }

    /// Draws once from each row. `change` may change the messages of a round, counted from 0.
    fn step(&mut self, rows: &[Vec<f32>], change: impl Fn(usize, &mut Vec<Vec<u8>>)) -> Outcome {
        let Self { ranks, sequences, parts, vocabulary } = self;
        let count = ranks.len();
        let mut exchanges: Vec<Exchange<'_>> = Vec::new();
        for ((batch, memory), part) in ranks.iter_mut().zip(parts.iter()) {
            let steps: Vec<Step<'_>> = sequences
                .iter()
                .zip(rows)
                .map(|(&id, row)| Step::new(id, row.get(part.clone()).unwrap_or_default()))
                .collect();
            let rank = Rank { count, vocabulary: *vocabulary, start: part.start };
            exchanges.push(batch.exchange(&steps, &rank, 0, memory));
        }
        let (mut rounds, mut bytes) = (0, 0);
        while exchanges[0].message().is_some() {
            let sent = |exchange: &Exchange<'_>| {
                let message = exchange.message().expect("all ranks go on").to_vec();
                assert!(message.len() <= exchange.room());
                message
            };
            let rooms: Vec<usize> = exchanges.iter().map(Exchange::room).collect();
            assert!(rooms.iter().all(|room| *room == rooms[0]), "{rooms:?}");
            let mut messages: Vec<Vec<u8>> = exchanges.iter().map(sent).collect();
            bytes += messages[0].len();
            if rounds > 0 {
                // A transport may fill messages up to one length.
                messages
                    .iter_mut()
                    .for_each(|message| message.resize(rooms[0].min(100_000).max(message.len()), 0));
            }
            change(rounds, &mut messages);
            exchanges.iter_mut().for_each(|exchange| exchange.receive(&messages));
            rounds += 1;
            assert!(rounds < 100, "no end");
        }
        assert!(exchanges.iter().all(|exchange| exchange.message().is_none()), "all ranks end together");
        let results = exchanges.into_iter().map(Exchange::results).collect();
        Outcome { results, exchanges: rounds, bytes }
    }
}

/// The results of one process with the whole rows.
fn whole(params: &[SamplingParams], rows: &[Vec<f32>]) -> Vec<Result<Sampled, RowError>> {
    let mut batch = Batch::new();
    let ids: Vec<_> = params.iter().map(|params| batch.add(params.clone()).expect("valid")).collect();
    let steps: Vec<_> = ids.iter().zip(rows).map(|(&id, row)| Step::new(id, row)).collect();
    batch.peek(&steps, 0)
}

fn check(row: &[f32], params: &SamplingParams, parts: &[Range<usize>]) -> Result<usize, TestCaseError> {
    let params = [SamplingParams { seed: params.seed.or(Some(7)), n: 1, ..params.clone() }];
    let rows = [row.to_vec()];
    let expected = whole(&params, &rows);
    let outcome = World::new(&params, parts).step(&rows, |_, _| ());
    for results in outcome.results {
        prop_assert_eq!(&results, &expected, "{:?}", parts);
    }
    Ok(outcome.exchanges)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random rows with ties, masks and extreme logits, every parameter, any number of ranks.
    #[test]
    fn tokens_are_those_of_the_whole_row((row, params) in any_case(700), count in 1usize..17, seed: u64) {
        check(&row, &params, &uneven(seed, count, row.len()))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_larger_vocabularies((row, params) in any_case(20_000), count in 1usize..17, seed: u64) {
        check(&row, &params, &uneven(seed, count, row.len()))?;
    }
}

/// Chains that one round decides, on every kind of row.
const USUAL: [&str; 12] = [
    r#"{"temperature": 0}"#,
    r#"{"temperature": 0.8}"#,
    r#"{"temperature": 0.8, "min_p": 0.05}"#,
    r#"{"temperature": 0.8, "top_k": 50}"#,
    r#"{"temperature": 0.8, "top_p": 0.9}"#,
    r#"{"temperature": 0.8, "top_k": 50, "top_p": 0.9}"#,
    r#"{"temperature": 0.8, "min_p": 0.02, "top_p": 0.9}"#,
    r#"{"temperature": 0.8, "top_p": 0.9, "order": "top_p,temperature"}"#,
    r#"{"temperature": 0.8, "top_p": 0.9, "top_k": 50, "order": "top_p,top_k,temperature"}"#,
    r#"{"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.2, "logit_bias": {"3": 4, "700": -2},
        "prompt_token_ids": [1, 2, 3, 500, 999]}"#,
    r#"{"temperature": 0.8, "top_k": 20, "logprobs": 3, "logprobs_mode": "processed_logprobs"}"#,
    r#"{"temperature": 0.8, "epsilon_cutoff": 0.001}"#,
];

fn usual(seed: u64) -> Vec<SamplingParams> {
    let read = |json: &str| SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    USUAL.iter().map(|json| SamplingParams { seed: Some(seed), ..read(json) }).collect()
}

#[test]
fn usual_chains_on_every_kind_of_row() {
    let kinds = |seed| {
        vec![
            rows::peaked(seed, 20_000),
            rows::gaussian(seed, 20_000, 1.0),
            rows::gaussian(seed, 3000, 6.0),
            rows::flat(5000, 1.5),
            rows::ties(seed, 9000, 3),
            rows::masked(seed, 4000, 0.99),
            rows::extreme(seed, 4000),
            rows::denormal(seed, 2000),
            rows::gaussian(seed, 1000, 2.0),
        ]
    };
    for seed in 0..6 {
        for row in kinds(seed) {
            let params = usual(seed);
            let rows = vec![row.clone(); params.len()];
            let expected = whole(&params, &rows);
            for parts in [even(2, row.len()), even(16, row.len()), uneven(seed, 7, row.len())] {
                let outcome = World::new(&params, &parts).step(&rows, |_, _| ());
                for results in outcome.results {
                    assert_eq!(results, expected, "{parts:?}");
                }
            }
        }
    }
}

/// Rows that a model gave. They are in the repository, not in the package.
#[test]
fn real_rows() {
    const VOCABULARY: usize = 49_152;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/rows/smollm2-135m-8x49152.npy");
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        // Packed files have no folder above their own.
        Err(_) if !std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench")).exists() => {
            return;
        }
        Err(error) => panic!("{path}: {error}"),
    };
    let logits = &bytes[bytes.len() - 8 * 4 * VOCABULARY..];
    let logits: Vec<f32> = logits.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let mut open = 0;
    for (seed, row) in logits.chunks(VOCABULARY).enumerate() {
        let params = usual(seed as u64);
        let rows = vec![row.to_vec(); params.len()];
        let expected = whole(&params, &rows);
        for count in [2, 8, 16] {
            let outcome = World::new(&params, &even(count, VOCABULARY)).step(&rows, |_, _| ());
            for results in outcome.results {
                assert_eq!(results, expected);
            }
            open += usize::from(outcome.exchanges > 1);
        }
    }
    // Epsilon drops the winner of one row, and its cut needs the exact total.
    assert!(open <= 3, "{open} of 24 steps took more than one exchange");
}

/// Peaked rows as a language model gives them: nearly every draw is decided by the first message.
#[test]
fn one_exchange_is_nearly_always_enough() {
    const DRAWS: u64 = 60;
    for count in [2, 8, 16] {
        let mut open = [0; USUAL.len()];
        for seed in 0..DRAWS {
            let row = rows::peaked(seed % 10, 32_064);
            let params = usual(seed);
            for (chain, params) in params.iter().enumerate() {
                let mut world = World::new(std::slice::from_ref(params), &even(count, row.len()));
                let outcome = world.step(std::slice::from_ref(&row), |_, _| ());
                assert!(outcome.bytes <= 1100 || outcome.exchanges > 1, "{} bytes", outcome.bytes);
                open[chain] += usize::from(outcome.exchanges > 1);
            }
        }
        for (json, open) in USUAL.iter().zip(open) {
            assert!(open <= 1, "{open} of {DRAWS} rows left open by {json} over {count} ranks");
        }
    }
}

/// Sequences go on over many steps, each rank appending the tokens by itself.
#[test]
fn texts_are_those_of_one_process() {
    let params = usual(11);
    let mut world = World::new(&params, &uneven(3, 5, 2000));
    let mut alone = Batch::new();
    let ids: Vec<_> = params.iter().map(|params| alone.add(params.clone()).expect("valid")).collect();
    for step in 0..30 {
        let rows: Vec<_> = (0..params.len() as u64).map(|i| rows::peaked(100 * step + i, 2000)).collect();
        let steps: Vec<_> = ids.iter().zip(&rows).map(|(&id, row)| Step::new(id, row)).collect();
        let expected = alone.sample(&steps);
        let outcome = world.step(&rows, |_, _| ());
        for (results, (batch, _)) in outcome.results.iter().zip(&mut world.ranks) {
            assert_eq!(*results, expected);
            for (&id, result) in world.sequences.iter().zip(results) {
                assert!(batch.accept_sampled(id, result.as_ref().expect("a good row")));
            }
        }
    }
}

/// A row that is bad is its own error, on every rank, and so is one that nothing is left of.
#[test]
fn bad_rows_are_their_own_errors() {
    let mut params = usual(5);
    params[3] = SamplingParams { allowed_token_ids: Some(vec![5, 900]), ..params[3].clone() };
    let mut rows: Vec<_> = (0..params.len() as u64).map(|i| rows::gaussian(i, 1000, 2.0)).collect();
    rows[1][700] = f32::NAN;
    rows[2][40] = f32::INFINITY;
    rows[2][800] = f32::NAN;
    rows[3][5] = f32::NEG_INFINITY;
    rows[3][900] = f32::NEG_INFINITY;
    rows[4].fill(f32::NEG_INFINITY);
    let expected = whole(&params, &rows);
    assert_eq!(expected[1], Err(RowError::NanLogit { token: 700 }));
    assert_eq!(expected[2], Err(RowError::InfiniteLogit { token: 40 }));
    let outcome = World::new(&params, &even(4, 1000)).step(&rows, |_, _| ());
    for results in outcome.results {
        assert_eq!(results, expected);
    }
}

fn fault(rank: usize, problem: Problem) -> Result<Sampled, RowError> {
    Err(RowError::Shard(Fault::Reply { shard: rank, problem }))
}

/// Messages that are cut, repeated, missing or changed become errors that name the rank, the same on all
/// ranks.
#[test]
fn bad_messages_name_the_rank() {
    // The second chain needs more than one round.
    let params = [usual(3)[4].clone(), SamplingParams { typical_p: 0.9, ..usual(3)[1].clone() }];
    let rows = [rows::gaussian(5, 1000, 2.0), rows::gaussian(6, 1000, 2.0)];
    let fails = |round: usize, change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let outcome = World::new(&params, &even(3, 1000)).step(&rows, |at, messages| {
            if at == round {
                change(messages);
            }
        });
        assert!(
            outcome.results.iter().all(|results| *results == outcome.results[0]),
            "all ranks say the same"
        );
        outcome.results[0].clone()
    };
    let good = whole(&params, &rows);
    assert_eq!(fails(99, &|_| ()), good);

    let all = |rank, problem: Problem| vec![fault(rank, problem.clone()), fault(rank, problem)];
    let pop = |messages: &mut Vec<Vec<u8>>| drop(messages.pop());
    assert_eq!(fails(0, &pop), all(2, Problem::Missing));
    assert_eq!(fails(0, &|messages| messages[1].truncate(Exchange::SLOT * 2 - 1)), all(1, Problem::Cut));
    assert_eq!(fails(0, &|messages| messages[1].push(0)), all(1, Problem::TooLong));
    assert_eq!(fails(0, &|messages| messages[1].clear()), all(1, Problem::Cut));
    assert_eq!(fails(0, &|messages| messages.push(Vec::new())), all(3, Problem::Unknown));
    let repeated = |messages: &mut Vec<Vec<u8>>| messages[2] = messages[1].clone();
    assert_eq!(fails(0, &repeated), all(2, Problem::Tokens { start: 333, length: 333 }));

    // One row's slot: the length of its reply, its version, its kind, its tokens.
    let only_first = |rank, problem| vec![fault(rank, problem), good[1].clone()];
    let long = |messages: &mut Vec<Vec<u8>>| messages[1][16..20].fill(0xff);
    assert_eq!(fails(0, &long), only_first(1, Problem::Cut));
    assert_eq!(fails(0, &|messages| messages[2][20] = 7), only_first(2, Problem::Version(7)));
    let kind = Problem::Kind { asked: "Open", answered: Some("RunRace") };
    assert_eq!(fails(0, &|messages| messages[2][21] = 3), only_first(2, kind));
    let shorter = |messages: &mut Vec<Vec<u8>>| messages[0][58..62].copy_from_slice(&332u32.to_le_bytes());
    let outcome = fails(0, &shorter);
    assert!(matches!(&outcome[0], Err(RowError::Shard(Fault::Reply { .. }))), "{outcome:?}");
    let settings = |messages: &mut Vec<Vec<u8>>| messages[1][0] ^= 1;
    assert_eq!(fails(0, &settings), only_first(1, Problem::Disagrees("parameters")));
    let history = |messages: &mut Vec<Vec<u8>>| messages[1][9] ^= 1;
    assert_eq!(fails(0, &history), only_first(1, Problem::Disagrees("history")));

    // Later rounds: only the second row is still open.
    let only_second = |rank, problem| vec![good[0].clone(), fault(rank, problem)];
    assert_eq!(fails(1, &pop), only_second(2, Problem::Missing));
    assert_eq!(fails(1, &|messages| messages[0].truncate(20)), only_second(0, Problem::Cut));
    assert_eq!(fails(1, &|messages| messages[1][4] = 9), only_second(1, Problem::Version(9)));
    let stale = |messages: &mut Vec<Vec<u8>>| messages[1][6] ^= 1;
    assert_eq!(fails(1, &stale), only_second(1, Problem::OtherDraw));
}

/// A byte of an opening changed at random: an error or a token, never a panic, and the same on all ranks.
#[test]
fn changed_openings_do_not_panic() {
    let params = usual(8);
    let rows: Vec<_> = (0..params.len() as u64).map(|i| rows::gaussian(i, 500, 2.0)).collect();
    let mut random = SplitMix64::new(4);
    let mut refused = 0;
    for _ in 0..200 {
        let changes: Vec<(usize, usize, u8)> = (0..params.len())
            .map(|row| {
                (
                    random.below(2),
                    row * Exchange::SLOT + random.below(Exchange::SLOT),
                    random.below(256) as u8,
                )
            })
            .collect();
        let outcome = World::new(&params, &even(2, 500)).step(&rows, |round, messages| {
            for &(rank, place, byte) in changes.iter().filter(|_| round == 0) {
                messages[rank][place] = byte;
            }
        });
        assert_eq!(outcome.results[0], outcome.results[1]);
        refused += outcome.results[0].iter().filter(|result| result.is_err()).count();
    }
    assert!(refused > 200, "{refused} of 2400 were refused");
}

/// Ranks that do not mean the same draw are refused on every rank, and nothing else is.
#[test]
fn ranks_that_disagree_are_named() {
    let base = SamplingParams { seed: Some(3), top_p: 0.9, ..SamplingParams::default() };
    let others: [(SamplingParams, &str); 8] = [
        (SamplingParams { top_p: 0.91, ..base.clone() }, "parameters"),
        (SamplingParams { temperature: 0.7, ..base.clone() }, "parameters"),
        (SamplingParams { logprobs: Some(2), ..base.clone() }, "parameters"),
        (SamplingParams { logit_bias: [(3, 1.0)].into(), ..base.clone() }, "parameters"),
        (SamplingParams { seed: Some(4), ..base.clone() }, "history"),
        (SamplingParams { prompt_token_ids: vec![1], ..base.clone() }, "history"),
        (SamplingParams { output_token_ids: vec![1], ..base.clone() }, "history"),
        (SamplingParams { top_k: 40, ..base.clone() }, "parameters"),
    ];
    let row = rows::gaussian(5, 900, 2.0);
    for (other, about) in others {
        let mut world = World::new(std::slice::from_ref(&base), &even(3, 900));
        let mut batch = Batch::new();
        world.sequences = vec![batch.add(other).expect("valid")];
        world.ranks[1].0 = batch;
        let outcome = world.step(std::slice::from_ref(&row), |_, _| ());
        for results in outcome.results {
            assert_eq!(results, [fault(1, Problem::Disagrees(about))]);
        }
        assert_eq!(outcome.exchanges, 1);
    }
    // One rank has a token more.
    let mut world = World::new(std::slice::from_ref(&base), &even(3, 900));
    world.ranks[2].0.accept(world.sequences[0], 7);
    for results in world.step(std::slice::from_ref(&row), |_, _| ()).results {
        assert_eq!(results, [fault(2, Problem::Disagrees("history"))]);
    }
    // One rank holds other tokens than the rest expects.
    let mut world = World::new(std::slice::from_ref(&base), &even(3, 900));
    world.parts[1] = 299..600;
    for results in world.step(std::slice::from_ref(&row), |_, _| ()).results {
        assert_eq!(results, [fault(1, Problem::Tokens { start: 299, length: 301 })]);
    }
    let mut world = World::new(std::slice::from_ref(&base), &even(3, 900));
    world.parts[2] = 600..899;
    for results in world.step(std::slice::from_ref(&row), |_, _| ()).results {
        assert_eq!(results, [fault(2, Problem::Tokens { start: 600, length: 299 })]);
    }
    // One rank does not know the sequence.
    let mut world = World::new(std::slice::from_ref(&base), &even(3, 900));
    world.ranks[1].0.remove(world.sequences[0]);
    let outcome = world.step(std::slice::from_ref(&row), |_, _| ());
    let failed = Problem::Failed(RowError::UnknownSequence.to_string());
    assert_eq!(outcome.results[0], [fault(1, failed.clone())]);
    assert_eq!(outcome.results[1], [Err(RowError::UnknownSequence)], "it knows best what is wrong");
    assert_eq!(outcome.results[2], [fault(1, failed)]);
}

/// Masks are those of the whole vocabulary; a transport that fails appends nothing.
#[test]
fn masks_and_transports() {
    let params = SamplingParams { seed: Some(9), top_p: 0.9, ..SamplingParams::default() };
    let row = rows::gaussian(5, 300, 2.0);
    let mask: Vec<u32> = (0..10).map(|word| 0x00f0_f0f1_u32.rotate_left(word)).collect();
    let mut alone = Batch::new();
    let id = alone.add(params.clone()).expect("valid");
    let expected = alone.sample(&[Step { sequence: id, row: (&row).into(), mask: Some(&mask) }]);

    let parts = even(3, 300);
    let mut world = World::new(std::slice::from_ref(&params), &parts);
    let mut exchanges = Vec::new();
    for ((batch, memory), part) in world.ranks.iter_mut().zip(&parts) {
        let row = row[part.clone()].into();
        let step = Step { sequence: world.sequences[0], row, mask: Some(&mask) };
        let rank = Rank { count: 3, vocabulary: 300, start: part.start };
        exchanges.push(batch.exchange(&[step], &rank, 0, memory));
    }
    let messages: Vec<_> =
        exchanges.iter().map(|exchange| exchange.message().expect("opens").to_vec()).collect();
    for mut exchange in exchanges {
        exchange.receive(&messages);
        assert_eq!(exchange.results(), expected);
    }

    let mut batch = Batch::new();
    let id = batch.add(params).expect("valid");
    let (rank, mut memory) = (Rank { count: 1, vocabulary: 300, start: 0 }, RankMemory::default());
    let steps = [Step { sequence: id, row: (&row).into(), mask: Some(&mask) }];
    let broken =
        batch.sample_over(&steps, &rank, &mut memory, |_, _| Err::<Vec<Vec<u8>>, _>("the rank is gone"));
    assert_eq!(broken, Err("the rank is gone"));
    assert_eq!(batch.output(id), Some(&[][..]));
    let echo = |message: &[u8], _| Ok::<_, ()>(vec![message.to_vec()]);
    assert_eq!(batch.peek_over(&steps, &rank, 0, &mut memory, echo).expect("it echoes"), expected);
    assert_eq!(batch.output(id), Some(&[][..]));
    let twice = [steps[0], steps[0]];
    let results = batch.sample_over(&twice, &rank, &mut memory, echo).expect("it echoes");
    assert_eq!(results, [expected[0].clone(), Err(RowError::RepeatedSequence)]);
    assert_eq!(batch.output(id), Some(&[expected[0].as_ref().expect("drawn").token][..]));
    // A rank that cannot take part says so; the others do not wait, and the next step works.
    let refusal = Exchange::refusal(1, "no logits");
    assert_eq!(refusal.len(), Exchange::SLOT);
    let two = Rank { count: 2, ..rank };
    let with_refusal = |message: &[u8], _| Ok::<_, ()>(vec![message.to_vec(), refusal.clone()]);
    let results = batch.peek_over(&steps, &two, 0, &mut memory, with_refusal).expect("it echoes");
    assert_eq!(results, [fault(1, Problem::Failed("no logits".to_owned()))]);
    // A position further on has other noise.
    let ahead = batch.peek_over(&steps, &rank, 3, &mut memory, echo).expect("it echoes");
    assert_eq!(ahead, alone.peek(&[Step { sequence: id, ..steps[0] }], 3));
}
