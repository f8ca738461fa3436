//! The story model that is part of the program. It writes short children's stories in simple English.
//!
//! `models/stories` has its card, its files, and the scripts that trained it.
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

use std::path::Path;

use onedraw::Kernel;

use crate::error::ModelError;
use crate::generation_config::GenerationConfig;
use crate::llama::{EagleHead, Llama, Shortlist};
use crate::tokenizer::Tokenizer;

/// The name of the model in errors.
const NAME: &str = "stories";

/// Weights are used in place, so they must be aligned as their type needs; at a cache line, reading them is
/// fastest.
#[repr(C, align(64))]
struct Aligned<B: ?Sized>(B);

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories/", $name))
    };
}

static MODEL: &Aligned<[u8]> = &Aligned(*file!("model.safetensors"));
static DRAFTER: &Aligned<[u8]> = &Aligned(*file!("drafter/model.safetensors"));
static EAGLE: &Aligned<[u8]> = &Aligned(*file!("eagle/model.safetensors"));

/// The model: 5.8 million parameters, 4,096 tokens, a context of 512. It is trained for early exits after
/// layers 2 and 3.
pub fn model() -> Result<Llama, ModelError> {
    let model = Llama::embedded(NAME, include_str!("../../../models/stories/config.json"), &MODEL.0)?;
    Ok(model.among(Some(shortlist()?)))
}

/// The frequent tokens of stories.
fn shortlist() -> Result<Shortlist, ModelError> {
    let text = include_str!("../../../models/stories/shortlist.json");
    Shortlist::parse(&Path::new(NAME).join("shortlist.json"), text, 4096)
}

/// A small model with the same tokens, to draft or to contrast with: 0.6 million parameters. It runs on one
/// thread, because a pass is over before another thread is awake.
pub fn drafter() -> Result<Llama, ModelError> {
    let config = include_str!("../../../models/stories/drafter/config.json");
    let model = Llama::embedded("stories/drafter", config, &DRAFTER.0)?.among(Some(shortlist()?));
    model.on(Kernel::Auto, 1)
}

/// An EAGLE head for the model.
pub fn eagle(model: &Llama) -> Result<EagleHead, ModelError> {
    let config = include_str!("../../../models/stories/eagle/config.json");
    EagleHead::embedded("stories/eagle", config, &EAGLE.0, model)
}

/// The tokenizer of all of them.
pub fn tokenizer() -> Result<Tokenizer, ModelError> {
    Tokenizer::embedded(NAME, file!("tokenizer.json"))
}

/// The token that ends a story.
pub fn generation_config() -> Result<GenerationConfig, ModelError> {
    GenerationConfig::embedded(NAME, include_str!("../../../models/stories/generation_config.json"))
}
