//! llama.cpp's `logit_bias`: pairs of a token and a bias, in a list or an object. False bans the token.

use serde_json::Value;

use crate::params::SamplingParams;
use crate::params::error::ParamError;
use crate::params::import::fields::{Fields, integer, wrong};

/// Whom a bias is for.
enum Target {
    Id(i128),
    Text(String),
}

pub(super) fn read(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let Some(value) = fields.take("logit_bias") else { return Ok(()) };
    let pairs: Vec<(Target, &Value)> = match &value {
        Value::Array(list) => {
            let pairs: Vec<_> = list.iter().filter_map(pair).collect();
            if pairs.len() < list.len() {
                fields.lost("logit_bias", "what is not a pair of a token and a bias, as llama.cpp skips it");
            }
            pairs
        }
        Value::Object(entries) => entries
            .iter()
            .map(|(key, bias)| match key.parse() {
                Ok(id) => (Target::Id(id), bias),
                Err(_) => (Target::Text(key.clone()), bias),
            })
            .collect(),
        _ => return Err(wrong("logit_bias", "a list of [token, bias] or an object", &value)),
    };
    for (target, bias) in pairs {
        let id = match target {
            Target::Text(text) => {
                fields.lost("logit_bias", format!("{text:?}: strings need a tokenizer; give token ids"));
                continue;
            }
            Target::Id(id) => id,
        };
        let Ok(token) = u32::try_from(id) else {
            fields.lost("logit_bias", format!("{id} is no token id, and llama.cpp skips it"));
            continue;
        };
        match bias {
            Value::Bool(false) => params.bad_words_ids.push(vec![token]),
            // Two biases of one token add up.
            Value::Number(bias) => {
                *params.logit_bias.entry(token).or_default() += bias.as_f64().unwrap_or(0.0)
            }
            _ => fields.lost("logit_bias", format!("{token}: {bias} is no bias, and llama.cpp skips it")),
        }
    }
    if !params.bad_words_ids.is_empty() {
        fields.changed("logit_bias", "false bans a token: bad_words_ids");
    }
    Ok(())
}

fn pair(entry: &Value) -> Option<(Target, &Value)> {
    let [token, bias] = entry.as_array()?.as_slice() else { return None };
    let target = match token {
        Value::String(text) => Target::Text(text.clone()),
        token => Target::Id(integer(token)?),
    };
    Some((target, bias))
}
