//! The error of a parameter.

use std::fmt;

/// A parameter that cannot be used: names the field, the value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError {
    field: String,
    message: String,
}

impl ParamError {
    /// An error of a parameter, the library's or a caller's own.
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

/// A message repeats what the user wrote; one error is one line all the same.
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
