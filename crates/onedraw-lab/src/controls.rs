//! What a control for a parameter looks like. The bounds are those of a slider: within what is allowed, where values
//! make a difference that can be seen. A value outside of them can still be typed.

use serde_json::{Value, json};

use Kind::{Choice, Flag, Integer, List, Number, Text};

/// What a control sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A number: the least and the most of the slider, and its step.
    Number(f64, f64, f64),
    /// A whole number, from the least to the most.
    Integer(i64, i64),
    /// Yes or no.
    Flag,
    /// One of a few values.
    Choice(Few),
    /// A list, or an object, as JSON.
    List,
    /// A text.
    Text,
}

/// The values of a parameter that has few.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Few {
    /// The numbers below this one.
    Below(u8),
    /// These words.
    Words(&'static [&'static str]),
}

/// The control of every parameter that the laboratory lets a reader set.
pub(crate) const CONTROLS: [(&str, Kind); 45] = [
    ("temperature", Number(0.0, 2.0, 0.01)),
    ("dynatemp_range", Number(0.0, 2.0, 0.01)),
    ("dynatemp_exponent", Number(0.0, 5.0, 0.1)),
    ("top_k", Integer(0, 200)),
    ("top_p", Number(0.0, 1.0, 0.01)),
    ("min_p", Number(0.0, 1.0, 0.005)),
    ("typical_p", Number(0.01, 1.0, 0.01)),
    ("top_n_sigma", Number(0.0, 5.0, 0.1)),
    ("epsilon_cutoff", Number(0.0, 0.1, 0.0005)),
    ("eta_cutoff", Number(0.0, 0.1, 0.0005)),
    ("top_a", Number(0.0, 1.0, 0.01)),
    ("xtc_probability", Number(0.0, 1.0, 0.05)),
    ("xtc_threshold", Number(0.0, 0.5, 0.01)),
    ("xtc_protected_token_ids", List),
    ("mirostat", Choice(Few::Below(3))),
    ("mirostat_tau", Number(0.0, 10.0, 0.1)),
    ("mirostat_eta", Number(0.0, 1.0, 0.01)),
    ("mirostat_mu", Number(0.0, 20.0, 0.1)),
    ("repetition_penalty", Number(0.5, 2.0, 0.01)),
    ("frequency_penalty", Number(-2.0, 2.0, 0.05)),
    ("presence_penalty", Number(-2.0, 2.0, 0.05)),
    ("penalty_window", Integer(0, 512)),
    ("penalty_scope", Choice(Few::Words(&["output", "all"]))),
    ("dry_multiplier", Number(0.0, 5.0, 0.05)),
    ("dry_base", Number(1.0, 4.0, 0.05)),
    ("dry_allowed_length", Integer(0, 20)),
    ("dry_penalty_last_n", Integer(0, 512)),
    ("dry_sequence_breakers", List),
    ("no_repeat_ngram_size", Integer(0, 20)),
    ("smoothing_factor", Number(0.0, 10.0, 0.1)),
    ("smoothing_curve", Number(1.0, 3.0, 0.05)),
    ("logit_bias", List),
    ("allowed_token_ids", List),
    ("bad_words_ids", List),
    ("bad_words", List),
    ("min_tokens", Integer(0, 256)),
    ("banned_strings", List),
    ("max_tokens", Integer(1, 512)),
    ("stop", List),
    ("stop_token_ids", List),
    ("ignore_eos", Flag),
    ("include_stop_str_in_output", Flag),
    ("eos_token_id", List),
    ("seed", Text),
    ("order", List),
];

impl Kind {
    /// The control of a parameter; `None` for one that the laboratory sets itself.
    pub(crate) fn of(name: &str) -> Option<Self> {
        CONTROLS.iter().find(|(other, _)| *other == name).map(|(_, kind)| *kind)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Number(..) => "number",
            Integer(..) => "integer",
            Flag => "flag",
            Choice(_) => "choice",
            List => "list",
            Text => "text",
        }
    }

    /// Its bounds or its values, as fields of the parameter's description.
    pub(crate) fn details(self) -> Value {
        match self {
            Number(least, most, step) => json!({"least": least, "most": most, "step": step}),
            Integer(least, most) => json!({"least": least, "most": most, "step": 1}),
            Choice(Few::Below(end)) => json!({"choices": (0..end).collect::<Vec<u8>>()}),
            Choice(Few::Words(words)) => json!({"choices": words}),
            Flag | List | Text => json!({}),
        }
    }
}

#[cfg(test)]
mod tests {
    use onedraw::{PARAMETERS, SamplingParams};

    use super::*;

    /// What a text in the laboratory has no use for: one text at a time, with reports of the laboratory's own.
    const SET_BY_THE_LABORATORY: [&str; 8] = [
        "n",
        "logprobs",
        "logprobs_mode",
        "probability",
        "kept",
        "prompt_logprobs",
        "prompt_token_ids",
        "output_token_ids",
    ];

    #[test]
    fn every_parameter_has_a_control_or_is_set_by_the_laboratory() {
        for parameter in PARAMETERS {
            let is_set = SET_BY_THE_LABORATORY.contains(&parameter.name);
            assert_eq!(Kind::of(parameter.name).is_none(), is_set, "{}", parameter.name);
        }
        assert_eq!(CONTROLS.len() + SET_BY_THE_LABORATORY.len(), PARAMETERS.len());
    }

    #[test]
    fn the_ends_of_every_slider_are_allowed() {
        for (name, kind) in CONTROLS {
            let details = kind.details();
            let ends = match kind {
                Choice(_) => details["choices"].as_array().cloned().unwrap_or_default(),
                _ => [&details["least"], &details["most"]]
                    .into_iter()
                    .filter(|end| !end.is_null())
                    .cloned()
                    .collect(),
            };
            for end in ends {
                // As many tokens as the smallest number that a text must have.
                let params = json!({name: end, "max_tokens": if name == "max_tokens" { end.clone() } else { 512.into() }});
                let read = SamplingParams::from_value(params.clone());
                assert!(read.is_ok(), "{params}: {read:?}");
            }
        }
    }
}
