//! The parameters of a sequence. Their names are vLLM's, in JSON and in Rust alike.
//!
//! - `chain`: the stages and their order.  `custom`: stages of the user's own.  `names`: the names of the
//!   built-in stages.  `stage_fields`: which parameters belong to which stage.
//! - `validate`: which values are allowed.  `read`, `json`: reading them.  `error`: the error of a parameter.
//! - `presets`: four named settings.  `import`: settings of other systems.

pub mod chain;
pub mod custom;
pub mod error;
pub mod import;
pub mod json;
mod names;
pub mod presets;
mod read;
pub mod stage_fields;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::numeric::float_mode::Standard;
use crate::params::chain::Order;
use crate::params::error::ParamError;

/// Below this temperature a draw is greedy.
pub const GREEDY_BELOW: f64 = 1e-5;
/// The highest temperature that is allowed.
pub const MAX_TEMPERATURE: f64 = 1e6;
/// The most sequences of one prompt. Each of them keeps a history in memory.
pub const MAX_SEQUENCES: u32 = 65_536;
/// The most tokens that one of `dry_sequence_breakers` may have.
pub const MAX_BREAKER: usize = 20;

/// Every parameter of a sequence. [`Default`] samples from the plain softmax.
///
/// In JSON a missing name has its default and an unknown name is an error. Values are checked when a
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
    /// Keeps the k best tokens; 0 or −1 turns it off.
    pub top_k: i64,
    /// Keeps the shortest prefix of the order whose mass reaches this share, in (0, 1]; 1 turns it off.
    pub top_p: f64,
    /// Keeps tokens that are at least this many times as likely as the best, in [0, 1]; 0 turns it off.
    pub min_p: f64,
    /// Divides a positive logit and multiplies a negative one, once for each token seen in prompt or output;
    /// above 0.
    pub repetition_penalty: f64,
    /// Subtracted from a logit once for each time the token was seen in the output.
    pub frequency_penalty: f64,
    /// Subtracted from a logit once if the token was seen in the output.
    pub presence_penalty: f64,
    /// How many of the last tokens of prompt and output the penalties look at; 0 means all.
    pub penalty_window: u32,
    /// Whether frequency and presence penalty count the output alone, or the prompt too.
    pub penalty_scope: PenaltyScope,
    /// Added to the logits of single tokens.
    #[serde(deserialize_with = "read::biases")]
    pub logit_bias: BTreeMap<u32, f64>,
    /// If set, only these tokens may be drawn.
    pub allowed_token_ids: Option<Vec<u32>>,
    /// Token sequences that must not appear in the output.
    pub bad_words_ids: Vec<Vec<u32>>,
    /// EOS and stop ids are masked until this many tokens are written.
    pub min_tokens: u32,
    /// Generation ends after this many tokens.
    pub max_tokens: u32,
    /// Generation ends where one of these strings appears in the text. One string or a list.
    #[serde(deserialize_with = "read::strings")]
    pub stop: Vec<String>,
    /// Generation ends when one of these ids is drawn.
    pub stop_token_ids: Vec<u32>,
    /// Whether generation goes on after EOS.
    pub ignore_eos: bool,
    /// Whether the stop string stays in the text.
    pub include_stop_str_in_output: bool,
    /// The end-of-sequence ids. One id or a list.
    #[serde(deserialize_with = "read::ids")]
    pub eos_token_id: Vec<u32>,
    /// The seed of the noise. If it is not set, or −1, it is drawn from the system and reported with the
    /// result.
    #[serde(deserialize_with = "read::seed_or_minus_one")]
    pub seed: Option<u64>,
    /// How many sequences to draw from one prompt, 1 to 65,536.
    pub n: u32,
    /// How many of the best tokens to report with their logprobs, beside the drawn token; 0 reports the drawn
    /// token alone, −1 all.
    pub logprobs: Option<i64>,
    /// Which distribution or row the reported numbers are taken from.
    pub logprobs_mode: LogprobsMode,
    /// Like `logprobs`, for each token of the prompt.
    pub prompt_logprobs: Option<i64>,
    /// Phrases that must not appear in the text. A [`StopMatcher`](crate::StopMatcher) finds them, and a
    /// decode loop takes them back.
    pub banned_strings: Vec<String>,
    /// The prompt, for penalties.
    pub prompt_token_ids: Vec<u32>,
    /// The tokens written so far; their number is the position of the next draw.
    pub output_token_ids: Vec<u32>,
    /// Keeps the tokens whose surprise is nearest to the entropy, up to this share of the mass, in (0, 1]; 1
    /// turns it off.
    pub typical_p: f64,
    /// Keeps logits within this many standard deviations of the best; 0 turns it off.
    pub top_n_sigma: f64,
    /// Keeps tokens with at least this probability, in [0, 1]; 0 turns it off.
    pub epsilon_cutoff: f64,
    /// Keeps tokens with a probability of at least `min(e, sqrt(e)·exp(−H))`, where e is this value, in [0,
    /// 1], and H is the entropy; 0 turns it off.
    pub eta_cutoff: f64,
    /// Keeps tokens with a probability of at least `top_a` times the square of the best one's, in [0, 1]; 0
    /// turns it off.
    pub top_a: f64,
    /// The probability with which XTC removes all but the least likely of the tokens above its threshold, in
    /// [0, 1]; 0 turns it off.
    pub xtc_probability: f64,
    /// The probability from which on XTC counts a token as a top choice, in [0, 1].
    pub xtc_threshold: f64,
    /// Tokens that XTC never removes, such as EOS and newline.
    pub xtc_protected_token_ids: Vec<u32>,
    /// Mirostat's version, 1 or 2; 0 turns it off.
    pub mirostat: u8,
    /// The surprise that mirostat aims at, in bits.
    pub mirostat_tau: f64,
    /// Mirostat's learning rate.
    pub mirostat_eta: f64,
    /// Mirostat's state mu, in bits. It is part of the history, as `output_token_ids` is. If it is not set,
    /// it is twice `mirostat_tau`.
    pub mirostat_mu: Option<f64>,
    /// How far the temperature may move from `temperature`: down where the entropy is low, up where it is
    /// high; 0 means not at all.
    pub dynatemp_range: f64,
    /// The exponent that is applied to the entropy, as a share of the highest possible entropy, to set the
    /// temperature.
    pub dynatemp_exponent: f64,
    /// The strength of quadratic smoothing; 0 turns it off.
    pub smoothing_factor: f64,
    /// The share of a cubic term in the smoothing, 1 (none) to 3.
    pub smoothing_curve: f64,
    /// The strength of DRY, which penalises a token that would continue a repetition; 0 turns it off.
    pub dry_multiplier: f64,
    /// DRY's penalty grows by this factor with each token of the repetition; at least 1.
    pub dry_base: f64,
    /// Repetitions shorter than this are not penalised.
    pub dry_allowed_length: u32,
    /// How many of the last tokens of prompt and output DRY looks at; 0 means all.
    pub dry_penalty_last_n: u32,
    /// Token sequences, of at most 20 tokens each, across which DRY sees no repetition.
    pub dry_sequence_breakers: Vec<Vec<u32>>,
    /// No sequence of this many tokens appears twice in prompt and output; 0 turns it off.
    pub no_repeat_ngram_size: u32,
    /// The order of the stages: a name or a list of stage names. If it is not set, it is vLLM's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// Which tokens frequency and presence penalty count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PenaltyScope {
    /// The output only.
    #[default]
    Output,
    /// Prompt and output.
    All,
}

/// What the reported logprobs are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogprobsMode {
    /// The softmax of the unmodified row, before any edit.
    #[default]
    RawLogprobs,
    /// The unmodified row.
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

    /// The name, as it is written in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::RawLogprobs => "raw_logprobs",
            Self::RawLogits => "raw_logits",
            Self::ProcessedLogprobs => "processed_logprobs",
            Self::ProcessedLogits => "processed_logits",
        }
    }

    /// Whether the numbers come from the unmodified row.
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
    /// The same parameters without temperature and truncations. Edits stay.
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

    /// A builder that starts from the defaults.
    pub fn builder() -> SamplingParamsBuilder {
        SamplingParamsBuilder::default()
    }

    /// Reads and checks one JSON object. Every error names its field.
    pub fn from_json(text: &str) -> Result<Self, ParamError> {
        // Reading a decimal number rounds, so it depends on the mode.
        let _mode = Standard::enter();
        Self::from_value(crate::params::json::parse(text)?)
    }

    /// Like [`SamplingParams::from_json`], from a parsed value.
    pub fn from_value(value: serde_json::Value) -> Result<Self, ParamError> {
        if !value.is_object() {
            return Err(ParamError::new("params", "must be a JSON object"));
        }
        let params = Self::from_deserializer(value)?;
        params.validate()?;
        Ok(params)
    }

    /// Reads any format that serde can read, such as the objects of another language. Every error names its
    /// field. The values are not yet [checked](SamplingParams::validate).
    pub fn from_deserializer<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, ParamError> {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { "params".to_owned() } else { path };
            ParamError::new(field, error.inner().to_string())
        })
    }
}

/// Sets parameters one by one. Made by [`SamplingParams::builder`].
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
    /// Checks the values and returns the parameters; see [`SamplingParams::validate`].
    pub fn build(self) -> Result<SamplingParams, ParamError> {
        self.0.validate()?;
        Ok(self.0)
    }
}
