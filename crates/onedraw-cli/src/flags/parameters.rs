//! The sampling parameters of a command: every one as a flag (`--top-p 0.9`), `--params` and `--preset`. All
//! commands that sample take them in the same way. A flag goes before `--params`, that before the preset, that
//! before the model's own settings, and these before the defaults.
//!
//! The flags and their help are made from the library's list of parameters, so none can be missing.

use std::fs;

use anyhow::{Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use onedraw::{Group, LogprobsMode, PARAMETERS, ParamError, SamplingParams, presets};
use onedraw_lm::Tokenizer;
use onedraw_lm::settings::{Layer, Origin, Settings};
use onedraw_lm::words::to_tokens;
use serde_json::{Map, Value};

use super::value::{self, TEXTS, is_list, values};

/// The parameters that a command with a prompt sets itself.
const FROM_THE_PROMPT: [&str; 2] = ["prompt_token_ids", "output_token_ids"];
/// Other names of flags that mean the same. They are not shown, and no other place accepts them.
const ALIASES: [(&str, &str); 2] = [("max_tokens", "max-new-tokens"), ("min_tokens", "min-new-tokens")];

/// The parameters that were given on the command line.
#[derive(Clone, Debug, Default)]
pub struct ParameterFlags {
    flags: Map<String, Value>,
    params: Option<String>,
    preset: Option<String>,
}

/// A command with the help of its sampling parameters completed by the defaults that hold there, but for those
/// in `instead`, which have a help of their own. Where the command takes a prompt, the tokens are not flags.
pub fn described(
    command: Command,
    defaults: &SamplingParams,
    takes_prompt: bool,
    instead: &[(&str, &'static str)],
) -> Command {
    let defaults = values(defaults);
    // Not `mut_arg`, which changes the order of the arguments.
    command.mut_args(|arg| {
        let name = arg.get_id().as_str();
        if let Some((_, help)) = instead.iter().find(|(other, _)| *other == name) {
            return arg.help(*help);
        }
        let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == name) else { return arg };
        let help = match defaults.get(name) {
            Some(default @ (Value::Number(_) | Value::String(_))) => {
                format!("{} [default: {}]", parameter.help, default.to_string().trim_matches('"'))
            }
            _ => parameter.help.to_owned(),
        };
        arg.help(help).hide(takes_prompt && FROM_THE_PROMPT.contains(&parameter.name))
    })
}

/// What a flag of a parameter takes.
fn value_name(name: &str, default: Option<&Value>) -> &'static str {
    match (name, default) {
        ("order", _) => "ORDER",
        ("logit_bias", _) => "JSON",
        ("logprobs_mode" | "penalty_scope", _) => "NAME",
        (name, _) if TEXTS.contains(&name) => "TEXT",
        (name, _) if is_list(name, default) => "ID",
        _ => "N",
    }
}

impl Args for ParameterFlags {
    fn augment_args(command: Command) -> Command {
        let defaults = values(&SamplingParams::default());
        let mut command = command
            .next_help_heading("Sampling parameters")
            .arg(
                Arg::new("params")
                    .long("params")
                    .value_name("JSON")
                    .help("Parameters as one JSON object, or @FILE with one; flags go before it"),
            )
            .arg(
                Arg::new("preset")
                    .long("preset")
                    .value_name("NAME")
                    .value_parser(PossibleValuesParser::new(presets::NAMES))
                    .help("Settings with a name, see onedraw presets; flags and --params go before it"),
            );
        for group in Group::ALL {
            command = command.next_help_heading(group.title());
            for parameter in PARAMETERS.iter().filter(|parameter| parameter.group == group) {
                let (name, default) = (parameter.name, defaults.get(parameter.name));
                let mut arg = Arg::new(name)
                    .long(name.replace('_', "-"))
                    .value_name(value_name(name, default))
                    .allow_negative_numbers(true)
                    .help(parameter.help);
                if matches!(default, Some(Value::Bool(_))) {
                    arg = arg.num_args(0..=1).default_missing_value("true").require_equals(true);
                    arg = arg.value_name("BOOL");
                } else if is_list(name, default) {
                    arg = arg.action(ArgAction::Append);
                }
                if name == "logprobs_mode" {
                    let modes = PossibleValuesParser::new(LogprobsMode::ALL.map(LogprobsMode::name));
                    arg = arg.value_parser(modes).hide_possible_values(true);
                }
                for (_, alias) in ALIASES.iter().filter(|(of, _)| *of == name) {
                    arg = arg.alias(*alias);
                }
                command = command.arg(if name == "n" { arg.short('n') } else { arg });
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ParameterFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Map::new();
        for name in PARAMETERS.iter().map(|parameter| parameter.name) {
            let Some(given) = matches.get_many::<String>(name) else { continue };
            let value = value::read(name, given.map(String::as_str)).map_err(|error| {
                let message = format!("--{}: {error}\n", name.replace('_', "-"));
                clap::Error::raw(clap::error::ErrorKind::InvalidValue, message)
            })?;
            flags.insert(name.to_owned(), value);
        }
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        Ok(Self { flags, params: text("params"), preset: text("preset") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ParameterFlags {
    /// Whether there is a parameter of that name that a user can set where there is a prompt.
    pub fn is_parameter(name: &str) -> bool {
        PARAMETERS.iter().any(|parameter| parameter.name == name) && !FROM_THE_PROMPT.contains(&name)
    }

    /// The value that a user gave to a parameter, as a flag or in `--params`.
    pub fn given(&self, name: &str) -> Result<Option<Value>> {
        Ok(match self.flags.get(name) {
            Some(value) => Some(value.clone()),
            None => self.object()?.remove(name),
        })
    }

    /// Which of these parameters were given as flags, as they are written.
    pub fn flags_among(&self, names: impl IntoIterator<Item = &'static str>) -> Vec<String> {
        let given = names.into_iter().filter(|name| self.flags.contains_key(*name));
        given.map(|name| format!("--{}", name.replace('_', "-"))).collect()
    }

    /// Whether a preset is named.
    pub fn has_preset(&self) -> bool {
        self.preset.is_some()
    }

    /// Which of these parameters a user set: flags as they are written, then those of `--params` by their names.
    pub fn given_among(&self, names: &[&'static str]) -> Result<Vec<String>> {
        let (params, mut given) = (self.object()?, self.flags_among(names.iter().copied()));
        let others =
            names.iter().filter(|name| params.contains_key(**name) && !self.flags.contains_key(**name));
        given.extend(others.map(|&name| name.to_owned()));
        Ok(given)
    }

    /// The settings of a text, whatever its model says: a flag goes before `--params`, that before the preset,
    /// that before the settings of the model, and these before the defaults. A setting of the model gives way
    /// where it cannot be combined with what was asked for.
    pub fn params(&self, model: &Map<String, Value>) -> Result<SamplingParams> {
        let settings = self.settings(Settings::default(), self.text()?)?;
        let settings = settings.layer(Layer::model(model));
        Ok(settings.resolve().map_err(|error| self.named(&error))?.params)
    }

    /// The parameters of one row of logits, where `params` are those of `--params`: as for a text, without a
    /// model, and with the library's defaults.
    pub fn of_row(&self, params: Map<String, Value>) -> Result<SamplingParams> {
        let settings = self.settings(Settings::over(SamplingParams::default()), params)?;
        Ok(settings.resolve().map_err(|error| self.named(&error))?.params)
    }

    /// The parameters of one text among several: its own go before everything that was given for all of them.
    pub fn with(&self, own: &Map<String, Value>) -> Result<SamplingParams> {
        let own = Layer::read(Origin::Argument, own).map_err(|error| self.named(&error))?;
        let settings = self.settings(Settings::default().layer(own), self.text()?)?;
        Ok(settings.resolve().map_err(|error| self.named(&error))?.params)
    }

    /// Replaces words and special tokens by their ids, see [`to_tokens`].
    pub fn cut(&self, params: &mut SamplingParams, tokenizer: &Tokenizer) -> Result<()> {
        to_tokens(params, tokenizer).map_err(|error| self.named(&error))
    }

    /// What was given, as layers over others.
    fn settings(&self, settings: Settings, mut params: Map<String, Value>) -> Result<Settings> {
        // What a flag replaces cannot be an error.
        params.retain(|name, _| !self.flags.contains_key(name));
        let read = |fields| Layer::read(Origin::Argument, fields).map_err(|error| self.named(&error));
        let settings = settings.layer(read(&self.flags)?).layer(read(&params)?);
        Ok(match &self.preset {
            Some(name) => {
                let preset = Layer::preset(name);
                settings.layer(preset.ok_or_else(|| anyhow!("--preset: `{name}` is not a preset"))?)
            }
            None => settings,
        })
    }

    /// The argument of `--params` as JSON: of the command line, or of the file that it names. `None`: there is
    /// none.
    pub fn json(&self) -> Result<Option<Value>> {
        let Some(argument) = &self.params else { return Ok(None) };
        let from_file;
        let text = match argument.strip_prefix('@') {
            None => argument,
            Some(path) => {
                from_file = fs::read_to_string(path)
                    .map_err(|error| anyhow!("params: the file {path} cannot be read: {error}"))?;
                &from_file
            }
        };
        Ok(Some(onedraw::json::parse(text)?))
    }

    /// The argument of `--params`, where it is one object.
    fn object(&self) -> Result<Map<String, Value>> {
        match self.json()? {
            None => Ok(Map::new()),
            Some(Value::Object(fields)) => Ok(fields),
            Some(_) => bail!("params: must be a JSON object"),
        }
    }

    /// As `object`, where the tokens of the text come from a prompt.
    fn text(&self) -> Result<Map<String, Value>> {
        match self.given_among(&FROM_THE_PROMPT)?.first() {
            Some(name) => bail!("{name}: the tokens of the text come from its prompt here"),
            None => self.object(),
        }
    }

    /// An error with the flag that set its parameter, or with the parameter itself.
    fn named(&self, error: &ParamError) -> anyhow::Error {
        let field = error.field();
        let name = field.split(['.', '[']).next().unwrap_or(field);
        match self.flags.contains_key(name) {
            true => anyhow!("--{}: {}", field.replace('_', "-"), error.message()),
            false => anyhow!("{field}: {}", error.message()),
        }
    }
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
        let preset = preset.into_iter().flat_map(|name| ["--preset", name]);
        let words = std::iter::once("x").chain(line.split_whitespace()).chain(preset);
        let line = Line::try_parse_from(words).expect(line);
        let model = serde_json::from_str(model).expect(model);
        line.flags.params(&model).map_err(|error| error.to_string())
    }

    #[test]
    fn every_parameter_is_a_flag() {
        for parameter in PARAMETERS.iter().filter(|parameter| parameter.name != "logprobs_mode") {
            let flag = format!("--{}=1", parameter.name.replace('_', "-"));
            assert!(Line::try_parse_from(["x", &flag]).is_ok(), "{flag}");
        }
        let fields = values(&SamplingParams::default());
        let listed: Vec<&str> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
        assert!(fields.keys().all(|name| listed.contains(&name.as_str())));
        assert_eq!(
            params("--prompt-token-ids 1", None, "{}"),
            Err("--prompt-token-ids: the tokens of the text come from its prompt here".to_owned())
        );
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
    fn params_stand_between_flags_and_presets() {
        let line = "--top-p 0.8 --params {\"top_p\":0.3,\"top_k\":7,\"max_tokens\":5}";
        let found = params(line, Some("creative"), r#"{"top_k": 3, "min_tokens": 2}"#).expect("parameters");
        assert_eq!((found.top_p, found.top_k, found.temperature), (0.8, 7, 1.2));
        assert_eq!((found.max_tokens, found.min_tokens), (5, 2));
        let line = Line::try_parse_from(["x", "--params", r#"{"stop": "a\nb", "seed": 3}"#, "-n", "2"]);
        let flags = line.expect("a line").flags;
        assert_eq!(flags.params(&Map::new()).expect("parameters").stop, ["a\nb"]);
        assert_eq!(flags.given("seed").expect("JSON"), Some(3.into()));
        assert_eq!(flags.given_among(&["seed", "n", "top_p"]).expect("JSON"), ["--n", "seed"]);
    }

    #[test]
    fn escapes_are_understood_in_flags_and_in_no_json() {
        let stop = |arguments: &[&str]| {
            let line = Line::try_parse_from([&["x"], arguments].concat());
            line.map(|line| line.flags.params(&Map::new()).expect("parameters").stop)
        };
        assert_eq!(stop(&["--stop", r"\n\n", "--stop", r"a\tb\\n"]).expect("escapes"), ["\n\n", "a\tb\\n"]);
        assert_eq!(stop(&["--stop", r#"["\n", "\\n"]"#]).expect("JSON"), ["\n", "\\n"]);
        assert_eq!(stop(&["--params", r#"{"stop": "\\n"}"#]).expect("JSON"), ["\\n"]);
        let error = stop(&["--stop", r"\d"]).expect_err("no escape").to_string();
        assert!(error.contains(r"--stop: `\d` is not an escape"), "{error}");
    }

    #[test]
    fn strings_are_what_was_written() {
        let stop = |text: &str| {
            let line = Line::try_parse_from(["x", "--stop", text]).expect(text);
            line.flags.params(&Map::new()).expect(text).stop
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
        assert_eq!(order("--top-p 2"), Err("--top-p: must be in [0, 1], not 2".to_owned()));
    }

    #[test]
    fn errors_name_the_flag() {
        assert_eq!(params("--top-p 2", None, "{}"), Err("--top-p: must be in [0, 1], not 2".to_owned()));
        let message = params("--temperature warm", None, "{}").expect_err("an error");
        assert!(message.starts_with("--temperature: "), "{message}");
        assert!(Line::try_parse_from(["x", "--preset", "wild"]).is_err());
        let error = params("--params {\"top_p\":2}", None, "{}").expect_err("an error");
        assert_eq!(error, "top_p: must be in [0, 1], not 2");
        assert_eq!(params("--params [{}]", None, "{}"), Err("params: must be a JSON object".to_owned()));
    }
}
