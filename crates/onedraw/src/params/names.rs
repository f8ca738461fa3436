//! The names of the built-in stages, as orders and messages use them, in the default order.

/// One name for each entry of [`Stage::ALL`](crate::params::chain::Stage::ALL), in the same order. They are
/// here, and not in `chain.rs`, because `custom.rs` needs them too.
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
