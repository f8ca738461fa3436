//! Hugging Face: `generation_config.json`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{Fields, carry, integer, saturated, token, wrong};
use super::known::{BEAMS, Known, Lost, lost};
use super::off::{Field, Off};
use super::openai;
use crate::params::SamplingParams;
use crate::params::chain::Order;
use crate::params::error::ParamError;

pub(super) const KNOWN: Known = Known {
    read,
    carried: CARRIED,
    lost: &[LOST],
    passed: &[PASSED],
    foreign: &[],
    aliases: &[],
    renamed: &[("logit_bias", "sequence_bias"), ("stop", "stop_strings")],
};

/// The default of `top_k`.
const TOP_K: i64 = 50;
/// The default number of new tokens. A `max_length` that is given counts the prompt, even if it has this
/// value.
const LENGTH: u32 = 20;
/// The name of the system in notes.
const WHO: &str = "Hugging Face";

const CARRIED: &[&str] = &[
    "bad_words_ids",
    "do_sample",
    "eos_token_id",
    "epsilon_cutoff",
    "eta_cutoff",
    "max_length",
    "max_new_tokens",
    "min_new_tokens",
    "min_p",
    "no_repeat_ngram_size",
    "num_return_sequences",
    "repetition_penalty",
    "seed",
    "sequence_bias",
    "stop_strings",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
];

/// The fields that act only where `do_sample` is true. A default counts as having no effect, because it says
/// no more than an absent field.
const WARPERS: [Field; 8] = [
    ("temperature", Off::At(1.0)),
    ("top_h", Off::At(1.0)),
    ("top_k", Off::In(&[0.0, TOP_K as f64])),
    ("top_p", Off::At(1.0)),
    ("min_p", Off::Zero),
    ("typical_p", Off::At(1.0)),
    ("epsilon_cutoff", Off::Zero),
    ("eta_cutoff", Off::Zero),
];

const DRAFTS: &str = "speculation is not set by sampling parameters";
const FORCED: &str = "tokens are drawn, not forced";
const ENCODER: &str = "there is no encoder's input to compare with";

const LOST: &[Lost] = &[
    lost("num_beams", Off::At(1.0), BEAMS),
    lost("num_beam_groups", Off::At(1.0), BEAMS),
    lost("diversity_penalty", Off::Zero, BEAMS),
    lost("early_stopping", Off::Zero, BEAMS),
    lost("length_penalty", Off::At(1.0), BEAMS),
    lost("constraints", Off::Zero, BEAMS),
    lost("force_words_ids", Off::Zero, BEAMS),
    lost("assistant_confidence_threshold", Off::At(0.4), DRAFTS),
    lost("assistant_early_exit", Off::Zero, DRAFTS),
    lost("assistant_ensemble_weight", Off::Zero, DRAFTS),
    lost("assistant_lookbehind", Off::At(10.0), DRAFTS),
    lost("is_assistant", Off::Zero, DRAFTS),
    lost("max_matching_ngram_size", Off::Zero, DRAFTS),
    lost("num_assistant_tokens", Off::At(20.0), DRAFTS),
    lost("num_assistant_tokens_schedule", Off::Named(&["constant"]), DRAFTS),
    lost("prompt_lookup_num_tokens", Off::Zero, DRAFTS),
    lost("speculation_type", Off::Zero, DRAFTS),
    lost("target_lookbehind", Off::At(10.0), DRAFTS),
    lost("use_mtp", Off::Zero, DRAFTS),
    lost("forced_bos_token_id", Off::Below(0.0), FORCED),
    lost("forced_decoder_ids", Off::Zero, FORCED),
    lost("forced_eos_token_id", Off::Below(0.0), FORCED),
    lost("encoder_no_repeat_ngram_size", Off::Zero, ENCODER),
    lost("encoder_repetition_penalty", Off::At(1.0), ENCODER),
    lost("begin_suppress_tokens", Off::Zero, "no token is banned at the beginning alone"),
    lost("dola_layers", Off::Zero, "contrast of layers is not a sampling parameter"),
    lost("exponential_decay_length_penalty", Off::Zero, "EOS does not grow more likely with the length"),
    lost("guidance_scale", Off::At(1.0), "guidance is not a sampling parameter"),
    lost("max_time", Off::Zero, "there is no limit of time"),
    lost("min_length", Off::Zero, "counts the prompt, whose length is not known here; give min_tokens"),
    lost("penalty_alpha", Off::Zero, "contrastive search is not set by sampling parameters"),
    lost("remove_invalid_values", Off::Zero, "NaN and +inf are errors of their row"),
    lost("renormalize_logits", Off::Zero, "a draw needs no normalised logits, and logprobs always are"),
    lost("token_healing", Off::Zero, "the prompt is not changed"),
    lost("top_h", Off::At(1.0), "there is no top-h"),
    lost("watermarking_config", Off::Zero, "there is no watermark"),
];

const PASSED: &[&str] = &[
    "_commit_hash",
    "_from_model_config",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "decoder_start_token_id",
    "disable_compile",
    "generation_kwargs",
    "low_memory",
    "max_cache_len",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "prefill_chunk_size",
    "return_dict_in_generate",
    "return_legacy_cache",
    "transformers_version",
    "use_cache",
];

pub(super) fn read(fields: &mut Fields) -> Result<SamplingParams, ParamError> {
    let mut params = SamplingParams { order: Some(Order::huggingface()), ..SamplingParams::default() };
    floats(fields, "repetition_penalty");
    let do_sample = fields.flag("do_sample")?;
    match do_sample {
        Some(true) => warpers(fields, &mut params)?,
        given => {
            let how = given.map_or("absent: Hugging Face's default false", |_| "false");
            fields.changed("do_sample", format!("{how} is greedy: temperature 0"));
            params.temperature = 0.0;
            fields.ignore(&WARPERS, "do_sample is false");
        }
    }
    carry!(fields, params, number: repetition_penalty; count: no_repeat_ngram_size);
    lengths(fields, &mut params)?;
    if let Some(n) = fields.sequences("num_return_sequences")? {
        params.n = n;
        let beams = fields.get("num_beams").and_then(integer).unwrap_or(1);
        if beams > 1 && i128::from(n) > beams {
            fields.refused("num_return_sequences", WHO, "it takes at most num_beams");
        } else if beams <= 1 && n > 1 && do_sample != Some(true) {
            fields.refused("num_return_sequences", WHO, "it takes 1 where do_sample is false");
        }
    }
    // No field of the file, but people who have a seed write it there.
    params.seed = openai::seed(fields)?;
    params.eos_token_id = eos(fields)?;
    params.bad_words_ids = bad_words(fields, &params.eos_token_id)?;
    params.logit_bias = sequence_bias(fields)?;
    params.stop = fields.strings("stop_strings")?.unwrap_or_default();
    if !params.stop.is_empty() {
        params.include_stop_str_in_output = true;
        fields.changed("stop_strings", "the stop string stays in the text: include_stop_str_in_output");
    }
    Ok(params)
}

/// Python distinguishes 2 from 2.0, and these fields need the latter. A value of 1 is off and is not looked
/// at.
fn floats(fields: &mut Fields, name: &str) {
    if fields.get(name).and_then(Value::as_i64).is_some_and(|number| number > 1) {
        fields.refused(name, WHO, "it takes a number with a point");
    }
}

/// Reads the fields that shape the distribution where `do_sample` is true.
fn warpers(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    floats(fields, "temperature");
    if fields.get("top_k").is_some_and(|top_k| top_k.is_f64() || top_k.as_i64().is_some_and(|k| k < 0)) {
        fields.refused("top_k", WHO, "it takes a whole number, at least 0");
    }
    carry!(fields, params, number: temperature, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff);
    if params.temperature == 0.0 {
        fields.changed("temperature", "0 is greedy; Hugging Face refuses it where do_sample is true");
    }
    params.top_k = match fields.integer("top_k")? {
        Some(top_k) => top_k.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
        None => {
            fields.changed("top_k", format!("absent: Hugging Face's default {TOP_K}"));
            TOP_K
        }
    };
    for (name, share) in [("top_p", &mut params.top_p), ("typical_p", &mut params.typical_p)] {
        if *share > 1.0 {
            fields.changed(name, format!("{share} is off, as 1 is"));
            *share = 1.0;
        }
    }
    for (name, cutoff) in
        [("epsilon_cutoff", &mut params.epsilon_cutoff), ("eta_cutoff", &mut params.eta_cutoff)]
    {
        if *cutoff < 0.0 || *cutoff >= 1.0 {
            fields.changed(name, format!("{cutoff} is off, as 0 is"));
            *cutoff = 0.0;
        }
    }
    Ok(())
}

/// Reads the limits of the length.
fn lengths(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    params.max_tokens = match fields.first(&["max_new_tokens", "max_length"]) {
        Some("max_length") => {
            let length = fields.length("max_length")?.unwrap_or(LENGTH);
            let message =
                format!("counts the prompt too: max_tokens is {length}; take the prompt's length off");
            fields.changed("max_length", message);
            length
        }
        Some(name) => fields.length(name)?.unwrap_or(LENGTH),
        None => {
            fields.changed("max_new_tokens", format!("absent: Hugging Face's default {LENGTH}"));
            LENGTH
        }
    };
    if let Some(length) = fields.integer("min_new_tokens")? {
        params.min_tokens = saturated(length);
        if params.min_tokens > params.max_tokens {
            let message = format!("{length} is past the end; {} masks EOS up to it", params.max_tokens);
            fields.changed("min_new_tokens", message);
            params.min_tokens = params.max_tokens;
        }
    }
    Ok(())
}

/// Reads one EOS id or a list of them. A negative id, which no token has, means none.
fn eos(fields: &mut Fields) -> Result<Vec<u32>, ParamError> {
    let is_negative = |value: &Value| integer(value).is_some_and(|id| id < 0);
    let mut value = fields.take("eos_token_id");
    let found = match &mut value {
        Some(Value::Array(ids)) => {
            let all = ids.len();
            ids.retain(|id| !is_negative(id));
            ids.len() < all
        }
        Some(id) if is_negative(id) => {
            value = None;
            true
        }
        _ => false,
    };
    if found {
        fields.changed("eos_token_id", "a negative id is no token and ends nothing");
    }
    let Some(value) = value else { return Ok(Vec::new()) };
    let ids = match &value {
        Value::Array(ids) => ids.iter().map(token).collect(),
        id => token(id).map(|id| vec![id]),
    };
    ids.ok_or_else(|| wrong("eos_token_id", "a token id or a list of token ids", &value))
}

/// Reads `bad_words_ids` and `suppress_tokens`.
fn bad_words(fields: &mut Fields, eos: &[u32]) -> Result<Vec<Vec<u32>>, ParamError> {
    let mut words = Vec::new();
    if let Some(value) = fields.take("bad_words_ids") {
        let list =
            value.as_array().ok_or_else(|| wrong("bad_words_ids", "a list of lists of token ids", &value))?;
        for (i, value) in list.iter().enumerate() {
            let word: Option<Vec<u32>> = value.as_array().and_then(|ids| ids.iter().map(token).collect());
            let word = word.filter(|word| !word.is_empty());
            let error = || wrong(&format!("bad_words_ids[{i}]"), "a list of at least one token id", value);
            words.push(word.ok_or_else(error)?);
        }
        if words.is_empty() {
            fields.refused("bad_words_ids", WHO, "it takes a list of at least one word");
        }
    }
    if words.iter().any(|word| word.len() > 1) {
        let message =
            "a word of several tokens is looked for in the output; Hugging Face looks at the prompt too";
        fields.changed("bad_words_ids", message);
    }
    let all = words.len();
    words.retain(|word| !matches!(word[..], [id] if eos.contains(&id)));
    if words.len() < all {
        fields.changed("bad_words_ids", "EOS is not banned, as Hugging Face leaves it");
    }
    words.extend(fields.ids("suppress_tokens")?.unwrap_or_default().into_iter().map(|id| vec![id]));
    Ok(words)
}

/// Reads the biases: a list of `[[ids], bias]`, or an object of `"(id, …)"` and biases. Hugging Face saves a
/// dictionary in the latter form, though it does not read it again.
fn sequence_bias(fields: &mut Fields) -> Result<BTreeMap<u32, f64>, ParamError> {
    let mut biases = BTreeMap::new();
    let Some(value) = fields.take("sequence_bias") else { return Ok(biases) };
    let entries: Option<Vec<_>> = match &value {
        Value::Array(entries) => entries.iter().map(listed_bias).collect(),
        Value::Object(entries) => entries.iter().map(|(key, bias)| named_bias(key, bias)).collect(),
        _ => None,
    };
    let is_listed = |list: &Vec<Value>| !list.is_empty() && list.iter().all(|entry| entry[1].is_f64());
    if !value.as_array().is_some_and(is_listed) {
        fields.refused("sequence_bias", WHO, "it takes a list of [[token ids], number with a point]");
    }
    let what = "a list of [[token ids], bias]";
    for (ids, bias) in entries.ok_or_else(|| wrong("sequence_bias", what, &value))? {
        match ids[..] {
            [id] => _ = biases.insert(id, bias),
            _ => fields.lost("sequence_bias", format!("{ids:?}: only single tokens have a bias here")),
        }
    }
    Ok(biases)
}

/// Reads `[[ids], bias]`.
fn listed_bias(entry: &Value) -> Option<(Vec<u32>, f64)> {
    let [ids, bias] = entry.as_array()?.as_slice() else { return None };
    let ids = ids.as_array()?.iter().map(token).collect::<Option<Vec<_>>>()?;
    Some((ids, bias.as_f64()?))
}

/// Reads `"(id, …)"` and its bias.
fn named_bias(key: &str, bias: &Value) -> Option<(Vec<u32>, f64)> {
    let ids = key.trim_matches(['(', ')', '[', ']']).split(',').map(str::trim);
    let ids = ids.filter(|id| !id.is_empty()).map(|id| id.parse().ok()).collect::<Option<Vec<_>>>()?;
    Some((ids, bias.as_f64()?))
}
