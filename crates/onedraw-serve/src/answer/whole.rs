//! Answers that come once all of their texts have ended.

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::piece::letters;
use super::{Piece, Pieces, Teller};
use crate::engine::Message;
use crate::failure::Failure;
use crate::http::Record;
use crate::request::Interface;

/// Waits for all texts.
pub(crate) async fn whole(
    teller: &Teller,
    mut messages: UnboundedReceiver<Message>,
    record: &Record,
) -> Result<Value, Failure> {
    let mut pieces = teller.pieces();
    let mut texts: Vec<Piece> =
        (0..teller.choices()).map(|choice| Piece { choice, ..Piece::default() }).collect();
    while pieces.left > 0 {
        match messages.recv().await.ok_or_else(Failure::gone)? {
            Message::Begun => {}
            Message::Failed(failure) => return Err(failure),
            Message::Event { prompt, event } => {
                let piece = pieces.take(prompt, *event)?;
                record.wrote(piece.tokens.len());
                join(&mut texts[piece.choice], piece);
            }
        }
    }
    let usage = teller.usage(pieces.written);
    Ok(match teller.interface {
        Interface::Completions => teller.completion(&texts, usage),
        Interface::Chat => teller.chat(&texts, usage),
        Interface::Responses => teller.response(&texts[0], usage),
    })
}

fn join(text: &mut Piece, piece: Piece) {
    if piece.is_first {
        (text.is_first, text.letters) = (true, piece.letters);
        text.prompt_logprobs = piece.prompt_logprobs;
    }
    text.text += &piece.text;
    text.tokens.extend(piece.tokens);
    text.end = piece.end;
}

impl Teller {
    pub(super) fn pieces(&self) -> Pieces {
        let echoed = self.asked.prompts.iter().map(|prompt| match self.asked.echoes {
            true => letters(prompt.text.as_bytes()),
            false => 0,
        });
        Pieces::new(self.model.clone(), &self.asked.params, &echoed.collect::<Vec<_>>())
    }
}
