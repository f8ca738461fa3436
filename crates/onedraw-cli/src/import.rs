//! `onedraw params import`: another system's settings as parameters.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use onedraw::ParamError;
use onedraw::import::{Imported, Source, import};
use serde_json::Value;

use crate::exit::{DONE, one_line};
use crate::output::Format;

/// The arguments of `onedraw params import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --format, the parameters are one JSON object on standard output, of what differs from the defaults,
and each note on what was lost or changed is a line on standard error:
  onedraw params import generation_config.json >params.json
  onedraw sample logits.npy --params @params.json
--format json prints everything: {\"source\":…,\"params\":{…},\"notes\":[{\"field\":…,\"kind\":…,\"message\":…}]}.")]
pub struct Arguments {
    /// A request to OpenAI, vLLM or llama.cpp's server, or a generation_config.json; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose settings they are; told from the fields if they can tell
    #[arg(long, value_name = "SOURCE")]
    #[arg(value_parser = PossibleValuesParser::new(Source::ALL.map(Source::name)).try_map(|name| name.parse::<Source>()))]
    from: Option<Source>,
    /// How to print parameters and notes: one JSON object, or a table to read
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// Prints the parameters and the notes.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let (name, text) = read(&arguments.file)?;
    let imported = import(&text, arguments.from).map_err(|error| named(&name, &error))?;
    match arguments.format {
        None => {
            write_json(out, &imported.changed())?;
            for note in &imported.notes {
                // If standard error is closed, there is nowhere to report that.
                let _ = writeln!(io::stderr(), "{}", one_line(&note.to_string()));
            }
        }
        Some(Format::Json) => write_json(out, &imported)?,
        Some(Format::Table) => write_table(out, &imported)?,
    }
    Ok(DONE)
}

/// The file's name for messages, and its text.
fn read(path: &Path) -> Result<(String, String)> {
    if path.as_os_str() == "-" {
        let text = io::read_to_string(io::stdin().lock());
        return text
            .map(|text| ("standard input".to_owned(), text))
            .map_err(|error| anyhow!("standard input: cannot be read: {error}"));
    }
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| anyhow!("{name}: cannot be read: {error}"))?;
    Ok((name, text))
}

fn named(file: &str, error: &ParamError) -> anyhow::Error {
    match error.field() {
        "params" => anyhow!("{file}: {}", error.message()),
        "source" => anyhow!(
            "{file}: the fields do not tell whose settings these are; name it with --from: {}",
            Source::ALL.map(Source::name).join(", ")
        ),
        field => anyhow!("{file}: {field}: {}", error.message()),
    }
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

fn write_table(out: &mut impl Write, imported: &Imported) -> Result<()> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parameters = imported.changed();
    let lines = parameters.iter().map(|(name, value)| [name.clone(), text(value), String::new()]);
    writeln!(out, "source: {}\n", imported.source)?;
    write_columns(out, ["parameter", "value", ""], lines)?;
    if imported.notes.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let notes = imported.notes.iter();
    let notes = notes.map(|note| [note.field.clone(), note.kind.name().to_owned(), note.message.clone()]);
    write_columns(out, ["field", "note", "message"], notes)
}

/// Lines below their headings; every column but the last is as wide as its widest cell.
fn write_columns(
    out: &mut impl Write,
    headings: [&str; 3],
    lines: impl Iterator<Item = [String; 3]>,
) -> Result<()> {
    let lines = lines.map(|line| line.map(|cell| one_line(&cell)));
    let lines: Vec<_> = std::iter::once(headings.map(str::to_owned)).chain(lines).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    for [a, b, c] in &lines {
        writeln!(out, "{}", format!("{a:<first$}  {b:<second$}  {c}").trim_end())?;
    }
    Ok(())
}
