//! The definition of everything that onedraw computes: obvious, scalar and slow.
//!
//! It lists the tokens, sorts them all, gives every one its noise, and takes the best. The engine opens a few
//! blocks and asks questions instead, and is tested for equality with this, bit for bit. Where the two
//! differ, this is right. What is checked before any row is read (ids outside the vocabulary, a mask whose
//! stage the order does not name) is not repeated here.
//!
//! The files: `list` (the tokens that are left, and the draw from them), `edits`, `truncations` and `custom`
//! (the stages).

mod custom;
mod edits;
mod list;
mod truncations;

pub use self::list::Left;

use self::list::{Candidate, sort};
use crate::error::RowError;
use crate::kernels::row::{MAX_VOCABULARY, Row};
use crate::numeric::noise::Noise;
use crate::params::SamplingParams;
use crate::params::chain::{Order, Stage};

/// Runs the chain over a row: every stage of the order, one after another, over a plain list. The noise is
/// that of the draw; only XTC's coin uses it here.
///
/// Errors: an empty row, one that is too long, a mask that is too short, NaN or +inf (the lowest such token
/// is named), a custom stage that fails, or a stage that leaves no token.
pub fn left<'r>(
    row: impl Into<Row<'r>>,
    mask: Option<&[u32]>,
    params: &SamplingParams,
    noise: &Noise,
) -> Result<Left, RowError> {
    let row = row.into();
    if row.is_empty() {
        return Err(RowError::EmptyRow);
    }
    if row.len() > MAX_VOCABULARY {
        return Err(RowError::VocabularyTooLarge { vocabulary: row.len() });
    }
    let needed = row.len().div_ceil(32);
    if let Some(words) = mask.map(<[u32]>::len).filter(|&words| words < needed) {
        return Err(RowError::MaskTooShort { words, needed });
    }
    let mut candidates = Vec::new();
    for token in 0..row.len() as u32 {
        let logit = row.get(token as usize);
        if logit.is_nan() {
            return Err(RowError::NanLogit { token });
        }
        if logit == f32::INFINITY {
            return Err(RowError::InfiniteLogit { token });
        }
        if logit > f32::NEG_INFINITY {
            candidates.push(Candidate { token, logit });
        }
    }
    if candidates.is_empty() {
        return Err(RowError::NothingLeft { stage: None });
    }
    sort(&mut candidates);
    let mut left = Left::new(candidates, params);
    let order = params.order.clone().unwrap_or_else(Order::vllm);
    for (i, stage) in order.stages().iter().enumerate() {
        match stage {
            Stage::Temperature => left.heat(params),
            Stage::Custom(own) => custom::apply(&mut left, own, row.len(), params, noise)?,
            _ if edits::is_active(stage, mask.is_some(), params) => {
                left.divide();
                edits::apply(stage, &mut left.candidates, mask, params);
                sort(&mut left.candidates);
            }
            Stage::Xtc => {
                let index = order.stages()[..i].iter().filter(|stage| **stage == Stage::Xtc).count();
                truncations::xtc(&mut left, params, noise.xtc(index as u32));
            }
            _ => truncations::apply(stage, &mut left, row.len(), params),
        }
        if left.candidates.is_empty() {
            return Err(RowError::NothingLeft { stage: Some(stage.clone()) });
        }
    }
    Ok(left)
}
