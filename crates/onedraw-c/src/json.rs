//! Values of the library as JSON, and saved sequences read from it.

use library::Saved;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Failure, Result};

/// A value as JSON.
pub(crate) fn json_of(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Failure::internal(format_args!("a value as JSON: {error}")))
}

/// A value as a JSON value.
pub(crate) fn value_of(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Failure::internal(format_args!("a value as JSON: {error}")))
}

/// Reads a saved sequence.
pub(crate) fn saved(json: &str) -> Result<Saved> {
    serde_json::from_str(json)
        .map_err(|error| Failure::argument("json", format_args!("is no saved sequence: {error}")))
}
