//! The error of a parameter that cannot be used.

use std::fmt;

/// A parameter that cannot be used. It names the field, its value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError {
    field: String,
    message: String,
}

impl ParamError {
    /// Makes an error for a parameter of the library or of the caller.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: one_line(field.into()), message: one_line(message.into()) }
    }

    /// The name of the parameter, as it stands in JSON.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong with it and what is allowed.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Escapes control characters, so that an error is one line even if it repeats text of the user.
fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for ParamError {}
