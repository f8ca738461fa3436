//! The drafters that need no weights of their own.

use onedraw_lm::speculate::EarlyExit;
use onedraw_lm::{LanguageModel, ModelError};

/// The drafter that copies.
pub(crate) const COPIES: &str = "ngram";

/// The drafter that is a part of the model.
pub(crate) const EXITS: &str = "early-exit";

/// The drafter of the first half of a model's layers. An error for a model with one layer, or without the means.
pub(crate) fn half<M: LanguageModel>(model: &M) -> Result<EarlyExit, ModelError> {
    EarlyExit::new(model.layers() / 2, model)
}
