//! A vocabulary that is split across processes: each holds a shard, and a draw asks them by messages.

use std::sync::mpsc;

use onedraw::custom::{Change, Custom, Keep, View};
use onedraw::fault::Problem;
use onedraw::{
    Batch, Fault, Order, RemoteDraw, RemoteReply, RowError, Sampled, Sampler, SamplingParams, Shard,
    ShardMemory, Stage, Step,
};
use onedraw_testkit::rows;

/// Draws once over four shards, each in a thread with a sampler of its own. Only bytes pass between them.
fn over_threads(samplers: &mut [Sampler], asker: &mut Sampler, row: &[f32]) -> Result<Sampled, RowError> {
    let length = row.len();
    let edges = [0, 7, length / 2, length / 2 + 1, length];
    std::thread::scope(|scope| {
        let shards = samplers.iter().zip(edges.windows(2));
        let wires: Vec<_> = shards
            .map(|(own, edges)| {
                let (ask, asked) = mpsc::channel::<Vec<u8>>();
                let (answer, answered) = mpsc::channel();
                let part = &row[edges[0]..edges[1]];
                scope.spawn(move || {
                    let mut memory = ShardMemory::default();
                    let mut shard = own.shard(part, edges[0], None, &mut memory).expect("a good part");
                    for question in asked {
                        answer.send(shard.reply(&question)).expect("the asker listens");
                    }
                });
                (ask, answered)
            })
            .collect();
        asker.sample_over(length, wires.len(), false, |question| {
            wires.iter().for_each(|(ask, _)| ask.send(question.to_vec()).expect("a shard listens"));
            let replies = wires.iter().map(|(_, answered)| answered.recv().expect("a shard answers"));
            replies.enumerate().collect()
        })
    })
}

fn check(params: &SamplingParams) {
    let row = rows::gaussian(11, 1000, 2.0);
    let new = || Sampler::new(params.clone()).expect("valid parameters");
    let expected = new().sample(&row).expect("a good row");
    let mut samplers = [(); 4].map(|()| new());
    assert_eq!(over_threads(&mut samplers, &mut new(), &row), Ok(expected), "{params:?}");
}

/// Parameters that together ask every kind of question, except those of custom stages.
const EVERY_QUESTION: [&str; 9] = [
    r#"{"seed": 3, "top_p": 0.8, "logprobs": 3}"#,
    r#"{"seed": 4, "top_k": 40, "min_p": 0.01, "repetition_penalty": 1.5, "prompt_token_ids": [0, 400, 999]}"#,
    r#"{"seed": 5, "order": "top_p,logit_bias,top_k", "top_p": 0.9, "logit_bias": {"17": 2}, "top_k": 9}"#,
    r#"{"seed": 6, "xtc_probability": 1, "xtc_threshold": 0.001, "xtc_protected_token_ids": [0, 400, 999],
        "typical_p": 0.9}"#,
    r#"{"seed": 7, "mirostat": 1, "smoothing_factor": 0.4, "dynatemp_range": 0.5}"#,
    r#"{"seed": 8, "eta_cutoff": 0.01, "top_n_sigma": 1, "top_a": 0.1, "logprobs": 2,
        "logprobs_mode": "processed_logprobs"}"#,
    r#"{"seed": 9, "dry_multiplier": 1, "no_repeat_ngram_size": 2, "output_token_ids": [5, 6, 5], "temperature": 0}"#,
    r#"{"seed": 10, "top_k": 700, "temperature": 5}"#,
    r#"{"seed": 11, "order": "top_p,logit_bias", "top_p": 0.97, "logit_bias": {"17": 2}, "temperature": 1}"#,
];

fn every_question() -> impl Iterator<Item = SamplingParams> {
    let read = |json| SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    EVERY_QUESTION.into_iter().map(read).chain([with_custom_stages()])
}

/// An edit and a truncation of a user's own, which see the whole row.
fn with_custom_stages() -> SamplingParams {
    let best = |view: &View<'_>| {
        let largest = view.logits().iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        view.logits().iter().position(|&x| x == largest).map_or(0, |place| place as u32)
    };
    let no_best = Custom::edit("no_best", move |view: &View<'_>| {
        Ok(Change::Sparse(vec![(best(view), f32::NEG_INFINITY), (3, 2.5)]))
    });
    let not_even = Custom::truncation("not_even", |view: &View<'_>| {
        Ok(Keep::AllBut((0..view.logits().len() as u32).step_by(2).collect()))
    });
    let few = Custom::truncation("few", |view: &View<'_>| {
        Ok(Keep::Only((0..view.logits().len() as u32 / 2).collect()))
    });
    let stages = [no_best, not_even, few].map(|stage| Stage::Custom(stage.expect("a good name")));
    let [no_best, not_even, few] = stages;
    let order = Order::of([no_best, Stage::TopK, not_even, few]);
    SamplingParams { seed: Some(2), top_k: 30, order: Some(order), ..SamplingParams::default() }
}

#[test]
fn shards_answer_over_a_wire() {
    every_question().for_each(|params| check(&params));
}

/// The next process that draws has the state of the last one: mirostat's state travels with the token.
#[test]
fn the_asker_may_change() {
    let params =
        SamplingParams { seed: Some(4), mirostat: 2, mirostat_tau: 3.0, ..SamplingParams::default() };
    let new = || Sampler::new(params.clone()).expect("valid parameters");
    let mut whole = new();
    let mut samplers = [(); 4].map(|()| new());
    let mut askers = [new(), new()];
    for step in 0..20 {
        let row = rows::gaussian(step, 300, 2.0);
        let drawn = over_threads(&mut samplers, &mut askers[step as usize % 2], &row).expect("a good row");
        assert_eq!(Ok(&drawn), whole.sample(&row).as_ref());
        let sent: Sampled =
            serde_json::from_value(serde_json::to_value(&drawn).expect("written")).expect("read");
        askers[1 - step as usize % 2].accept_sampled(&sent);
        samplers.iter_mut().for_each(|sampler| sampler.accept_sampled(&sent));
    }
}

/// Shards that hold more tokens than the asking process was told are an error, and never a token outside the
/// vocabulary.
#[test]
fn shards_beyond_the_vocabulary() {
    let keep = Custom::truncation("keep", |_: &View<'_>| Ok(Keep::AllBut(Vec::new()))).expect("a good name");
    for order in [Order::vllm(), Order::of([Stage::Custom(keep)])] {
        let params = SamplingParams { seed: Some(1), order: Some(order), ..SamplingParams::default() };
        let holder = Sampler::new(params.clone()).expect("valid parameters");
        let mut asker = Sampler::new(params).expect("valid parameters");
        let mut memory = ShardMemory::default();
        let mut shard = holder.shard(&[0.0f32, 1.0, 50.0], 0, None, &mut memory).expect("a good part");
        let error = asker.sample_over(2, 1, false, |question| vec![(0, shard.reply(question))]);
        let problem = Problem::Tokens { start: 0, length: 3 };
        assert_eq!(error, Err(RowError::Shard(Fault::Reply { shard: 0, problem })));
        assert_eq!(asker.position(), 0);
    }
}

/// The draws of a batch share every exchange, without a thread for each. A sequence whose row is bad does not
/// affect the others.
#[test]
fn one_exchange_serves_a_whole_batch() {
    const VOCABULARY: usize = 500;
    let mut batch = Batch::new();
    let sequences: Vec<_> = every_question().map(|params| batch.add(params).expect("valid")).collect();
    let mut whole = Batch::new();
    let expected_sequences: Vec<_> =
        every_question().map(|params| whole.add(params).expect("valid")).collect();
    for step in 0..5u64 {
        let mut rows: Vec<_> =
            (0..sequences.len() as u64).map(|i| rows::gaussian(31 * step + i, 1000, 2.0)).collect();
        rows[4][700] = f32::NAN;
        let steps = expected_sequences.iter().zip(&rows).map(|(&id, row)| Step::new(id, row));
        let expected = whole.sample(&steps.collect::<Vec<_>>());

        let mut memories = vec![[ShardMemory::default(), ShardMemory::default()]; sequences.len()];
        let mut shards: Vec<[Shard<'_>; 2]> = Vec::new();
        for ((&id, row), memory) in sequences.iter().zip(&rows).zip(&mut memories) {
            let [low, high] = memory;
            let (lower, upper) = row.split_at(VOCABULARY);
            shards.push([
                batch.shard(Step::new(id, lower), 0, low).expect("a good part"),
                batch.shard(Step::new(id, upper), VOCABULARY, high).expect("a good part"),
            ]);
        }
        let mut draws: Vec<RemoteDraw<'_>> =
            sequences.iter().map(|&id| batch.draw_over(id, 1000, 2, false).expect("a draw")).collect();
        let mut exchanges = 0;
        while draws.iter().any(|draw| draw.question().is_some()) {
            exchanges += 1;
            for (draw, shards) in draws.iter_mut().zip(&mut shards) {
                let Some(question) = draw.question() else { continue };
                let [low, high] = shards.each_mut().map(|shard| shard.reply(question));
                // The replies may come in any order.
                let replies =
                    [RemoteReply { shard: 1, message: &high }, RemoteReply { shard: 0, message: &low }];
                draw.resume(&replies);
            }
        }
        assert!(exchanges < 30, "{exchanges} exchanges");
        let drawn: Vec<_> = draws.into_iter().map(|draw| draw.result().expect("at its end")).collect();
        assert_eq!(drawn, expected);
        assert_eq!(drawn[4], Err(RowError::NanLogit { token: 700 }));
        drop(shards);
        for (&id, drawn) in sequences.iter().zip(&drawn) {
            drawn.iter().for_each(|sampled| assert!(batch.accept_sampled(id, sampled)));
        }
    }
}

/// What one shard does instead of answering.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Misbehaviour {
    Silence,
    OtherKind,
    Cut,
    CutByAnEntry,
    Lengthened,
    LengthenedByAnEntry,
    LastStep,
    LastQuestion,
    Twice,
    OtherVersion,
    Failure,
    Stranger,
    TooManyEntries,
}

const MISBEHAVIOURS: [Misbehaviour; 13] = [
    Misbehaviour::Silence,
    Misbehaviour::OtherKind,
    Misbehaviour::Cut,
    Misbehaviour::CutByAnEntry,
    Misbehaviour::Lengthened,
    Misbehaviour::LengthenedByAnEntry,
    Misbehaviour::LastStep,
    Misbehaviour::LastQuestion,
    Misbehaviour::Twice,
    Misbehaviour::OtherVersion,
    Misbehaviour::Failure,
    Misbehaviour::Stranger,
    Misbehaviour::TooManyEntries,
];

/// The bytes of a reply's header: version, kind, draw, number, seed, position, sequence, round, start, length.
const HEADER: usize = 42;

/// Three shards of one row, one of which may misbehave at one question.
struct Faulty<'a> {
    shards: Vec<Shard<'a>>,
    /// The fault, the shard that has it, and the number of the question of the draw, from 0.
    misbehaviour: Option<(Misbehaviour, usize, usize)>,
    /// Every reply of the draw so far, by question.
    sent: Vec<Vec<Vec<u8>>>,
    /// The replies of the step before.
    before: &'a [Vec<Vec<u8>>],
}

impl Faulty<'_> {
    fn exchange(&mut self, question: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let replies: Vec<Vec<u8>> = self.shards.iter_mut().map(|shard| shard.reply(question)).collect();
        let number = self.sent.len();
        self.sent.push(replies.clone());
        let mut replies: Vec<(usize, Vec<u8>)> = replies.into_iter().enumerate().collect();
        let Some((misbehaviour, shard, _)) = self.misbehaviour.filter(|&(.., at)| at == number) else {
            return replies;
        };
        let own = &mut replies[shard].1;
        match misbehaviour {
            Misbehaviour::Silence => drop(replies.remove(shard)),
            Misbehaviour::OtherKind => own[1] = (own[1] + 1) % 22,
            Misbehaviour::Cut => own.truncate(own.len() - 1),
            Misbehaviour::CutByAnEntry => own.truncate(own.len().saturating_sub(8)),
            Misbehaviour::Lengthened => own.push(0),
            Misbehaviour::LengthenedByAnEntry => own.extend_from_within(own.len() - 8..),
            Misbehaviour::LastStep => own.clone_from(&self.before[number.min(self.before.len() - 1)][shard]),
            Misbehaviour::LastQuestion => {
                let last = number.checked_sub(1).map(|last| self.sent[last][shard].clone());
                *own = last.unwrap_or_default();
            }
            Misbehaviour::Twice => {
                let again = replies[shard].clone();
                replies.push(again);
            }
            Misbehaviour::OtherVersion => own[0] = 7,
            Misbehaviour::Failure => {
                own[1] = 255;
                own.truncate(HEADER);
                own.extend_from_slice(b"the device is gone");
            }
            Misbehaviour::Stranger => replies.push((3, replies[0].1.clone())),
            Misbehaviour::TooManyEntries => own.resize(HEADER + (1 << 20), 0),
        }
        replies
    }
}

/// Walks draws over three shards and, at every question, lets each shard misbehave in every way. It is always
/// an error that names the shard, never a token; the history is unchanged, and the next draw works.
#[test]
fn misbehaving_shards_are_named() {
    let usual = [rows::gaussian(5, 1000, 2.0), rows::gaussian(6, 1000, 2.0)];
    // So many ties that nothing is listed: a radix select asks for histograms.
    let ties = [rows::ties(5, 40_000, 3), rows::ties(6, 40_000, 3)];
    let of_ties = [
        r#"{"seed": 3, "top_k": 20000, "order": "top_k,logit_bias", "logit_bias": {"1": 1}}"#,
        r#"{"seed": 4, "typical_p": 0.9}"#,
    ];
    let of_ties = of_ties.map(|json| (SamplingParams::from_json(json).expect(json), &ties));
    let mut kinds_met = [false; 22];
    for (params, rows) in every_question().map(|params| (params, &usual)).chain(of_ties) {
        let new = || Sampler::new(params.clone()).expect("valid parameters");
        let mut whole = new();
        let expected: Vec<_> = rows.iter().map(|row| whole.sample(row).expect("a good row")).collect();
        let mut sampler = new();
        let mut memories = [(); 3].map(|()| ShardMemory::default());
        let mut before: Vec<Vec<Vec<u8>>> = Vec::new();
        for (row, expected) in rows.iter().zip(expected) {
            let holder = sampler.clone();
            // First without a fault, to count the questions.
            let mut draw = |misbehaviour, sampler: &mut Sampler| {
                let [a, b, c] = &mut memories;
                let shards = vec![
                    holder.shard(&row[..333], 0, None, a).expect("a good part"),
                    holder.shard(&row[333..600], 333, None, b).expect("a good part"),
                    holder.shard(&row[600..], 600, None, c).expect("a good part"),
                ];
                let vocabulary = row.len();
                let mut faulty = Faulty { shards, misbehaviour, sent: Vec::new(), before: &before };
                let result = sampler.sample_over(vocabulary, 3, false, |question| faulty.exchange(question));
                (result, faulty.sent)
            };
            let (drawn, questions) = draw(None, &mut sampler.clone());
            assert_eq!(drawn, Ok(expected.clone()));
            for replies in &questions {
                kinds_met[replies[0][1] as usize] = true;
            }
            let position = sampler.position();
            for at in 0..questions.len() {
                for misbehaviour in MISBEHAVIOURS {
                    // In the first step there is no earlier step, and before the first question no earlier
                    // question.
                    if (misbehaviour == Misbehaviour::LastStep && before.is_empty())
                        || (misbehaviour == Misbehaviour::LastQuestion && at == 0)
                    {
                        continue;
                    }
                    for shard in 0..3 {
                        let (result, _) = draw(Some((misbehaviour, shard, at)), &mut sampler);
                        let context =
                            format!("{misbehaviour:?} of shard {shard} at question {at}, {params:?}");
                        let error = result.expect_err(&context);
                        let named = if misbehaviour == Misbehaviour::Stranger { 3 } else { shard };
                        assert!(error.to_string().contains(&format!("shard {named} ")), "{error}: {context}");
                        assert!(is_expected(misbehaviour, &error), "{error:?}: {context}");
                        assert_eq!(sampler.position(), position, "{context}");
                    }
                }
            }
            let (drawn, _) = draw(None, &mut sampler);
            assert_eq!(drawn, Ok(expected), "the next draw works");
            before = questions;
        }
    }
    // Kind 1 of questions is asked only of rows where nothing is left.
    let unmet: Vec<_> = (0..22).filter(|&kind| !kinds_met[kind] && kind != 1).collect();
    assert_eq!(unmet, [] as [usize; 0], "kinds of questions that no draw asked");
}

fn is_expected(misbehaviour: Misbehaviour, error: &RowError) -> bool {
    let RowError::Shard(Fault::Reply { problem, .. }) = error else { return false };
    match misbehaviour {
        Misbehaviour::Silence => *problem == Problem::Missing,
        Misbehaviour::OtherKind => matches!(problem, Problem::Kind { .. }),
        Misbehaviour::Cut | Misbehaviour::CutByAnEntry => *problem == Problem::Cut,
        Misbehaviour::Lengthened | Misbehaviour::LengthenedByAnEntry => *problem == Problem::TooLong,
        Misbehaviour::LastStep | Misbehaviour::LastQuestion => *problem == Problem::OtherDraw,
        Misbehaviour::Twice => *problem == Problem::Repeated,
        Misbehaviour::OtherVersion => *problem == Problem::Version(7),
        Misbehaviour::Failure => *problem == Problem::Failed("the device is gone".to_owned()),
        Misbehaviour::Stranger => *problem == Problem::Unknown,
        Misbehaviour::TooManyEntries => *problem == Problem::TooLong,
    }
}

/// A message far longer than any reply can be is refused without being copied.
#[test]
fn an_endless_reply_takes_no_memory() {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
        pages.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
    };
    let params = SamplingParams { seed: Some(1), top_k: 50, ..SamplingParams::default() };
    let sampler = Sampler::new(params).expect("valid parameters");
    let row = rows::gaussian(5, 1000, 2.0);
    let mut memory = ShardMemory::default();
    let mut shard = sampler.shard(&row, 0, None, &mut memory).expect("a good part");
    for at in 0..3 {
        let mut draw = sampler.draw_over(1000, 1, false).expect("a draw");
        for question in 0..=at {
            let reply = shard.reply(draw.question().expect("a question"));
            if question < at {
                draw.resume(&[RemoteReply { shard: 0, message: &reply }]);
            } else {
                // Zeros that the system has not allocated yet: the size of 2^28 entries.
                let mut endless = vec![0u8; 1 << 31];
                endless[..reply.len()].copy_from_slice(&reply);
                let before = resident();
                draw.resume(&[RemoteReply { shard: 0, message: &endless }]);
                let grown = resident().zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
                // Other tests run beside this one, and take some.
                assert!(grown < 1 << 30, "{grown} bytes more");
            }
        }
        let result = draw.result().expect("at its end");
        assert_eq!(result, Err(RowError::Shard(Fault::Reply { shard: 0, problem: Problem::TooLong })));
    }
}

/// Numbers that a shard's tokens cannot have.
#[test]
fn impossible_answers_are_refused() {
    let params = SamplingParams { seed: Some(1), top_p: 0.5, ..SamplingParams::default() };
    let row = rows::gaussian(5, 1000, 2.0);
    let mut sampler = Sampler::new(params).expect("valid parameters");
    let holder = sampler.clone();
    let mut outcome = |kind: u8, change: &dyn Fn(&mut [u8])| {
        let mut memory = ShardMemory::default();
        let mut shard = holder.shard(&row, 0, None, &mut memory).expect("a good part");
        sampler.sample_over(1000, 1, false, |question| {
            let mut reply = shard.reply(question);
            if question[1] == kind {
                change(&mut reply[HEADER..]);
            }
            vec![(0, reply)]
        })
    };
    let impossible =
        Err(RowError::Shard(Fault::Reply { shard: 0, problem: Problem::Impossible("an answer") }));
    // The summit: a token outside, a bad logit outside, a logit that is NaN.
    assert_eq!(outcome(0, &|body| body[..4].copy_from_slice(&1000u32.to_le_bytes())), impossible);
    assert_eq!(outcome(0, &|body| body[8..12].copy_from_slice(&1000u32.to_le_bytes())), impossible);
    assert_eq!(outcome(0, &|body| body[4..8].fill(0x00)), impossible);
    // The race: a score that is NaN; a masked token; a winner from before the first token.
    assert_eq!(outcome(3, &|body| body[..8].copy_from_slice(&f64::NAN.to_le_bytes())), impossible);
    assert_eq!(outcome(3, &|body| body[12..16].copy_from_slice(&0xff80_0000u32.to_le_bytes())), impossible);
    let foreign = Fault::Contradiction("the winner of the race did not run in it");
    let first = |body: &mut [u8]| body[12..16].copy_from_slice(&0x3000_0000u32.to_le_bytes());
    assert_eq!(outcome(3, &first), Err(RowError::Shard(foreign)));
    let nobody = Fault::Contradiction("nobody won the race, though a token is left");
    assert_eq!(outcome(3, &|body| body[8..].fill(0xff)), Err(RowError::Shard(nobody)));
    // Masses: an interval that ends before it begins, and more than all tokens could weigh.
    assert_eq!(outcome(5, &|body| body[..8].fill(0x7f)), impossible);
    assert_eq!(outcome(5, &|body| body[16..].fill(0xff)), impossible);
}

/// A shard that does not hold a token has no logit for it, and the one that holds it has one.
#[test]
fn a_logit_comes_from_the_shard_that_holds_the_token() {
    let params = SamplingParams::from_json(r#"{"seed": 3, "logprobs": 0}"#).expect("valid parameters");
    let row = rows::gaussian(5, 1000, 2.0);
    let holder = Sampler::new(params.clone()).expect("valid parameters");
    let token = holder.clone().sample(&row).expect("a good row").token as usize;
    let edge = if token < 500 { 500 } else { 400 };
    for (liar, logit) in [(usize::from(token < edge), 5.0), (usize::from(token >= edge), f32::NAN)] {
        let (mut low, mut high) = (ShardMemory::default(), ShardMemory::default());
        let mut shards = [
            holder.shard(&row[..edge], 0, None, &mut low).expect("a good part"),
            holder.shard(&row[edge..], edge, None, &mut high).expect("a good part"),
        ];
        let mut asked = false;
        let drawn = holder.clone().sample_over(1000, 2, false, |question| {
            let mut replies = shards.each_mut().map(|shard| shard.reply(question));
            // The question for the logit of one token.
            if question[1] == 16 {
                asked = true;
                replies[liar][HEADER..].copy_from_slice(&f32::to_le_bytes(logit));
            }
            replies.into_iter().enumerate().collect()
        });
        let problem = Problem::Impossible("an answer");
        assert_eq!(drawn, Err(RowError::Shard(Fault::Reply { shard: liar, problem })), "{logit}");
        assert!(asked);
    }
}

/// A list that claims more entries than the shard has tokens is refused before any memory is taken.
#[test]
fn a_list_of_too_many_tokens_is_refused() {
    let params = SamplingParams { seed: Some(1), top_k: 50, ..SamplingParams::default() };
    let row = rows::gaussian(5, 1000, 2.0);
    let mut sampler = Sampler::new(params).expect("valid parameters");
    let holder = sampler.clone();
    for (count, problem) in [
        (1u32 << 31, Problem::Impossible("a number of tokens")),
        (1001, Problem::Impossible("a number of tokens")),
        (1000, Problem::Cut),
        (49, Problem::TooLong),
    ] {
        let mut memory = ShardMemory::default();
        let mut shard = holder.shard(&row, 0, None, &mut memory).expect("a good part");
        let drawn = sampler.sample_over(1000, 1, false, |question| {
            let mut reply = shard.reply(question);
            // The question for the 50 best tokens.
            if question[1] == 13 {
                assert_eq!(reply[HEADER..HEADER + 4], 50u32.to_le_bytes());
                reply[HEADER..HEADER + 4].copy_from_slice(&count.to_le_bytes());
            }
            vec![(0, reply)]
        });
        assert_eq!(drawn, Err(RowError::Shard(Fault::Reply { shard: 0, problem })), "{count}");
    }
}

/// Greedy draws use no noise and may have nothing else in common with their sequence than the position. The
/// replies of one are still refused by another, and so are those of an earlier attempt.
#[test]
fn replies_to_another_draw_are_refused() {
    let params = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let sampler = Sampler::new(params).expect("valid parameters");
    let rows = [rows::gaussian(5, 1000, 2.0), rows::gaussian(6, 1000, 2.0)];
    let mut memories = [ShardMemory::default(), ShardMemory::default()];
    let [first, second] = &mut memories;
    let mut shards = [
        sampler.shard(&rows[0], 0, None, first).expect("a good part"),
        sampler.shard(&rows[1], 0, None, second).expect("a good part"),
    ];
    let new = || sampler.draw_over(1000, 1, false).expect("a draw");
    let other = Err(RowError::Shard(Fault::Reply { shard: 0, problem: Problem::OtherDraw }));
    let mut draws = [new(), new()];
    let replies: Vec<_> = (0..2).map(|i| shards[i].reply(draws[i].question().expect("asks"))).collect();
    let [a, b] = &mut draws;
    a.resume(&[RemoteReply { shard: 0, message: &replies[1] }]);
    b.resume(&[RemoteReply { shard: 0, message: &replies[0] }]);
    for draw in draws {
        assert_eq!(draw.result(), Some(other.clone()));
    }
    let mut again = new();
    again.resume(&[RemoteReply { shard: 0, message: &replies[0] }]);
    assert_eq!(again.result(), Some(other));
}

/// A question of a real draw, one byte of which was changed, is answered or refused and never panics.
#[test]
fn changed_questions_do_not_panic() {
    let row = rows::gaussian(5, 1000, 2.0);
    let mut random = rows::SplitMix64::new(3);
    for params in every_question() {
        let sampler = Sampler::new(params).expect("valid parameters");
        let mut memory = ShardMemory::default();
        let mut questions = Vec::new();
        let mut shard = sampler.shard(&row, 0, None, &mut memory).expect("a good part");
        let drawn = sampler.clone().sample_over(1000, 1, false, |question| {
            questions.push(question.to_vec());
            vec![(0, shard.reply(question))]
        });
        assert!(drawn.is_ok());
        for question in questions {
            for _ in 0..300 {
                let mut changed = question.clone();
                let place = random.below(changed.len());
                changed[place] = random.below(256) as u8;
                assert_eq!(shard.reply(&changed)[0], 1);
            }
        }
    }
}

/// A shard that gets an invalid question returns an error and does not panic.
#[test]
fn nonsense_questions_get_a_failure() {
    let params = SamplingParams { seed: Some(1), ..SamplingParams::default() };
    let sampler = Sampler::new(params).expect("valid parameters");
    let row = rows::gaussian(5, 1000, 2.0);
    let question = sampler.draw_over(1000, 1, false).expect("a draw").question().expect("asks").to_vec();
    let mut memory = ShardMemory::default();
    let mut shard = sampler.shard(&row, 0, None, &mut memory).expect("a good part");
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let mut answered = 0;
    for round in 0..20_000 {
        let mut nonsense = question.clone();
        nonsense[1] = (round % 24) as u8;
        nonsense.extend((0..random() % 64).map(|_| random()));
        if round % 3 == 0 {
            let place = random() as usize % nonsense.len();
            nonsense[place] = random();
        }
        let reply = shard.reply(&nonsense);
        assert_eq!(reply[0], 1);
        answered += usize::from(reply[1] != 255);
    }
    assert!(answered > 100, "{answered} were questions by chance");
    assert_eq!(shard.reply(&[])[1], 255);
}
