use onedraw::LogprobsMode;
use onedraw::math::ln;

use super::*;

fn record(params: SamplingParams) -> Record {
    Record::new(&params).expect("parameters that the device takes")
}

fn ordered(order: &str, params: SamplingParams) -> SamplingParams {
    SamplingParams { order: Some(order.parse().expect("a valid order")), ..params }
}

fn kinds(record: &Record) -> Vec<u32> {
    record.chains[0].iter().map(|stage| stage.kind).collect()
}

fn edits(record: &Record) -> Vec<u8> {
    record.kinds[..record.sequence.edits as usize].to_vec()
}

const ALLOWED: u8 = EditKind::Allowed as u8;
const BANS: u8 = EditKind::Bans as u8;

#[test]
fn the_defaults_do_nothing() {
    let record = record(SamplingParams { seed: Some(7), ..Default::default() });
    let sequence = record.sequence;
    assert_eq!(record.masks, Masks::Early);
    assert_eq!(edits(&record), [BANS, ALLOWED], "a mask may come");
    assert_eq!((sequence.seed, record.chains[0].len(), sequence.is_greedy, sequence.is_plain), (7, 0, 0, 1));
    assert_eq!((sequence.inverse, sequence.scale, sequence.sum_scale), (1.0, std::f32::consts::LOG2_E, 0.0));
    assert_eq!((sequence.logprobs, sequence.room, sequence.touched), (0, 0, 0));
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
        *record.chains[0].iter().find(|stage| stage.kind == kind as u32).expect("in the chain")
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
    for stage in &record.chains[0] {
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
    let stages = &record.chains[0];
    assert_eq!(kinds(&record), [3, 2, 3]);
    assert_eq!(
        stages.iter().map(|stage| stage.inverse).collect::<Vec<_>>(),
        [1.0, inverse, inverse * inverse]
    );
    assert_eq!(stages[2].scale, (std::f64::consts::LOG2_E / (0.3 * 0.3)) as f32);
    assert_eq!(record.sequence.sum_scale, std::f32::consts::LOG2_E, "that of the first top-p");
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
    assert_eq!(
        edits(&record(ordered("temperature,penalties", late))),
        [8, 4],
        "nothing stands before the edit"
    );
}

#[test]
fn idle_truncations_are_left_out() {
    for top_k in [0, -1, 1 << 20, i64::MAX] {
        assert!(record(SamplingParams { top_k, ..Default::default() }).chains[0].is_empty());
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
    assert_eq!(edits(&record(params.clone())), [8, 5, 1, 2, 3, 4]);
    let record =
        record(ordered("logit_bias,penalties,penalties,bad_words,min_tokens,allowed,temperature", params));
    let sequence = record.sequence;
    assert_eq!(record.kinds, [8, 3, 4, 4, 1, 2, 5]);
    assert_eq!(sequence.near_edits[..8], [8, 3, 4, 4, 1, 2, 5, 0]);
    assert_eq!((sequence.repetition, sequence.frequency, sequence.presence), (1.0, 0.1, 0.0));
    assert_eq!((sequence.counts_prompt, sequence.window), (1, 64));
    assert_eq!((sequence.min_tokens, sequence.ends, sequence.biases, sequence.words), (3, 3, 2, 1));
    assert_eq!((sequence.prompt, sequence.position, sequence.length), (3, 2, 5));
}

#[test]
fn edits_have_the_names_of_their_stages() {
    use onedraw::Stage::{Allowed, BadWords, Dry, LogitBias, MinTokens, NoRepeatNgram, Penalties};
    let stages = [BadWords, MinTokens, LogitBias, Penalties, Allowed, Dry, NoRepeatNgram, BadWords];
    let bans = u32::from(BANS);
    assert_eq!(bans, 8, "which the CPU names as bad words");
    assert_eq!((1..=bans).map(stage_of_edit).collect::<Vec<_>>(), stages.map(Some));
    assert_eq!([0, 9, u32::MAX].map(stage_of_edit), [None, None, None]);
}

#[test]
fn idle_edits_are_left_out() {
    let params = SamplingParams { min_tokens: 3, repetition_penalty: 1.0 + 1e-12, ..Default::default() };
    let sequence = record(params).sequence;
    assert_eq!((sequence.edits, sequence.min_tokens, sequence.repetition), (2, 0, 0.0));
    let params = SamplingParams { allowed_token_ids: Some(vec![1]), ..Default::default() };
    assert_eq!(edits(&record(params)), [BANS, ALLOWED]);
}

#[test]
fn masks_are_taken_where_the_order_has_them() {
    let masks = |order: &str, temperature: f64| {
        let record = record(ordered(order, SamplingParams { temperature, ..Default::default() }));
        (record.masks, record.sequence.edits)
    };
    assert_eq!(masks("allowed,temperature", 0.5), (Masks::Early, 2));
    assert_eq!(masks("temperature", 0.5), (Masks::Unnamed, 1));
    assert_eq!(masks("temperature,allowed", 0.5), (Masks::Late, 1));
    assert_eq!(masks("temperature,allowed", 1.0), (Masks::Early, 2));
    let listed = SamplingParams { temperature: 0.5, allowed_token_ids: Some(vec![1]), ..Default::default() };
    let late = record(ordered("temperature,allowed", listed));
    assert_eq!((late.allows_late(), late.sequence.needs_desk, kinds(&late)), (true, 1, vec![12]));
    assert_eq!((late.chains[0][0].k, late.chains[0][0].share, late.chains[0][0].inverse), (1, 2, 2.0));
}

#[test]
fn an_edit_after_an_operation_begins_a_segment() {
    let params = SamplingParams {
        top_k: 3,
        presence_penalty: 1.0,
        logit_bias: [(1, 1.0)].into(),
        smoothing_factor: 0.5,
        temperature: 0.5,
        ..Default::default()
    };
    let order = "logit_bias,temperature,penalties,top_k,logit_bias,smoothing,temperature,allowed";
    let record = record(ordered(order, params));
    let stages: Vec<(u32, u32, u64)> =
        record.chains[0].iter().map(|stage| (stage.kind, stage.k, stage.share)).collect();
    let quadratic = 1.0_f64.to_bits();
    assert_eq!(stages, [(12, 2, 3), (2, 3, 0), (12, 3, 4), (13, 0, quadratic)]);
    // With a mask there is one segment more, behind the edits of the others.
    let masked: Vec<(u32, u32, u64)> =
        record.chains[1].iter().map(|stage| (stage.kind, stage.k, stage.share)).collect();
    assert_eq!(masked, [(12, 4, 5), (2, 3, 0), (12, 5, 6), (13, 0, quadratic), (12, 6, 7)]);
    assert_eq!(record.kinds, [8, 3, 4, 3, 4, 3, 5]);
    assert_eq!((record.sequence.edits, record.masks, record.sequence.is_bent), (2, Masks::Late, 0));
    assert_eq!(record.sequence.inverse, 2.0, "of the last segment");
}

#[test]
fn logprobs_count_the_drawn_token() {
    let of = |logprobs, logprobs_mode| {
        let params = SamplingParams { logprobs, logprobs_mode, ..Default::default() };
        let sequence = record(params).sequence;
        (sequence.logprobs, sequence.logprobs_mode, sequence.is_told)
    };
    assert_eq!(of(None, LogprobsMode::ProcessedLogits), (0, 3, 0));
    assert_eq!(of(Some(0), LogprobsMode::RawLogprobs), (1, 0, 0));
    assert_eq!(of(Some(5), LogprobsMode::RawLogits), (6, 1, 0));
    assert_eq!(of(Some(1024), LogprobsMode::ProcessedLogprobs), (1025, 2, 1));
}

#[test]
fn a_text_is_read_by_some_edits() {
    let reads = |params: SamplingParams| record(params).reads_text;
    let default = SamplingParams::default;
    let penalties = SamplingParams { frequency_penalty: 0.5, ..default() };
    assert!(!reads(SamplingParams { penalty_window: 4, ..default() }), "nobody asks for the window");
    assert!(!reads(penalties.clone()), "they have counts");
    assert!(reads(SamplingParams { penalty_window: 4, ..penalties }));
    assert!(!reads(SamplingParams { bad_words_ids: vec![vec![4], vec![5]], ..default() }));
    assert!(reads(SamplingParams { bad_words_ids: vec![vec![4, 5]], ..default() }));
    assert!(reads(SamplingParams { dry_multiplier: 1.0, ..default() }));
    assert!(reads(SamplingParams { no_repeat_ngram_size: 2, ..default() }));
}

#[test]
fn what_the_device_cannot_do_is_named() {
    let default = SamplingParams::default;
    let all = record(SamplingParams { logprobs: Some(-1), prompt_logprobs: Some(-1), ..default() });
    assert_eq!(all.sequence.logprobs, u32::MAX);
    let long = SamplingParams { top_k: 3, ..default() };
    assert_eq!(record(ordered(&["top_k"; 40].join(","), long)).chains[0].len(), 40);
    let long = SamplingParams { logit_bias: [(1, 1.0)].into(), ..default() };
    assert_eq!(edits(&record(ordered(&["logit_bias"; 300].join(","), long))).len(), 301);
    let keep_all = |_: &onedraw::custom::View<'_>| Ok(onedraw::custom::Keep::AllBut(Vec::new()));
    let own = onedraw::Stage::Custom(onedraw::Custom::truncation("own", keep_all).expect("a good name"));
    let order = onedraw::Order::of([own]);
    let error = Record::new(&SamplingParams { order: Some(order), ..default() }).expect_err("it is our own");
    assert_eq!(error, CudaError::OwnStage { name: "own".into() });
    let message = "own is a stage of your own, which a device cannot run: draw these rows on the CPU, or make it a \
                   logit_bias or a mask";
    assert_eq!(error.to_string(), message);
}

#[test]
fn bad_parameters_are_the_library_s_errors() {
    let error = Record::new(&SamplingParams { top_p: -0.5, ..Default::default() });
    assert!(matches!(error, Err(CudaError::Params(error)) if error.field() == "top_p"));
}

#[test]
fn parts_of_rows_leave_operations_and_reports_to_the_host() {
    let keep_all = |_: &onedraw::custom::View<'_>| Ok(onedraw::custom::Keep::AllBut(Vec::new()));
    let own = onedraw::Stage::Custom(onedraw::Custom::truncation("own", keep_all).expect("a good name"));
    let order = [own, onedraw::Stage::LogitBias, onedraw::Stage::Xtc, onedraw::Stage::Allowed];
    let params = SamplingParams {
        logprobs: Some(-1),
        kept: KeptMode::Ids,
        xtc_probability: 0.5,
        logit_bias: [(1, 1.0)].into(),
        order: Some(onedraw::Order::of(order)),
        ..Default::default()
    };
    let part = Record::of_part(&params).expect("parameters that the device takes");
    assert_eq!(part.masks, Masks::Late);
    let kinds = |segment: Range<usize>| part.kinds[segment].to_vec();
    let segments = |has_mask| [0, 1, 2].map(|segment| part.segment(has_mask, segment).map(kinds));
    let bias = vec![EditKind::LogitBias as u8];
    assert_eq!(segments(false), [Some(vec![BANS]), Some(bias.clone()), None]);
    assert_eq!(segments(true), [Some(vec![BANS]), Some(bias), Some(vec![ALLOWED])]);
    let is_xtc = |segment, operation| part.is_xtc(false, Place { segment, operation });
    assert_eq!([is_xtc(0, 0), is_xtc(1, 0), is_xtc(1, 1), is_xtc(7, 0)], [false, true, false, false]);
}
