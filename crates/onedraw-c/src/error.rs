//! What can go wrong in a call: a status, and the words of the library.

use std::ffi::c_char;
use std::fmt::{self, Display};

use library::{ConstraintError, ParamError, RowError};
use onedraw_grammar::GrammarError;

/// What a function returns: `ONEDRAW_OK`, or what went wrong.
pub type onedraw_status = i32;

/// It was done.
pub const ONEDRAW_OK: onedraw_status = 0;
/// An argument cannot be used: NULL where a pointer is needed, not aligned, too large, not UTF-8, or a value that
/// has no meaning. The kind of the error is the argument's name. Nothing was changed.
pub const ONEDRAW_BAD_ARGUMENT: onedraw_status = 1;
/// The handle is NULL, was freed, or is not of this kind; or there are four million already. Nothing was changed.
pub const ONEDRAW_BAD_HANDLE: onedraw_status = 2;
/// Another thread uses the handle right now, or this thread does in an outer call. Nothing was changed.
pub const ONEDRAW_IN_USE: onedraw_status = 3;
/// A buffer is too small. The number that is needed was written to where the length is returned. Nothing else was
/// changed.
pub const ONEDRAW_TOO_SMALL: onedraw_status = 4;
/// A sampling parameter cannot be used. The kind of the error is its name.
pub const ONEDRAW_BAD_PARAMETER: onedraw_status = 5;
/// A row cannot be drawn from, by itself or with these parameters and this history. The kind of the error is one of the
/// library's: `nan_logit`, `outside_vocabulary`, `nothing_left`, … The history was not changed.
pub const ONEDRAW_BAD_ROW: onedraw_status = 6;
/// A vocabulary or a grammar cannot be used.
pub const ONEDRAW_BAD_GRAMMAR: onedraw_status = 7;
/// A text does not keep to its grammar, or cannot go on. The matcher was not changed.
pub const ONEDRAW_BAD_TEXT: onedraw_status = 8;
/// There is no result of that kind or number: nothing was drawn yet, or it was not asked for.
pub const ONEDRAW_NOTHING: onedraw_status = 9;
/// A mistake in onedraw. The handle cannot be used any more; free it. Please report the message.
pub const ONEDRAW_INTERNAL: onedraw_status = 10;
/// The sequence is not in the batch, or no longer (kind `unknown_sequence`), or has two rows in one call
/// (`repeated_sequence`). Its history was not changed.
pub const ONEDRAW_BAD_SEQUENCE: onedraw_status = 11;

/// The bytes of `onedraw_error.kind`, with the zero at the end.
pub const ONEDRAW_KIND_SIZE: usize = 48;
/// The bytes of `onedraw_error.message`, with the zero at the end.
pub const ONEDRAW_MESSAGE_SIZE: usize = 456;

/// What went wrong, in words. Every function takes a pointer to one, which may be NULL, and writes to it whether
/// it fails or not. It holds no pointers and need not be freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_error {
    /// The same as what the function returns.
    pub status: onedraw_status,
    /// The bytes of the whole message, without the zero at the end; 0 if nothing went wrong. A message that is
    /// longer than `message` was cut, after a whole character.
    pub length: u32,
    /// A short name for programs to test: the parameter, the argument or the kind of the row's error. UTF-8, cut
    /// like the message.
    pub kind: [c_char; ONEDRAW_KIND_SIZE],
    /// The message. UTF-8.
    pub message: [c_char; ONEDRAW_MESSAGE_SIZE],
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: onedraw_status,
    kind: String,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: onedraw_status, kind: &str, message: impl Display) -> Self {
        Self { status, kind: kind.to_owned(), message: message.to_string() }
    }

    /// An argument that cannot be used; the message begins with its name.
    pub(crate) fn argument(name: &str, what: impl Display) -> Self {
        Self::new(ONEDRAW_BAD_ARGUMENT, name, format_args!("{name}: {what}"))
    }

    pub(crate) fn nothing(what: impl Display) -> Self {
        Self::new(ONEDRAW_NOTHING, "nothing", what)
    }

    pub(crate) fn internal(what: impl Display) -> Self {
        Self::new(ONEDRAW_INTERNAL, "internal", what)
    }

    /// The failure of row `row` of several.
    pub(crate) fn of_row(row: usize, error: &RowError) -> Self {
        Self::new(status_of(error), error.kind(), format_args!("row {row}: {error}"))
    }
}

/// The status of a row's error.
pub(crate) fn status_of(error: &RowError) -> onedraw_status {
    match error {
        RowError::UnknownSequence | RowError::RepeatedSequence => ONEDRAW_BAD_SEQUENCE,
        _ => ONEDRAW_BAD_ROW,
    }
}

impl From<ParamError> for Failure {
    fn from(error: ParamError) -> Self {
        Self::new(ONEDRAW_BAD_PARAMETER, error.field(), &error)
    }
}

impl From<RowError> for Failure {
    fn from(error: RowError) -> Self {
        match error {
            RowError::UniformOutOfRange { uniform } => {
                Self::argument("uniform", format_args!("must be in [0, 1), not {uniform}"))
            }
            _ => Self::new(status_of(&error), error.kind(), &error),
        }
    }
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        let kind = match &error {
            GrammarError::Malformed { .. } => "malformed",
            GrammarError::Unsatisfiable(_) => "unsatisfiable",
            GrammarError::Vocabulary(_) => "vocabulary",
            _ => "grammar",
        };
        Self::new(ONEDRAW_BAD_GRAMMAR, kind, &error)
    }
}

impl From<ConstraintError> for Failure {
    fn from(error: ConstraintError) -> Self {
        Self::new(ONEDRAW_BAD_TEXT, "constraint", &error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl onedraw_error {
    /// Nothing went wrong.
    pub(crate) const NONE: Self = Self {
        status: ONEDRAW_OK,
        length: 0,
        kind: [0; ONEDRAW_KIND_SIZE],
        message: [0; ONEDRAW_MESSAGE_SIZE],
    };
}

impl From<&Failure> for onedraw_error {
    fn from(failure: &Failure) -> Self {
        Self {
            status: failure.status,
            length: u32::try_from(failure.message.len()).unwrap_or(u32::MAX),
            kind: bytes_of(&failure.kind),
            message: bytes_of(&failure.message),
        }
    }
}

/// As many whole characters as there is room for, and zeros after them.
fn bytes_of<const N: usize>(text: &str) -> [c_char; N] {
    let mut bytes = [0; N];
    let length = text.floor_char_boundary(N - 1);
    bytes.iter_mut().zip(c_text(&text[..length])).for_each(|(to, from)| *to = from);
    bytes
}

/// The bytes of a text for C. A zero would end it, so one inside of it becomes a space.
pub(crate) fn c_text(text: &str) -> impl Iterator<Item = c_char> {
    text.bytes().map(|byte| if byte == 0 { b' ' } else { byte } as c_char)
}
