//! Settings of other systems: their JSON becomes [`SamplingParams`], with notes on what could not be carried
//! over.
//!
//! [`import`] reads a request to OpenAI, vLLM (0.32.0) or llama.cpp's server (b21e4de745), or Hugging Face's
//! `generation_config.json` (transformers 5.22.2). The parameters give the same distribution as that system:
//!
//! - A field that is absent, or null, has the default of *that system*: an empty llama.cpp request means
//!   temperature 0.8, top-k 40, top-p 0.95 and min-p 0.05; a generation config without `do_sample` is greedy.
//! - The stages are in the order of that system.
//! - A value that the system clamps or ignores is clamped or ignored here too. A value that it refuses is
//!   carried over with a note, as far as [`SamplingParams`] allow it. A value that makes no sense, such as a
//!   string for a temperature, is a [`ParamError`] that names the field as the file does.
//!
//! Every difference that the file shows becomes a [`Note`]: [`NoteKind::Lost`] where something has no
//! counterpart here, unknown fields included, and [`NoteKind::Changed`] where it has another form or comes
//! from a default. Fields that are not about sampling (the prompt, the transport, the form of the answer,
//! bookkeeping) are skipped without a note. So is anything lost, ignored or unknown that is empty or switched
//! off in the file.
//!
//! A seed is carried over as a number: it repeats a draw here, but does not give the tokens of the other
//! system.
//!
//! The files: `source` (which system), `known` (the fields of a system), `off` (when a field says nothing),
//! `fields` (taking fields from a file), `note`, and one file or folder per system.
//!
//! ```
//! use onedraw::import::{Source, import};
//!
//! let imported = import(r#"{"do_sample": false, "max_new_tokens": 64, "num_beams": 4}"#, None)?;
//! assert_eq!(imported.source, Source::HuggingFace);
//! assert_eq!((imported.params.temperature, imported.params.max_tokens), (0.0, 64));
//! let notes: Vec<_> = imported.notes.iter().map(ToString::to_string).collect();
//! assert_eq!(notes[0], "changed: do_sample: false is greedy: temperature 0");
//! assert_eq!(notes[1], "lost: num_beams: beam search is not set by sampling parameters");
//! # Ok::<(), onedraw::ParamError>(())
//! ```

mod fields;
mod hugging_face;
mod known;
mod llama_cpp;
mod note;
mod off;
#[cfg(test)]
mod on_and_off;
mod openai;
mod source;
mod vllm;

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::numeric::float_mode::Standard;
use crate::params::SamplingParams;
use crate::params::chain::Order;
use crate::params::error::ParamError;
use fields::Fields;

pub use note::{Note, NoteKind};
pub use source::Source;

/// The settings of another system, as parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The system that the settings are from.
    pub source: Source,
    /// The parameters; they pass [`SamplingParams::validate`].
    pub params: SamplingParams,
    /// What was lost and what was changed.
    pub notes: Vec<Note>,
}

/// Reads one JSON object of settings; a byte order mark before it is skipped. Without a `source` the system
/// is [detected](Source::detect) from the fields.
///
/// An error if the text is no JSON object, if the system cannot be detected, or if a value cannot be used; it
/// names the field as the file does.
pub fn import(json: &str, source: Option<Source>) -> Result<Imported, ParamError> {
    // Reading a decimal number rounds, so it depends on the floating-point mode.
    let _mode = Standard::enter();
    let value = crate::params::json::parse(json.strip_prefix('\u{feff}').unwrap_or(json))?;
    let source = match (source, &value) {
        (_, value) if !value.is_object() => return Err(ParamError::new("params", "must be a JSON object")),
        (Some(source), _) => source,
        (None, value) => Source::detect(value).ok_or_else(|| {
            let message = format!("cannot be told from the fields; name it, one of {}", Source::names());
            ParamError::new("source", message)
        })?,
    };
    let mut fields = Fields::new(value);
    let params = (source.known().read)(&mut fields)?;
    params.validate().map_err(|error| source.rename(&error))?;
    Ok(Imported { source, params, notes: source.known().finish(fields, source.name()) })
}

impl Imported {
    /// The parameters that differ from their defaults, by name, as [`SamplingParams::from_json`] reads them.
    pub fn changed(&self) -> Map<String, Value> {
        let fields = |params: &SamplingParams| match serde_json::to_value(params) {
            Ok(Value::Object(fields)) => fields,
            // This cannot happen: numbers, strings and lists always have a JSON form, and an imported order
            // has no stage of a user's own.
            _ => Map::new(),
        };
        let default = fields(&SamplingParams::default());
        let mut changed: BTreeMap<String, Value> = fields(&self.params).into_iter().collect();
        changed.retain(|name, value| default.get(name) != Some(value));
        for name in ["huggingface", "llama.cpp"] {
            if self.params.order.is_some() && self.params.order == name.parse::<Order>().ok() {
                changed.insert("order".to_owned(), name.into());
            }
        }
        // Sorted by name, whatever the map of serde_json does.
        changed.into_iter().collect()
    }
}

/// `{"source": …, "params": {…}, "notes": [{"field": …, "kind": …, "message": …}, …]}`, with the parameters
/// of [`Imported::changed`].
impl Serialize for Imported {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Imported", 3)?;
        object.serialize_field("source", &self.source)?;
        object.serialize_field("params", &self.changed())?;
        object.serialize_field("notes", &self.notes)?;
        object.end()
    }
}
