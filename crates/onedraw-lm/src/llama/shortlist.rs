//! The tokens that texts are mostly made of, and an output head over them alone.
//!
//! A drafter does not need the logits of rare tokens: a wrong guess costs little, and the head is a large
//! part of a small model.

use std::path::Path;
use std::sync::Arc;

use crate::error::ModelError;
use crate::kernels::dot::Inputs;
use crate::matrix::Matrix;
use crate::team::Team;

/// The frequent tokens in ascending order: `shortlist.json` in a model's folder, an array of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortlist {
    tokens: Arc<[u32]>,
}

impl Shortlist {
    /// Parses the text of the file. Errors name `path`.
    pub(crate) fn parse(path: &Path, text: &str, vocabulary: usize) -> Result<Self, ModelError> {
        let tokens: Vec<u32> =
            serde_json::from_str(text).map_err(|cause| ModelError::malformed(path, cause))?;
        let rises = tokens.windows(2).all(|pair| pair[0] < pair[1]);
        if tokens.is_empty() || !rises || tokens.last().is_some_and(|&last| last as usize >= vocabulary) {
            let message = format!("must be tokens below {vocabulary}, at least one, in ascending order");
            return Err(ModelError::malformed(path, message));
        }
        Ok(Self { tokens: tokens.into() })
    }

    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

/// The rows of a head that belong to the frequent tokens.
#[derive(Clone)]
pub(super) struct ShortHead {
    pub list: Shortlist,
    rows: Matrix,
}

impl ShortHead {
    /// Copies the rows. The head must have a row for every token of the list.
    pub(super) fn new(list: Shortlist, head: &Matrix) -> Self {
        Self { rows: head.select(list.tokens()), list }
    }

    /// Logits of the whole vocabulary for every position: −inf for tokens that are not on the list.
    pub(super) fn times(&self, team: &Team, inputs: &Inputs, vocabulary: usize) -> Vec<f32> {
        let mut products = Vec::new();
        self.rows.times(team, inputs, &mut products);
        let mut logits = vec![f32::NEG_INFINITY; vocabulary * inputs.positions()];
        let tokens = self.list.tokens();
        for (row, products) in logits.chunks_exact_mut(vocabulary).zip(products.chunks_exact(tokens.len())) {
            for (&token, &product) in tokens.iter().zip(products) {
                row[token as usize] = product;
            }
        }
        logits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_ascending_and_of_the_vocabulary() {
        let parse = |text: &str| Shortlist::parse(Path::new("folder/shortlist.json"), text, 8);
        assert_eq!(parse("[0, 3, 7]").unwrap().tokens(), [0, 3, 7]);
        for text in ["[]", "[3, 3]", "[3, 1]", "[7, 8]"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.contains("folder/shortlist.json")
                    && error.contains("tokens below 8, at least one, in ascending order"),
                "{text}: {error}"
            );
        }
        for text in ["", "{}", "[-1]", "[0.5]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
