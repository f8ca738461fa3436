//! What a caller may ask for. Names are vLLM's, in JSON and in Rust alike.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::chain::{Order, Stage};
use crate::error::ParamError;
use crate::float_mode::Standard;

/// Below this temperature the draw is greedy.
pub const GREEDY_BELOW: f64 = 1e-5;
/// The highest temperature.
pub const MAX_TEMPERATURE: f64 = 1e6;
/// The most sequences of one prompt; each has a history of its own in memory.
pub const MAX_SEQUENCES: u32 = 65_536;

/// Every parameter of a sequence. [`Default`] samples from the plain softmax.
///
/// In JSON an absent name takes its default and an unknown name is an error. Values are checked when a
/// [`Sampler`](crate::Sampler) or [`Plan`](crate::Plan) is made from them, or by [`SamplingParams::validate`].
///
/// ```
/// use onedraw::SamplingParams;
/// let params = SamplingParams::builder().temperature(0.7).top_p(0.9).seed(42).build()?;
/// assert_eq!(params, SamplingParams::from_json(r#"{"temperature": 0.7, "top_p": 0.9, "seed": 42}"#)?);
/// # Ok::<(), onedraw::ParamError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// Divides the logits, 0 to 10^6; below 10^-5 the draw is greedy.
    pub temperature: f64,
    /// Keeps the k best tokens; 0 or −1: off.
    pub top_k: i64,
    /// Keeps the shortest prefix of the order whose mass reaches this share, in (0, 1]; 1: off.
    pub top_p: f64,
    /// Keeps tokens at least this share as likely as the best, in [0, 1]; 0: off.
    pub min_p: f64,
    /// Divides a positive logit and multiplies another, once for each token seen in prompt or output; above 0.
    pub repetition_penalty: f64,
    /// Subtracted once for each time a token was seen in the output.
    pub frequency_penalty: f64,
    /// Subtracted once if a token was seen in the output.
    pub presence_penalty: f64,
    /// Penalties look at the last so many tokens of prompt and output; 0: at all.
    pub penalty_window: u32,
    /// Whether frequency and presence penalty count the output alone, or the prompt too.
    pub penalty_scope: PenaltyScope,
    /// Added to single logits.
    #[serde(deserialize_with = "biases")]
    pub logit_bias: BTreeMap<u32, f64>,
    /// If set, only these may be drawn.
    pub allowed_token_ids: Option<Vec<u32>>,
    /// Token sequences that must not appear in the output.
    pub bad_words_ids: Vec<Vec<u32>>,
    /// EOS and stop ids are masked until so many tokens are written.
    pub min_tokens: u32,
    /// Generation ends after so many tokens.
    pub max_tokens: u32,
    /// Generation ends where one of these appears in the text. One string or a list.
    #[serde(deserialize_with = "strings")]
    pub stop: Vec<String>,
    /// Generation ends when one of these is drawn.
    pub stop_token_ids: Vec<u32>,
    /// Whether generation goes on after EOS.
    pub ignore_eos: bool,
    /// Whether the stop string stays in the text.
    pub include_stop_str_in_output: bool,
    /// The end-of-sequence ids. One id or a list.
    #[serde(deserialize_with = "ids")]
    pub eos_token_id: Vec<u32>,
    /// Names the noise; none or −1: drawn from the system and reported with the result.
    #[serde(deserialize_with = "seed_or_minus_one")]
    pub seed: Option<u64>,
    /// How many sequences to draw from one prompt, 1 to 65,536.
    pub n: u32,
    /// Report the drawn token's logprob and the best so many; 0: the drawn token alone, −1: all.
    pub logprobs: Option<i64>,
    /// What the reported numbers are taken from.
    pub logprobs_mode: LogprobsMode,
    /// As `logprobs`, for each token of the prompt.
    pub prompt_logprobs: Option<i64>,
    /// Phrases that must not appear in the text; checked here, acted upon by a decode loop.
    pub banned_strings: Vec<String>,
    /// The prompt, for penalties.
    pub prompt_token_ids: Vec<u32>,
    /// The tokens written so far; their number is the position of the next draw.
    pub output_token_ids: Vec<u32>,
    /// The order of the stages; unset: vLLM's. A name or a list of stage names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// What frequency and presence penalty count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PenaltyScope {
    /// The output.
    #[default]
    Output,
    /// Prompt and output.
    All,
}

/// What reported logprobs are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogprobsMode {
    /// The softmax of the row as it came, before any edit.
    #[default]
    RawLogprobs,
    /// The row as it came.
    RawLogits,
    /// The distribution that is drawn from.
    ProcessedLogprobs,
    /// The row after all edits and the temperature; −inf where a token was removed.
    ProcessedLogits,
}

impl LogprobsMode {
    /// Every mode.
    pub const ALL: [LogprobsMode; 4] =
        [Self::RawLogprobs, Self::RawLogits, Self::ProcessedLogprobs, Self::ProcessedLogits];

    /// The name, as it stands in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::RawLogprobs => "raw_logprobs",
            Self::RawLogits => "raw_logits",
            Self::ProcessedLogprobs => "processed_logprobs",
            Self::ProcessedLogits => "processed_logits",
        }
    }

    /// Whether the numbers come from the row as it came.
    pub fn is_raw(self) -> bool {
        matches!(self, Self::RawLogprobs | Self::RawLogits)
    }

    /// Whether the numbers are logits.
    pub fn is_logits(self) -> bool {
        matches!(self, Self::RawLogits | Self::ProcessedLogits)
    }
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_window: 0,
            penalty_scope: PenaltyScope::Output,
            logit_bias: BTreeMap::new(),
            allowed_token_ids: None,
            bad_words_ids: Vec::new(),
            min_tokens: 0,
            max_tokens: 16,
            stop: Vec::new(),
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            include_stop_str_in_output: false,
            eos_token_id: Vec::new(),
            seed: None,
            n: 1,
            logprobs: None,
            logprobs_mode: LogprobsMode::RawLogprobs,
            prompt_logprobs: None,
            banned_strings: Vec::new(),
            prompt_token_ids: Vec::new(),
            output_token_ids: Vec::new(),
            order: None,
        }
    }
}

impl SamplingParams {
    /// Starts from the defaults.
    pub fn builder() -> SamplingParamsBuilder {
        SamplingParamsBuilder::default()
    }

    /// Reads and checks one JSON object. Every error names its field.
    pub fn from_json(text: &str) -> Result<Self, ParamError> {
        // Reading a decimal number rounds.
        let _mode = Standard::enter();
        Self::from_value(crate::json::parse(text)?)
    }

    /// As [`SamplingParams::from_json`], from a parsed value.
    pub fn from_value(value: serde_json::Value) -> Result<Self, ParamError> {
        if !value.is_object() {
            return Err(ParamError::new("params", "must be a JSON object"));
        }
        let params: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { "params".to_owned() } else { path };
            ParamError::new(field, error.inner().to_string())
        })?;
        params.validate()?;
        Ok(params)
    }

    /// Checks every value that can be checked without a row.
    pub fn validate(&self) -> Result<(), ParamError> {
        let _mode = Standard::enter();
        let number = |field: &str, value: f64, low: f64, high: f64| {
            if value >= low && value <= high {
                return Ok(());
            }
            Err(ParamError::new(field, format!("must be in [{low}, {high}], not {value}")))
        };
        let finite = |field: &str, value: f64| {
            // Compared after rounding: edits are f32 operations.
            if (value as f32).is_finite() {
                return Ok(());
            }
            Err(ParamError::new(field, format!("must be a finite 32-bit number, not {value:?}")))
        };
        number("temperature", self.temperature, 0.0, MAX_TEMPERATURE)?;
        if self.top_k < -1 {
            return Err(ParamError::new(
                "top_k",
                format!("must be at least 1, or 0 or -1 for off, not {}", self.top_k),
            ));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(ParamError::new("top_p", format!("must be in (0, 1], not {}", self.top_p)));
        }
        number("min_p", self.min_p, 0.0, 1.0)?;
        finite("repetition_penalty", self.repetition_penalty)?;
        if self.repetition_penalty as f32 <= 0.0 {
            let message = format!("must be above 0, not {}", self.repetition_penalty);
            return Err(ParamError::new("repetition_penalty", message));
        }
        finite("frequency_penalty", self.frequency_penalty)?;
        finite("presence_penalty", self.presence_penalty)?;
        for (token, &bias) in &self.logit_bias {
            finite(&format!("logit_bias.{token}"), bias)?;
        }
        if self.allowed_token_ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(ParamError::new("allowed_token_ids", "must not be empty; leave it out to allow all"));
        }
        if let Some(i) = self.bad_words_ids.iter().position(Vec::is_empty) {
            return Err(ParamError::new(format!("bad_words_ids[{i}]"), "must hold at least one token id"));
        }
        if self.max_tokens == 0 {
            return Err(ParamError::new("max_tokens", "must be at least 1, not 0"));
        }
        if self.min_tokens > self.max_tokens {
            let message =
                format!("must be at most max_tokens ({}), not {}", self.max_tokens, self.min_tokens);
            return Err(ParamError::new("min_tokens", message));
        }
        for (field, strings) in [("stop", &self.stop), ("banned_strings", &self.banned_strings)] {
            if let Some(i) = strings.iter().position(String::is_empty) {
                return Err(ParamError::new(format!("{field}[{i}]"), "must not be an empty string"));
            }
        }
        if !(1..=MAX_SEQUENCES).contains(&self.n) {
            return Err(ParamError::new("n", format!("must be in [1, {MAX_SEQUENCES}], not {}", self.n)));
        }
        for (field, count) in [("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)] {
            if let Some(count) = count.filter(|&count| count < -1) {
                return Err(ParamError::new(
                    field,
                    format!("must be at least 0, or -1 for all, not {count}"),
                ));
            }
        }
        self.validate_order()
    }

    /// A parameter whose stage the order leaves out would be ignored without a word.
    fn validate_order(&self) -> Result<(), ParamError> {
        let Some(order) = &self.order else { return Ok(()) };
        let default = Self::default();
        let set: [(&str, Stage, bool); 13] = [
            ("allowed_token_ids", Stage::Allowed, self.allowed_token_ids.is_some()),
            ("bad_words_ids", Stage::BadWords, !self.bad_words_ids.is_empty()),
            ("min_tokens", Stage::MinTokens, self.min_tokens > 0),
            ("logit_bias", Stage::LogitBias, !self.logit_bias.is_empty()),
            ("repetition_penalty", Stage::Penalties, self.repetition_penalty != default.repetition_penalty),
            ("frequency_penalty", Stage::Penalties, self.frequency_penalty != default.frequency_penalty),
            ("presence_penalty", Stage::Penalties, self.presence_penalty != default.presence_penalty),
            ("penalty_window", Stage::Penalties, self.penalty_window != default.penalty_window),
            ("penalty_scope", Stage::Penalties, self.penalty_scope != default.penalty_scope),
            ("temperature", Stage::Temperature, self.temperature != default.temperature),
            ("min_p", Stage::MinP, self.min_p != default.min_p),
            ("top_k", Stage::TopK, self.top_k > 0),
            ("top_p", Stage::TopP, self.top_p != default.top_p),
        ];
        if let Some((field, stage, _)) = set.iter().find(|(_, stage, is_set)| *is_set && !order.names(*stage))
        {
            let message = format!("is set, but the order does not name its stage {}", stage.name());
            return Err(ParamError::new(*field, message));
        }
        // A stage that stands twice divides twice; the product of all must stay a number to divide by.
        let times = order.stages().iter().filter(|&&stage| stage == Stage::Temperature).count();
        let product = (0..times).fold(1.0, |product, _| product * self.temperature);
        if self.temperature >= GREEDY_BELOW && !(1e-30..=1e30).contains(&product) {
            let message =
                format!("names temperature {times} times; together they may divide by 1e-30 to 1e30");
            return Err(ParamError::new("order", message));
        }
        Ok(())
    }
}

/// Sets parameters one by one; made by [`SamplingParams::builder`].
#[derive(Clone, Debug, Default)]
pub struct SamplingParamsBuilder(SamplingParams);

macro_rules! setters {
    ($($field:ident: $type:ty,)*) => {
        impl SamplingParamsBuilder {
            $(
                #[doc = concat!("Sets [`SamplingParams::", stringify!($field), "`].")]
                pub fn $field(mut self, $field: impl Into<$type>) -> Self {
                    self.0.$field = $field.into();
                    self
                }
            )*
        }
    };
}

setters! {
    temperature: f64, top_k: i64, top_p: f64, min_p: f64,
    repetition_penalty: f64, frequency_penalty: f64, presence_penalty: f64,
    penalty_window: u32, penalty_scope: PenaltyScope,
    logit_bias: BTreeMap<u32, f64>, allowed_token_ids: Option<Vec<u32>>, bad_words_ids: Vec<Vec<u32>>,
    min_tokens: u32, max_tokens: u32, stop: Vec<String>, stop_token_ids: Vec<u32>,
    ignore_eos: bool, include_stop_str_in_output: bool, eos_token_id: Vec<u32>,
    seed: Option<u64>, n: u32, logprobs: Option<i64>, logprobs_mode: LogprobsMode, prompt_logprobs: Option<i64>,
    banned_strings: Vec<String>, prompt_token_ids: Vec<u32>, output_token_ids: Vec<u32>, order: Option<Order>,
}

impl SamplingParamsBuilder {
    /// Checks the values and hands them out.
    pub fn build(self) -> Result<SamplingParams, ParamError> {
        self.0.validate()?;
        Ok(self.0)
    }
}

macro_rules! one_or_many {
    ($name:ident, $type:ty, $expecting:literal) => {
        fn $name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<$type>, D::Error> {
            #[derive(Deserialize)]
            #[serde(untagged, expecting = $expecting)]
            enum Form {
                Many(Vec<$type>),
                One($type),
                Null,
            }
            Ok(match Form::deserialize(deserializer)? {
                Form::Many(values) => values,
                Form::One(value) => vec![value],
                Form::Null => Vec::new(),
            })
        }
    };
}

one_or_many!(strings, String, "expected a string or a list of strings");
one_or_many!(ids, u32, "expected a token id or a list of token ids");

/// JSON's keys are strings; each must be the id of another token.
fn biases<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u32, f64>, D::Error> {
    let mut biases = BTreeMap::new();
    for (key, bias) in BTreeMap::<String, f64>::deserialize(deserializer)? {
        let error = |what| serde::de::Error::custom(format!("the key `{key}` {what}"));
        let token = key.parse().map_err(|_| error("is not a token id"))?;
        if biases.insert(token, bias).is_some() {
            return Err(error("names a token that another key names too"));
        }
    }
    Ok(biases)
}

fn seed_or_minus_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected 0 to 2^64-1, or -1 or null for a seed from the system")]
    enum Form {
        Seed(u64),
        Minus(i64),
        Null,
    }
    match Form::deserialize(deserializer)? {
        Form::Seed(seed) => Ok(Some(seed)),
        Form::Minus(-1) | Form::Null => Ok(None),
        Form::Minus(other) => {
            Err(serde::de::Error::custom(format!("must be 0 to 2^64-1, or -1, not {other}")))
        }
    }
}
