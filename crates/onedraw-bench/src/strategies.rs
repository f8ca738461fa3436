//! What is asked of a draw, and how many floors it may take.

use onedraw::SamplingParams;

use crate::rows::text;

/// Tokens of the prompt and of the output, where a strategy looks at them.
const PROMPT: usize = 512;
const OUTPUT: usize = 1000;
/// The vocabulary for which there are targets on generated rows.
pub const TARGET_VOCABULARY: usize = 128_256;
/// The vocabulary of the real rows, for which there are others.
pub const REAL_VOCABULARY: usize = 49_152;

/// Parameters with a name.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// The name, as it stands in a report.
    pub name: &'static str,
    /// The parameters.
    pub json: &'static str,
    /// Whether there is a history: 512 tokens of prompt, 1,000 of output.
    pub has_history: bool,
    /// The most floors that a draw may take.
    pub targets: Targets,
    /// Another draw, which is measured in turns with it.
    pub beside: Option<Beside>,
}

/// A draw that another one is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// The name of its strategy.
    pub name: &'static str,
    /// How many times as long the draw may take, on peaked rows.
    peaked: f64,
    /// The same on flat rows, if there is a target for them.
    flat: Option<f64>,
}

impl Beside {
    /// The target for rows of that shape.
    pub fn target(&self, shape: &str) -> Option<f64> {
        match shape {
            "peaked" => Some(self.peaked),
            "flat" => self.flat,
            _ => None,
        }
    }

    /// The strategy.
    pub fn strategy(&self) -> &'static Strategy {
        ALL.iter().find(|strategy| strategy.name == self.name).expect("a test looks for every name")
    }
}

/// The most floors that a draw may take with the row in cache, by the shape of the row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Targets {
    peaked: Option<f64>,
    flat: Option<f64>,
    real: Option<f64>,
}

impl Targets {
    const NONE: Targets = Targets { peaked: None, flat: None, real: None };

    const fn of(peaked: f64, flat: f64) -> Self {
        Self { peaked: Some(peaked), flat: Some(flat), real: None }
    }

    const fn on_real_rows(self, real: f64) -> Self {
        Self { real: Some(real), ..self }
    }

    /// The target for rows of that shape and vocabulary, in cache; other sizes have none.
    pub fn hot(&self, shape: &str, vocabulary: usize) -> Option<f64> {
        match (shape, vocabulary) {
            ("peaked", TARGET_VOCABULARY) => self.peaked,
            ("flat", TARGET_VOCABULARY) => self.flat,
            ("real", REAL_VOCABULARY) => self.real,
            _ => None,
        }
    }
}

const fn strategy(name: &'static str, json: &'static str, targets: Targets) -> Strategy {
    Strategy { name, json, has_history: false, targets, beside: None }
}

/// A draw that also tells what it kept, beside another one.
const fn kept(name: &'static str, json: &'static str, beside: Beside) -> Strategy {
    Strategy { name, json, has_history: false, targets: Targets::NONE, beside: Some(beside) }
}

/// Every strategy.
pub const ALL: [Strategy; 23] = [
    strategy("greedy", r#"{"temperature": 0}"#, Targets::of(1.25, 1.25)),
    strategy("temperature 0.8", r#"{"temperature": 0.8}"#, Targets::of(1.8, 2.5).on_real_rows(2.0)),
    strategy("top-k 50", r#"{"temperature": 0.8, "top_k": 50}"#, Targets::NONE),
    strategy(
        "top-k 50, top-p 0.9",
        r#"{"temperature": 0.8, "top_k": 50, "top_p": 0.9}"#,
        Targets::of(2.4, 3.0).on_real_rows(2.6),
    ),
    strategy("top-p 0.9", r#"{"temperature": 0.8, "top_p": 0.9}"#, Targets::of(2.4, 11.0).on_real_rows(2.8)),
    strategy("min-p 0.05", r#"{"temperature": 0.8, "min_p": 0.05}"#, Targets::of(1.9, 3.0)),
    Strategy {
        name: "penalties, top-k 40, top-p 0.95, min-p 0.05",
        json: r#"{"temperature": 0.8, "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.1,
            "top_k": 40, "top_p": 0.95, "min_p": 0.05}"#,
        has_history: true,
        targets: Targets::of(4.0, 5.0),
        beside: None,
    },
    strategy("temperature 0.8, logprobs 5", r#"{"temperature": 0.8, "logprobs": 5}"#, Targets::of(7.0, 7.0)),
    strategy(
        "top-p 0.9, processed logprobs 5",
        r#"{"temperature": 0.8, "top_p": 0.9, "logprobs": 5, "logprobs_mode": "processed_logprobs"}"#,
        Targets::NONE,
    ),
    kept(
        "top-k 50, kept summary",
        r#"{"temperature": 0.8, "top_k": 50, "kept": "summary"}"#,
        Beside { name: "top-k 50", peaked: 1.2, flat: Some(1.2) },
    ),
    strategy("top-k 50, kept ids", r#"{"temperature": 0.8, "top_k": 50, "kept": "ids"}"#, Targets::NONE),
    kept(
        "top-p 0.9, kept summary",
        r#"{"temperature": 0.8, "top_p": 0.9, "kept": "summary"}"#,
        Beside { name: "top-p 0.9, processed logprobs 5", peaked: 1.0, flat: Some(1.0) },
    ),
    kept(
        "top-p 0.9, kept ids",
        r#"{"temperature": 0.8, "top_p": 0.9, "kept": "ids"}"#,
        Beside { name: "top-p 0.9, processed logprobs 5", peaked: 1.5, flat: None },
    ),
    strategy("typical 0.95", r#"{"typical_p": 0.95}"#, Targets::of(12.0, 25.0)),
    strategy("epsilon 0.0003", r#"{"epsilon_cutoff": 0.0003}"#, Targets::NONE),
    strategy("eta 0.0003", r#"{"eta_cutoff": 0.0003}"#, Targets::of(12.0, 25.0)),
    strategy("top-a 0.1", r#"{"top_a": 0.1}"#, Targets::NONE),
    strategy("top-n-sigma 1", r#"{"top_n_sigma": 1}"#, Targets::NONE),
    strategy("XTC, probability 1", r#"{"xtc_probability": 1}"#, Targets::of(12.0, 25.0)),
    strategy("mirostat 1", r#"{"mirostat": 1}"#, Targets::NONE),
    strategy("mirostat 2", r#"{"mirostat": 2}"#, Targets::of(12.0, 25.0)),
    strategy("dynatemp 0.8 ± 0.3", r#"{"temperature": 0.8, "dynatemp_range": 0.3}"#, Targets::of(12.0, 25.0)),
    strategy("smoothing 0.3", r#"{"smoothing_factor": 0.3}"#, Targets::NONE),
];

/// The strategies that have `part` in their names.
pub fn named(part: &str) -> impl Iterator<Item = &'static Strategy> {
    ALL.iter().filter(move |strategy| strategy.name.contains(part))
}

impl Strategy {
    /// The parameters for rows of that vocabulary.
    pub fn params(&self, seed: u64, vocabulary: usize) -> SamplingParams {
        let mut params =
            SamplingParams::from_json(self.json).expect("every strategy's JSON is read by a test");
        params.seed = Some(seed);
        if self.has_history {
            (params.prompt_token_ids, params.output_token_ids) =
                (text(1, PROMPT, vocabulary), text(2, OUTPUT, vocabulary));
        }
        params
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_valid_and_has_a_name_of_its_own() {
        for strategy in &ALL {
            let params = strategy.params(7, 1000);
            params.validate().expect(strategy.name);
            let history = params.prompt_token_ids.len() + params.output_token_ids.len();
            assert_eq!(history, if strategy.has_history { PROMPT + OUTPUT } else { 0 });
            assert_eq!(ALL.iter().filter(|other| other.name == strategy.name).count(), 1);
            if let Some(beside) = strategy.beside {
                assert!(beside.strategy().beside.is_none() && beside.target("peaked").is_some());
            }
        }
    }

    #[test]
    fn targets_are_for_one_vocabulary() {
        let greedy = &ALL[0].targets;
        assert_eq!((greedy.hot("flat", 128_256), greedy.hot("flat", 32_000)), (Some(1.25), None));
        assert_eq!((greedy.hot("real", 49_152), ALL[1].targets.hot("real", 49_152)), (None, Some(2.0)));
    }
}
