//! Fields that chat programs send beside llama.cpp's own: they write one body for every server that they
//! know, with each setting under each server's name for it. llama.cpp ignores what it does not know.

use crate::params::import::off::{Field, Off};

/// Names that other servers use for a field that is carried over.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("ban_eos_token", "ignore_eos"),
    ("dynamic_temperature", "dynatemp_range"),
    ("dynatemp_high", "dynatemp_range"),
    ("dynatemp_low", "dynatemp_range"),
    ("max_length", "n_predict"),
    ("max_new_tokens", "n_predict"),
    ("mirostat_mode", "mirostat"),
    ("nsigma", "top_n_sigma"),
    ("num_predict", "n_predict"),
    ("rep_pen", "repeat_penalty"),
    ("rep_pen_range", "repeat_last_n"),
    ("repetition_penalty", "repeat_penalty"),
    ("repetition_penalty_range", "repeat_last_n"),
    ("sampler_order", "samplers"),
    ("sampler_priority", "samplers"),
    ("sampler_seed", "seed"),
    ("stop_sequence", "stop"),
    ("stopping_strings", "stop"),
    ("typical", "typical_p"),
];

/// Settings of other servers, with the values that have no effect, and fields that are not about sampling.
pub(super) const FOREIGN: &[Field] = &[
    ("add_bos_token", Off::Alone),
    ("api_server", Off::Alone),
    ("api_type", Off::Alone),
    ("can_abort", Off::Alone),
    ("early_stopping", Off::Zero),
    ("encoder_repetition_penalty", Off::At(1.0)),
    ("epsilon_cutoff", Off::Zero),
    ("eta_cutoff", Off::Zero),
    ("grammar_string", Off::Zero),
    ("guidance_scale", Off::At(1.0)),
    ("include_reasoning", Off::Alone),
    ("length_penalty", Off::At(1.0)),
    ("max_context_length", Off::Alone),
    ("max_tokens_second", Off::Zero),
    ("min_length", Off::Zero),
    ("min_tokens", Off::Zero),
    ("no_repeat_ngram_size", Off::Zero),
    ("num_beams", Off::At(1.0)),
    ("num_ctx", Off::Alone),
    ("penalty_alpha", Off::Zero),
    ("rep_pen_slope", Off::In(&[0.0, 1.0])),
    ("skew", Off::Zero),
    ("skip_special_tokens", Off::Alone),
    ("smoothing_curve", Off::At(1.0)),
    ("smoothing_factor", Off::Zero),
    ("spaces_between_special_tokens", Off::Alone),
    ("speculative_ngram", Off::Alone),
    ("temperature_last", Off::Alone),
    ("tfs", Off::At(1.0)),
    ("top_a", Off::Zero),
    ("trim_stop", Off::Alone),
    ("truncation_length", Off::Alone),
    ("use_default_badwordsids", Off::Alone),
];
