//! When a field of a file says nothing: it is empty, or has the value that switches it off.

use serde_json::Value;

/// The values that switch a field off, beside null and, but for [`Off::True`], false and anything empty.
pub(super) enum Off {
    /// The number 0.
    Zero,
    /// This number.
    At(f64),
    /// One of these numbers.
    In(&'static [f64]),
    /// Any number below this.
    Below(f64),
    /// One of these texts, or an object whose `type` is one of them.
    Named(&'static [&'static str]),
    /// True: it is false that asks for something.
    True,
    /// Any value: the field only modifies what another field switches on.
    Alone,
}

/// A field, and the values with which it has no effect.
pub(super) type Field = (&'static str, Off);

impl Off {
    /// Whether `value` switches the field off.
    pub(super) fn is_met_by(&self, value: &Value) -> bool {
        let number = value.as_f64();
        // llama.cpp reports its numbers with 32 bits: 0.9 is reported as 0.8999999761581421.
        let is = |off: f64| number.is_some_and(|number| number as f32 == off as f32);
        let text = value.as_str().or_else(|| value.get("type")?.as_str());
        let is_off = match *self {
            Off::True => return value.is_null() || *value == Value::Bool(true),
            Off::Zero => is(0.0),
            Off::At(off) => is(off),
            Off::In(numbers) => numbers.iter().any(|&off| is(off)),
            Off::Below(bound) => number.is_some_and(|number| number < bound),
            Off::Named(names) => text.is_some_and(|text| names.contains(&text)),
            Off::Alone => true,
        };
        is_off || is_empty(value)
    }
}

/// Whether a value is null, false, or an empty string, list or object.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(_) => false,
        Value::String(value) => value.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
