//! OpenAI: requests for chat completions, for responses, and for the older completions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{Fields, carry, wrong};
use super::known::{CONSTRAINT, Known, Lost, lost};
use super::off::Off;
use crate::params::SamplingParams;
use crate::params::error::ParamError;

pub(super) const KNOWN: Known = Known {
    read,
    carried: CARRIED,
    lost: &[LOST],
    passed: &[PASSED],
    foreign: &[],
    aliases: &[],
    renamed: &[],
};

/// The ranges that OpenAI accepts. A number in `logprobs` belongs to the older completions.
const RANGES: &[(&str, f64, f64)] = &[
    ("temperature", 0.0, 2.0),
    ("top_p", 0.0, 1.0),
    ("frequency_penalty", -2.0, 2.0),
    ("presence_penalty", -2.0, 2.0),
    ("n", 1.0, 128.0),
    ("logprobs", 0.0, 5.0),
    ("top_logprobs", 0.0, 20.0),
];
/// The most stop strings that OpenAI accepts.
const STOPS: usize = 4;
/// The largest bias that OpenAI accepts.
const BIAS: f64 = 100.0;

const CARRIED: &[&str] = &[
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "temperature",
    "top_logprobs",
    "top_p",
];

/// Fields that change the answer beyond what sampling does. Servers that follow OpenAI have these too.
pub(super) const LOST: &[Lost] = &[
    lost("response_format", Off::Named(&["text"]), CONSTRAINT),
    lost("tool_choice", Off::Named(&["auto", "none"]), CONSTRAINT),
    lost("function_call", Off::Named(&["auto", "none"]), CONSTRAINT),
    lost("best_of", Off::At(1.0), "all of the n sequences are given, not the best"),
];

/// Fields of the prompt, the transport and the form of the answer. `text` may also hold a constraint:
/// [`text_format`].
pub(super) const PASSED: &[&str] = &[
    "audio",
    "background",
    "context_management",
    "conversation",
    "echo",
    "functions",
    "include",
    "input",
    "instructions",
    "max_tool_calls",
    "messages",
    "metadata",
    "modalities",
    "model",
    "parallel_tool_calls",
    "prediction",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "suffix",
    "text",
    "tools",
    "truncation",
    "user",
    "verbosity",
    "web_search_options",
];

/// Reads the parameters of a request.
pub(super) fn read(fields: &mut Fields) -> Result<SamplingParams, ParamError> {
    fields.limit("OpenAI", RANGES);
    // The older completions have a prompt, which is a text or a list, and end after 16 tokens. The prompt of
    // a response is an object.
    let is_unlimited = !fields.get("prompt").is_some_and(|prompt| prompt.is_string() || prompt.is_array());
    let max_tokens = max_tokens(fields, is_unlimited)?;
    let mut params = SamplingParams { max_tokens, ..SamplingParams::default() };
    carry!(fields, params, number: temperature, top_p, frequency_penalty, presence_penalty);
    params.logit_bias = logit_bias(fields)?;
    if params.logit_bias.values().any(|bias| bias.abs() > BIAS) {
        fields.refused("logit_bias", "OpenAI", &format!("it takes {} to {BIAS}", -BIAS));
    }
    if params.logit_bias.values().any(|bias| bias.abs() >= BIAS) {
        fields.changed(
            "logit_bias",
            "100 and -100 are added as they are; bad_words_ids and allowed_token_ids ban for certain",
        );
    }
    stops_and_choices(fields, &mut params)?;
    if params.stop.len() > STOPS {
        fields.refused("stop", "OpenAI", &format!("it takes at most {STOPS} strings"));
    }
    text_format(fields);
    params.logprobs = logprobs(fields, 0)?;
    Ok(params)
}

/// Reads the limit of tokens. If it is absent, there is no limit where `is_unlimited`, else the default.
pub(super) fn max_tokens(fields: &mut Fields, is_unlimited: bool) -> Result<u32, ParamError> {
    if let Some(name) = fields.first(&["max_completion_tokens", "max_output_tokens", "max_tokens"]) {
        return Ok(fields.length(name)?.unwrap_or(u32::MAX));
    }
    if is_unlimited {
        fields.changed("max_tokens", "absent: no limit but the model's context");
        return Ok(u32::MAX);
    }
    Ok(SamplingParams::default().max_tokens)
}

/// Reads `stop`, `seed` and `n`.
pub(super) fn stops_and_choices(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    params.stop = fields.strings("stop")?.unwrap_or_default();
    carry!(fields, params, sequences: n);
    params.seed = seed(fields)?;
    Ok(())
}

/// Reads `seed`.
pub(super) fn seed(fields: &mut Fields) -> Result<Option<u64>, ParamError> {
    if let Some(seed) = fields.integer("seed")? {
        let ours = u64::try_from(seed).ok();
        if ours.is_none() {
            fields.lost("seed", format!("{seed} is no seed here; seeds are 0 to 2^64-1"));
        }
        return Ok(ours);
    }
    Ok(None)
}

/// Reads biases from an object whose keys are token ids, written as strings.
pub(super) fn logit_bias(fields: &mut Fields) -> Result<BTreeMap<u32, f64>, ParamError> {
    let mut biases = BTreeMap::new();
    let Some(value) = fields.take("logit_bias") else { return Ok(biases) };
    let Value::Object(entries) = value else {
        return Err(wrong("logit_bias", "an object of token ids and biases", &value));
    };
    for (key, bias) in entries {
        let error = |what: &str| ParamError::new("logit_bias", format!("the key `{key}` {what}"));
        let token = key.parse::<u32>().map_err(|_| error("is not a token id"))?;
        let number = bias.as_f64().ok_or_else(|| wrong(&format!("logit_bias.{key}"), "a number", &bias))?;
        if biases.insert(token, number).is_some() {
            return Err(error("names a token that another key names too"));
        }
    }
    Ok(biases)
}

/// Makes a note if `text.format`, which is the `response_format` of a response, asks for a constraint. The
/// rest of `text` is not about sampling.
pub(super) fn text_format(fields: &mut Fields) {
    let format = fields.get("text").and_then(|text| text.get("format")?.get("type"));
    if format.is_some_and(|format| format != "text") {
        fields.lost("text", CONSTRAINT);
    }
}

/// Reads how many logprobs to report. The older completions have a number in `logprobs`. Chats have true or
/// false there, and the number in `top_logprobs`. Responses, which have an `input`, have `top_logprobs`
/// alone.
pub(super) fn logprobs(fields: &mut Fields, default: i64) -> Result<Option<i64>, ParamError> {
    if fields.is_set("input") && !fields.is_set("logprobs") {
        return number_of_logprobs(fields, "top_logprobs");
    }
    let logprobs = match fields.get("logprobs").and_then(Value::as_bool) {
        None => number_of_logprobs(fields, "logprobs")?,
        Some(is_wanted) => {
            fields.take("logprobs");
            if is_wanted { number_of_logprobs(fields, "top_logprobs")?.or(Some(default)) } else { None }
        }
    };
    fields.ignore(&[("top_logprobs", Off::Zero)], "logprobs is not true");
    Ok(logprobs)
}

/// Reads a number of logprobs; −1 means all, here and in vLLM.
pub(super) fn number_of_logprobs(fields: &mut Fields, name: &str) -> Result<Option<i64>, ParamError> {
    let Some(number) = fields.integer(name)? else { return Ok(None) };
    match i64::try_from(number) {
        Ok(number) if number >= -1 => Ok(Some(number)),
        _ => Err(ParamError::new(name, format!("must be a number of tokens, not {number}"))),
    }
}
