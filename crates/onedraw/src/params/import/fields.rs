//! The fields of a file. Readers take them one by one with the type that each must have, and make notes on
//! the way.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::note::{Note, NoteKind};
use super::off::{Field, is_empty};
use crate::params::MAX_SEQUENCES;
use crate::params::error::ParamError;

/// The `typical_p` that keeps the first token alone. 0 is not allowed here, and the best of 2^20 tokens always
/// has more of the mass than this.
const FIRST_ALONE: f64 = 1e-9;

/// The fields that were not yet taken. Null counts as absent.
pub(super) struct Fields {
    left: BTreeMap<String, Value>,
    /// The names of all fields of the file that are not null.
    given: BTreeSet<String>,
    notes: Vec<Note>,
}

impl Fields {
    /// The fields of a JSON object; none if the value is no object.
    pub(super) fn new(value: Value) -> Self {
        let left: BTreeMap<String, Value> = match value {
            Value::Object(fields) => fields.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        let given = left.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone()).collect();
        Self { left, given, notes: Vec::new() }
    }

    /// Adds a note that a setting has no effect here.
    pub(super) fn lost(&mut self, field: &str, message: impl Into<String>) {
        self.note(field, NoteKind::Lost, message.into());
    }

    /// Adds a note that a setting has another form or value here.
    pub(super) fn changed(&mut self, field: &str, message: impl Into<String>) {
        self.note(field, NoteKind::Changed, message.into());
    }

    fn note(&mut self, field: &str, kind: NoteKind, message: String) {
        self.notes.push(Note { field: field.to_owned(), kind, message });
    }

    /// Whether the field is there and not null.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether the field is null, which some systems distinguish from absent.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(Value::is_null)
    }

    /// The value of a field, which is not taken.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.left.get(name)
    }

    /// Takes a field; `None` if it is absent or null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// Takes fields that the system ignores, and makes a note for each that would have had an effect.
    pub(super) fn ignore(&mut self, fields: &[Field], why: &str) {
        for (name, off) in fields {
            if self.take(name).is_some_and(|value| !off.is_met_by(&value)) {
                self.changed(name, format!("has no effect: {why}"));
            }
        }
    }

    /// The first of several names for one setting that is set. The others are taken and have no effect; there
    /// is a note where their values differ.
    pub(super) fn first<'a>(&mut self, names: &[&'a str]) -> Option<&'a str> {
        let first = *names.iter().find(|name| self.is_set(name))?;
        let value = self.get(first).cloned();
        for name in names.iter().filter(|name| **name != first) {
            if self.take(name).is_some_and(|other| !is_empty(&other) && Some(other) != value) {
                self.changed(name, format!("has no effect: {first} is set and goes first"));
            }
        }
        Some(first)
    }

    /// Makes a note for each number that is out of the range that the system accepts. The number is carried
    /// over all the same, because the file may come from somewhere else.
    pub(super) fn limit(&mut self, who: &str, ranges: &[(&str, f64, f64)]) {
        for &(name, low, high) in ranges {
            let number = self.get(name).and_then(Value::as_f64);
            if number.is_some_and(|number| !(low..=high).contains(&number)) {
                self.refused(name, who, &format!("it takes {low} to {high}"));
            }
        }
    }

    /// Adds a note that the system refuses a value.
    pub(super) fn refused(&mut self, name: &str, who: &str, why: &str) {
        self.changed(name, format!("{who} refuses this value: {why}"));
    }

    /// Takes a field and reads it; an error if the value is not `what` it must be.
    fn read<T>(
        &mut self,
        name: &str,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ParamError> {
        let value = self.take(name);
        value.map(|value| read(&value).ok_or_else(|| wrong(name, what, &value))).transpose()
    }

    /// Takes a number.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, ParamError> {
        self.read(name, "a number", Value::as_f64)
    }

    /// Takes a whole number.
    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i128>, ParamError> {
        self.read(name, "a whole number", integer)
    }

    /// Takes true or false.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ParamError> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// Takes a whole number from 0 to 2^32−1.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u32>, ParamError> {
        let what = format!("a whole number from 0 to {}", u32::MAX);
        self.read(name, &what, |value| u32::try_from(integer(value)?).ok())
    }

    /// Takes a number of sequences, 1 to [`MAX_SEQUENCES`].
    pub(super) fn sequences(&mut self, name: &str) -> Result<Option<u32>, ParamError> {
        let what = format!("a whole number from 1 to {MAX_SEQUENCES}");
        let count = |value: &Value| u32::try_from(integer(value)?).ok();
        self.read(name, &what, |value| count(value).filter(|n| (1..=MAX_SEQUENCES).contains(n)))
    }

    /// Takes a length of at least 1. Lengths above 2^32−1 become 2^32−1, which is as good as no limit.
    pub(super) fn length(&mut self, name: &str) -> Result<Option<u32>, ParamError> {
        let length = |value: &Value| integer(value).filter(|&length| length >= 1).map(saturated);
        self.read(name, "a whole number, at least 1", length)
    }

    /// Takes a string or a list of strings.
    pub(super) fn strings(&mut self, name: &str) -> Result<Option<Vec<String>>, ParamError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.read(name, "a string or a list of strings", |value| one_or_many(value, text))
    }

    /// Takes a token id or a list of token ids.
    pub(super) fn ids(&mut self, name: &str) -> Result<Option<Vec<u32>>, ParamError> {
        self.read(name, "a token id or a list of token ids", |value| one_or_many(value, token))
    }

    /// The share that keeps the first token alone, for systems that do so at 0 and below; makes a note of it.
    pub(super) fn first_alone(&mut self, name: &str) -> f64 {
        self.changed(name, format!("keeps the first token alone there, as {FIRST_ALONE} does here"));
        FIRST_ALONE
    }

    /// Takes every field that no reader took.
    pub(super) fn take_rest(&mut self) -> BTreeMap<String, Value> {
        std::mem::take(&mut self.left)
    }

    /// The names of all fields of the file that are not null.
    pub(super) fn given(&self) -> &BTreeSet<String> {
        &self.given
    }

    /// The notes made so far.
    pub(super) fn into_notes(self) -> Vec<Note> {
        self.notes
    }
}

/// Takes the fields that have the same name and meaning here, and sets the parameters of those that are set.
macro_rules! carry {
    ($fields:ident, $params:ident, $($read:ident: $($name:ident),+);+) => {
        $($(
            if let Some(value) = $fields.$read(stringify!($name))? {
                $params.$name = value;
            }
        )+)+
    };
}
pub(super) use carry;

/// The error for a value that is not `what` it must be. A long value is cut off.
pub(super) fn wrong(field: &str, what: &str, value: &Value) -> ParamError {
    const SHOWN: usize = 60;
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    ParamError::new(field, format!("must be {what}, not {text}"))
}

/// A whole number, which may be written as 40 or as 40.0.
pub(super) fn integer(value: &Value) -> Option<i128> {
    if let Some(integer) = value.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = value.as_u64() {
        return Some(integer.into());
    }
    value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i128)
}

/// A token id.
pub(super) fn token(value: &Value) -> Option<u32> {
    u32::try_from(integer(value)?).ok()
}

/// The integer, limited to the range of a u32.
pub(super) fn saturated(integer: i128) -> u32 {
    integer.clamp(0, u32::MAX.into()) as u32
}

/// Reads one value or a list of values.
fn one_or_many<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Value::Array(values) => values.iter().map(read).collect(),
        value => read(value).map(|value| vec![value]),
    }
}
