//! Errors on their way to JavaScript: one line of JSON, of which the package makes an `OnedrawError`.

use onedraw::{ParamError, RowError};
use serde::Serialize;
use serde_json::Value;
use wasm_bindgen::JsValue;

/// What a call that fails throws.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Error {
    /// `param`, or what [`RowError::kind`] says, or the part of the story model that failed.
    pub kind: &'static str,
    /// The parameter that is wrong, where it is one.
    pub field: Option<String>,
    /// The library's sentence.
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(kind: &'static str, message: impl ToString) -> Self {
        Self { kind, field: None, message: message.to_string() }
    }
}

impl From<ParamError> for Error {
    fn from(error: ParamError) -> Self {
        Self { field: Some(error.field().to_owned()), ..Self::new("param", error) }
    }
}

impl From<RowError> for Error {
    fn from(error: RowError) -> Self {
        let field = match &error {
            RowError::OutsideVocabulary { field, .. } => Some((*field).to_owned()),
            _ => None,
        };
        Self { field, ..Self::new(error.kind(), error) }
    }
}

impl From<Error> for JsValue {
    fn from(error: Error) -> Self {
        JsValue::from_str(&json(&error))
    }
}

/// A result as JSON.
pub fn json(value: &impl Serialize) -> String {
    // Only maps with keys that are not text cannot be written, and none of ours has such keys.
    serde_json::to_string(value).unwrap_or_default()
}

/// A result as JSON, its `seed` as decimal text.
pub fn json_with_seed(value: &impl Serialize) -> String {
    value_with_seed(value).to_string()
}

/// Like [`json_with_seed`], as a part of a larger value.
pub fn value_with_seed(value: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let Some(seed) = value.get_mut("seed") {
        *seed = seed.to_string().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use onedraw::{Sampler, SamplingParams};

    #[test]
    fn errors_keep_kind_field_and_sentence() {
        let wrong = SamplingParams::from_json(r#"{"top_p": 2}"#).expect_err("2 is too large");
        let error = Error::from(wrong.clone());
        assert_eq!((error.kind, error.field.as_deref()), ("param", Some("top_p")));
        assert_eq!(error.message, wrong.to_string());
        let params = SamplingParams::from_json(r#"{"allowed_token_ids": [9]}"#).expect("parameters");
        let wrong = Sampler::new(params).expect("a sampler").sample(&[1.0_f32]).expect_err("9 is not there");
        let error = Error::from(wrong);
        assert_eq!((error.kind, error.field.as_deref()), ("outside_vocabulary", Some("allowed_token_ids")));
        let empty: [f32; 0] = [];
        let params = SamplingParams::default();
        let wrong = Sampler::new(params).expect("a sampler").sample(&empty).expect_err("no logits");
        let text =
            r#"{"kind":"empty_row","field":null,"message":"the row has no logits; at least one is needed"}"#;
        assert_eq!(json(&Error::from(wrong)), text);
    }

    #[test]
    fn seeds_are_text() {
        let params = SamplingParams::builder().seed(u64::MAX).build().expect("parameters");
        let sampled = Sampler::new(params).expect("a sampler").sample(&[1.0_f32]).expect("a token");
        let text = json_with_seed(&sampled);
        assert!(text.contains(r#""seed":"18446744073709551615""#), "{text}");
    }
}
