//! One layer of settings: some parameters with their values, all from one origin.

use onedraw::{PARAMETERS, ParamError, SamplingParams, presets};
use serde_json::{Map, Value};

use super::dropped::{Dropped, Origin, Reason};

macro_rules! fields {
    ($($(#[$attribute:meta])* $field:ident: $type:ty = $default:expr, $group:ident, $help:literal $(, $details:literal)?;)*) => {
        /// Copies the value of one parameter.
        fn copy(field: &str, from: &SamplingParams, to: &mut SamplingParams) {
            match field {
                $(stringify!($field) => to.$field.clone_from(&from.$field),)*
                _ => {}
            }
        }

        /// The value of one parameter as JSON; null for an order with a stage of a user's own, which has
        /// none.
        fn value_of(field: &str, params: &SamplingParams) -> Value {
            match field {
                $(stringify!($field) => serde_json::to_value(&params.$field).unwrap_or_default(),)*
                _ => Value::Null,
            }
        }
    };
}
onedraw::__parameters!(fields);

/// The parameters that a preset sets, whether to their defaults or not.
pub const PRESET_FIELDS: [&str; 4] = ["temperature", "top_p", "top_k", "repetition_penalty"];

/// Some parameters with their values, all from one origin.
#[derive(Clone, Debug)]
pub struct Layer {
    origin: Origin,
    /// The names of the parameters that it sets.
    fields: Vec<&'static str>,
    /// Their values. All other parameters have their defaults here, which mean nothing.
    values: SamplingParams,
    /// What it sets, but cannot be used whatever else is set.
    unusable: Vec<Dropped>,
}

impl Layer {
    /// The parameters of these names, with the values that `values` has of them. Other names are passed over.
    pub fn new<'a>(origin: Origin, values: SamplingParams, names: impl IntoIterator<Item = &'a str>) -> Self {
        let fields = names.into_iter().filter_map(known).collect();
        Self { origin, fields, values, unusable: Vec::new() }
    }

    /// Settings by name. An error names the first one that is unknown or of a wrong type; whether the values
    /// are allowed is checked once all layers are merged.
    pub fn read(origin: Origin, settings: &Map<String, Value>) -> Result<Self, ParamError> {
        let values = SamplingParams::from_deserializer(Value::Object(settings.clone()))?;
        Ok(Self::new(origin, values, settings.keys().map(String::as_str)))
    }

    /// What a preset sets: all of [`PRESET_FIELDS`]. `None` if there is no preset of that name.
    pub fn preset(name: &str) -> Option<Self> {
        Some(Self::new(Origin::Preset, presets::by_name(name)?, PRESET_FIELDS))
    }

    /// The model's own settings. One that cannot be used is left out, and resolving the settings reports it.
    pub fn model(settings: &Map<String, Value>) -> Self {
        let origin = Origin::Model;
        let mut layer = Self::new(origin, SamplingParams::default(), []);
        for (name, value) in settings {
            match (known(name), usable(name, value)) {
                (Some(field), Ok(params)) => {
                    copy(field, &params, &mut layer.values);
                    layer.fields.push(field);
                }
                (_, checked) => {
                    let reason = Reason::Unusable(checked.err().map_or_else(String::new, |e| e.to_string()));
                    layer.unusable.push(Dropped {
                        field: name.clone(),
                        value: value.clone(),
                        origin,
                        reason,
                    });
                }
            }
        }
        layer
    }

    /// Whose settings these are.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether it sets the parameter.
    pub fn sets(&self, field: &str) -> bool {
        self.fields.contains(&field)
    }

    /// Gives its values to `params`, and leaves the other parameters there as they are.
    pub fn lay_over(&self, params: &mut SamplingParams) {
        for field in &self.fields {
            copy(field, &self.values, params);
        }
    }

    /// Takes out the settings that cannot be used.
    pub(super) fn take_unusable(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.unusable)
    }

    /// Takes out one parameter, if it sets it.
    pub(super) fn remove(&mut self, field: &str, reason: Reason) -> Option<Dropped> {
        let place = self.fields.iter().position(|other| *other == field)?;
        let field = self.fields.remove(place);
        let value = value_of(field, &self.values);
        Some(Dropped { field: field.to_owned(), value, origin: self.origin, reason })
    }
}

/// The parameter of that name.
fn known(name: &str) -> Option<&'static str> {
    PARAMETERS.iter().map(|parameter| parameter.name).find(|field| *field == name)
}

/// One setting alone, checked. Two parameters are also checked against another one, which the merged settings
/// may give another value: here it has the value that allows the most.
fn usable(name: &str, value: &Value) -> Result<SamplingParams, ParamError> {
    let alone = Map::from_iter([(name.to_owned(), value.clone())]);
    let mut params = SamplingParams::from_deserializer(Value::Object(alone))?;
    match name {
        "min_tokens" => params.max_tokens = u32::MAX,
        "dynatemp_range" => params.temperature = 0.0,
        _ => {}
    }
    params.validate()?;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_sets_its_fields_and_no_others() {
        for name in presets::NAMES {
            let mut params = SamplingParams::default();
            Layer::preset(name).unwrap().lay_over(&mut params);
            assert_eq!(Some(params), presets::by_name(name));
        }
        assert!(Layer::preset("wild").is_none());
    }
}
