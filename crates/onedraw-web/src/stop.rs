//! Where a text ends, and what of it may be shown.

use onedraw::{Finish, FinishReason, StopConditions};
use serde::Serialize;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Result, json};
use crate::params;

/// Follows one text, token by token.
#[wasm_bindgen]
pub struct StopMatcher {
    inner: onedraw::StopMatcher,
    shown: Vec<u8>,
}

/// What a token did, beside the bytes to show.
#[derive(Serialize)]
struct Progress {
    finish_reason: Option<FinishReason>,
    stop_token: Option<u32>,
    stop_string: Option<usize>,
    rewind: Option<onedraw::Rewind>,
}

#[wasm_bindgen]
impl StopMatcher {
    /// Begins a text.
    #[wasm_bindgen(constructor)]
    pub fn new(params: &str, seed: Option<String>) -> Result<Self> {
        let conditions = StopConditions::new(&params::read(params, seed.as_deref())?)?;
        Ok(Self { inner: onedraw::StopMatcher::new(conditions), shown: Vec::new() })
    }

    /// Takes a token and its bytes. The bytes to show now are in `shown`.
    pub fn push(&mut self, token: u32, bytes: &[u8]) -> String {
        let progress = self.inner.push(token, bytes);
        self.shown.clear();
        self.shown.extend_from_slice(progress.text);
        let (stop_token, stop_string) = match progress.finish {
            Some(Finish::Eos { token } | Finish::StopToken { token }) => (Some(token), None),
            Some(Finish::StopString { index }) => (None, Some(index)),
            Some(Finish::Length) | None => (None, None),
        };
        let finish_reason = progress.finish.map(Finish::reason);
        json(&Progress { finish_reason, stop_token, stop_string, rewind: progress.rewind })
    }

    /// The bytes that the last token showed.
    pub fn shown(&self) -> Vec<u8> {
        self.shown.clone()
    }

    /// Ends the text. Returns the bytes that were held back.
    pub fn finish(&mut self) -> Vec<u8> {
        self.inner.finish().to_vec()
    }

    /// The bytes that are held back now.
    pub fn held_back(&self) -> Vec<u8> {
        self.inner.held_back().to_vec()
    }
}
