//! vLLM: its `SamplingParams`, and the requests of its OpenAI-compatible server. Names and meanings are the
//! same as here.

use super::fields::{Fields, carry, integer};
use super::known::{BEAMS, CONSTRAINT, Known, Lost, lost};
use super::off::Off;
use super::openai;
use crate::params::SamplingParams;
use crate::params::error::ParamError;

pub(super) const KNOWN: Known = Known {
    read,
    carried: CARRIED,
    lost: &[LOST, openai::LOST],
    passed: &[PASSED, openai::PASSED],
    foreign: &[],
    aliases: &[],
    renamed: &[],
};

/// The ranges that vLLM accepts, where this library accepts more.
const RANGES: &[(&str, f64, f64)] = &[
    ("temperature", 0.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("presence_penalty", -2.0, 2.0),
    ("n", 1.0, 16_384.0),
];
/// The ranges that vLLM accepts unless it was started with a higher limit. −1 (all) is outside of them.
const REPORTS: &[(&str, f64, f64)] =
    &[("logprobs", 0.0, 20.0), ("top_logprobs", 0.0, 20.0), ("prompt_logprobs", 0.0, 20.0)];

/// The fields that the server takes from the model's `generation_config.json`, which is its default
/// `--generation-config auto`.
const OF_THE_MODEL: [&str; 5] = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty"];
/// Those of them that act where the temperature is 0.
const OF_THE_MODEL_IF_GREEDY: [&str; 1] = ["repetition_penalty"];

/// A temperature between 0 and this is raised to it.
const LEAST_TEMPERATURE: f64 = 0.01;

const CARRIED: &[&str] = &[
    "allowed_token_ids",
    "bad_words",
    "frequency_penalty",
    "ignore_eos",
    "include_stop_str_in_output",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "min_p",
    "min_tokens",
    "n",
    "presence_penalty",
    "prompt_logprobs",
    "repetition_penalty",
    "seed",
    "stop",
    "stop_token_ids",
    "temperature",
    "top_k",
    "top_logprobs",
    "top_p",
];

const CODE: &str = "code of the server's own cannot be carried over";

const LOST: &[Lost] = &[
    lost("structured_outputs", Off::Zero, CONSTRAINT),
    lost("guided_choice", Off::Zero, CONSTRAINT),
    lost("guided_decoding", Off::Zero, CONSTRAINT),
    lost("guided_decoding_backend", Off::Zero, CONSTRAINT),
    lost("guided_grammar", Off::Zero, CONSTRAINT),
    lost("guided_json", Off::Zero, CONSTRAINT),
    lost("guided_regex", Off::Zero, CONSTRAINT),
    lost("guided_whitespace_pattern", Off::Zero, CONSTRAINT),
    lost("structural_tag", Off::Zero, CONSTRAINT),
    lost("use_beam_search", Off::Zero, BEAMS),
    lost("length_penalty", Off::At(1.0), BEAMS),
    lost("early_stopping", Off::Zero, BEAMS),
    lost("logits_processors", Off::Zero, CODE),
    lost("extra_args", Off::Zero, CODE),
    lost("vllm_xargs", Off::Zero, CODE),
    lost(
        "logprob_token_ids",
        Off::Zero,
        "logprobs of chosen tokens are not a parameter; logprobs -1 reports all",
    ),
    lost("prompt_logprob_token_ids", Off::Zero, "logprobs of chosen tokens are not a parameter"),
    lost("prompt_logprob_start", Off::Zero, "prompt_logprobs begin with the prompt"),
    lost("repetition_detection", Off::Zero, "generation does not end at a repetition"),
    lost("thinking_token_budget", Off::Below(0.0), "there is no budget for thinking"),
    lost("trace_decode_token_ids", Off::Zero, "tokens are drawn, not forced"),
    lost("watermarking", Off::Zero, "there is no watermark"),
];

const PASSED: &[&str] = &[
    "_all_stop_token_ids",
    "add_generation_prompt",
    "add_special_tokens",
    "cache_salt",
    "chat_template",
    "chat_template_kwargs",
    "continue_final_message",
    "detokenize",
    "documents",
    "ec_transfer_params",
    "flat_logprobs",
    "include_reasoning",
    "kv_transfer_params",
    "media_io_kwargs",
    "mm_processor_kwargs",
    "output_kind",
    "output_text_buffer_length",
    "priority",
    "prompt_embeds",
    "request_id",
    "return_mm_kwargs",
    "return_prompt_text",
    "return_token_ids",
    "return_token_offsets",
    "return_tokens_as_token_ids",
    "routed_experts_prompt_start",
    "session_id",
    "skip_clone",
    "skip_reading_prefix_cache",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stream_interval",
    "truncate_prompt_tokens",
    "truncation_side",
];

/// Reads the parameters of a request or of `SamplingParams`.
pub(super) fn read(fields: &mut Fields) -> Result<SamplingParams, ParamError> {
    fields.limit("vLLM", RANGES);
    fields.limit("vLLM, unless its --max-logprobs is higher,", REPORTS);
    // A chat may fill the context. `SamplingParams` and completions end after 16 tokens unless their limit is
    // null.
    let is_chat = fields.is_set("messages") || fields.is_set("input");
    let is_unlimited = is_chat || fields.is_null("max_tokens");
    let max_tokens = openai::max_tokens(fields, is_unlimited)?;
    if is_chat || fields.is_set("prompt") {
        absent_at_the_server(fields);
    }
    let mut params = SamplingParams { max_tokens, ..SamplingParams::default() };
    carry!(fields, params,
        number: temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
        count: min_tokens;
        ids: stop_token_ids;
        flag: ignore_eos, include_stop_str_in_output
    );
    if params.top_p == 0.0 {
        fields.refused("top_p", "vLLM", "it takes a share above 0");
    }
    if let Some(top_k) = fields.integer("top_k")? {
        params.top_k = top_k.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    }
    if params.temperature > 0.0 && params.temperature < LEAST_TEMPERATURE {
        fields.changed("temperature", format!("vLLM raises {} to {LEAST_TEMPERATURE}", params.temperature));
        params.temperature = LEAST_TEMPERATURE;
    }
    if params.temperature == 0.0 {
        drop_truncations(fields, &mut params);
    }
    params.allowed_token_ids = fields.ids("allowed_token_ids")?;
    params.bad_words = fields.strings("bad_words")?.unwrap_or_default();
    params.logit_bias = openai::logit_bias(fields)?;
    if params.logit_bias.values().any(|bias| bias.abs() > 100.0) {
        params.logit_bias.values_mut().for_each(|bias| *bias = bias.clamp(-100.0, 100.0));
        fields.changed("logit_bias", "vLLM's server clamps biases to -100 and 100");
    }
    // To vLLM −1 means no seed.
    if fields.get("seed").and_then(integer) == Some(-1) {
        fields.take("seed");
    }
    openai::stops_and_choices(fields, &mut params)?;
    if params.temperature == 0.0 && params.n > 1 {
        fields.refused("n", "vLLM", "with temperature 0 it takes 1");
    }
    openai::text_format(fields);
    params.logprobs = openai::logprobs(fields, 0)?;
    params.prompt_logprobs = match fields.get("prompt_logprobs").and_then(serde_json::Value::as_bool) {
        Some(is_wanted) => {
            fields.take("prompt_logprobs");
            is_wanted.then_some(1)
        }
        None => openai::number_of_logprobs(fields, "prompt_logprobs")?,
    };
    Ok(params)
}

/// Makes one note on the fields that a request leaves to the model. `SamplingParams` in Python leave them to
/// vLLM's own defaults.
fn absent_at_the_server(fields: &mut Fields) {
    let is_greedy = fields.get("temperature").and_then(serde_json::Value::as_f64) == Some(0.0);
    let names: &[&str] = if is_greedy { &OF_THE_MODEL_IF_GREEDY } else { &OF_THE_MODEL };
    let absent: Vec<_> = names.iter().copied().filter(|name| !fields.is_set(name)).collect();
    if !absent.is_empty() {
        let message = "absent: vLLM's server takes what the model's generation_config.json says, where it says anything";
        fields.changed(&absent.join(", "), message);
    }
}

/// Drops the truncations of a greedy request. vLLM ignores them, which shows in processed logprobs.
fn drop_truncations(fields: &mut Fields, params: &mut SamplingParams) {
    let default = SamplingParams::default();
    for (name, is_set) in [
        ("top_k", params.top_k > 0),
        ("top_p", params.top_p != default.top_p),
        ("min_p", params.min_p != default.min_p),
    ] {
        if is_set {
            fields.changed(name, "has no effect: temperature 0 is greedy");
        }
    }
    (params.top_k, params.top_p, params.min_p) = (default.top_k, default.top_p, default.min_p);
}
