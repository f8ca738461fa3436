//! llama.cpp's `samplers`: the order of its chain, given as names or as letters.

use serde_json::Value;

use crate::params::chain::{Order, Stage};
use crate::params::error::ParamError;
use crate::params::import::fields::{Fields, wrong};

/// The letter, the names and the stage of each sampler. A sampler that has no stage here is lost.
const SAMPLERS: [(char, &[&str], Option<Stage>); 12] = [
    ('e', &["penalties"], Some(Stage::Penalties)),
    ('d', &["dry"], Some(Stage::Dry)),
    ('s', &["top_n_sigma", "top-n-sigma"], Some(Stage::TopNSigma)),
    ('k', &["top_k", "top-k"], Some(Stage::TopK)),
    ('y', &["typ_p", "typical_p", "typ-p", "typical-p", "typ", "typical"], Some(Stage::Typical)),
    ('p', &["top_p", "top-p", "nucleus"], Some(Stage::TopP)),
    ('m', &["min_p", "min-p"], Some(Stage::MinP)),
    ('x', &["xtc"], Some(Stage::Xtc)),
    ('t', &["temperature", "temp"], Some(Stage::Temperature)),
    ('i', &["infill"], None),
    ('a', &["adaptive_p", "adaptive-p"], None),
    ('f', &["tfs_z", "tfs-z", "tfs"], None),
];

/// The stages that llama.cpp applies before its chain, or does not have. They come first, as in the order
/// named `llama.cpp`.
const FIRST: [Stage; 4] = [Stage::Allowed, Stage::BadWords, Stage::MinTokens, Stage::LogitBias];

/// The list that the server reports if a request named no samplers.
const DEFAULT: [&str; 9] =
    ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"];

/// Whether `samplers` is the default list.
pub(super) fn is_default(fields: &Fields) -> bool {
    let names = fields.get("samplers").and_then(Value::as_array);
    names.is_some_and(|names| names.iter().map(Value::as_str).eq(DEFAULT.map(Some)))
}

/// The order with mirostat, which replaces all samplers.
pub(super) fn of_mirostat() -> Order {
    Order::of([FIRST.as_slice(), &[Stage::Temperature, Stage::Mirostat]].concat())
}

/// Reads the order from `samplers`; if it is absent, llama.cpp's own order.
pub(super) fn read(fields: &mut Fields) -> Result<Order, ParamError> {
    let Some(value) = fields.take("samplers") else { return Ok(Order::llama_cpp()) };
    let names: Option<Vec<String>> = match &value {
        Value::String(letters) => Some(letters.chars().map(String::from).collect()),
        Value::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    let names =
        names.ok_or_else(|| wrong("samplers", "a list of samplers or a string of letters", &value))?;
    let mut stages = FIRST.to_vec();
    for name in names {
        let is_meant = |letter: char, names: &[&str]| {
            if value.is_string() { name.chars().eq([letter]) } else { names.contains(&name.as_str()) }
        };
        match SAMPLERS.iter().find(|(letter, names, _)| is_meant(*letter, names)) {
            Some((.., Some(stage))) => stages.push(stage.clone()),
            // These do nothing without `adaptive_target` and `tfs_z`, which have notes of their own.
            Some(('a' | 'f', ..)) => {}
            Some((_, names, None)) => fields.lost("samplers", format!("there is no {}", names[0])),
            None => fields.lost("samplers", format!("`{name}` is no sampler of llama.cpp's")),
        }
    }
    Ok(Order::of(stages))
}
