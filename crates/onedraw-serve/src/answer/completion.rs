//! Answers of `/v1/completions`.

use serde_json::{Value, json};

use super::logprobs::Lists;
use super::{Piece, Teller, Usage};

impl Teller {
    /// A choice with a piece of its text, or all of it.
    fn completion_choice(&self, piece: &Piece) -> Value {
        let prompt = &self.asked.prompts[piece.choice / self.asked.params.n as usize];
        let echoes = self.asked.echoes && piece.is_first;
        let text = if echoes { prompt.text.clone() + &piece.text } else { piece.text.clone() };
        let logprobs = self.asked.params.logprobs.map(|_| {
            let mut lists = Lists::new(&self.model.tokenizer, piece.letters);
            if echoes {
                lists.prompt(&prompt.tokens, piece.prompt_logprobs.as_deref());
            }
            lists.written(&piece.tokens);
            lists.into_value()
        });
        let mut choice = json!({
            "index": piece.choice,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": piece.end.map(|end| end.word()),
        });
        self.extend(&mut choice, piece);
        choice
    }

    pub(super) fn completion(&self, texts: &[Piece], usage: Usage) -> Value {
        let choices = texts.iter().map(|text| self.completion_choice(text)).collect();
        let mut answer = self.around("text_completion", choices);
        answer["usage"] = usage.of_completion();
        answer
    }

    pub(super) fn completion_chunk(&self, piece: &Piece) -> Value {
        self.around("text_completion", vec![self.completion_choice(piece)])
    }

    /// The last part of a stream, if that is to end with the numbers of tokens.
    pub(super) fn usage_chunk(&self, object: &str, usage: Usage) -> Value {
        let mut chunk = self.around(object, Vec::new());
        chunk["usage"] = usage.of_completion();
        chunk
    }
}
