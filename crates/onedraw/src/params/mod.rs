//! What a caller may ask for. Names are vLLM's, in JSON and in Rust alike.

pub mod chain;
pub mod custom;
pub mod error;
pub mod import;
pub mod json;
mod names;
pub mod presets;
mod read;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::numeric::float_mode::Standard;
use crate::params::chain::Order;
use crate::params::error::ParamError;

/// Below this temperature the draw is greedy.
pub const GREEDY_BELOW: f64 = 1e-5;
/// The highest temperature.
pub const MAX_TEMPERATURE: f64 = 1e6;
/// The most sequences of one prompt; each has a history of its own in memory.
pub const MAX_SEQUENCES: u32 = 65_536;
/// The most tokens of one of `dry_sequence_breakers`.
pub const MAX_BREAKER: usize = 20;

/// Every parameter of a sequence. [`Default`] samples from the plain softmax.
///
/// In JSON an absent name takes its default and an unknown name is an error. Values are checked when a
/// [`Sampler`](crate::Sampler) or [`Plan`](crate::Plan) is made from them, or by
/// [`SamplingParams::validate`].
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
    /// Divides a positive logit and multiplies another, once for each token seen in prompt or output; above
    /// 0.
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
    #[serde(deserialize_with = "read::biases")]
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
    #[serde(deserialize_with = "read::strings")]
    pub stop: Vec<String>,
    /// Generation ends when one of these is drawn.
    pub stop_token_ids: Vec<u32>,
    /// Whether generation goes on after EOS.
    pub ignore_eos: bool,
    /// Whether the stop string stays in the text.
    pub include_stop_str_in_output: bool,
    /// The end-of-sequence ids. One id or a list.
    #[serde(deserialize_with = "read::ids")]
    pub eos_token_id: Vec<u32>,
    /// Names the noise; none or −1: drawn from the system and reported with the result.
    #[serde(deserialize_with = "read::seed_or_minus_one")]
    pub seed: Option<u64>,
    /// How many sequences to draw from one prompt, 1 to 65,536.
    pub n: u32,
    /// Report the drawn token's logprob and the best so many; 0: the drawn token alone, −1: all.
    pub logprobs: Option<i64>,
    /// What the reported numbers are taken from.
    pub logprobs_mode: LogprobsMode,
    /// As `logprobs`, for each token of the prompt.
    pub prompt_logprobs: Option<i64>,
    /// Phrases that must not appear in the text: a [`StopMatcher`](crate::StopMatcher) finds them, and a
    /// decode loop takes them back.
    pub banned_strings: Vec<String>,
    /// The prompt, for penalties.
    pub prompt_token_ids: Vec<u32>,
    /// The tokens written so far; their number is the position of the next draw.
    pub output_token_ids: Vec<u32>,
    /// Keeps the tokens whose surprise is nearest to the entropy, up to this share of the mass, in (0, 1]; 1:
    /// off.
    pub typical_p: f64,
    /// Keeps logits within so many standard deviations of the best; 0: off.
    pub top_n_sigma: f64,
    /// Keeps tokens at least this likely, in [0, 1]; 0: off.
    pub epsilon_cutoff: f64,
    /// Keeps tokens at least `min(e, sqrt(e)·exp(−H))` likely, H the entropy, in [0, 1]; 0: off.
    pub eta_cutoff: f64,
    /// Keeps tokens at least `top_a` times the square of the best probability likely, in [0, 1]; 0: off.
    pub top_a: f64,
    /// How often XTC removes all but the least likely of the tokens above its threshold, in [0, 1]; 0: off.
    pub xtc_probability: f64,
    /// The probability from which a token is a top choice to XTC, in [0, 1].
    pub xtc_threshold: f64,
    /// Tokens that XTC never removes, such as EOS and newline.
    pub xtc_protected_token_ids: Vec<u32>,
    /// Mirostat's version, 1 or 2; 0: off.
    pub mirostat: u8,
    /// The surprise that mirostat aims at, in bits.
    pub mirostat_tau: f64,
    /// How fast mirostat learns.
    pub mirostat_eta: f64,
    /// Where mirostat stands, in bits: part of the history, as `output_token_ids` is. Unset: twice
    /// `mirostat_tau`.
    pub mirostat_mu: Option<f64>,
    /// How far the temperature may go from `temperature`, down where the entropy is low, up where it is high;
    /// 0: not at all.
    pub dynatemp_range: f64,
    /// The power of the entropy's share that sets the temperature.
    pub dynatemp_exponent: f64,
    /// The strength of quadratic smoothing; 0: off.
    pub smoothing_factor: f64,
    /// The share of a cubic term in the smoothing, 1 (none) to 3.
    pub smoothing_curve: f64,
    /// The strength of DRY, which penalises a token that would go on with a repetition; 0: off.
    pub dry_multiplier: f64,
    /// DRY's penalty grows by this factor with each token of the repetition; at least 1.
    pub dry_base: f64,
    /// Repetitions shorter than this are not penalised.
    pub dry_allowed_length: u32,
    /// DRY looks at the last so many tokens of prompt and output; 0: at all.
    pub dry_penalty_last_n: u32,
    /// Token sequences, of 20 tokens at most, over which DRY sees no repetition.
    pub dry_sequence_breakers: Vec<Vec<u32>>,
    /// No sequence of so many tokens appears twice in prompt and output; 0: off.
    pub no_repeat_ngram_size: u32,
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
            typical_p: 1.0,
            top_n_sigma: 0.0,
            epsilon_cutoff: 0.0,
            eta_cutoff: 0.0,
            top_a: 0.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            xtc_protected_token_ids: Vec::new(),
            mirostat: 0,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            mirostat_mu: None,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            smoothing_factor: 0.0,
            smoothing_curve: 1.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_penalty_last_n: 0,
            dry_sequence_breakers: Vec::new(),
            no_repeat_ngram_size: 0,
            order: None,
        }
    }
}

impl SamplingParams {
    /// The same without what shapes a draw: no temperature, no truncation. Edits stay.
    pub(crate) fn without_draw(mut self) -> Self {
        let plain = Self::default();
        (self.temperature, self.dynatemp_range) = (plain.temperature, plain.dynatemp_range);
        (self.top_k, self.top_p, self.min_p, self.typical_p) =
            (plain.top_k, plain.top_p, plain.min_p, plain.typical_p);
        (self.top_n_sigma, self.epsilon_cutoff, self.eta_cutoff, self.top_a) =
            (plain.top_n_sigma, plain.epsilon_cutoff, plain.eta_cutoff, plain.top_a);
        (self.xtc_probability, self.mirostat, self.mirostat_mu) =
            (plain.xtc_probability, plain.mirostat, plain.mirostat_mu);
        self
    }

    /// Starts from the defaults.
    pub fn builder() -> SamplingParamsBuilder {
        SamplingParamsBuilder::default()
    }

    /// Reads and checks one JSON object. Every error names its field.
    pub fn from_json(text: &str) -> Result<Self, ParamError> {
        // Reading a decimal number rounds.
        let _mode = Standard::enter();
        Self::from_value(crate::params::json::parse(text)?)
    }

    /// As [`SamplingParams::from_json`], from a parsed value.
    pub fn from_value(value: serde_json::Value) -> Result<Self, ParamError> {
        if !value.is_object() {
            return Err(ParamError::new("params", "must be a JSON object"));
        }
        let params = Self::from_deserializer(value)?;
        params.validate()?;
        Ok(params)
    }

    /// Reads any form that serde can read, such as another language's objects. Every error names its field;
    /// the values are still to be [checked](SamplingParams::validate).
    pub fn from_deserializer<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, ParamError> {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { "params".to_owned() } else { path };
            ParamError::new(field, error.inner().to_string())
        })
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
    banned_strings: Vec<String>, prompt_token_ids: Vec<u32>, output_token_ids: Vec<u32>,
    typical_p: f64, top_n_sigma: f64, epsilon_cutoff: f64, eta_cutoff: f64, top_a: f64,
    xtc_probability: f64, xtc_threshold: f64, xtc_protected_token_ids: Vec<u32>,
    mirostat: u8, mirostat_tau: f64, mirostat_eta: f64, mirostat_mu: Option<f64>,
    dynatemp_range: f64, dynatemp_exponent: f64, smoothing_factor: f64, smoothing_curve: f64,
    dry_multiplier: f64, dry_base: f64, dry_allowed_length: u32, dry_penalty_last_n: u32,
    dry_sequence_breakers: Vec<Vec<u32>>, no_repeat_ngram_size: u32, order: Option<Order>,
}

impl SamplingParamsBuilder {
    /// Checks the values and hands them out.
    pub fn build(self) -> Result<SamplingParams, ParamError> {
        self.0.validate()?;
        Ok(self.0)
    }
}
