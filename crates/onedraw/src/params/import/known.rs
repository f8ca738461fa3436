//! What a system knows: the fields that are carried over, those that are lost, and those that are passed
//! over.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::Fields;
use crate::params::SamplingParams;
use crate::params::error::ParamError;

/// The fields that a system has.
pub(super) struct Known {
    /// Takes the fields that are carried over.
    pub read: fn(&mut Fields) -> Result<SamplingParams, ParamError>,
    /// Those that `read` takes.
    pub carried: &'static [&'static str],
    /// Those without a counterpart.
    pub lost: &'static [&'static [Lost]],
    /// Those that are not about sampling. A name that ends with a dot stands for all that begin with it.
    pub passed: &'static [&'static [&'static str]],
    /// Fields of other systems, which this one ignores, and what they say nothing with.
    pub foreign: &'static [Field],
    /// Names that other systems have for one of its fields: theirs, its own.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Parameters that it calls by another name: ours, theirs.
    pub renamed: &'static [(&'static str, &'static str)],
}

/// Why several systems' fields are lost.
pub(super) const BEAMS: &str = "beam search is not set by sampling parameters";
pub(super) const CONSTRAINT: &str =
    "a constraint on the text is not a sampling parameter; give a mask with each draw";

/// A field without a counterpart.
pub(super) struct Lost {
    field: &'static str,
    pub off: Off,
    pub why: &'static str,
}

/// What switches a field off, beside null, false and anything empty.
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
    /// Anything: the field only shapes what another switches on.
    Alone,
}

/// A field, and what it says nothing with.
pub(super) type Field = (&'static str, Off);

pub(super) const fn lost(field: &'static str, off: Off, why: &'static str) -> Lost {
    Lost { field, off, why }
}

impl Known {
    pub(super) fn lost(&self, name: &str) -> Option<&'static Lost> {
        self.lost.iter().flat_map(|list| list.iter()).find(|lost| lost.field == name)
    }

    /// Whether the field is one of sampling.
    pub(super) fn samples(&self, name: &str) -> bool {
        self.carried.contains(&name) || self.lost(name).is_some()
    }

    pub(super) fn passes(&self, name: &str) -> bool {
        let is_meant = |passed: &str| name == passed || (passed.ends_with('.') && name.starts_with(passed));
        self.passed.iter().any(|list| list.iter().any(|passed| is_meant(passed)))
    }

    pub(super) fn names(&self, name: &str) -> bool {
        self.samples(name) || self.passes(name)
    }

    /// Whether a field that the system does not have says nothing here: it is empty or off, or says what a
    /// field of its own says too.
    pub(super) fn is_idle(&self, name: &str, value: &Value, given: &BTreeSet<String>) -> bool {
        is_empty(value)
            || self.foreign.iter().any(|(field, off)| *field == name && off.is_met_by(value))
            || self.aliases.iter().any(|(alias, own)| *alias == name && given.contains(*own))
    }
}

impl Off {
    pub(super) fn is_met_by(&self, value: &Value) -> bool {
        let number = value.as_f64();
        // llama.cpp reports its numbers with 32 bits: what was 0.9 comes back as 0.8999999761581421.
        let is = |off: f64| number.is_some_and(|number| number as f32 == off as f32);
        let text = value.as_str().or_else(|| value.get("type")?.as_str());
        let is_off = match *self {
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

/// Null, false, or nothing inside.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::params::import::Source;

    #[test]
    fn no_list_names_a_field_twice() {
        for source in Source::ALL {
            let Known { carried, lost, passed, foreign, aliases, .. } = source.known();
            let lost = lost.iter().flat_map(|list| list.iter()).map(|lost| &lost.field);
            let passed = passed.iter().flat_map(|list| list.iter());
            let others = foreign.iter().map(|(name, _)| name).chain(aliases.iter().map(|(name, _)| name));
            let names: Vec<_> = carried.iter().chain(lost).chain(passed).chain(others).collect();
            let mut seen = BTreeSet::new();
            names.iter().for_each(|name| assert!(seen.insert(*name), "{source}: {name}"));
        }
    }

    #[test]
    fn every_carried_field_is_taken_and_no_other() {
        for source in Source::ALL {
            let known = source.known();
            let names = Source::ALL.iter().flat_map(|source| source.known().carried);
            for name in names {
                for value in [json!(1), json!("x"), json!(true), json!([]), json!({})] {
                    let mut fields = Fields::new(json!({ *name: value }));
                    if (known.read)(&mut fields).is_ok() {
                        assert_eq!(
                            fields.is_set(name),
                            !known.carried.contains(name),
                            "{source}: {name} {value}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_alias_stands_for_a_field_that_is_carried() {
        for source in Source::ALL {
            let Known { carried, aliases, .. } = source.known();
            aliases.iter().for_each(|(alias, own)| assert!(carried.contains(own), "{source}: {alias} {own}"));
        }
    }
}
