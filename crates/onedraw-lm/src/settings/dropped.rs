//! Where a setting comes from, and why one is not used.

use std::fmt;

use serde_json::Value;

/// Where settings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The user's own: a flag of the program or a keyword argument in Python.
    Argument,
    /// A preset that the user named.
    Preset,
    /// The model's generation_config.json.
    Model,
}

impl Origin {
    /// Whether settings from here give way to those from elsewhere. What a user asked for never does. The
    /// makers of a model did not know what would be asked for, so their settings do.
    pub fn gives_way(self) -> bool {
        self == Self::Model
    }
}

/// A setting that is not used, although no stronger layer has a value for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// The name of the parameter.
    pub field: String,
    /// The value that it would have had.
    pub value: Value,
    /// Who set it.
    pub origin: Origin,
    /// Why it is not used.
    pub reason: Reason,
}

/// Why a setting is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The parameter cannot have this value, or there is no such parameter. The text says what is wrong.
    Unusable(String),
    /// A preset decides it, together with the preset's own settings.
    DecidedByPreset,
    /// It cannot be combined with the value that another parameter has.
    Beside {
        /// The other parameter.
        field: &'static str,
        /// Who set that one; `None`: it has its default.
        origin: Option<Origin>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(message) => f.write_str(message),
            Self::DecidedByPreset => f.write_str("the preset decides it"),
            Self::Beside { field, origin } => {
                let by = match origin {
                    Some(Origin::Argument) => "which was asked for",
                    Some(Origin::Preset) => "which the preset sets",
                    Some(Origin::Model) => "which the model sets too",
                    None => "which has its default",
                };
                write!(f, "it cannot be combined with {field}, {by}")
            }
        }
    }
}
