//! The order of the stages. A chain is data: an ordered list of stage names, nothing more.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::ParamError;

/// One stage of the pipeline.
///
/// Two kinds exist and everything else follows from them: an **edit** changes logits, a **truncation** keeps a
/// subset. Temperature stands between: it is a factor, so it never reorders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Keep only `allowed_token_ids`, and what a grammar's mask allows.
    Allowed,
    /// Ban the last id of each of `bad_words_ids` whose other ids end the output.
    BadWords,
    /// Mask EOS and stop ids until `min_tokens` are written.
    MinTokens,
    /// Add `logit_bias`.
    LogitBias,
    /// Repetition, then frequency, then presence penalty.
    Penalties,
    /// Divide by `temperature`.
    Temperature,
    /// Keep what is at least `min_p` times as likely as the best.
    MinP,
    /// Keep the `top_k` best.
    TopK,
    /// Keep the shortest prefix whose mass reaches `top_p`.
    TopP,
}

impl Stage {
    /// Every stage, in the default order.
    pub const ALL: [Stage; 9] = [
        Stage::Allowed,
        Stage::BadWords,
        Stage::MinTokens,
        Stage::LogitBias,
        Stage::Penalties,
        Stage::Temperature,
        Stage::MinP,
        Stage::TopK,
        Stage::TopP,
    ];

    /// The name used in orders and messages.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Allowed => "allowed",
            Stage::BadWords => "bad_words",
            Stage::MinTokens => "min_tokens",
            Stage::LogitBias => "logit_bias",
            Stage::Penalties => "penalties",
            Stage::Temperature => "temperature",
            Stage::MinP => "min_p",
            Stage::TopK => "top_k",
            Stage::TopP => "top_p",
        }
    }
}

impl FromStr for Stage {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| {
            let known: Vec<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
            ParamError::new("order", format!("`{name}` is not a stage; the stages are {}", known.join(", ")))
        })
    }
}

/// An ordered list of stages: one of the named orders, or any list. A stage may stand twice.
///
/// ```
/// use onedraw::Order;
/// assert_eq!("top_k,temperature".parse::<Order>()?.stages().len(), 2);
/// assert_eq!(Order::default(), Order::vllm());
/// # Ok::<(), onedraw::ParamError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(Vec<Stage>);

impl Order {
    /// vLLM's order, the default: edits, temperature, min-p, top-k, top-p.
    pub fn vllm() -> Self {
        Self(Stage::ALL.to_vec())
    }

    /// Hugging Face's order: masks after penalties, min-p after top-p.
    pub fn huggingface() -> Self {
        use Stage::*;
        Self(vec![LogitBias, Penalties, BadWords, MinTokens, Allowed, Temperature, TopK, TopP, MinP])
    }

    /// llama.cpp's order: temperature last.
    pub fn llama_cpp() -> Self {
        use Stage::*;
        Self(vec![Allowed, BadWords, MinTokens, LogitBias, Penalties, TopK, TopP, MinP, Temperature])
    }

    /// Any list of stages.
    pub fn of(stages: impl Into<Vec<Stage>>) -> Self {
        Self(stages.into())
    }

    /// The stages, first to last.
    pub fn stages(&self) -> &[Stage] {
        &self.0
    }

    /// Whether the order names `stage`.
    pub fn names(&self, stage: Stage) -> bool {
        self.0.contains(&stage)
    }
}

impl Default for Order {
    fn default() -> Self {
        Self::vllm()
    }
}

impl FromStr for Order {
    type Err = ParamError;

    /// A named order, or stage names with commas between them.
    fn from_str(text: &str) -> Result<Self, ParamError> {
        match text.trim() {
            "vllm" => Ok(Self::vllm()),
            "huggingface" => Ok(Self::huggingface()),
            "llama.cpp" => Ok(Self::llama_cpp()),
            "" => Ok(Self(Vec::new())),
            list => list.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Self),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, stage) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, stage.name())?;
        }
        Ok(())
    }
}

impl Serialize for Order {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|stage| stage.name()))
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected an order's name or a list of stage names")]
        enum Form {
            Name(String),
            List(Vec<String>),
        }
        let parsed = match Form::deserialize(deserializer)? {
            Form::Name(name) => name.parse(),
            Form::List(names) => names.iter().map(|name| name.parse()).collect::<Result<_, _>>().map(Order),
        };
        parsed.map_err(|error: ParamError| serde::de::Error::custom(error.message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for stage in Stage::ALL {
            assert_eq!(stage.name().parse::<Stage>(), Ok(stage));
        }
        let order = Order::llama_cpp();
        assert_eq!(order.to_string().parse::<Order>(), Ok(order.clone()));
        let json = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&json).unwrap(), order);
        assert_eq!(serde_json::from_str::<Order>("\"llama.cpp\"").unwrap(), order);
    }

    #[test]
    fn an_unknown_stage_is_named() {
        let error = "top_k,nucleus".parse::<Order>().unwrap_err();
        assert_eq!(error.field(), "order");
        assert!(
            error.message().starts_with("`nucleus` is not a stage; the stages are allowed, bad_words"),
            "{error}"
        );
    }
}
