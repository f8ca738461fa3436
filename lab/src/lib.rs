//! The laboratory in WebAssembly: what the page's worker asks where there is no server.

use std::collections::BTreeMap;

use onedraw_lab::{Answer, Lab, Subject};
use onedraw_lm::speculate::Companion;
use onedraw_lm::{Llama, ModelError, stories};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

/// The drafter whose weights the worker fetches once it is chosen.
const DRAFTER: &str = "draft";

#[wasm_bindgen]
extern "C" {
    /// The files of the model that the worker has fetched.
    pub type Files;

    /// `model.safetensors`.
    #[wasm_bindgen(method, getter)]
    fn weights(this: &Files) -> Vec<u8>;
}

/// Answers the page's questions.
#[wasm_bindgen]
pub struct Laboratory {
    model: &'static Llama,
    lab: Lab<'static, Llama>,
    answers: BTreeMap<u32, Answer<'static, Llama>>,
    next: u32,
}

/// Opens the laboratory with the story model. A worker has one, for as long as it lives.
#[wasm_bindgen]
pub fn open(files: &Files) -> Result<Laboratory, JsError> {
    opened(files.weights()).map_err(told)
}

fn told(error: ModelError) -> JsError {
    JsError::new(&error.to_string())
}

fn opened(weights: Vec<u8>) -> Result<Laboratory, ModelError> {
    let model: &'static Llama = Box::leak(Box::new(stories::model_of(weights)?));
    let (tokenizer, settings) = (stories::tokenizer()?, stories::generation_config()?);
    let subject = Subject::new("stories", model, model.sha256(), tokenizer, settings)
        .offering_own(model)
        .offering(DRAFTER, "A smaller model with the same tokens.");
    let lab = Lab::new(model, Box::leak(Box::new(subject))).with_own_drafters()?;
    Ok(Laboratory { model, lab, answers: BTreeMap::new(), next: 0 })
}

#[wasm_bindgen]
impl Laboratory {
    /// Begins an answer and gives its number.
    pub fn begin(&mut self, question: &str, body: &str) -> u32 {
        let answer = self.lab.asked(question, body.as_bytes());
        self.next += 1;
        self.answers.insert(self.next, answer);
        self.next
    }

    /// Goes on with an answer by one pass: the lines that follow, each with its line feed. Undefined once it has ended.
    pub fn step(&mut self, answer: u32) -> Option<String> {
        let lines = self.lab.step(self.answers.get_mut(&answer)?)?;
        Some(lines.iter().map(|line| format!("{line}\n")).collect())
    }

    /// Has the drafter, from the bytes of its model.safetensors.
    pub fn add_drafter(&mut self, weights: Vec<u8>) -> Result<(), JsError> {
        let drafter: &'static Llama = Box::leak(Box::new(stories::drafter_of(weights).map_err(told)?));
        self.lab.add_drafter(DRAFTER, Companion::new(drafter, self.model).map_err(told)?);
        Ok(())
    }

    /// Forgets an answer.
    pub fn drop(&mut self, answer: u32) {
        self.answers.remove(&answer);
    }
}
