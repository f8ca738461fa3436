//! llama.cpp's server: the fields of `/completion`, which its OpenAI-compatible endpoints accept too.

mod bias;
mod frontend;
mod samplers;
mod stages;

use super::fields::{Fields, saturated};
use super::known::{CONSTRAINT, Known, Lost, lost};
use super::off::Off;
use super::openai;
use crate::params::error::ParamError;
use crate::params::{LogprobsMode, SamplingParams};

pub(super) const KNOWN: Known = Known {
    read,
    carried: CARRIED,
    lost: &[LOST, openai::LOST],
    passed: &[PASSED, openai::PASSED],
    foreign: frontend::FOREIGN,
    aliases: frontend::ALIASES,
    renamed: &[("order", "samplers"), ("repetition_penalty", "repeat_penalty")],
};

const CARRIED: &[&str] = &[
    "dry_allowed_length",
    "dry_base",
    "dry_multiplier",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "dynatemp_exponent",
    "dynatemp_range",
    "frequency_penalty",
    "ignore_eos",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "n",
    "n_cmpl",
    "n_predict",
    "n_probs",
    "post_sampling_probs",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "samplers",
    "seed",
    "stop",
    "temperature",
    "top_k",
    "top_logprobs",
    "top_n_sigma",
    "top_p",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
];

const ADAPTIVE: &str = "there is no adaptive-p";
const BUDGET: &str = "there is no budget for reasoning";
const GONE: &str = "a field of older versions of llama.cpp";

const LOST: &[Lost] = &[
    lost("grammar", Off::Zero, CONSTRAINT),
    lost("json_schema", Off::Zero, CONSTRAINT),
    lost("adaptive_decay", Off::Alone, ADAPTIVE),
    lost("adaptive_target", Off::Below(0.0), ADAPTIVE),
    lost("min_keep", Off::Zero, "a truncation may leave a single token"),
    lost("n_indent", Off::Zero, "generation does not end at an indentation"),
    lost("reasoning_budget_end_tag", Off::Alone, BUDGET),
    lost("reasoning_budget_end_tags", Off::Alone, BUDGET),
    lost("reasoning_budget_message", Off::Alone, BUDGET),
    lost("reasoning_budget_start_tag", Off::Alone, BUDGET),
    lost("reasoning_budget_tokens", Off::Below(0.0), BUDGET),
    lost("t_max_predict_ms", Off::Below(1.0), "there is no limit of time"),
    lost("penalize_nl", Off::Zero, GONE),
    lost("penalty_prompt", Off::Zero, GONE),
    lost("tfs_z", Off::At(1.0), GONE),
];

/// This includes fields that go with a grammar (the grammar itself has a note), and fields that the server
/// adds when it reports the settings of a request.
const PASSED: &[&str] = &[
    "add_generation_prompt",
    "api_key",
    "backend_sampling",
    "cache_prompt",
    "chat_format",
    "chat_parser",
    "chat_template_kwargs",
    "continue_final_message",
    "generation_prompt",
    "grammar_lazy",
    "grammar_triggers",
    "grammar_type",
    "id_slot",
    "image_data",
    "input_extra",
    "input_prefix",
    "input_suffix",
    "lora",
    "n_cache_reuse",
    "n_discard",
    "n_keep",
    "parse_tool_calls",
    "preserved_tokens",
    "reasoning_control",
    "reasoning_format",
    "reasoning_in_content",
    "response_fields",
    "return_progress",
    "return_tokens",
    "slot_id",
    "speculative.",
    "sse_ping_interval",
    "system_prompt",
    "t_max_prompt_ms",
    "thinking_forced_open",
    "timings_per_token",
    "verbose",
];

/// Reads the parameters of a request.
pub(super) fn read(fields: &mut Fields) -> Result<SamplingParams, ParamError> {
    let version = fields.integer("mirostat")?.unwrap_or(0);
    let mut params = SamplingParams { mirostat: version.clamp(0, 2) as u8, ..SamplingParams::default() };
    if version > 2 {
        fields.changed("mirostat", format!("{version} is taken as 2, as llama.cpp does"));
    }
    let (order, why_not) = if params.mirostat > 0 {
        let why = "with mirostat, llama.cpp uses logit_bias and temperature alone";
        let samplers = if samplers::is_default(fields) { Off::Alone } else { Off::Zero };
        fields.ignore(&[("samplers", samplers), stages::DYNATEMP, stages::DYNATEMP_EXPONENT], why);
        (samplers::of_mirostat(), why)
    } else {
        (samplers::read(fields)?, "samplers leaves its stage out")
    };
    let breakers = fields.get("dry_sequence_breakers").filter(|breakers| !breakers.is_null());
    if breakers.is_some_and(|breakers| breakers.as_array().is_none_or(Vec::is_empty)) {
        fields.refused("dry_sequence_breakers", "llama.cpp", "it takes a list of at least one string");
    }
    for (stage, names, reader) in stages::ALL {
        if order.names(&stage) {
            reader(fields, &mut params)?;
        } else {
            fields.ignore(names, why_not);
        }
    }
    params.order = Some(order);
    bias::read(fields, &mut params)?;
    lengths(fields, &mut params)?;
    stops(fields, &mut params)?;
    seed(fields, &mut params)?;
    openai::text_format(fields);
    logprobs(fields, &mut params)?;
    Ok(params)
}

/// Reads the limit of tokens and the number of sequences.
fn lengths(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let names = ["n_predict", "max_completion_tokens", "max_output_tokens", "max_tokens"];
    let name = fields.first(&names).unwrap_or("n_predict");
    params.max_tokens = match fields.integer(name)? {
        None => {
            fields.changed(name, "absent: llama.cpp's default -1, no limit");
            u32::MAX
        }
        // In older versions −2 means: until the context is full.
        Some(-2 | -1) => {
            fields.changed(name, format!("no limit: max_tokens {}", u32::MAX));
            u32::MAX
        }
        Some(n) if n < 0 => {
            return Err(ParamError::new(name, format!("must be at least 0, or -1 for no limit, not {n}")));
        }
        Some(n) => saturated(n),
    };
    if let Some(name) = fields.first(&["n_cmpl", "n"]) {
        params.n = fields.sequences(name)?.unwrap_or(params.n);
    }
    Ok(())
}

/// Reads the stop strings and `ignore_eos`.
fn stops(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    params.stop = fields.strings("stop")?.unwrap_or_default();
    let all = params.stop.len();
    params.stop.retain(|stop| !stop.is_empty());
    if params.stop.len() < all {
        fields.changed("stop", "an empty string stops nothing");
    }
    params.ignore_eos = fields.flag("ignore_eos")?.unwrap_or(false);
    if params.ignore_eos {
        let message = "llama.cpp bans the ids that end a text; here generation goes on after them, so ban them with bad_words_ids";
        fields.changed("ignore_eos", message);
    }
    Ok(())
}

/// Reads the seed. llama.cpp's seeds have 32 bits, and the highest number, which is also −1, means no seed.
fn seed(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let Some(seed) = fields.integer("seed")? else { return Ok(()) };
    let taken = seed as u32;
    params.seed = (taken != u32::MAX).then_some(taken.into());
    if seed != -1 && seed != i128::from(taken) {
        fields.changed("seed", format!("{seed} is taken as {taken}: llama.cpp's seeds have 32 bits"));
    }
    Ok(())
}

/// Reads how many logprobs to report.
fn logprobs(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    /// The number that is used if a chat asks for logprobs without a number.
    const DEFAULT: i64 = 20;
    params.logprobs = if fields.first(&["n_probs", "logprobs"]) == Some("n_probs") {
        fields.ignore(&[("top_logprobs", Off::Zero)], "n_probs is set and goes first");
        fields.integer("n_probs")?.map(|n| saturated(n).into())
    } else {
        openai::logprobs(fields, DEFAULT)?
    };
    params.logprobs = params.logprobs.filter(|&n| n > 0);
    if fields.flag("post_sampling_probs")? == Some(true) && params.logprobs.is_some() {
        params.logprobs_mode = LogprobsMode::ProcessedLogprobs;
    }
    Ok(())
}
