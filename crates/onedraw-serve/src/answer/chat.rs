//! Answers of `/v1/chat/completions`.

use serde_json::{Value, json};

use super::{Piece, Teller, Usage, logprobs};

impl Teller {
    fn chat_choice(&self, part: &str, message: Value, piece: &Piece) -> Value {
        let listed = self.asked.params.logprobs;
        let logprobs = listed.map(|listed| {
            json!({"content": logprobs::of_chat(&self.model.tokenizer, &piece.tokens, listed), "refusal": null})
        });
        let mut choice = json!({
            "index": piece.choice,
            part: message,
            "logprobs": logprobs,
            "finish_reason": piece.end.map(|end| end.word()),
        });
        self.extend(&mut choice, piece);
        choice
    }

    pub(super) fn chat(&self, texts: &[Piece], usage: Usage) -> Value {
        let choice = |text: &Piece| {
            let message = json!({"role": "assistant", "content": text.text, "refusal": null});
            self.chat_choice("message", message, text)
        };
        let mut answer = self.around("chat.completion", texts.iter().map(choice).collect());
        answer["usage"] = usage.of_completion();
        answer
    }

    pub(super) fn chat_chunk(&self, piece: &Piece) -> Value {
        let mut delta = json!({"content": piece.text});
        if piece.is_first {
            delta["role"] = "assistant".into();
        }
        self.around("chat.completion.chunk", vec![self.chat_choice("delta", delta, piece)])
    }
}
