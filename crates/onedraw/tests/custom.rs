//! A user's own stage is placed like a built-in one, sees what the documentation promises, and its answer is
//! applied exactly.

use std::sync::Mutex;

use onedraw::custom::{Change, Custom, Keep, View};
use onedraw::noise::Noise;
use onedraw::{Batch, Order, RowError, Sampler, SamplingParams, Shards, Stage, Step, reference};
use onedraw_testkit::rows;

fn sampler(params: SamplingParams) -> Sampler {
    Sampler::new(params).expect("valid parameters")
}

fn with_order(stages: impl Into<Vec<Stage>>) -> SamplingParams {
    SamplingParams { seed: Some(3), order: Some(Order::of(stages)), ..SamplingParams::default() }
}

fn edit(name: &str, change: impl Fn(&View<'_>) -> Change + Send + Sync + 'static) -> Stage {
    Stage::Custom(Custom::edit(name, move |view: &View<'_>| Ok(change(view))).expect("a good name"))
}

fn truncation(name: &str, keep: impl Fn(&View<'_>) -> Keep + Send + Sync + 'static) -> Stage {
    Stage::Custom(Custom::truncation(name, move |view: &View<'_>| Ok(keep(view))).expect("a good name"))
}

/// What [`View`] shows at each place of a chain.
#[test]
fn a_stage_sees_what_is_left_there() {
    type Seen = (Vec<f32>, Vec<f64>, f64, Vec<u32>, Vec<u32>, u32);
    static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
    fn note(view: &View<'_>) {
        let probabilities = (0..4).map(|token| view.probability(token)).collect();
        let (prompt, output) = (view.prompt().to_vec(), view.output().to_vec());
        let seen =
            (view.logits().to_vec(), probabilities, view.temperature(), prompt, output, view.position());
        SEEN.lock().expect("one thread").push(seen);
    }
    let look = truncation("look", |view| {
        note(view);
        Keep::AllBut(Vec::new())
    });
    let look_again = edit("look_again", |view| {
        note(view);
        Change::Sparse(Vec::new())
    });
    let params = SamplingParams {
        temperature: 0.5,
        top_k: 3,
        prompt_token_ids: vec![1, 1],
        output_token_ids: vec![2],
        ..with_order([Stage::TopK, Stage::Temperature, look, look_again])
    };
    let row = [1.0f32, 3.0, -2.0, 2.0];
    sampler(params).peek(&row, 5).expect("a good row");
    let seen = SEEN.lock().expect("one thread");
    let [first, second] = &seen[..] else { panic!("two looks, not {}", seen.len()) };
    assert_eq!(first.0, [1.0, 3.0, f32::NEG_INFINITY, 2.0], "before the temperature");
    assert_eq!(second.0, [2.0, 6.0, f32::NEG_INFINITY, 4.0], "an edit sees it in the logits");
    assert_eq!((first.2, second.2), (0.5, 1.0));
    let z = 1.0 + core_math::exp(-2.0f64) + core_math::exp(-4.0f64);
    for seen in [first, second] {
        let expected = [core_math::exp(-4.0f64) / z, 1.0 / z, 0.0, core_math::exp(-2.0f64) / z];
        assert!(seen.1.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-7), "{:?}", seen.1);
        assert_eq!((&seen.3[..], &seen.4[..], seen.5), (&[1, 1][..], &[2][..], 6));
    }
}

/// An edit that writes every logit, one that writes some, a truncation that keeps a list and one that drops
/// one, all in one chain with built-in stages between them: engine, shards and reference agree.
#[test]
fn the_engine_equals_the_reference_over_every_split() {
    let halve = edit("halve", |view| Change::Dense(view.logits().iter().map(|x| x * 0.5).collect()));
    let even = truncation("even", |view| Keep::Only((0..view.logits().len() as u32).step_by(2).collect()));
    let likely = truncation("likely", |view| {
        Keep::AllBut((0..view.logits().len() as u32).filter(|&id| view.probability(id) < 0.002).collect())
    });
    let raise = edit("raise", |view| {
        Change::Sparse(vec![(0, 4.0), (2, f32::NEG_INFINITY), (7, view.output().len() as f32)])
    });
    for (turn, stages) in [
        vec![halve.clone(), Stage::Temperature, even.clone(), Stage::TopP, raise.clone(), Stage::TopK],
        vec![Stage::Xtc, even, likely.clone(), Stage::Typical, raise.clone(), halve.clone()],
        vec![Stage::TopK, raise, Stage::Smoothing, likely, Stage::MinP, Stage::Penalties],
        vec![halve, Stage::Mirostat],
    ]
    .into_iter()
    .enumerate()
    {
        let names = |stage| stages.contains(&stage);
        let mut params = SamplingParams { output_token_ids: vec![4, 4, 6], ..with_order(stages.clone()) };
        params.temperature = if names(Stage::Temperature) { 0.7 } else { 1.0 };
        params.top_p = if names(Stage::TopP) { 0.9 } else { 1.0 };
        params.top_k = if names(Stage::TopK) { 30 } else { 0 };
        params.min_p = if names(Stage::MinP) { 0.01 } else { 0.0 };
        params.typical_p = if names(Stage::Typical) { 0.8 } else { 1.0 };
        params.smoothing_factor = if names(Stage::Smoothing) { 0.3 } else { 0.0 };
        params.repetition_penalty = if names(Stage::Penalties) { 1.4 } else { 1.0 };
        params.xtc_probability = if names(Stage::Xtc) { 1.0 } else { 0.0 };
        params.xtc_threshold = if names(Stage::Xtc) { 0.02 } else { 0.1 };
        params.mirostat = if names(Stage::Mirostat) { 2 } else { 0 };
        for (seed, vocabulary) in [(1, 8), (2, 100), (3, 1000), (4, 5000)] {
            let row = rows::gaussian(seed + turn as u64, vocabulary, 2.0);
            let noise = Noise { seed: 3, position: 3, sequence: 0, round: 0 };
            let left = reference::left(&row, None, &params, &noise).expect("something is left");
            for shards in [Shards::WHOLE, Shards::even(3), Shards::at([1, 63, 65])] {
                let mut sampler = sampler(params.clone()).shards(shards);
                assert_eq!(sampler.distribution(&row).expect("a good row"), left.distribution());
                assert_eq!(sampler.sample(&row).expect("a good row").token, left.draw(&noise));
            }
        }
    }
}

#[test]
fn what_cannot_be_done_is_the_rows_error_and_names_the_stage() {
    let row = [1.0f32, 2.0, 3.0];
    let message = |stage: Stage| match sampler(with_order([stage])).sample(&row) {
        Err(error @ RowError::CustomStage { .. }) => {
            assert_eq!(error.kind(), "custom_stage");
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    let nan = edit("nan", |_| Change::Sparse(vec![(1, f32::NAN)]));
    assert_eq!(
        message(nan),
        "the stage nan: the new logit of token 1 is NaN; logits are finite or -inf (masked)"
    );
    let infinite = edit("infinite", |_| Change::Dense(vec![0.0, 0.0, f32::INFINITY]));
    assert_eq!(
        message(infinite),
        "the stage infinite: the new logit of token 2 is inf; logits are finite or -inf (masked)"
    );
    let short = edit("short", |_| Change::Dense(vec![0.0]));
    assert_eq!(message(short), "the stage short: a dense change has 1 logits; this row has 3");
    let outside = "token 3 is outside the vocabulary; ids of this row are 0 to 2";
    assert_eq!(message(edit("a", |_| Change::Sparse(vec![(3, 0.0)]))), format!("the stage a: {outside}"));
    assert_eq!(message(truncation("b", |_| Keep::Only(vec![3]))), format!("the stage b: {outside}"));
    assert_eq!(message(truncation("c", |_| Keep::AllBut(vec![3]))), format!("the stage c: {outside}"));
    let fails = Custom::edit("fails", |_: &View<'_>| Err("no idea".to_owned())).expect("a good name");
    assert_eq!(message(Stage::Custom(fails)), "the stage fails: no idea");
}

#[test]
fn a_stage_that_leaves_nothing_is_named() {
    let row = [1.0f32, 2.0, 3.0];
    let nothing = |stage: &Stage| Err(RowError::NothingLeft { stage: Some(stage.clone()) });
    let none = truncation("none", |_| Keep::Only(Vec::new()));
    assert_eq!(sampler(with_order([none.clone()])).sample(&row), nothing(&none));
    let all = edit("all", |_| Change::Dense(vec![f32::NEG_INFINITY; 3]));
    assert_eq!(sampler(with_order([all.clone()])).sample(&row), nothing(&all));
    // Token 0 was already removed by top-k.
    let dropped = truncation("dropped", |_| Keep::Only(vec![0]));
    let params = SamplingParams { top_k: 2, ..with_order([Stage::TopK, dropped.clone()]) };
    assert_eq!(sampler(params).sample(&row), nothing(&dropped));
}

/// The rows of a batch run on several threads. Each has its own stages, and one that fails does not affect
/// the others.
#[test]
fn stages_serve_batches() {
    let mut batch = Batch::new().threads(2);
    let last = truncation("last", |view| Keep::Only(vec![view.logits().len() as u32 - 1]));
    let fails = Custom::edit("fails", |_: &View<'_>| Err("never".to_owned())).expect("a good name");
    let rows = [rows::gaussian(1, 50, 1.0), rows::gaussian(2, 70, 1.0)];
    let ids = [
        batch.add(with_order([last.clone()])).expect("valid parameters"),
        batch.add(with_order([Stage::Custom(fails)])).expect("valid parameters"),
        batch.add(with_order([Stage::TopK, last])).expect("valid parameters"),
    ];
    let steps = [Step::new(ids[0], &rows[0]), Step::new(ids[1], &rows[0]), Step::new(ids[2], &rows[1])];
    let results = batch.sample(&steps);
    assert_eq!(results[0].as_ref().map(|sampled| sampled.token), Ok(49));
    assert_eq!(results[1].as_ref().map_err(RowError::kind).map(drop), Err("custom_stage"));
    assert_eq!(results[2].as_ref().map(|sampled| sampled.token), Ok(69));
}

/// A thread that waits for another thread pool gets the next row meanwhile, in the middle of its own.
#[test]
fn a_stage_may_draw_on_threads_of_its_own() {
    let inner = edit("inner", |view| {
        let mut batch = Batch::new().threads(2);
        let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
        let ids = [0; 4].map(|_| batch.add(greedy.clone()).expect("valid parameters"));
        let row = view.logits().to_vec();
        let steps = ids.map(|id| Step::new(id, &row));
        let tokens: Vec<u32> =
            batch.sample(&steps).into_iter().map(|drawn| drawn.expect("a good row").token).collect();
        assert_eq!(tokens, [tokens[0]; 4]);
        Change::Sparse(vec![(tokens[0] + 1, 99.0)])
    });
    let mut outer = Batch::new().threads(2);
    let params = SamplingParams { temperature: 0.0, ..with_order([Stage::Temperature, inner]) };
    let ids: Vec<_> = (0..12).map(|_| outer.add(params.clone()).expect("valid parameters")).collect();
    let rows: Vec<Vec<f32>> =
        (0..12).map(|i| (0..40).map(|token| if token == i { 1.0 } else { 0.0 }).collect()).collect();
    for _ in 0..20 {
        let steps: Vec<Step<'_>> = ids.iter().zip(&rows).map(|(&id, row)| Step::new(id, row)).collect();
        let drawn: Vec<u32> =
            outer.peek(&steps, 0).into_iter().map(|drawn| drawn.expect("a good row").token).collect();
        assert_eq!(drawn, (1..=12).collect::<Vec<_>>());
    }
}
