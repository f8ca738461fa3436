use onedraw::LogprobsMode;
use onedraw::math::ln;

use super::*;

fn record(params: SamplingParams) -> Record {
    Record::new(&params).expect("parameters that the device takes")
}

fn ordered(order: &str, params: SamplingParams) -> SamplingParams {
    SamplingParams { order: Some(order.parse().expect("a valid order")), ..params }
}

fn unsupported(params: SamplingParams) -> String {
    match Record::new(&params) {
        Err(CudaError::Unsupported { what }) => what,
        other => panic!("{other:?}"),
    }
}

fn kinds(record: &Record) -> Vec<u32> {
    record.sequence.stage[..record.sequence.stages as usize].iter().map(|stage| stage.kind).collect()
}

fn edits(record: &Record) -> Vec<u32> {
    record.sequence.edit[..record.sequence.edits as usize].to_vec()
}

const ALLOWED: u32 = EditKind::Allowed as u32;

#[test]
fn the_defaults_do_nothing() {
    let record = record(SamplingParams { seed: Some(7), ..Default::default() });
    let sequence = record.sequence;
    assert_eq!(record.masks, Masks::Taken);
    assert_eq!(edits(&record), [ALLOWED], "a mask may come");
    assert_eq!((sequence.seed, sequence.stages, sequence.is_greedy, sequence.is_plain), (7, 0, 0, 1));
    assert_eq!((sequence.inverse, sequence.scale, sequence.sum_scale), (1.0, std::f32::consts::LOG2_E, 0.0));
    assert_eq!((sequence.logprobs, sequence.ring, sequence.touched), (0, 0, 0));
}

#[test]
fn truncations_have_the_numbers_of_the_temperature_in_force() {
    let all = SamplingParams {
        temperature: 0.5,
        top_k: 40,
        top_p: 0.9,
        min_p: 0.05,
        typical_p: 0.25,
        top_n_sigma: 1.5,
        epsilon_cutoff: 0.001,
        eta_cutoff: 0.002,
        top_a: 0.2,
        ..Default::default()
    };
    let record = record(all);
    assert_eq!(kinds(&record), [1, 2, 3, 4, 8, 5, 6, 7], "vLLM's order");
    let stage = |kind: StageKind| {
        *record.sequence.stage.iter().find(|stage| stage.kind == kind as u32).expect("in the chain")
    };
    assert_eq!(stage(StageKind::MinP).number, 0.5 * ln(0.05));
    assert_eq!(stage(StageKind::TopK).k, 40);
    assert_eq!(stage(StageKind::TopP).share, 8_106_479_329_266_893, "round(0.9 · 2^53)");
    assert_eq!(stage(StageKind::Typical).share, 1 << 51);
    assert_eq!(stage(StageKind::TopNSigma).number, 1.5);
    assert_eq!(stage(StageKind::Epsilon).number, ln(0.001));
    assert_eq!(stage(StageKind::Eta).number, ln(0.002));
    assert_eq!(stage(StageKind::TopA).number, ln(0.2));
    let doubled = (2.0 * std::f64::consts::LOG2_E) as f32;
    for stage in record.sequence.stage {
        assert_eq!((stage.inverse, stage.scale), (2.0, doubled));
    }
    let sequence = record.sequence;
    assert_eq!((sequence.inverse, sequence.scale, sequence.sum_scale), (2.0, doubled, 0.0));
    assert_eq!(sequence.is_plain, 0);
}

#[test]
fn a_temperature_counts_from_where_it_stands() {
    let params = SamplingParams { temperature: 0.3, top_p: 0.5, top_k: 3, ..Default::default() };
    let record = record(ordered("top_p,temperature,top_k,temperature,top_p", params));
    let inverse = 1.0 / 0.3;
    let stages = &record.sequence.stage[..3];
    assert_eq!(kinds(&record), [3, 2, 3]);
    assert_eq!(
        stages.iter().map(|stage| stage.inverse).collect::<Vec<_>>(),
        [1.0, inverse, inverse * inverse]
    );
    assert_eq!(stages[2].scale, (std::f64::consts::LOG2_E / (0.3 * 0.3)) as f32);
    assert_eq!(record.sequence.sum_scale, 0.0, "the second top-p asks for another mass");
    assert_eq!(record.sequence.inverse, inverse * inverse);
    assert_eq!(record.sequence.is_plain, 0, "top-p stands twice");
}

#[test]
fn plain_stages_say_how_they_stand_to_each_other() {
    let of = |order: &str| {
        let named = |stage: &str| order.contains(stage);
        let params = SamplingParams {
            min_p: if named("min_p") { 0.1 } else { 0.0 },
            top_p: if named("top_p") { 0.5 } else { 1.0 },
            top_k: if named("top_k") { 3 } else { 0 },
            ..Default::default()
        };
        let sequence = record(ordered(order, params)).sequence;
        assert_eq!(sequence.is_plain, 1);
        (sequence.min_p_place, sequence.top_p_place, sequence.k_before, sequence.k)
    };
    let (none, all) = (MAX_STAGES as u32, u32::MAX);
    assert_eq!(of("temperature"), (none, none, all, all));
    assert_eq!(of("min_p"), (0, none, all, all));
    assert_eq!(of("top_k"), (none, none, 3, 3));
    assert_eq!(of("top_p"), (none, 0, all, all));
    assert_eq!(of("min_p,top_k,top_p"), (0, 2, 3, 3));
    assert_eq!(of("top_p,min_p,top_k"), (1, 0, all, 3), "top-p sees the whole row");
    assert_eq!(of("top_k,top_p,min_p"), (2, 1, 3, 3));
}

#[test]
fn masses_are_summed_where_top_p_sees_the_whole_row() {
    let params = SamplingParams { temperature: 0.5, top_p: 0.5, top_k: 3, ..Default::default() };
    let of = |order: &str, temperature| {
        record(ordered(order, SamplingParams { temperature, ..params.clone() })).sequence.sum_scale
    };
    let doubled = (2.0 * std::f64::consts::LOG2_E) as f32;
    assert_eq!(of("temperature,top_p,top_k", 0.5), doubled);
    assert_eq!(of("top_p,temperature,top_k", 0.5), std::f32::consts::LOG2_E);
    assert_eq!(of("temperature,top_k,top_p", 0.5), 0.0);
    assert_eq!(of("temperature,top_p,top_k", 0.0), 0.0, "nothing is drawn");
}

#[test]
fn a_greedy_chain_has_no_temperature() {
    let sequence = record(SamplingParams { temperature: 9e-6, min_p: 0.5, ..Default::default() }).sequence;
    assert_eq!((sequence.is_greedy, sequence.inverse), (1, 1.0));
    assert_eq!(sequence.stage[0].number, ln(0.5));
    let late = SamplingParams { temperature: 0.0, repetition_penalty: 2.0, ..Default::default() };
    assert_eq!(edits(&record(ordered("temperature,penalties", late))), [4], "nothing stands before the edit");
}

#[test]
fn idle_truncations_are_left_out() {
    for top_k in [0, -1, 1 << 20, i64::MAX] {
        assert_eq!(record(SamplingParams { top_k, ..Default::default() }).sequence.stages, 0);
    }
    let least = SamplingParams { top_p: f64::MIN_POSITIVE, top_k: (1 << 20) - 1, ..Default::default() };
    let sequence = record(least).sequence;
    assert_eq!((sequence.stage[0].k, sequence.stage[1].share), ((1 << 20) - 1, 1));
}

#[test]
fn edits_stand_as_the_order_has_them() {
    let params = SamplingParams {
        bad_words_ids: vec![vec![1, 2]],
        min_tokens: 3,
        eos_token_id: vec![5],
        stop_token_ids: vec![6, 7],
        logit_bias: [(9, 0.1), (3, -1.0)].into(),
        frequency_penalty: 0.1,
        penalty_scope: PenaltyScope::All,
        penalty_window: 64,
        prompt_token_ids: vec![1, 1, 1],
        output_token_ids: vec![2, 2],
        temperature: 0.7,
        ..Default::default()
    };
    assert_eq!(edits(&record(params.clone())), [5, 1, 2, 3, 4]);
    let sequence =
        record(ordered("logit_bias,penalties,penalties,bad_words,min_tokens,allowed,temperature", params))
            .sequence;
    assert_eq!(sequence.edit[..6], [3, 4, 4, 1, 2, 5]);
    assert_eq!((sequence.repetition, sequence.frequency, sequence.presence), (1.0, 0.1, 0.0));
    assert_eq!((sequence.counts_prompt, sequence.window), (1, 64));
    assert_eq!((sequence.min_tokens, sequence.ends, sequence.biases, sequence.words), (3, 3, 2, 1));
    assert_eq!((sequence.prompt, sequence.position), (3, 2));
    assert_eq!(sequence.edit_stage(3), Some(onedraw::Stage::BadWords));
    assert_eq!(sequence.edit_stage(6), None);
    assert_eq!(sequence.edit_stage(u32::MAX), None);
}

#[test]
fn idle_edits_are_left_out() {
    let params = SamplingParams { min_tokens: 3, repetition_penalty: 1.0 + 1e-12, ..Default::default() };
    let sequence = record(params).sequence;
    assert_eq!((sequence.edits, sequence.min_tokens, sequence.repetition), (1, 0, 0.0));
    let params = SamplingParams { allowed_token_ids: Some(vec![1]), ..Default::default() };
    assert_eq!(edits(&record(params)), [ALLOWED]);
}

#[test]
fn masks_are_taken_before_the_first_step_only() {
    let masks = |order: &str, temperature: f64| {
        let record = record(ordered(order, SamplingParams { temperature, ..Default::default() }));
        (record.masks, record.sequence.edits)
    };
    assert_eq!(masks("allowed,temperature", 0.5), (Masks::Taken, 1));
    assert_eq!(masks("temperature", 0.5), (Masks::Unnamed, 0));
    assert_eq!(masks("temperature,allowed", 0.5), (Masks::TooLate, 0));
    assert_eq!(masks("temperature,allowed", 1.0), (Masks::Taken, 1));
    let listed = SamplingParams { temperature: 0.5, allowed_token_ids: Some(vec![1]), ..Default::default() };
    assert_eq!(
        unsupported(ordered("temperature,allowed", listed)),
        "allowed after a temperature or a truncation"
    );
}

#[test]
fn logprobs_count_the_drawn_token() {
    let of = |logprobs, logprobs_mode| {
        let params = SamplingParams { logprobs, logprobs_mode, ..Default::default() };
        let sequence = record(params).sequence;
        (sequence.logprobs, sequence.logprobs_mode, sequence.is_plain)
    };
    assert_eq!(of(None, LogprobsMode::ProcessedLogits), (0, 3, 1));
    assert_eq!(of(Some(0), LogprobsMode::RawLogprobs), (1, 0, 1));
    assert_eq!(of(Some(5), LogprobsMode::RawLogits), (6, 1, 1));
    assert_eq!(of(Some(1024), LogprobsMode::ProcessedLogprobs), (1025, 2, 0));
}

#[test]
fn what_the_device_cannot_do_is_named() {
    let default = SamplingParams::default;
    assert_eq!(unsupported(SamplingParams { dry_multiplier: 1.0, ..default() }), "dry");
    assert_eq!(unsupported(SamplingParams { no_repeat_ngram_size: 2, ..default() }), "no_repeat_ngram");
    assert_eq!(unsupported(SamplingParams { smoothing_factor: 0.1, ..default() }), "smoothing");
    assert_eq!(unsupported(SamplingParams { xtc_probability: 0.1, ..default() }), "xtc");
    assert_eq!(unsupported(SamplingParams { mirostat: 2, ..default() }), "mirostat");
    assert_eq!(unsupported(SamplingParams { dynatemp_range: 0.5, ..default() }), "dynatemp_range");
    assert_eq!(
        unsupported(SamplingParams { logprobs: Some(-1), ..default() }),
        "logprobs of all tokens (-1)"
    );
    assert_eq!(unsupported(SamplingParams { logprobs: Some(1025), ..default() }), "more than 1024 logprobs");
    assert_eq!(unsupported(SamplingParams { prompt_logprobs: Some(0), ..default() }), "prompt_logprobs");
    assert_eq!(
        unsupported(SamplingParams { banned_strings: vec!["no".into()], ..default() }),
        "banned_strings"
    );
    let window = SamplingParams { repetition_penalty: 2.0, penalty_window: 1 << 21, ..default() };
    assert_eq!(unsupported(window), "a penalty_window above 1048576");
    let late = SamplingParams { top_k: 3, presence_penalty: 1.0, ..default() };
    assert_eq!(
        unsupported(ordered("top_k,penalties", late)),
        "penalties after a temperature or a truncation"
    );
    let long = SamplingParams { top_k: 3, ..default() };
    assert_eq!(
        unsupported(ordered(&["top_k"; 9].join(","), long.clone())),
        "a chain of more than 8 truncations"
    );
    assert_eq!(record(ordered(&["top_k"; 8].join(","), long)).sequence.stages, 8);
    let long = SamplingParams { logit_bias: [(1, 1.0)].into(), ..default() };
    assert_eq!(unsupported(ordered(&["logit_bias"; 13].join(","), long)), "a chain of more than 12 edits");
    let keep_all = |_: &onedraw::custom::View<'_>| Ok(onedraw::custom::Keep::AllBut(Vec::new()));
    let own = onedraw::Stage::Custom(onedraw::Custom::truncation("own", keep_all).expect("a good name"));
    let order = onedraw::Order::of([own]);
    assert_eq!(unsupported(SamplingParams { order: Some(order), ..default() }), "own");
}

#[test]
fn bad_parameters_are_the_library_s_errors() {
    let error = Record::new(&SamplingParams { top_p: -0.5, ..Default::default() });
    assert!(matches!(error, Err(CudaError::Params(error)) if error.field() == "top_p"));
}
