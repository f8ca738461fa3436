//! No n-gram twice: bans every token that would complete a sequence of n tokens that stands in the text
//! already (Paulus, Xiong, Socher, A deep reinforced model for abstractive summarization, 2017; the rules are
//! Hugging Face's).

use crate::logits::edited::EditedRow;
use crate::params::SamplingParams;
use crate::stages::edit::agreement::Agreement;
use crate::stages::edit::context::Context;

/// A checked `no_repeat_ngram_size`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoRepeatNgram {
    size: usize,
}

impl NoRepeatNgram {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        (params.no_repeat_ngram_size > 0).then_some(Self { size: params.no_repeat_ngram_size as usize })
    }

    pub(crate) fn apply(&self, row: &mut EditedRow<'_>, context: &Context<'_>, agreement: &mut Agreement) {
        let tokens = context.history.tokens();
        agreement.make_room(context.history.room());
        agreement.find(tokens);
        // A token that followed as many tokens as the n-gram has before its last, and these stand at the end
        // now.
        for (followed, agreed) in agreement.followers(tokens) {
            if agreed as usize >= self.size - 1 {
                row.mask(followed);
            }
        }
        // The first token followed none; it is the end of an n-gram of one.
        if self.size == 1
            && let Some(&first) = tokens.first()
        {
            row.mask(first);
        }
    }
}
