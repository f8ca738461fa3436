//! The ways to verify a draft, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::params::error::ParamError;

/// How guesses are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verify {
    /// By the target's own draw: the text does not depend on the drafter.
    #[default]
    Exact,
    /// Token by token, by rejection: other tokens than plain decoding, from the same distribution.
    Rejection,
    /// A chain as a whole: the same distribution, and never fewer accepted tokens on average than
    /// [`Verify::Rejection`].
    Block,
    /// Guesses that are likely enough are accepted: another distribution than the target's.
    Typical(Typical),
}

/// When [`Verify::Typical`] accepts a guess: if its probability is above min(`threshold`, `alpha`·exp(−H)),
/// where H is the entropy of the target's distribution in nats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Typical {
    /// A guess with a probability above this is always accepted.
    pub threshold: f64,
    /// The factor of exp(−H). Where n tokens are equally likely, exp(−H) is the probability 1/n of each.
    pub alpha: f64,
}

impl Default for Typical {
    fn default() -> Self {
        Self { threshold: 0.3, alpha: 0.09 }
    }
}

impl Verify {
    /// Every mode, with its default settings.
    pub const ALL: [Verify; 4] =
        [Self::Exact, Self::Rejection, Self::Block, Self::Typical(Typical { threshold: 0.3, alpha: 0.09 })];

    /// The name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Rejection => "rejection",
            Self::Block => "block",
            Self::Typical(_) => "typical",
        }
    }

    /// The mode of that name, with its default settings; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verify| verify.name() == name)
    }
}

impl fmt::Display for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Verify {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Self::from_name(name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            ParamError::new("verify", format!("must be one of {names}, not {name:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for verify in Verify::ALL {
            assert_eq!(
                (verify.to_string().parse(), Verify::from_name(verify.name())),
                (Ok(verify), Some(verify))
            );
            let json = serde_json::to_string(&verify).expect("JSON");
            assert_eq!(serde_json::from_str::<Verify>(&json).expect("a way"), verify);
        }
        assert_eq!(serde_json::to_string(&Verify::Block).expect("JSON"), "\"block\"");
        let typical = serde_json::from_str::<Verify>(r#"{"typical": {"alpha": 0.5}}"#).expect("a way");
        assert_eq!(typical, Verify::Typical(Typical { threshold: 0.3, alpha: 0.5 }));
        assert_eq!(Verify::ALL[3], Verify::Typical(Typical::default()));
        let error = "greedy".parse::<Verify>().expect_err("no way").to_string();
        assert_eq!(error, "verify: must be one of exact, rejection, block, typical, not \"greedy\"");
    }
}
