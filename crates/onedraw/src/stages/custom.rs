//! What a user's own stage does to a row. The stage itself is part of the parameters: `params/custom.rs`.

use crate::logits::query::{EditTokens, KeepOnly};
use crate::params::custom::{Change, Custom, Keep, Kind, View};

/// A change of the row, as a user's stage asked for it.
pub(crate) enum Asked {
    Edit(EditTokens),
    KeepOnly(KeepOnly),
}

/// Shows the row to the stage and checks what it answers.
pub(crate) fn ask(custom: &Custom, view: &View<'_>) -> Result<Asked, String> {
    let vocabulary = view.logits().len();
    let check = |token: u32| match (token as usize) < vocabulary {
        true => Ok(()),
        false => {
            let last = vocabulary.saturating_sub(1);
            Err(format!("token {token} is outside the vocabulary; ids of this row are 0 to {last}"))
        }
    };
    match &custom.kind {
        Kind::Edit(edit) => {
            let logits: Vec<(u32, f32)> = match edit.edit(view)? {
                Change::Sparse(changes) => changes,
                Change::Dense(logits) if logits.len() == vocabulary => (0..).zip(logits).collect(),
                Change::Dense(logits) => {
                    let count = logits.len();
                    return Err(format!("a dense change has {count} logits; this row has {vocabulary}"));
                }
            };
            for &(token, logit) in &logits {
                check(token)?;
                if logit.is_nan() || logit == f32::INFINITY {
                    let message = "logits are finite or -inf (masked)";
                    return Err(format!("the new logit of token {token} is {logit}; {message}"));
                }
            }
            Ok(Asked::Edit(EditTokens { logits }))
        }
        Kind::Truncation(truncation) => match truncation.truncate(view)? {
            Keep::Only(ids) => {
                ids.iter().try_for_each(|&id| check(id))?;
                Ok(Asked::KeepOnly(KeepOnly { ids }))
            }
            Keep::AllBut(masked) => {
                masked.iter().try_for_each(|&id| check(id))?;
                let logits = masked.into_iter().map(|token| (token, f32::NEG_INFINITY)).collect();
                Ok(Asked::Edit(EditTokens { logits }))
            }
        },
    }
}
