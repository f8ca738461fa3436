//! The parameters of a sequence. Their names are vLLM's, in JSON and in Rust alike.
//!
//! - `table`: every parameter with its default and what it does, once.  `modes`: the values of some of them.
//! - `chain`: the stages and their order.  `custom`: stages of the user's own.  `names`: the names of the
//!   built-in stages.  `stage_fields`: which parameters belong to which stage.
//! - `validate`: which values are allowed.  `read`, `json`, `seed`: reading them.  `error`: the error of a
//!   parameter.
//!   `words`, `suggest`: what is wrong with a value, and which name was meant, in a user's words.
//! - `presets`: four named settings.  `import`: settings of other systems.

pub mod chain;
pub mod custom;
pub mod error;
pub mod import;
pub mod json;
pub mod modes;
mod names;
pub mod presets;
mod read;
pub mod seed;
pub mod stage_fields;
pub mod suggest;
pub mod table;
mod validate;
mod words;

use serde::{Deserialize, Serialize};

pub use crate::params::modes::{KeptMode, LogprobsMode, PenaltyScope};

use crate::numeric::float_mode::Standard;
use crate::params::error::ParamError;

/// Below this temperature a draw is greedy.
pub const GREEDY_BELOW: f64 = 1e-5;
/// The highest temperature that is allowed.
pub const MAX_TEMPERATURE: f64 = 1e6;
/// The most sequences of one prompt. Each of them keeps a history in memory.
pub const MAX_SEQUENCES: u32 = 65_536;
/// The most tokens that one of `dry_sequence_breakers` may have.
pub const MAX_BREAKER: usize = 20;

macro_rules! sampling_params {
    ($($(#[$attribute:meta])* $name:ident: $type:ty = $default:expr, $group:ident, $help:literal $(, $details:literal)?;)*) => {
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
            $(
                #[doc = $help]
                $(#[doc = ""] #[doc = $details])?
                $(#[$attribute])*
                pub $name: $type,
            )*
        }

        impl Default for SamplingParams {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl SamplingParamsBuilder {
            $(
                #[doc = concat!("Sets [`SamplingParams::", stringify!($name), "`].")]
                pub fn $name(mut self, $name: impl Into<$type>) -> Self {
                    self.0.$name = $name.into();
                    self
                }
            )*
        }
    };
}
crate::__parameters!(sampling_params);

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

    /// Whether a draw of a batch says with which probability it came to its token: where `probability` is set,
    /// or logprobs of the distribution that is drawn from, which need the same sum.
    pub fn tells_probability(&self) -> bool {
        self.probability || self.logprobs.is_some() && !self.logprobs_mode.is_raw()
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
            let field = if path == "." { "params".to_owned() } else { words::shortened(&path) };
            ParamError::new(field, words::in_words(&error.inner().to_string()))
        })
    }
}

/// Sets parameters one by one. Made by [`SamplingParams::builder`].
#[derive(Clone, Debug, Default)]
pub struct SamplingParamsBuilder(SamplingParams);

impl SamplingParamsBuilder {
    /// Checks the values and returns the parameters; see [`SamplingParams::validate`].
    pub fn build(self) -> Result<SamplingParams, ParamError> {
        self.0.validate()?;
        Ok(self.0)
    }
}
