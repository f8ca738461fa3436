//! What the makers of a model say about how to draw from it: generation_config.json.

use std::path::Path;

use onedraw::SamplingParams;
use onedraw::import::{Imported, Source, import};
use serde_json::{Map, Value, json};

use crate::error::ModelError;
use crate::folder::read_if_there;
use crate::settings::Layer;

/// Which tokens end a text, and the parameters that a model comes with.
///
/// These are what the file says. Hugging Face has defaults for what the file does not say; two of them say
/// nothing about the model and are left out: 20 new tokens, and greedy decoding if the file has no setting of
/// sampling at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationConfig {
    /// The tokens that end a text. Empty: none is named.
    pub eos_token_ids: Vec<u32>,
    /// Parameters by onedraw's names, in the form that
    /// [`SamplingParams::from_json`](onedraw::SamplingParams::from_json) reads. There is no `eos_token_id`
    /// among them: see [`eos_token_ids`](Self::eos_token_ids).
    pub params: Map<String, Value>,
    /// The most tokens of prompt and text together, if the file limits that and not how many tokens to write.
    pub max_length: Option<u32>,
    /// What is different here from the file, and why.
    pub notes: Vec<String>,
}

/// The settings that Hugging Face uses if `do_sample` is true and ignores otherwise. A file with one of these
/// and without `do_sample` asks for greedy decoding, even if its author meant something else, and a note says
/// so.
const SAMPLING_SETTINGS: [&str; 8] =
    ["temperature", "top_h", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"];

impl GenerationConfig {
    /// Reads generation_config.json of a folder. If there is no such file, or if it names no token that ends
    /// a text, config.json may name them. Empty if there is neither file.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join("generation_config.json");
        let mut config = match read_if_there(&path)? {
            Some(text) => Self::parse(&path, &text)?,
            None => Self::default(),
        };
        let path = folder.join("config.json");
        if config.eos_token_ids.is_empty()
            && let Some(text) = read_if_there(&path)?
            && let Some(eos) = fields(&path, &text)?.get("eos_token_id")
        {
            let alone = json!({ "eos_token_id": eos }).to_string();
            config.eos_token_ids = imported(&path, &alone)?.params.eos_token_id;
        }
        Ok(config)
    }

    /// Reads the text of a generation_config.json that is part of the program. Errors call the model `name`.
    pub fn embedded(name: &str, json: &str) -> Result<Self, ModelError> {
        Self::parse(&Path::new(name).join("generation_config.json"), json)
    }

    /// Its settings as a layer, which gives way to what a user asks for.
    pub fn layer(&self) -> Layer {
        Layer::model(&self.params)
    }

    /// Texts end with the model's own tokens, unless the parameters name others.
    pub fn end_texts(&self, params: &mut SamplingParams) {
        if params.eos_token_id.is_empty() {
            params.eos_token_id.clone_from(&self.eos_token_ids);
        }
    }

    /// Keeps a prompt of so many tokens and its text together within `max_length`, if the file has one.
    pub fn limit(&self, params: &mut SamplingParams, prompt: usize) {
        if let Some(length) = self.max_length {
            let room = (length as usize).saturating_sub(prompt).max(1);
            params.max_tokens = params.max_tokens.min(u32::try_from(room).unwrap_or(u32::MAX));
            params.min_tokens = params.min_tokens.min(params.max_tokens);
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let (fields, imported) = (fields(path, text)?, imported(path, text)?);
        let mut params = imported.changed();
        params.remove("eos_token_id");
        let says =
            |names: &[&str]| names.iter().any(|name| fields.get(*name).is_some_and(|value| !value.is_null()));
        let mut defaults = Vec::new();
        let mut max_length = None;
        if !says(&["max_new_tokens"]) {
            params.remove("max_tokens");
            defaults.extend(["max_new_tokens", "max_length"]);
            max_length = fields
                .get("max_length")
                .and_then(Value::as_u64)
                .and_then(|length| u32::try_from(length).ok());
        }
        if !says(&["do_sample"]) && !says(&SAMPLING_SETTINGS) {
            params.remove("temperature");
            params.remove("order");
            defaults.push("do_sample");
        }
        let notes = imported.notes.iter().filter(|note| !defaults.contains(&note.field.as_str()));
        let notes = notes.map(ToString::to_string).collect();
        Ok(Self { eos_token_ids: imported.params.eos_token_id, params, max_length, notes })
    }
}

fn fields(path: &Path, text: &str) -> Result<Map<String, Value>, ModelError> {
    serde_json::from_str(text).map_err(|cause| ModelError::malformed(path, cause))
}

fn imported(path: &Path, text: &str) -> Result<Imported, ModelError> {
    import(text, Some(Source::HuggingFace)).map_err(|cause| ModelError::malformed(path, cause))
}
