//! Models to serve.

use std::fs;
use std::path::Path;

use onedraw_lm::speculate::{Guesser, Speculation};
use onedraw_lm::{ChatTemplate, GenerationConfig, Llama, Tokenizer, stories};
use onedraw_serve::{Drafting, Model};
use serde_json::Value;
use tempfile::TempDir;

/// The embedded model, under its usual name.
pub fn stories() -> Model {
    let config = stories::generation_config().expect("settings");
    let model = Model::new("stories", llama(), tokenizer(), config);
    model.with_template(stories::chat_template().expect("a template"))
}

/// The embedded model with its drafter.
pub fn drafted() -> Model {
    let guesser = Guesser::Model(Box::new(stories::drafter().expect("a drafter")));
    stories().with_drafting(Drafting { guesser, speculation: Speculation::default() })
}

pub fn llama() -> Llama {
    stories::model().expect("a model")
}

pub fn tokenizer() -> Tokenizer {
    stories::tokenizer().expect("a tokenizer")
}

/// The story model in a folder, where `edit` may change its configuration and its weights.
pub fn edited(edit: impl FnOnce(&mut Value, &mut Vec<u8>)) -> (TempDir, Model) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories");
    let folder = TempDir::new().expect("a folder");
    for name in ["tokenizer.json", "generation_config.json"] {
        fs::copy(source.join(name), folder.path().join(name)).expect(name);
    }
    let config = fs::read_to_string(source.join("config.json")).expect("a configuration");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    let mut weights = fs::read(source.join("model.safetensors")).expect("weights");
    edit(&mut config, &mut weights);
    fs::write(folder.path().join("config.json"), config.to_string()).expect("a configuration");
    fs::write(folder.path().join("model.safetensors"), weights).expect("weights");
    let llama = Llama::open(folder.path()).expect("a model");
    let tokenizer = Tokenizer::open(folder.path()).expect("a tokenizer");
    let config = GenerationConfig::open(folder.path()).expect("settings");
    let template: Option<ChatTemplate> = None;
    let model = Model::new("edited", llama, tokenizer, config).with_template(template);
    (folder, model)
}

/// The story model with a context of 8,192, for long prompts.
pub fn long() -> (TempDir, Model) {
    edited(|config, _| config["max_position_embeddings"] = 8192.into())
}

/// The story model with a last norm of NaN, so that all of its logits are NaN.
pub fn nan() -> (TempDir, Model) {
    edited(|_, weights| {
        let length = u64::from_le_bytes(weights[..8].try_into().expect("eight bytes")) as usize;
        let header: Value = serde_json::from_slice(&weights[8..8 + length]).expect("a header");
        let offsets = header["model.norm.weight"]["data_offsets"].as_array().expect("offsets").clone();
        let place = |index: usize| 8 + length + offsets[index].as_u64().expect("a number") as usize;
        assert_eq!(header["model.norm.weight"]["dtype"], "BF16");
        for number in weights[place(0)..place(1)].chunks_exact_mut(2) {
            number.copy_from_slice(&0x7fc0_u16.to_le_bytes());
        }
    })
}
