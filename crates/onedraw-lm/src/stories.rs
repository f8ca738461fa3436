//! The story model that is part of the program. It writes short children's stories in simple English.
//!
//! The crate `onedraw-stories` has its files, its card, and the scripts that trained it;
//! `onedraw-stories-drafters` has the drafter and the EAGLE head.
//!
//! ```
//! use onedraw::presets;
//! use onedraw_lm::{Generator, stories};
//!
//! let (model, tokenizer) = (stories::model()?, stories::tokenizer()?);
//! let mut params = presets::balanced();
//! params.seed = Some(7);
//! params.eos_token_id = stories::generation_config()?.eos_token_ids;
//! let prompt = tokenizer.encode("Once upon a time")?;
//! let mut generator = Generator::new(&model, &tokenizer);
//! generator.add(&prompt, params)?;
//! assert_eq!(generator.finish()?[0].tokens.len(), 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::path::Path;

use onedraw::Kernel;
use onedraw_stories_drafters as drafters;

use crate::chat::ChatTemplate;
use crate::error::ModelError;
use crate::generation_config::GenerationConfig;
use crate::hash;
use crate::llama::{EagleHead, Llama, Shortlist};
use crate::tokenizer::Tokenizer;

/// The name of the model in errors.
const NAME: &str = "stories";

/// The model: 5.8 million parameters, 4,096 tokens, a context of 512. It is trained for early exits after
/// layers 2 and 3.
pub fn model() -> Result<Llama, ModelError> {
    model_of(onedraw_stories::MODEL)
}

/// The model, for a program that does not carry the weights: from the bytes of its model.safetensors.
pub fn model_of(weights: impl Into<Cow<'static, [u8]>>) -> Result<Llama, ModelError> {
    let model = Llama::embedded(NAME, onedraw_stories::CONFIG, weights)?;
    Ok(model.among(Some(shortlist()?)))
}

/// The frequent tokens of stories.
fn shortlist() -> Result<Shortlist, ModelError> {
    Shortlist::parse(&Path::new(NAME).join("shortlist.json"), onedraw_stories::SHORTLIST, 4096)
}

/// A small model with the same tokens, to draft or to contrast with: 0.6 million parameters. It runs on one
/// thread, because a pass is over before another thread is awake.
pub fn drafter() -> Result<Llama, ModelError> {
    drafter_of(drafters::DRAFTER)
}

/// The small model, for a program that does not carry its weights: from the bytes of its model.safetensors.
pub fn drafter_of(weights: impl Into<Cow<'static, [u8]>>) -> Result<Llama, ModelError> {
    let model = Llama::embedded("stories/drafter", drafters::DRAFTER_CONFIG, weights)?;
    model.among(Some(shortlist()?)).on(Kernel::Auto, 1)
}

/// An EAGLE head for the model.
pub fn eagle(model: &Llama) -> Result<EagleHead, ModelError> {
    EagleHead::embedded("stories/eagle", drafters::EAGLE_CONFIG, drafters::EAGLE, model)
}

/// The tokenizer of all of them.
pub fn tokenizer() -> Result<Tokenizer, ModelError> {
    Tokenizer::embedded(NAME, onedraw_stories::TOKENIZER)
}

/// An error if another tokenizer has another text for a token.
pub(crate) fn check_tokenizer(other: &Tokenizer) -> Result<(), ModelError> {
    // One that was made of the same file is the same.
    if other.sha256() == hash::sha256(onedraw_stories::TOKENIZER) {
        return Ok(());
    }
    other.check_same(&tokenizer()?)
}

/// The token that ends a story.
pub fn generation_config() -> Result<GenerationConfig, ModelError> {
    GenerationConfig::embedded(NAME, onedraw_stories::GENERATION_CONFIG)
}

/// A plain chat template: the model was not trained on chats, so it goes on with the messages, one on each line. After
/// a single message its answer is what follows that text.
pub fn chat_template() -> Result<ChatTemplate, ModelError> {
    let source = r#"{{ bos_token }}{{ messages | map(attribute="content") | join("\n") }}"#;
    ChatTemplate::embedded(NAME, source, "<|endoftext|>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Message;

    #[test]
    fn a_single_message_is_the_beginning_of_a_text() {
        let (template, tokenizer) = (chat_template().expect("a template"), tokenizer().expect("a tokenizer"));
        let text = "Once upon a time";
        let chat = template.render(&[Message::new("user", text)], true).expect("a chat");
        let tokens = |text: &str| tokenizer.encode_plain(text).expect("tokens");
        assert_eq!(tokens(&chat), tokenizer.encode(text).expect("tokens"));
        let messages = [Message::new("system", "Be kind."), Message::new("user", "Once")];
        assert_eq!(template.render(&messages, true).expect("a chat"), "<|endoftext|>Be kind.\nOnce");
    }
}
