//! How wide a beam search is, and what counts as better.

use serde::{Deserialize, Serialize};

use crate::numeric::math::power;
use crate::params::SamplingParams;
use crate::params::error::ParamError;

/// Whose rules a search follows, in particular how a score depends on the length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeamStyle {
    /// Hugging Face's rules. The score is the sum of logprobs divided by length^penalty. The length counts
    /// the written tokens, including the one that ends the text. A text can end only with one of the `width`
    /// best candidates of a step.
    #[default]
    Hf,
    /// vLLM's rules. The score is the same, but the length counts prompt and written tokens without EOS.
    /// Every end among the 2 × width best tokens of a beam counts, and the search runs until `max_tokens`.
    Vllm,
    /// Hugging Face's search with the penalty of Wu and others (GNMT, 2016): the sum is divided by ((5 +
    /// length) / 6)^penalty.
    Gnmt,
}

/// When a search may end before `max_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EarlyStopping {
    /// As soon as the best running text would not beat the worst ended one if it ended now.
    #[default]
    Heuristic,
    /// As soon as `width` texts have ended.
    Full,
    /// Only when no running text can become better than the worst ended one, however long it gets.
    Never,
}

/// The settings of a beam search.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamParams {
    /// How many texts are continued at a time, 1 to 4,096.
    pub width: usize,
    /// Whose rules the search follows.
    pub style: BeamStyle,
    /// The power of the length that divides the sum of logprobs, in [−100, 100]. Above 0 longer texts gain,
    /// below 0 shorter ones.
    pub length_penalty: f64,
    /// When the search may end before `max_tokens`. vLLM's style has no such rule, so any other value than
    /// the default is an error there.
    pub early_stopping: EarlyStopping,
    /// Diverse beam search (Vijayakumar and others, 2016): the number of groups of beams. It must divide
    /// `width`. Each group avoids the tokens that the groups before it chose.
    pub groups: usize,
    /// The amount that a token's score loses for each beam of an earlier group that chose the same token at
    /// this step, in [0, 1000000].
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

impl BeamParams {
    /// Checks the settings, and that `params` asks for no more texts than there are beams. The error names
    /// the field and the allowed range.
    pub(super) fn validate(&self, params: &SamplingParams) -> Result<(), ParamError> {
        /// The widest search. With any model, more beams than this would not fit into memory.
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

    /// Checks that the vocabulary has at least as many tokens as there are beams; otherwise the error names
    /// `beams`.
    pub fn check_vocabulary(&self, vocabulary: usize) -> Result<(), ParamError> {
        if self.width > vocabulary {
            let message = format!("must be at most the vocabulary ({vocabulary}), not {}", self.width);
            return Err(ParamError::new("beams", message));
        }
        Ok(())
    }

    /// The score of a text with this sum of logprobs and this length.
    pub(super) fn score(&self, sum: f64, length: usize) -> f64 {
        let length = match self.style {
            BeamStyle::Hf | BeamStyle::Vllm => length.max(1) as f64,
            BeamStyle::Gnmt => (5.0 + length as f64) / 6.0,
        };
        let penalty = power(length, self.length_penalty.abs());
        if self.length_penalty < 0.0 { sum * penalty } else { sum / penalty }
    }
}
