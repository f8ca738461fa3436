//! The fields of a body, taken one by one, so that what is wrong is told in words of the reader.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// The fields that nobody has taken yet.
pub(crate) struct Fields(pub Map<String, Value>);

impl Fields {
    /// Takes a field. `form` says what it must be. One that is missing, or null, is `None`.
    pub(crate) fn optional<T: DeserializeOwned>(
        &mut self,
        name: &str,
        form: &str,
    ) -> Result<Option<T>, Failure> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match serde_json::from_value(value) {
                Ok(read) => Ok(Some(read)),
                Err(_) => Err(Failure::field("question", name, format!("must be {form}"))),
            },
        }
    }

    /// Takes a field that must be there.
    pub(crate) fn required<T: DeserializeOwned>(&mut self, name: &str, form: &str) -> Result<T, Failure> {
        self.optional(name, form)?
            .ok_or_else(|| Failure::field("question", name, format!("is missing; it must be {form}")))
    }

    /// Ends with an error if there is another field.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(Failure::field("question", &name, "this question has no such field")),
        }
    }
}
