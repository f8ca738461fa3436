//! Beam search without a model: which texts go on with which tokens, and which have ended.
//!
//! A driver computes the logits after each of [`BeamSearch::beams`], hands them to [`BeamSearch::step`], and
//! lets its caches follow the branches that come back. [`BeamSearch::finish`] gives the best texts.
//! [`StochasticBeams`] is driven the same way and draws texts without replacement instead.
//!
//! A score is the sum of the logprobs of a text's tokens, divided by a power of its length; [`BeamStyle`]
//! says which. Of the parameters, the edits act: masks, bias, penalties, minimum lengths. Temperature and
//! truncations shape draws, so the search leaves them alone, and only [`StochasticBeams`] uses them. Edits
//! act before candidates are taken: a beam has continuations as long as one token is legal.
//!
//! Scores are f64 sums of exact logprobs, equal scores go to the earlier beam and then to the lower id: the
//! result does not depend on threads or instruction sets.

mod candidate;
mod group;
mod search;
mod stochastic;

use serde::{Deserialize, Serialize};

pub use self::candidate::{Branch, Candidate, Continuation, Expansion, Fate};
pub use self::search::{Beam, BeamSearch};
pub use self::stochastic::{Drawn, StochasticBeams};

use crate::decode::stop::Finish;
use crate::numeric::math::power;
use crate::params::SamplingParams;
use crate::params::error::ParamError;

/// Whose rules a search follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeamStyle {
    /// Hugging Face's: the sum divided by length^penalty, the length being the written tokens with the one
    /// that ends the text. A text can only end among the `width` best candidates of a step.
    #[default]
    Hf,
    /// vLLM's: the same, the length being prompt and written tokens without EOS. Every end among the 2 ×
    /// width best of a beam counts, and the search goes on to `max_tokens`.
    Vllm,
    /// Hugging Face's search with the penalty of Wu and others (GNMT, 2016): ((5 + length) / 6)^penalty.
    Gnmt,
}

/// When a search may end before `max_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStopping {
    /// Once the best running text would not beat the worst ended one if it ended now.
    #[default]
    Heuristic,
    /// Once `width` texts have ended.
    Full,
    /// Only once no running text can become better than the worst ended one, however long it gets.
    Never,
}

/// How wide to search, and what counts as better.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamParams {
    /// How many texts go on at a time.
    pub width: usize,
    /// Whose rules.
    pub style: BeamStyle,
    /// The power of the length; above 0 longer texts gain, below 0 shorter ones.
    pub length_penalty: f64,
    /// When to end. Of no use in vLLM's style, which has no such rule.
    pub early_stopping: EarlyStopping,
    /// Diverse beam search (Vijayakumar and others, 2016): so many groups of beams, each of which avoids what
    /// those before it chose.
    pub groups: usize,
    /// What a token's score loses for each beam of an earlier group that chose it at this step.
    pub diversity_penalty: f64,
}

impl Default for BeamParams {
    fn default() -> Self {
        Self {
            width: 4,
            style: BeamStyle::default(),
            length_penalty: 1.0,
            early_stopping: EarlyStopping::default(),
            groups: 1,
            diversity_penalty: 0.0,
        }
    }
}

/// A text that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Its tokens after the prompt, with the one that ended it.
    pub tokens: Vec<u32>,
    /// What it was ranked by: the sum of logprobs, less the penalties of diversity, over the length's power.
    pub score: f64,
    /// The sum of the logprobs of its tokens.
    pub logprob: f64,
    /// Why it ended; `None` if the search ended first.
    pub finish: Option<Finish>,
}

impl BeamParams {
    fn validate(&self, params: &SamplingParams) -> Result<(), ParamError> {
        /// More is no search, and would not fit into memory with any model.
        const WIDEST: usize = 4096;
        let Self { width, style, length_penalty, early_stopping, groups, diversity_penalty } = *self;
        if !(1..=WIDEST).contains(&width) {
            return Err(ParamError::new("beams", format!("must be in [1, {WIDEST}], not {width}")));
        }
        if params.n as usize > width {
            return Err(ParamError::new(
                "n",
                format!("must be at most the beams ({width}), not {}", params.n),
            ));
        }
        if !length_penalty.is_finite() || length_penalty.abs() > 100.0 {
            let message = format!("must be in [-100, 100], not {length_penalty}");
            return Err(ParamError::new("length_penalty", message));
        }
        if groups == 0 || width % groups != 0 {
            let message = format!("must divide the beams ({width}), not {groups}");
            return Err(ParamError::new("beam_groups", message));
        }
        if !(0.0..=1e6).contains(&diversity_penalty) {
            let message = format!("must be in [0, 1000000], not {diversity_penalty}");
            return Err(ParamError::new("diversity_penalty", message));
        }
        if diversity_penalty > 0.0 && groups == 1 {
            return Err(ParamError::new("diversity_penalty", "is set, but there is only one group of beams"));
        }
        if style == BeamStyle::Vllm && groups > 1 {
            return Err(ParamError::new("beam_groups", "vLLM's style has no groups"));
        }
        if style == BeamStyle::Vllm && early_stopping != EarlyStopping::Heuristic {
            return Err(ParamError::new("early_stopping", "vLLM's style has no early stop"));
        }
        Ok(())
    }

    /// A search needs as many tokens as beams.
    pub fn check_vocabulary(&self, vocabulary: usize) -> Result<(), ParamError> {
        if self.width > vocabulary {
            let message = format!("must be at most the vocabulary ({vocabulary}), not {}", self.width);
            return Err(ParamError::new("beams", message));
        }
        Ok(())
    }

    /// What a text with this sum of logprobs and length is worth.
    fn worth(&self, sum: f64, length: usize) -> f64 {
        let length = match self.style {
            BeamStyle::Hf | BeamStyle::Vllm => length.max(1) as f64,
            BeamStyle::Gnmt => (5.0 + length as f64) / 6.0,
        };
        let penalty = power(length, self.length_penalty.abs());
        if self.length_penalty < 0.0 { sum * penalty } else { sum / penalty }
    }
}
