//! The fields of a file, taken one by one with the type that each must have, and the notes made on the way.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::known::{Field, is_empty};
use super::{Note, NoteKind, Source};
use crate::params::MAX_SEQUENCES;
use crate::params::error::ParamError;

/// The `top_p` or `typical_p` that keeps the first token alone. 0 is not allowed here; the best of 2^20
/// tokens has more of the mass than this.
const FIRST_ALONE: f64 = 1e-9;

/// The fields not yet taken. Null is absent.
pub(super) struct Fields {
    left: BTreeMap<String, Value>,
    /// The names of all that stood in the file.
    given: BTreeSet<String>,
    notes: Vec<Note>,
}

impl Fields {
    pub(super) fn new(value: Value) -> Self {
        let left: BTreeMap<String, Value> = match value {
            Value::Object(fields) => fields.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        let given = left.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone()).collect();
        Self { left, given, notes: Vec::new() }
    }

    pub(super) fn lost(&mut self, field: &str, message: impl Into<String>) {
        self.note(field, NoteKind::Lost, message.into());
    }

    pub(super) fn changed(&mut self, field: &str, message: impl Into<String>) {
        self.note(field, NoteKind::Changed, message.into());
    }

    fn note(&mut self, field: &str, kind: NoteKind, message: String) {
        self.notes.push(Note { field: field.to_owned(), kind, message });
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether the field stands in the file as null, which some systems tell from absent.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(Value::is_null)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.left.get(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// Takes fields that the system ignores, and says so of each that would have done something.
    pub(super) fn ignore(&mut self, fields: &[Field], why: &str) {
        for (name, off) in fields {
            if self.take(name).is_some_and(|value| !off.is_met_by(&value)) {
                self.changed(name, format!("has no effect: {why}"));
            }
        }
    }

    /// The first of several names for one thing that is set; the others have no effect, which matters where
    /// they differ.
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

    /// Says of each number out of its range that the system refuses it. It is carried all the same: who has
    /// such a file has it from somewhere.
    pub(super) fn limit(&mut self, who: &str, ranges: &[(&str, f64, f64)]) {
        for &(name, low, high) in ranges {
            let number = self.get(name).and_then(Value::as_f64);
            if number.is_some_and(|number| !(low..=high).contains(&number)) {
                self.refused(name, who, &format!("it takes {low} to {high}"));
            }
        }
    }

    pub(super) fn refused(&mut self, name: &str, who: &str, why: &str) {
        self.changed(name, format!("{who} refuses this value: {why}"));
    }

    fn read<T>(
        &mut self,
        name: &str,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ParamError> {
        let value = self.take(name);
        value.map(|value| read(&value).ok_or_else(|| wrong(name, what, &value))).transpose()
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, ParamError> {
        self.read(name, "a number", Value::as_f64)
    }

    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i128>, ParamError> {
        self.read(name, "a whole number", integer)
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ParamError> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// 0 to 2^32−1.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u32>, ParamError> {
        let what = format!("a whole number from 0 to {}", u32::MAX);
        self.read(name, &what, |value| u32::try_from(integer(value)?).ok())
    }

    /// A number of sequences.
    pub(super) fn sequences(&mut self, name: &str) -> Result<Option<u32>, ParamError> {
        let what = format!("a whole number from 1 to {MAX_SEQUENCES}");
        let count = |value: &Value| u32::try_from(integer(value)?).ok();
        self.read(name, &what, |value| count(value).filter(|n| (1..=MAX_SEQUENCES).contains(n)))
    }

    /// A length, at least 1; one past 2^32−1 is as good as none.
    pub(super) fn length(&mut self, name: &str) -> Result<Option<u32>, ParamError> {
        let length = |value: &Value| integer(value).filter(|&length| length >= 1).map(saturated);
        self.read(name, "a whole number, at least 1", length)
    }

    pub(super) fn strings(&mut self, name: &str) -> Result<Option<Vec<String>>, ParamError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.read(name, "a string or a list of strings", |value| one_or_many(value, text))
    }

    pub(super) fn ids(&mut self, name: &str) -> Result<Option<Vec<u32>>, ParamError> {
        self.read(name, "a token id or a list of token ids", |value| one_or_many(value, token))
    }

    /// The share that keeps the first token alone, where the system does so at 0 and below.
    pub(super) fn first_alone(&mut self, name: &str) -> f64 {
        self.changed(name, format!("keeps the first token alone there, as {FIRST_ALONE} does here"));
        FIRST_ALONE
    }

    /// Goes through what no reader took, and hands out the notes.
    pub(super) fn finish(mut self, source: Source) -> Vec<Note> {
        let known = source.known();
        for (name, value) in std::mem::take(&mut self.left) {
            match known.lost(&name) {
                Some(lost) if !lost.off.is_met_by(&value) => self.lost(&name, lost.why),
                None if !known.names(&name) && !known.is_idle(&name, &value, &self.given) => {
                    self.lost(&name, format!("is not known to {source}"));
                }
                _ => {}
            }
        }
        self.notes
    }
}

/// Fields that have the same name and meaning here: taken where they are set.
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

/// The error of a value that is not `what` it must be. A long value is cut.
pub(super) fn wrong(field: &str, what: &str, value: &Value) -> ParamError {
    const SHOWN: usize = 60;
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    ParamError::new(field, format!("must be {what}, not {text}"))
}

/// A whole number, written as 40 or as 40.0.
pub(super) fn integer(value: &Value) -> Option<i128> {
    if let Some(integer) = value.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = value.as_u64() {
        return Some(integer.into());
    }
    value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i128)
}

pub(super) fn token(value: &Value) -> Option<u32> {
    u32::try_from(integer(value)?).ok()
}

/// The integer, as near as 32 bits come.
pub(super) fn saturated(integer: i128) -> u32 {
    integer.clamp(0, u32::MAX.into()) as u32
}

fn one_or_many<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Value::Array(values) => values.iter().map(read).collect(),
        value => read(value).map(|value| vec![value]),
    }
}
