//! The names of the built-in stages, as they stand in orders and messages, in the default order.

pub(crate) const STAGE_NAMES: [&str; 19] = [
    "allowed",
    "bad_words",
    "min_tokens",
    "logit_bias",
    "penalties",
    "dry",
    "no_repeat_ngram",
    "smoothing",
    "temperature",
    "min_p",
    "top_k",
    "top_p",
    "typical",
    "top_n_sigma",
    "epsilon",
    "eta",
    "top_a",
    "xtc",
    "mirostat",
];
