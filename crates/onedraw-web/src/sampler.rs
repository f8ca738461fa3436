//! The sampler of one sequence.

use onedraw::Rewind;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Error, Result, json_with_seed};
use crate::logits::Row;
use crate::params;

/// Draws the tokens of one sequence.
#[wasm_bindgen]
pub struct Sampler(onedraw::Sampler);

/// The distribution that is drawn from, as arrays.
#[wasm_bindgen]
pub struct Distribution(onedraw::Distribution);

#[wasm_bindgen]
impl Sampler {
    /// Checks the parameters.
    #[wasm_bindgen(constructor)]
    pub fn new(params: &str, seed: Option<String>) -> Result<Self> {
        Ok(Self(onedraw::Sampler::new(params::read(params, seed.as_deref())?)?))
    }

    /// The sampler that was saved.
    pub fn load(saved: &str) -> Result<Self> {
        let saved = serde_json::from_str(saved).map_err(|error| Error::new("saved", error))?;
        Ok(Self(onedraw::Sampler::load(&saved)?))
    }

    /// Everything that a later draw depends on.
    pub fn save(&self) -> String {
        crate::error::json(&self.0.save())
    }

    /// Draws the next token and appends it to the history.
    pub fn sample(&mut self, row: &Row, mask: Option<Vec<u32>>) -> Result<String> {
        let sampled = match mask {
            Some(mask) => self.0.sample_masked(&row.values, &mask)?,
            None => self.0.sample(&row.values)?,
        };
        Ok(json_with_seed(&sampled))
    }

    /// Draws `ahead` positions after the next, and leaves the history as it is.
    pub fn peek(&mut self, row: &Row, ahead: u32) -> Result<String> {
        Ok(json_with_seed(&self.0.peek(&row.values, ahead)?))
    }

    /// The token at a share of the kept mass. Appends it to the history.
    pub fn sample_uniform(&mut self, row: &Row, uniform: f64) -> Result<String> {
        Ok(json_with_seed(&self.0.sample_uniform(&row.values, uniform)?))
    }

    /// Every token that can be drawn.
    pub fn distribution(&mut self, row: &Row, mask: Option<Vec<u32>>) -> Result<Distribution> {
        Ok(Distribution(match mask {
            Some(mask) => self.0.distribution_masked(&row.values, &mask)?,
            None => self.0.distribution(&row.values)?,
        }))
    }

    /// What each stage does to a row.
    pub fn explain(&mut self, row: &Row, listed: usize, mask: Option<Vec<u32>>) -> Result<String> {
        let explanation = match mask {
            Some(mask) => self.0.explain_masked(&row.values, &mask, listed)?,
            None => self.0.explain(&row.values, listed)?,
        };
        Ok(json_with_seed(&explanation))
    }

    /// Appends a token that was chosen elsewhere.
    pub fn accept(&mut self, token: u32) {
        self.0.accept(token);
    }

    /// Takes back the tokens after the first `length` of the output.
    pub fn rewind(&mut self, length: usize) {
        self.0.rewind(length);
    }

    /// Takes text back because of what was drawn.
    pub fn take_back(&mut self, length: usize, token: u32, phrase: usize) {
        self.0.take_back(&Rewind { length, token, phrase });
    }

    /// The seed.
    pub fn seed(&self) -> String {
        self.0.seed().to_string()
    }

    /// The position of the next draw.
    pub fn position(&self) -> u32 {
        self.0.position()
    }

    /// The tokens written so far.
    pub fn output(&self) -> Vec<u32> {
        self.0.output().to_vec()
    }
}

#[wasm_bindgen]
impl Distribution {
    /// The ids.
    pub fn tokens(&self) -> Vec<u32> {
        self.0.tokens.clone()
    }

    /// Their probabilities.
    pub fn probabilities(&self) -> Vec<f64> {
        self.0.probabilities.clone()
    }

    /// The logarithms of these.
    pub fn logprobs(&self) -> Vec<f64> {
        self.0.logprobs.clone()
    }
}
