use onedraw_testkit::rows::SplitMix64;
use serde_json::{Map, Value, json};

use super::*;

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => panic!("not an object"),
    }
}

/// The layers that the program makes of flags, a preset's name and a model's settings.
fn settings(flags: &Map<String, Value>, preset: Option<&str>, model: &Map<String, Value>) -> Settings {
    let mut settings =
        Settings::default().layer(Layer::read(Origin::Argument, flags).expect("flags that can be read"));
    if let Some(name) = preset {
        settings = settings.layer(Layer::preset(name).expect(name));
    }
    settings.layer(Layer::model(model))
}

fn resolve(flags: Value, preset: Option<&str>, model: Value) -> Resolved {
    settings(&map(flags), preset, &map(model)).resolve().expect("settings")
}

fn dropped(resolved: &Resolved) -> Vec<(&str, String)> {
    resolved.dropped.iter().map(|dropped| (dropped.field.as_str(), dropped.reason.to_string())).collect()
}

/// Values of every parameter that validation looks at together with another one, each allowed alone.
fn values() -> Vec<(&'static str, Value)> {
    let often = ["temperature"; 8].join(",");
    vec![
        ("temperature", json!(0.5)),
        ("temperature", json!(1e-4)),
        ("temperature", json!(5e5)),
        ("dynatemp_range", json!(0.5)),
        ("dynatemp_range", json!(999_999.0)),
        ("dynatemp_exponent", json!(2.0)),
        ("top_k", json!(50)),
        ("top_k", json!(-1)),
        ("top_p", json!(0.9)),
        ("top_p", json!(1.0)),
        ("min_p", json!(0.05)),
        ("typical_p", json!(0.9)),
        ("top_n_sigma", json!(1.5)),
        ("epsilon_cutoff", json!(0.001)),
        ("eta_cutoff", json!(0.001)),
        ("top_a", json!(0.1)),
        ("xtc_probability", json!(0.5)),
        ("xtc_threshold", json!(0.2)),
        ("xtc_protected_token_ids", json!([1])),
        ("mirostat", json!(1)),
        ("mirostat", json!(2)),
        ("mirostat", json!(0)),
        ("mirostat_tau", json!(3.0)),
        ("mirostat_eta", json!(0.2)),
        ("mirostat_mu", json!(4.0)),
        ("repetition_penalty", json!(1.2)),
        ("frequency_penalty", json!(0.2)),
        ("presence_penalty", json!(0.2)),
        ("penalty_window", json!(64)),
        ("penalty_scope", json!("all")),
        ("logit_bias", json!({"5": 1.5})),
        ("allowed_token_ids", json!([1, 2])),
        ("bad_words_ids", json!([[1]])),
        ("bad_words", json!(["no"])),
        ("no_repeat_ngram_size", json!(3)),
        ("dry_multiplier", json!(0.8)),
        ("dry_base", json!(2.0)),
        ("dry_allowed_length", json!(3)),
        ("dry_penalty_last_n", json!(32)),
        ("dry_sequence_breakers", json!([[1]])),
        ("smoothing_factor", json!(0.3)),
        ("smoothing_curve", json!(2.0)),
        ("min_tokens", json!(5)),
        ("min_tokens", json!(14)),
        ("min_tokens", json!(100)),
        ("max_tokens", json!(1000)),
        ("max_tokens", json!(10)),
        ("stop", json!(["END"])),
        ("n", json!(2)),
        ("seed", json!(7)),
        ("order", json!("huggingface")),
        ("order", json!("llama.cpp")),
        ("order", json!("vllm")),
        ("order", json!("top_k,mirostat,temperature")),
        ("order", json!([])),
        ("order", json!(often)),
        ("order", Value::Null),
    ]
}

/// The parameters that settings give, over the defaults of a text.
fn read(fields: &Map<String, Value>) -> Result<SamplingParams, ParamError> {
    let mut all = map(json!({ "max_tokens": MAX_TOKENS }));
    all.extend(fields.clone());
    SamplingParams::from_value(Value::Object(all))
}

fn is_valid(fields: &Map<String, Value>) -> bool {
    read(fields).is_ok()
}

#[test]
fn the_values_are_of_every_parameter_that_needs_a_stage() {
    let values = values();
    let is_there = |name: &str| values.iter().any(|(field, _)| *field == name);
    let missing: Vec<_> = onedraw::STAGE_FIELDS.iter().filter(|field| !is_there(field.name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_stronger_layer_goes_before_a_weaker_one() {
    let model = json!({"temperature": 0.1, "top_p": 0.2, "top_k": 3, "max_tokens": 9});
    let resolved = resolve(json!({"top_p": 0.8}), Some("creative"), model.clone());
    let params = &resolved.params;
    assert_eq!((params.temperature, params.top_p, params.top_k, params.max_tokens), (1.2, 0.8, 100, 9));
    assert_eq!(dropped(&resolved), []);
    let params = resolve(json!({}), None, model).params;
    assert_eq!((params.temperature, params.top_p, params.top_k), (0.1, 0.2, 3));
    assert_eq!(resolve(json!({}), None, json!({})).params.max_tokens, MAX_TOKENS);
}

#[test]
fn a_preset_decides_what_shapes_the_draw() {
    let model = json!({"repetition_penalty": 1.5, "min_p": 0.2, "order": "huggingface", "min_tokens": 3});
    let resolved = resolve(json!({}), Some("balanced"), model.clone());
    let expected = SamplingParams { max_tokens: MAX_TOKENS, min_tokens: 3, ..onedraw::presets::balanced() };
    assert_eq!(resolved.params, expected);
    let reason = "the preset decides it".to_owned();
    assert_eq!(dropped(&resolved), [("order", reason.clone()), ("min_p", reason.clone())]);
    // What the user sets is not the preset's to decide, and the model's value is not missed.
    let resolved = resolve(json!({"min_p": 0.1}), Some("deterministic"), model);
    assert_eq!((resolved.params.min_p, resolved.params.temperature), (0.1, 0.0));
    assert_eq!(dropped(&resolved), [("order", reason)]);
}

#[test]
fn the_model_gives_way_with_a_reason() {
    let model =
        json!({"temperature": 0.7, "top_k": 50, "top_p": 0.9, "order": "huggingface", "min_tokens": 50});
    let resolved = resolve(json!({"mirostat": 2}), None, model.clone());
    let beside = |field: &str| format!("it cannot be combined with {field}, which was asked for");
    assert_eq!(
        dropped(&resolved),
        [("order", beside("mirostat")), ("top_k", beside("mirostat")), ("top_p", beside("mirostat"))]
    );
    assert_eq!(resolved.dropped[1].value, json!(50));
    assert_eq!(resolved.dropped[1].origin, Origin::Model);
    let resolved = resolve(json!({"max_tokens": 10}), None, model.clone());
    assert_eq!(dropped(&resolved), [("min_tokens", beside("max_tokens"))]);
    let resolved = resolve(json!({"xtc_probability": 0.5}), None, model);
    assert_eq!(dropped(&resolved), [("order", beside("xtc_probability"))]);
}

#[test]
fn the_model_gives_way_to_a_default_and_to_itself() {
    let resolved = resolve(json!({}), None, json!({"min_tokens": 300}));
    assert_eq!(
        dropped(&resolved),
        [("min_tokens", "it cannot be combined with max_tokens, which has its default".into())]
    );
    let resolved = resolve(json!({}), None, json!({"order": "top_k", "top_p": 0.5}));
    assert_eq!(
        dropped(&resolved),
        [("top_p", "it cannot be combined with order, which the model sets too".into())]
    );
    // One that fits once the program's default is out of the way stays.
    let resolved = resolve(json!({"max_tokens": 500}), None, json!({"min_tokens": 300}));
    assert_eq!((resolved.params.min_tokens, resolved.dropped.len()), (300, 0));
}

#[test]
fn what_cannot_be_used_at_all_is_left_out_and_reported() {
    let model = json!({"top_p": 2.0, "warmth": 1, "stop": [""], "top_k": "many", "min_p": 0.1, "dynatemp_range": 1e6});
    let resolved = resolve(json!({"top_k": 5}), None, model);
    assert_eq!((resolved.params.top_k, resolved.params.min_p), (5, 0.1));
    let dropped = dropped(&resolved);
    let fields: Vec<&str> = dropped.iter().map(|(field, _)| *field).collect();
    assert_eq!(fields, ["top_p", "warmth", "stop", "dynatemp_range"], "the model's top_k is not missed");
    assert_eq!(dropped[0].1, "top_p: must be in [0, 1], not 2");
    assert!(dropped[1].1.contains("unknown field `warmth`"), "{dropped:?}");
    assert_eq!(dropped[2].1, "stop[0]: must not be an empty string");
}

#[test]
fn an_error_is_that_of_what_was_asked_for() {
    let model = json!({"temperature": 0.5, "order": "huggingface", "min_tokens": 5});
    let error = |flags: Value| settings(&map(flags), None, &map(model.clone())).resolve().unwrap_err();
    assert_eq!(error(json!({"top_p": 2})).to_string(), "top_p: must be in [0, 1], not 2");
    assert_eq!(error(json!({"xtc_probability": 0.5, "order": "huggingface"})).field(), "xtc_probability");
    assert_eq!(error(json!({"mirostat": 2, "top_k": 3})).field(), "top_k");
}

/// For every two settings that validation refuses together: if one is the model's, it gives way and says to
/// what; if both are the user's, that is an error.
#[test]
fn of_every_two_settings_that_refuse_each_other_the_models_gives_way() {
    let mut refused = 0;
    for (first, one) in values() {
        assert!(is_valid(&map(json!({first: one.clone()}))), "{first} {one}");
        for (second, other) in values().into_iter().filter(|(second, _)| *second != first) {
            let (flags, model) = (map(json!({first: one.clone()})), map(json!({second: other.clone()})));
            let mut both = flags.clone();
            both.extend(model.clone());
            let resolved = settings(&flags, None, &model).resolve().expect("a setting of the user's alone");
            let asked_together = settings(&both, None, &Map::new()).resolve();
            if is_valid(&both) {
                assert_eq!(resolved.dropped, [], "{first} {one} beside {second} {other}");
                assert!(asked_together.is_ok());
                continue;
            }
            refused += 1;
            let alone = settings(&flags, None, &Map::new()).resolve().expect("a setting of the user's alone");
            assert_eq!(resolved.params, alone.params);
            let expected = Dropped {
                field: second.to_owned(),
                value: resolved.dropped[0].value.clone(),
                origin: Origin::Model,
                reason: Reason::Beside { field: first, origin: Some(Origin::Argument) },
            };
            assert_eq!(resolved.dropped, [expected], "{first} {one} beside {second} {other}");
            assert!(asked_together.is_err(), "{first} {one} beside {second} {other}");
        }
    }
    assert!(refused > 200, "{refused}");
}

/// What trial and error finds: the model's settings are taken out until validation is content, first the one
/// that its error names, then the order, and in the end any. `None` in place of the names if it came to that.
fn by_trial(
    asked: &Map<String, Value>,
    model: &Map<String, Value>,
) -> Result<(SamplingParams, Option<Vec<String>>), ParamError> {
    let mut model = model.clone();
    model.retain(|name, _| !asked.contains_key(name));
    let mut removed = Some(Vec::new());
    loop {
        let mut fields = model.clone();
        fields.extend(asked.clone());
        let error = match read(&fields) {
            Ok(params) => return Ok((params, removed)),
            Err(error) => error,
        };
        let named = [error.field(), "order"].into_iter().find(|name| model.contains_key(*name));
        match (named.map(str::to_owned), model.keys().next().cloned()) {
            (Some(name), _) => {
                model.remove(&name);
                removed = removed.map(|removed| [removed, vec![name]].concat());
            }
            (None, Some(name)) => {
                model.remove(&name);
                removed = None;
            }
            (None, None) => return Err(error),
        }
    }
}

/// Random layers. The rule finds what trial and error finds, if the model's settings can stand beside each
/// other, as those of a generation_config.json can. Otherwise it takes out no more.
#[test]
fn the_rule_finds_what_trial_and_error_finds() {
    let values = values();
    let mut random = SplitMix64::new(22);
    let (mut same, mut inconsistent, mut errors, mut any) = (0, 0, 0, 0);
    let gave_way =
        |(_, removed): (SamplingParams, Option<Vec<String>>)| removed.is_none_or(|one| !one.is_empty());
    for _ in 0..20_000 {
        let mut some = |most: usize| {
            let count = random.below(most + 1);
            let chosen = (0..count).map(|_| values[random.below(values.len())].clone());
            chosen.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>()
        };
        let (flags, mut model) = (some(4), some(6));
        let preset = [None, Some("creative"), Some("deterministic")][random.below(3)];
        let mut asked = Map::new();
        if let Some(name) = preset {
            let preset = serde_json::to_value(onedraw::presets::by_name(name)).expect("a preset");
            asked.extend(map(preset).into_iter().filter(|(name, _)| PRESET_FIELDS.contains(&name.as_str())));
        }
        asked.extend(flags.clone());
        let ours = settings(&flags, preset, &model).resolve();
        if preset.is_some() {
            model.retain(|name, _| !DECIDED_BY_PRESET.contains(&name.as_str()));
        }
        match (by_trial(&asked, &model), ours) {
            (Ok((_, Some(removed))), Ok(ours)) if by_trial(&Map::new(), &model).ok().is_none_or(gave_way) => {
                inconsistent += 1;
                let ours = ours.dropped.iter().filter(|one| one.reason != Reason::DecidedByPreset).count();
                assert!(ours <= removed.len(), "{flags:?} {preset:?} {model:?}");
            }
            (Ok((params, Some(removed))), Ok(ours)) => {
                same += 1;
                assert_eq!(ours.params, params, "{flags:?} {preset:?} {model:?}");
                let ours = ours.dropped.iter().filter(|dropped| dropped.reason != Reason::DecidedByPreset);
                let mut ours: Vec<&str> = ours.map(|dropped| dropped.field.as_str()).collect();
                let mut removed: Vec<&str> = removed.iter().map(String::as_str).collect();
                ours.sort_unstable();
                removed.sort_unstable();
                assert_eq!(ours, removed, "{flags:?} {preset:?} {model:?}");
            }
            (Ok((_, None)), Ok(_)) => any += 1,
            (Err(theirs), Err(ours)) => {
                errors += 1;
                assert_eq!(ours, theirs, "{flags:?} {preset:?} {model:?}");
            }
            (theirs, ours) => panic!("{flags:?} {preset:?} {model:?}: {theirs:?}, ours {ours:?}"),
        }
    }
    assert!(
        same > 5000 && inconsistent > 100 && errors > 1000 && any > 100,
        "{same} {inconsistent} {errors} {any}"
    );
}
