//! The story model: text in, a story out, token by token.

use std::rc::Rc;

use onedraw_lm::settings::{Layer, Origin, Settings};
use onedraw_lm::{Event, GenerateError, GenerationConfig, Generator, Llama, ModelError, Tokenizer, stories};
use self_cell::self_cell;
use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Error, Result, value_with_seed};
use crate::params;

/// The model, its tokenizer and its settings.
struct Opened {
    model: Llama,
    tokenizer: Tokenizer,
    generation: GenerationConfig,
}

type Running<'a> = Generator<'a, Llama>;

self_cell!(
    struct Loop {
        owner: Rc<Opened>,
        #[not_covariant]
        dependent: Running,
    }
);

/// The story model.
#[wasm_bindgen]
pub struct Stories(Rc<Opened>);

/// One request: the texts that follow a prompt.
#[wasm_bindgen]
pub struct Writing {
    running: Loop,
    seed: u64,
    is_done: bool,
}

#[wasm_bindgen]
impl Stories {
    /// Makes the model from the bytes of its model.safetensors.
    #[wasm_bindgen(constructor)]
    pub fn new(weights: Vec<u8>) -> Result<Self> {
        Ok(Self(Rc::new(Opened {
            model: stories::model_of(weights)?,
            tokenizer: stories::tokenizer()?,
            generation: stories::generation_config()?,
        })))
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.0.tokenizer.encode(text)?)
    }

    /// The text of tokens.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.0.tokenizer.text(tokens)
    }

    /// Begins the texts after a prompt. Parameters that are not given are the model's own.
    pub fn write(&self, prompt: &str, params: &str, seed: Option<String>) -> Result<Writing> {
        let Opened { tokenizer, generation, .. } = &*self.0;
        let asked = params::object(params, seed.as_deref())?;
        let settings = Settings::default().layer(Layer::read(Origin::Argument, &asked)?);
        let mut params = settings.layer(generation.layer()).resolve()?.params;
        let prompt = tokenizer.encode(prompt)?;
        if !asked.contains_key("max_tokens") {
            generation.limit(&mut params, prompt.len());
        }
        generation.end_texts(&mut params);
        let mut seed = None;
        let running = Loop::try_new(self.0.clone(), |opened| {
            let mut generator = Generator::new(&opened.model, &opened.tokenizer);
            let request = generator.add(&prompt, params)?;
            seed = generator.seed(request);
            Ok::<_, Error>(generator)
        })?;
        Ok(Writing { running, seed: seed.unwrap_or_default(), is_done: false })
    }
}

#[wasm_bindgen]
impl Writing {
    /// Makes one pass of the model. Returns what it gave as a JSON list, one event for each token of each text.
    pub fn step(&mut self) -> Result<String> {
        let events = self.running.with_dependent_mut(|_, generator| generator.step())?;
        self.is_done = self.running.with_dependent(|_, generator| generator.is_done());
        Ok(Value::Array(events.into_iter().map(told).collect()).to_string())
    }

    /// Whether all texts have ended.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The seed of the texts.
    pub fn seed(&self) -> String {
        self.seed.to_string()
    }
}

/// An event as JSON.
fn told(event: Event) -> Value {
    json!({
        "sample": event.sample,
        "sampled": value_with_seed(&event.sampled),
        "text": event.text,
        "taken_back": event.taken_back,
        "finish_reason": event.finish.map(|finish| finish.reason()),
        "error": event.error.map(Error::from),
    })
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        Self::new("model", error)
    }
}

impl From<GenerateError> for Error {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Param(error) => error.into(),
            GenerateError::Row(error) => error.into(),
            GenerateError::Model(error) => error.into(),
            other => Self::new("model", other),
        }
    }
}
