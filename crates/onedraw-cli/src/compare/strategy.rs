//! The strategies that are compared, and how a user writes one: `name:JSON`.

use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use onedraw::beam::{BeamParams, BeamStyle};
use onedraw::suggest::nearest;
use onedraw::{Contrast, SamplingParams};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::flags::parameters::ParameterFlags;

/// A name, parameters, and how texts are found with them.
#[derive(Clone, Debug)]
pub struct Strategy {
    pub name: String,
    /// The sampling parameters that it sets.
    pub params: Map<String, Value>,
    pub search: Search,
    pub contrast: Option<Contrast>,
}

/// How texts are found.
#[derive(Clone, Debug, PartialEq)]
pub enum Search {
    /// Token by token.
    Draw,
    Beams(BeamParams),
    /// So many texts drawn without replacement; the first is shown.
    Stochastic(usize),
}

/// The settings of a strategy that are not sampling parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Extras {
    beams: Option<usize>,
    beam_style: Option<BeamStyle>,
    length_penalty: Option<f64>,
    diverse: Option<usize>,
    diversity_penalty: Option<f64>,
    stochastic: bool,
    contrast: bool,
    alpha: Option<f64>,
    beta: Option<f64>,
}

const EXTRAS: [&str; 9] = [
    "beams",
    "beam_style",
    "length_penalty",
    "diverse",
    "diversity_penalty",
    "stochastic",
    "contrast",
    "alpha",
    "beta",
];

/// The parameters that are the same for all strategies, so that they can be compared.
const FOR_ALL: [&str; 2] = ["max_tokens", "n"];

/// The strategies that are compared if none is named.
const USUAL: [(&str, &str); 15] = [
    ("greedy", r#"{"temperature": 0}"#),
    ("temperature 0.5", r#"{"temperature": 0.5, "top_p": 0.9}"#),
    ("temperature 1.0", r#"{"temperature": 1.0, "top_p": 0.9}"#),
    ("temperature 1.5", r#"{"temperature": 1.5, "top_p": 0.9}"#),
    ("top-k 50", r#"{"top_k": 50}"#),
    ("top-p 0.9", r#"{"top_p": 0.9}"#),
    ("min-p 0.05", r#"{"min_p": 0.05}"#),
    ("typical 0.9", r#"{"typical_p": 0.9}"#),
    ("mirostat 2", r#"{"mirostat": 2, "mirostat_tau": 1}"#),
    ("penalties", r#"{"temperature": 0.8, "repetition_penalty": 1.15, "frequency_penalty": 0.2}"#),
    ("beam 4", r#"{"beams": 4}"#),
    ("diverse beam", r#"{"beams": 4, "diverse": 4, "diversity_penalty": 1}"#),
    ("stochastic beam", r#"{"beams": 4, "stochastic": true}"#),
    ("contrastive", r#"{"temperature": 0.7, "contrast": true, "beta": 0.5}"#),
    ("plain", "{}"),
];

impl Strategy {
    /// The strategies that are compared if none is named. `has_amateur` says whether there is a weaker model
    /// for contrastive decoding.
    pub fn usual(has_amateur: bool) -> Result<Vec<Self>> {
        let all = USUAL.into_iter().map(|(name, json)| Self::new(name, json)).collect::<Result<Vec<_>>>()?;
        Ok(all.into_iter().filter(|strategy| has_amateur || strategy.contrast.is_none()).collect())
    }

    fn new(name: &str, json: &str) -> Result<Self> {
        let Value::Object(fields) =
            onedraw::json::parse(json).map_err(|error| anyhow!("{}", error.message()))?
        else {
            bail!("must be a JSON object");
        };
        let (extras, params): (Map<_, _>, Map<_, _>) =
            fields.into_iter().partition(|(name, _)| EXTRAS.contains(&name.as_str()));
        if let Some(name) = FOR_ALL.into_iter().find(|name| params.contains_key(*name)) {
            bail!("{name}: is one for all strategies: --{}", name.replace('_', "-"));
        }
        let extras: Extras = serde_json::from_value(Value::Object(extras))?;
        if let Some(unknown) = params.keys().find(|name| !ParameterFlags::is_parameter(name))
            && let Some(meant) = nearest(unknown, EXTRAS.map(|name| (name, name)))
        {
            bail!("`{unknown}` is not a setting of a strategy; did you mean `{meant}`?");
        }
        // Alone, so that the error is about the strategy.
        SamplingParams::from_value(Value::Object(params.clone()))?;
        Ok(Self { name: name.to_owned(), params, search: extras.search()?, contrast: extras.contrast()? })
    }
}

impl Extras {
    fn search(&self) -> Result<Search> {
        let searches = self.beam_style.is_some()
            || self.length_penalty.is_some()
            || self.diverse.is_some()
            || self.diversity_penalty.is_some();
        let Some(width) = self.beams else {
            if searches || self.stochastic {
                bail!("beams: is not set");
            }
            return Ok(Search::Draw);
        };
        if self.stochastic {
            if searches {
                bail!("stochastic: beams that are drawn have no style, penalties or groups");
            }
            return Ok(Search::Stochastic(width));
        }
        let usual = BeamParams::default();
        Ok(Search::Beams(BeamParams {
            width,
            style: self.beam_style.unwrap_or_default(),
            length_penalty: self.length_penalty.unwrap_or(usual.length_penalty),
            groups: self.diverse.unwrap_or(1),
            diversity_penalty: self.diversity_penalty.unwrap_or(if self.diverse.is_some() {
                1.0
            } else {
                0.0
            }),
            ..usual
        }))
    }

    fn contrast(&self) -> Result<Option<Contrast>> {
        let alpha = self.alpha.unwrap_or(0.1);
        if !self.contrast {
            if self.alpha.is_some() || self.beta.is_some() {
                bail!("contrast: is not set");
            }
            return Ok(None);
        }
        Ok(Some(match self.beta {
            Some(beta) => Contrast::obrien(alpha, beta)?,
            None => Contrast::li(alpha, 1.0)?,
        }))
    }
}

impl FromStr for Strategy {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, json) = match text.split_once(':') {
            Some((name, _)) if name.contains('{') => {
                bail!("`{text}` is no strategy: write NAME:JSON, with a name and a colon before the JSON")
            }
            Some((name, json)) => (name.trim(), json),
            // A name alone is one of the usual ones.
            None => {
                let usual = USUAL.into_iter().find(|(name, _)| *name == text.trim());
                let names = USUAL.map(|(name, _)| name).join(", ");
                usual.ok_or_else(|| anyhow!("`{text}` is no strategy: write NAME:JSON, or one of {names}"))?
            }
        };
        if name.is_empty() {
            bail!("a strategy needs a name before the colon");
        }
        Self::new(name, json).map_err(|error| anyhow!("{name}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_is_a_name_and_json() {
        let strategy: Strategy =
            r#"mine: {"top_p": 0.5, "beams": 6, "diverse": 3}"#.parse().expect("a strategy");
        assert_eq!((strategy.name.as_str(), &strategy.params["top_p"]), ("mine", &Value::from(0.5)));
        let beams = BeamParams { width: 6, groups: 3, diversity_penalty: 1.0, ..BeamParams::default() };
        assert_eq!(strategy.search, Search::Beams(beams));
        let strategy: Strategy = r#"c: {"contrast": true, "alpha": 0.2}"#.parse().expect("a strategy");
        assert_eq!(strategy.contrast, Some(Contrast::li(0.2, 1.0).expect("a contrast")));
        let strategy: Strategy = "greedy".parse().expect("a strategy");
        assert_eq!((&strategy.params["temperature"], strategy.search), (&Value::from(0), Search::Draw));
    }

    #[test]
    fn what_is_wrong_with_a_strategy_is_said() {
        let error = |text: &str| text.parse::<Strategy>().expect_err(text).to_string();
        assert!(error("warm").starts_with("`warm` is no strategy: write NAME:JSON, or one of greedy, "));
        assert_eq!(error(r#"x: {"top_p": 2}"#), "x: top_p: must be in [0, 1], not 2");
        assert!(error(r#"x: {"top_q": 2}"#).contains("top_q"));
        assert!(error("x: [").starts_with("x: cannot be read as JSON: "));
        assert_eq!(error("x: [1]"), "x: must be a JSON object");
        assert!(error(r#"x: {"top_p": 1, "top_p": 0.5}"#).contains("top_p"));
        assert!(error(r#"x{"top_p": 1}"#).ends_with("with a name and a colon before the JSON"));
        assert_eq!(
            error(r#"x: {"beam": 1}"#),
            "x: `beam` is not a setting of a strategy; did you mean `beams`?"
        );
        assert_eq!(error(r#"x: {"stochastic": true}"#), "x: beams: is not set");
        assert_eq!(error(r#"x: {"beam_style": "vllm"}"#), "x: beams: is not set");
        assert!(error(r#"x: {"beams": 2, "stochastic": true, "diverse": 2}"#).starts_with("x: stochastic: "));
        assert_eq!(
            error(r#"x: {"max_tokens": 5}"#),
            "x: max_tokens: is one for all strategies: --max-tokens"
        );
        assert_eq!(error(r#"x: {"beta": 1}"#), "x: contrast: is not set");
        assert_eq!(error(r#": {}"#), "a strategy needs a name before the colon");
    }

    #[test]
    fn the_usual_ones_can_be_read() {
        assert_eq!(Strategy::usual(true).expect("strategies").len(), 15);
        assert_eq!(Strategy::usual(false).expect("strategies").len(), 14);
    }
}
