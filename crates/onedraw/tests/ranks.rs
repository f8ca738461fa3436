//! A vocabulary split across processes: each holds a rank, and one draws by asking. Here the processes are threads, and all that
//! passes between them is text.

use std::sync::mpsc;

use onedraw::custom::{Change, Custom, Keep, View};
use onedraw::question::{Answers, Question, Reply};
use onedraw::{Order, RowError, Sampled, Sampler, SamplingParams, Stage};
use onedraw_testkit::rows;

/// The other ends: questions go out as JSON, replies come back as JSON.
struct Wires(Vec<(mpsc::Sender<String>, mpsc::Receiver<String>)>);

impl Answers for Wires {
    fn ask(&mut self, question: &Question, reply: &mut Reply) {
        // Through a value and back: the narrowest of the ways that serde offers.
        let text = serde_json::to_value(question).expect("a message").to_string();
        self.0.iter().for_each(|(send, _)| send.send(text.clone()).expect("a rank listens"));
        *reply = Reply::default();
        for (_, receive) in &self.0 {
            let text = receive.recv().expect("a rank answers");
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            reply.absorb(&serde_json::from_value(value).expect("a reply"));
        }
    }
}

/// Draws once over four ranks, each with a sampler of its own.
fn over_wires(samplers: &mut [Sampler], asker: &mut Sampler, row: &[f32]) -> Result<Sampled, RowError> {
    let length = row.len();
    let edges = [0, 7, length / 2, length / 2 + 1, length];
    std::thread::scope(|scope| {
        let ranks = samplers.iter_mut().zip(edges.windows(2));
        let wires = ranks.map(|(own, edges)| {
            let (ask, asked) = mpsc::channel::<String>();
            let (answer, answered) = mpsc::channel();
            let part = &row[edges[0]..edges[1]];
            scope.spawn(move || {
                let mut rank = own.rank(part, edges[0], None).expect("a good part");
                for question in asked {
                    let mut reply = Reply::default();
                    rank.ask(&serde_json::from_str(&question).expect("a question"), &mut reply);
                    answer.send(serde_json::to_value(&reply).expect("a message").to_string()).expect("heard");
                }
            });
            (ask, answered)
        });
        let mut wires = Wires(wires.collect());
        asker.sample_over(&mut wires, length, false)
    })
}

fn check(params: &SamplingParams) {
    let row = rows::gaussian(11, 1000, 2.0);
    let new = || Sampler::new(params.clone()).expect("valid parameters");
    let expected = new().sample(&row).expect("a good row");
    let mut samplers = [(); 4].map(|()| new());
    assert_eq!(over_wires(&mut samplers, &mut new(), &row), Ok(expected), "{params:?}");
}

#[test]
fn ranks_answer_over_a_wire() {
    for json in [
        r#"{"seed": 3, "top_p": 0.8, "logprobs": 3}"#,
        r#"{"seed": 4, "top_k": 40, "min_p": 0.01, "repetition_penalty": 1.5, "prompt_token_ids": [0, 400, 999]}"#,
        r#"{"seed": 5, "order": "top_p,logit_bias,top_k", "top_p": 0.9, "logit_bias": {"17": 2}, "top_k": 9}"#,
        r#"{"seed": 6, "xtc_probability": 1, "xtc_threshold": 0.001, "xtc_protected_token_ids": [0, 400, 999],
            "typical_p": 0.9}"#,
        r#"{"seed": 7, "mirostat": 1, "smoothing_factor": 0.4, "dynatemp_range": 0.5}"#,
        r#"{"seed": 8, "eta_cutoff": 0.01, "top_n_sigma": 1, "top_a": 0.1, "logprobs": 2,
            "logprobs_mode": "processed_logprobs"}"#,
        r#"{"seed": 9, "dry_multiplier": 1, "no_repeat_ngram_size": 2, "output_token_ids": [5, 6, 5], "temperature": 0}"#,
    ] {
        check(&SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}")));
    }
}

/// A user's stages run with the asker, who is sent the row; what they mask goes out again.
#[test]
fn a_users_stages_see_the_whole_row() {
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
    let stages = [no_best, not_even].map(|stage| Stage::Custom(stage.expect("a good name")));
    let [no_best, not_even] = stages;
    let order = Order::of([no_best, Stage::TopK, not_even]);
    check(&SamplingParams { seed: Some(2), top_k: 30, order: Some(order), ..SamplingParams::default() });
}

/// Whoever draws next has learned what the last one did: mirostat's state goes round with the token.
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
        let drawn = over_wires(&mut samplers, &mut askers[step as usize % 2], &row).expect("a good row");
        assert_eq!(Ok(&drawn), whole.sample(&row).as_ref());
        let sent: Sampled =
            serde_json::from_value(serde_json::to_value(&drawn).expect("written")).expect("read");
        askers[1 - step as usize % 2].accept_sampled(&sent);
        samplers.iter_mut().for_each(|sampler| sampler.accept_sampled(&sent));
    }
}

/// Ranks that hold more than the asker was told are an error, not a token outside the vocabulary.
#[test]
fn ranks_beyond_the_vocabulary() {
    let keep = Custom::truncation("keep", |_: &View<'_>| Ok(Keep::AllBut(Vec::new()))).expect("a good name");
    for order in [Order::vllm(), Order::of([Stage::Custom(keep)])] {
        let params = SamplingParams { seed: Some(1), order: Some(order), ..SamplingParams::default() };
        let mut samplers = [(); 2].map(|()| Sampler::new(params.clone()).expect("valid parameters"));
        let [holder, asker] = &mut samplers;
        let mut rank = holder.rank(&[0.0f32, 1.0, 50.0], 0, None).expect("a good part");
        let error = RowError::OutsideVocabulary { field: "ranks", token: 2, vocabulary: 2 };
        assert_eq!(asker.sample_over(&mut rank, 2, false), Err(error));
        assert_eq!(asker.position(), 0);
    }
}
