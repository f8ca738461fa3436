//! The order of the stages. A chain is data: an ordered list of stage names, nothing more.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::params::custom::Custom;
use crate::params::error::ParamError;
use crate::params::names::STAGE_NAMES;

/// One stage of the pipeline.
///
/// Two kinds exist and everything else follows from them: an **edit** changes logits, a **truncation** keeps
/// a subset. Temperature stands between: it is a factor, so it never reorders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// Lower what would go on with a repetition (`dry_multiplier`).
    Dry,
    /// Ban what would complete a sequence of `no_repeat_ngram_size` tokens a second time.
    NoRepeatNgram,
    /// Bend the logits around the best (`smoothing_factor`).
    Smoothing,
    /// Divide by `temperature`, or by one that the entropy sets (`dynatemp_range`).
    Temperature,
    /// Keep what is at least `min_p` times as likely as the best.
    MinP,
    /// Keep the `top_k` best.
    TopK,
    /// Keep the shortest prefix whose mass reaches `top_p`.
    TopP,
    /// Keep what is about as surprising as the average (`typical_p`).
    Typical,
    /// Keep logits within `top_n_sigma` standard deviations of the best.
    TopNSigma,
    /// Keep what is at least `epsilon_cutoff` likely.
    Epsilon,
    /// As `Epsilon`, with a bar that falls where the entropy is high (`eta_cutoff`).
    Eta,
    /// Keep what is at least `top_a` times the best probability squared likely.
    TopA,
    /// Now and then, exclude the top choices (`xtc_probability`).
    Xtc,
    /// Keep what holds the surprise near `mirostat_tau`.
    Mirostat,
    /// A user's own.
    Custom(Custom),
}

impl Stage {
    /// Every built-in stage, in the default order.
    pub const ALL: [Stage; 19] = [
        Stage::Allowed,
        Stage::BadWords,
        Stage::MinTokens,
        Stage::LogitBias,
        Stage::Penalties,
        Stage::Dry,
        Stage::NoRepeatNgram,
        Stage::Smoothing,
        Stage::Temperature,
        Stage::MinP,
        Stage::TopK,
        Stage::TopP,
        Stage::Typical,
        Stage::TopNSigma,
        Stage::Epsilon,
        Stage::Eta,
        Stage::TopA,
        Stage::Xtc,
        Stage::Mirostat,
    ];

    /// The name used in orders and messages.
    pub fn name(&self) -> &str {
        match (self, Stage::ALL.iter().position(|stage| stage == self)) {
            (Stage::Custom(custom), _) => custom.name(),
            (_, Some(place)) => STAGE_NAMES[place],
            (_, None) => unreachable!("every built-in stage is in the list of all"),
        }
    }
}

impl FromStr for Stage {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| {
            let known = STAGE_NAMES.join(", ");
            ParamError::new("order", format!("`{name}` is not a stage; the stages are {known}"))
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
    /// vLLM's order, the default: edits, temperature, min-p, top-k, top-p, then what vLLM does not have.
    pub fn vllm() -> Self {
        Self(Stage::ALL.to_vec())
    }

    /// Hugging Face's order: masks after penalties, min-p after top-p.
    pub fn huggingface() -> Self {
        use Stage::*;
        Self(vec![
            LogitBias,
            Penalties,
            NoRepeatNgram,
            BadWords,
            MinTokens,
            Allowed,
            Temperature,
            TopK,
            TopP,
            MinP,
            Typical,
            Epsilon,
            Eta,
        ])
    }

    /// llama.cpp's order: temperature last.
    pub fn llama_cpp() -> Self {
        use Stage::*;
        Self(vec![
            Allowed,
            BadWords,
            MinTokens,
            LogitBias,
            Penalties,
            Dry,
            TopNSigma,
            TopK,
            Typical,
            TopP,
            MinP,
            Xtc,
            Temperature,
        ])
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
    pub fn names(&self, stage: &Stage) -> bool {
        self.0.contains(stage)
    }

    /// The order with `stage` set in before the first `next`.
    pub fn with(mut self, stage: Stage, next: Stage) -> Result<Self, ParamError> {
        let Some(place) = self.0.iter().position(|other| *other == next) else {
            let message = format!("does not name {}, so nothing can stand before it", next.name());
            return Err(ParamError::new("order", message));
        };
        self.0.insert(place, stage);
        Ok(self)
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
        if let Some(Stage::Custom(custom)) = self.0.iter().find(|stage| matches!(stage, Stage::Custom(_))) {
            let message = format!("the stage {} is a user's own and cannot be written", custom.name());
            return Err(serde::ser::Error::custom(message));
        }
        serializer.collect_seq(self.0.iter().map(Stage::name))
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
            assert_eq!(stage.name().parse::<Stage>(), Ok(stage.clone()));
        }
        let order = Order::llama_cpp();
        assert_eq!(order.to_string().parse::<Order>(), Ok(order.clone()));
        let json = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&json).unwrap(), order);
        assert_eq!(serde_json::from_str::<Order>("\"llama.cpp\"").unwrap(), order);
    }

    #[test]
    fn a_users_stage_stands_where_it_is_set_and_has_no_json() {
        let keep_all =
            |_: &crate::params::custom::View<'_>| Ok(crate::params::custom::Keep::AllBut(Vec::new()));
        let own = Stage::Custom(Custom::truncation("own", keep_all).unwrap());
        let order = Order::of([Stage::TopK, Stage::TopP]).with(own.clone(), Stage::TopP).unwrap();
        assert_eq!((order.to_string().as_str(), order.names(&own)), ("top_k,own,top_p", true));
        let again = Stage::Custom(Custom::truncation("own", keep_all).unwrap());
        assert!(!order.names(&again), "another stage, though its name is the same");
        let error = serde_json::to_string(&order).unwrap_err().to_string();
        assert_eq!(error, "the stage own is a user's own and cannot be written");
        let error = Order::of([Stage::TopK]).with(own, Stage::TopP).unwrap_err().to_string();
        assert_eq!(error, "order: does not name top_p, so nothing can stand before it");
        for name in ["", "a,b", "top_k"] {
            assert_eq!(Custom::truncation(name, keep_all).unwrap_err().field(), "order");
        }
    }

    #[test]
    fn the_named_orders_are_the_published_ones() {
        assert_eq!(
            Order::vllm().to_string(),
            "allowed,bad_words,min_tokens,logit_bias,penalties,dry,no_repeat_ngram,smoothing,temperature,min_p,top_k,top_p,\
             typical,top_n_sigma,epsilon,eta,top_a,xtc,mirostat"
        );
        assert_eq!(
            Order::huggingface().to_string(),
            "logit_bias,penalties,no_repeat_ngram,bad_words,min_tokens,allowed,temperature,top_k,top_p,min_p,typical,epsilon,eta"
        );
        assert_eq!(
            Order::llama_cpp().to_string(),
            "allowed,bad_words,min_tokens,logit_bias,penalties,dry,top_n_sigma,top_k,typical,top_p,min_p,xtc,temperature"
        );
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
