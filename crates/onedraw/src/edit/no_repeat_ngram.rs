//! No n-gram twice: bans every token that would complete a sequence of n tokens that stands in the text already (Paulus, Xiong, Socher, A
//! deep reinforced model for abstractive summarization, 2017; the rules are Hugging Face's).

use crate::edit::Context;
use crate::edited::Edited;
use crate::params::SamplingParams;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NoRepeatNgram {
    size: usize,
}

impl NoRepeatNgram {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        (params.no_repeat_ngram_size > 0).then_some(Self { size: params.no_repeat_ngram_size as usize })
    }

    pub(crate) fn apply(&self, row: &mut Edited<'_>, context: &Context<'_>) {
        let tokens = context.history.tokens();
        let Some(start) = (tokens.len() + 1).checked_sub(self.size) else { return };
        let beginning = &tokens[start..];
        for ngram in tokens.windows(self.size) {
            if let Some(last) = ngram.strip_prefix(beginning) {
                row.mask(last[0]);
            }
        }
    }
}
