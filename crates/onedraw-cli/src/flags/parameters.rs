//! Every sampling parameter as a flag: `--top-p 0.9`. The flags are made from the parameters themselves, so
//! none can be missing.

use anyhow::{Result, anyhow};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use onedraw::{ParamError, SamplingParams};
use onedraw_lm::settings::{Layer, Origin, Settings};
use serde_json::{Map, Value};

/// The parameters that the program sets itself.
const NOT_FLAGS: [&str; 2] = ["prompt_token_ids", "output_token_ids"];

/// The parameters that were given as flags.
#[derive(Clone, Debug, Default)]
pub struct ParameterFlags {
    given: Map<String, Value>,
}

/// The names of all parameters, with their defaults.
fn defaults() -> Map<String, Value> {
    let mut fields = match serde_json::to_value(SamplingParams::default()) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    // It is not serialized while it is unset.
    fields.insert("order".to_owned(), Value::Null);
    // Its default is null, but its values are lists.
    fields.insert("allowed_token_ids".to_owned(), Value::Array(Vec::new()));
    fields.retain(|name, _| !NOT_FLAGS.contains(&name.as_str()));
    fields
}

impl Args for ParameterFlags {
    fn augment_args(command: Command) -> Command {
        let mut command = command.next_help_heading("Sampling parameters");
        for (name, default) in defaults() {
            let flag = name.replace('_', "-");
            let mut arg = Arg::new(&name).long(flag).value_name("VALUE").allow_negative_numbers(true);
            arg = match &default {
                Value::Bool(_) => arg.num_args(0..=1).default_missing_value("true").require_equals(true),
                Value::Array(_) => {
                    arg.action(clap::ArgAction::Append).help("A value, several times; or a JSON list")
                }
                Value::Null => arg,
                other => arg.help(format!("[default: {other}]")),
            };
            if name == "n" {
                arg = arg.short('n').help("How many texts to write");
            }
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ParameterFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Map::new();
        for (name, default) in defaults() {
            let Some(values) = matches.get_many::<String>(&name) else { continue };
            let values: Vec<Value> = values.map(|text| Self::read(text, &name)).collect();
            let value = match (values.len(), default) {
                (1, Value::Array(_)) if values[0].is_array() => values.into_iter().next(),
                (_, Value::Array(_)) => Some(Value::Array(values)),
                _ => values.into_iter().next_back(),
            };
            given.extend(value.map(|value| (name, value)));
        }
        Ok(Self { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The parameters whose values are text even if they look like numbers: `--stop 7` stops at "7". Only a list
/// is read as JSON.
const TEXTS: [&str; 2] = ["stop", "banned_strings"];

impl ParameterFlags {
    /// Reads a value as JSON, or as plain text if it is not JSON.
    pub fn read(text: &str, name: &str) -> Value {
        match serde_json::from_str(text) {
            Ok(value @ Value::Array(_)) => value,
            Ok(value) if !TEXTS.contains(&name) => value,
            _ => Value::String(text.to_owned()),
        }
    }

    /// Whether there is a flag of that name.
    pub fn is_parameter(name: &str) -> bool {
        defaults().contains_key(name)
    }

    /// The same flags with another value for one parameter.
    pub fn with(&self, name: &str, value: Value) -> Self {
        let mut flags = self.clone();
        flags.given.insert(name.to_owned(), value);
        flags
    }

    /// Whether a parameter was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The parameters: a flag goes before the preset, the preset before the model's own settings, and these
    /// before the defaults. A setting of the model gives way where it cannot be combined with what was asked for.
    pub fn params(&self, preset: Option<&str>, model: &Map<String, Value>) -> Result<SamplingParams> {
        let preset =
            preset.map(|name| Layer::preset(name).ok_or_else(|| anyhow!("preset: `{name}` is not a preset")));
        let preset = preset.transpose()?;
        let flags = Layer::read(Origin::Argument, &self.given).map_err(|error| named(&error))?;
        let layers = [Some(flags), preset, Some(Layer::model(model))];
        let settings = layers.into_iter().flatten().fold(Settings::default(), Settings::layer);
        Ok(settings.resolve().map_err(|error| named(&error))?.params)
    }
}

/// An error with the flag of its parameter.
fn named(error: &ParamError) -> anyhow::Error {
    anyhow!("--{}: {}", error.field().replace('_', "-"), error.message())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use onedraw::presets;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ParameterFlags,
    }

    fn params(line: &str, preset: Option<&str>, model: &str) -> Result<SamplingParams, String> {
        let line = Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).expect(line);
        let model = serde_json::from_str(model).expect(model);
        line.flags.params(preset, &model).map_err(|error| error.to_string())
    }

    #[test]
    fn every_parameter_is_a_flag() {
        for name in defaults().keys() {
            let flag = format!("--{}=1", name.replace('_', "-"));
            assert!(Line::try_parse_from(["x", &flag]).is_ok(), "{flag}");
        }
        assert!(Line::try_parse_from(["x", "--prompt-token-ids", "1"]).is_err());
    }

    #[test]
    fn values_are_what_they_say() {
        let line = "--temperature 0.5 --top-k -1 --seed 18446744073709551615 -n 3 --ignore-eos --stop 7 --stop ab --stop \"x\" \
                    --logit-bias {\"5\":-2.5} --stop-token-ids [1,2] --bad-words-ids [[1,2],[3]] --order vllm \
                    --penalty-scope all --eos-token-id 4 --logprobs 2 --allowed-token-ids 4 --allowed-token-ids 5";
        let params = params(line, None, "{}").expect("parameters");
        let text = r#"{"temperature": 0.5, "top_k": -1, "seed": 18446744073709551615, "n": 3, "ignore_eos": true, "stop": ["7", "ab", "\"x\""], "allowed_token_ids": [4, 5],
            "logit_bias": {"5": -2.5}, "stop_token_ids": [1, 2], "bad_words_ids": [[1, 2], [3]], "order": "vllm",
            "penalty_scope": "all", "eos_token_id": 4, "logprobs": 2, "max_tokens": 256}"#;
        assert_eq!(Ok(params), SamplingParams::from_json(text));
    }

    #[test]
    fn flags_go_before_presets_and_presets_before_the_model() {
        let model = r#"{"temperature": 0.1, "top_p": 0.2, "top_k": 3, "max_tokens": 9}"#;
        let found = params("--top-p 0.8", Some("creative"), model).expect("parameters");
        assert_eq!((found.temperature, found.top_p, found.top_k, found.max_tokens), (1.2, 0.8, 100, 9));
        let found = params("", None, model).expect("parameters");
        assert_eq!((found.temperature, found.top_p, found.top_k), (0.1, 0.2, 3));
        assert_eq!(params("", None, "{}").map(|found| found.max_tokens), Ok(256));
    }

    #[test]
    fn strings_are_what_was_written() {
        let stop = |text: &str| {
            let line = Line::try_parse_from(["x", "--stop", text]).expect(text);
            line.flags.params(None, &Map::new()).expect(text).stop
        };
        for text in [" 7", "1.50", "1e2", "\"the\"", "null", "{}"] {
            assert_eq!(stop(text), [text]);
        }
        assert_eq!(stop(r#"["a", " 7"]"#), ["a", " 7"]);
    }

    #[test]
    fn a_preset_decides_what_shapes_the_draw() {
        let model = r#"{"repetition_penalty": 1.5, "min_p": 0.2, "order": "huggingface", "min_tokens": 3}"#;
        let found = params("", Some("balanced"), model).expect("parameters");
        assert_eq!(found, SamplingParams { max_tokens: 256, min_tokens: 3, ..presets::balanced() });
        let found = params("--min-p 0.1", Some("deterministic"), model).expect("parameters");
        assert_eq!((found.min_p, found.temperature, found.repetition_penalty), (0.1, 0.0, 1.0));
    }

    #[test]
    fn what_the_model_comes_with_gives_way() {
        let model =
            r#"{"temperature": 0.7, "top_k": 50, "top_p": 0.9, "order": "huggingface", "min_tokens": 50}"#;
        let found = params("--mirostat 2", None, model).expect("parameters");
        assert_eq!((found.mirostat, found.top_k, found.top_p, found.temperature), (2, 0, 1.0, 0.7));
        let found = params("--max-tokens 10", None, model).expect("parameters");
        assert_eq!((found.max_tokens, found.min_tokens, found.top_k), (10, 0, 50));
        let error = params("--mirostat 2 --top-k 3", None, model).expect_err("an error");
        assert!(error.starts_with("--top-k: "), "{error}");
    }

    #[test]
    fn the_models_order_gives_way_to_what_is_asked_for() {
        let model = r#"{"temperature": 0.5, "order": "huggingface"}"#;
        let order = |line: &str| params(line, None, model).map(|found| found.order);
        assert_eq!(order("--min-p 0.1"), Ok(SamplingParams::from_json(model).expect(model).order));
        assert_eq!(order("--xtc-probability 0.5"), Ok(SamplingParams::default().order));
        // Two flags that refuse each other stay an error.
        let message = order("--xtc-probability 0.5 --order huggingface").expect_err("an error");
        assert!(message.starts_with("--xtc-probability: "), "{message}");
        assert_eq!(order("--top-p 2"), Err("--top-p: must be in (0, 1], not 2".to_owned()));
    }

    #[test]
    fn errors_name_the_flag() {
        assert_eq!(params("--top-p 2", None, "{}"), Err("--top-p: must be in (0, 1], not 2".to_owned()));
        let message = params("--temperature warm", None, "{}").expect_err("an error");
        assert!(message.starts_with("--temperature: "), "{message}");
        assert_eq!(params("", Some("wild"), "{}"), Err("preset: `wild` is not a preset".to_owned()));
    }
}
