//! Notes on what is not the same here as in the file.

use std::fmt;

use serde::Serialize;

/// Something that differs from the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The field, as the file names it; several names, separated by commas, where the note is about all of
    /// them.
    pub field: String,
    /// Whether the setting was lost or changed.
    pub kind: NoteKind,
    /// What happened to the setting.
    pub message: String,
}

/// The kind of a [`Note`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoteKind {
    /// The setting has no effect here.
    Lost,
    /// The setting has another form or value here, or it is absent and has the default of its system.
    Changed,
}

impl NoteKind {
    /// `lost` or `changed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Changed => "changed",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kind.name(), self.field, self.message)
    }
}
