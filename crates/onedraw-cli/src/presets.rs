//! `onedraw presets`: the settings with a name.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use onedraw::{SamplingParams, presets};
use onedraw_lm::settings::PRESET_FIELDS;
use serde::Serializer;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

use crate::exit::DONE;
use crate::output::Format;

/// The arguments of `onedraw presets`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How to print: a table to read, or one JSON object of what each preset changes
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Prints the presets.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let presets = presets::NAMES.into_iter().filter_map(|name| Some((name, presets::by_name(name)?)));
    match arguments.format {
        Format::Table => {
            let [temperature, top_p, top_k, repetition_penalty] = PRESET_FIELDS;
            writeln!(out, "{:<13}  {temperature}  {top_p:>5}  {top_k:>5}  {repetition_penalty}", "name")?;
            for (name, params) in presets {
                let SamplingParams { temperature, top_p, top_k, repetition_penalty, .. } = params;
                writeln!(
                    out,
                    "{name:<13}  {temperature:>11}  {top_p:>5}  {top_k:>5}  {repetition_penalty:>18}"
                )?;
            }
        }
        Format::Json => {
            let mut serializer = serde_json::Serializer::new(&mut *out);
            let mut map = serializer.serialize_map(None).map_err(std::io::Error::from)?;
            for (name, params) in presets {
                map.serialize_entry(name, &changed(&params)?).map_err(std::io::Error::from)?;
            }
            map.end().map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(DONE)
}

/// The parameters that are not at their default.
fn changed(params: &SamplingParams) -> Result<Map<String, Value>> {
    let default = serde_json::to_value(SamplingParams::default())?;
    let mut changed = Map::new();
    if let Value::Object(fields) = serde_json::to_value(params)? {
        changed.extend(fields.into_iter().filter(|(name, value)| default.get(name) != Some(value)));
    }
    Ok(changed)
}
