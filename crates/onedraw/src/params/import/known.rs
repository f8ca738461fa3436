//! What a system knows: the fields that are carried over, those that are lost, and those that are skipped
//! because they are not about sampling.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::Fields;
use super::note::Note;
use super::off::{Field, Off, is_empty};
use crate::params::SamplingParams;
use crate::params::error::ParamError;

/// The fields that a system has.
pub(super) struct Known {
    /// Reads the fields that are carried over.
    pub read: fn(&mut Fields) -> Result<SamplingParams, ParamError>,
    /// The names of the fields that `read` takes.
    pub carried: &'static [&'static str],
    /// The fields that have no counterpart here.
    pub lost: &'static [&'static [Lost]],
    /// The fields that are not about sampling. A name that ends with a dot stands for all names that begin
    /// with it.
    pub passed: &'static [&'static [&'static str]],
    /// Fields of other systems, which this one ignores, with the values that have no effect in those systems.
    pub foreign: &'static [Field],
    /// Names that other systems use for a field of this one, as pairs of the other name and the own name.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Parameters that have another name in this system, as pairs of our name and theirs.
    pub renamed: &'static [(&'static str, &'static str)],
}

/// Fields of one system whose false asks for something, which no other system would do.
const FOREIGN: &[Field] = &[("do_sample", Off::True)];

/// Reasons that are used for fields of several systems.
pub(super) const BEAMS: &str = "beam search is not set by sampling parameters";
pub(super) const CONSTRAINT: &str =
    "a constraint on the text is not a sampling parameter; give a mask with each draw";

/// A field that has no counterpart here.
pub(super) struct Lost {
    pub field: &'static str,
    pub off: Off,
    pub why: &'static str,
}

/// An entry of [`Known::lost`].
pub(super) const fn lost(field: &'static str, off: Off, why: &'static str) -> Lost {
    Lost { field, off, why }
}

impl Known {
    /// The entry of a field that has no counterpart.
    pub(super) fn lost(&self, name: &str) -> Option<&'static Lost> {
        self.lost.iter().flat_map(|list| list.iter()).find(|lost| lost.field == name)
    }

    /// Whether the system knows the field and the field is about sampling.
    pub(super) fn samples(&self, name: &str) -> bool {
        self.carried.contains(&name) || self.lost(name).is_some()
    }

    /// Whether the field is skipped because it is not about sampling.
    pub(super) fn passes(&self, name: &str) -> bool {
        let is_meant = |passed: &str| name == passed || (passed.ends_with('.') && name.starts_with(passed));
        self.passed.iter().any(|list| list.iter().any(|passed| is_meant(passed)))
    }

    /// Whether the system knows the field.
    pub(super) fn names(&self, name: &str) -> bool {
        self.samples(name) || self.passes(name)
    }

    /// Whether a field that the system does not know has no effect: it is empty or off, or repeats what a
    /// field of the system says.
    pub(super) fn is_idle(&self, name: &str, value: &Value, given: &BTreeSet<String>) -> bool {
        if let Some((_, off)) = self.foreign.iter().chain(FOREIGN).find(|(field, _)| *field == name) {
            return off.is_met_by(value);
        }
        is_empty(value) || self.aliases.iter().any(|(alias, own)| *alias == name && given.contains(*own))
    }

    /// Adds notes on the fields that no reader took, and returns all notes. `system` is the name of the
    /// system.
    pub(super) fn finish(&self, mut fields: Fields, system: &str) -> Vec<Note> {
        for (name, value) in fields.take_rest() {
            match self.lost(&name) {
                Some(lost) if !lost.off.is_met_by(&value) => fields.lost(&name, lost.why),
                None if !self.names(&name) && !self.is_idle(&name, &value, fields.given()) => {
                    fields.lost(&name, format!("is not known to {system}"));
                }
                _ => {}
            }
        }
        fields.into_notes()
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
