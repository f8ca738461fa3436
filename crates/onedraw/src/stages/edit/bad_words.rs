//! Bad words: token sequences that must not appear. The last id is banned while the output ends with the
//! others.

use crate::logits::edited::EditedRow;
use crate::params::SamplingParams;
use crate::stages::edit::context::Context;

/// Checked `bad_words_ids`.
#[derive(Clone, Debug, PartialEq)]
pub struct BadWords {
    /// What the output must end with, and the id that is banned then.
    words: Vec<(Vec<u32>, u32)>,
}

impl BadWords {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        let split = |word: &Vec<u32>| word.split_last().map(|(&last, rest)| (rest.to_vec(), last));
        let words: Vec<_> = params.bad_words_ids.iter().filter_map(split).collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// What the output must end with, and the id that is banned then.
    pub fn words(&self) -> &[(Vec<u32>, u32)] {
        &self.words
    }

    pub(crate) fn apply(&self, row: &mut EditedRow<'_>, context: &Context<'_>) {
        for (rest, last) in &self.words {
            if context.history.output().ends_with(rest) {
                row.mask(*last);
            }
        }
    }
}
