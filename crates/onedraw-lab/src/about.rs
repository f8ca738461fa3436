//! `about`: the model, what can be set, and the drafters.

use onedraw::{Order, PARAMETERS, STREAM_VERSION, SamplingParams, Stage, presets};
use onedraw_lm::settings::{PRESET_FIELDS, Settings};
use serde_json::{Map, Value, json};

use crate::code::changed;
use crate::controls::Kind;
use crate::line::Line;
use crate::subject::Subject;

pub(crate) fn about(subject: &Subject) -> Line {
    json!({
        "model": {
            "id": subject.id,
            "hash": subject.hash,
            "context": subject.context,
            "vocabulary": subject.vocabulary,
        },
        "stream": STREAM_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "parameters": parameters(subject),
        "order": names(&defaults(subject).order.unwrap_or_default()),
        "orders": {
            "vllm": names(&Order::vllm()),
            "huggingface": names(&Order::huggingface()),
            "llama.cpp": names(&Order::llama_cpp()),
        },
        "presets": presets(),
        "drafters": drafters(subject),
    })
}

fn drafters(subject: &Subject) -> Vec<Value> {
    let told = |(name, sentence): &(String, String)| json!({"name": name, "sentence": sentence});
    subject.drafters.iter().map(told).collect()
}

/// The parameters that hold where nothing is given: the model's own.
pub(crate) fn defaults(subject: &Subject) -> SamplingParams {
    let settings = Settings::default().layer(subject.generation.layer());
    let mut params = settings.resolve().map(|resolved| resolved.params).unwrap_or_default();
    subject.generation.end_texts(&mut params);
    params
}

/// All that the model's own settings say, as one text of JSON that is the same in every build: the parameters that they
/// change, and the length that a text may have.
pub(crate) fn settings(subject: &Subject) -> String {
    json!({"max_length": subject.generation.max_length, "params": changed(&defaults(subject))}).to_string()
}

fn names(order: &Order) -> Vec<&str> {
    order.stages().iter().map(Stage::name).collect()
}

fn parameters(subject: &Subject) -> Vec<Value> {
    let defaults = serde_json::to_value(defaults(subject)).unwrap_or_default();
    let described = PARAMETERS.iter().filter_map(|parameter| {
        let kind = Kind::of(parameter.name)?;
        let stage = onedraw::STAGE_FIELDS.iter().find(|field| field.name == parameter.name);
        let mut described = Map::from_iter([
            ("name".to_owned(), parameter.name.into()),
            ("group".to_owned(), parameter.group.title().into()),
            ("stage".to_owned(), stage.map(|field| field.stage.name()).into()),
            ("sentence".to_owned(), parameter.help.into()),
            ("kind".to_owned(), kind.name().into()),
            ("default".to_owned(), defaults[parameter.name].clone()),
        ]);
        if let Value::Object(details) = kind.details() {
            described.extend(details);
        }
        Some(described.into())
    });
    described.collect()
}

/// What each preset sets.
fn presets() -> Map<String, Value> {
    let named = presets::NAMES.into_iter().filter_map(|name| {
        let all = serde_json::to_value(presets::by_name(name)?).ok()?;
        let set = PRESET_FIELDS.into_iter().map(|field| (field.to_owned(), all[field].clone()));
        Some((name.to_owned(), Value::from(set.collect::<Map<_, _>>())))
    });
    named.collect()
}
