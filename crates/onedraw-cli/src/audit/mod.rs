//! `onedraw audit`: whether a model and its sampler wrote the texts of a trace.
//!
//! `line` audits one line, with its `counterpart`; `table` and `page` show what came out.

mod counterpart;
mod line;
mod page;
mod table;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use onedraw::verdict::{FALSE_ALARMS, check_false_alarms};
use onedraw_lm::trace::Lines;

use crate::audit::counterpart::Counterparts;
use crate::audit::line::{Audited, Settings};
use crate::audit::page::Page;
use crate::audit::table::Sum;
use crate::destination::Destination;
use crate::exit::{DONE, ROW_FAILED};
use crate::model::{Model, ModelFlags};
use crate::output::Format;

/// The arguments of `onedraw audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
A trace is what `onedraw generate --trace FILE` writes: a line of JSON for each text. The model runs over each text, and every
token is compared with the one that the trace's parameters and seed draw. A gap is by how much the drawn token wins, in nats.
Verdicts: same (same model and sampler), arithmetic (same model with other arithmetic), other (something else).
JSON output is one object for each line of the trace:
  {\"line\":1,\"tokens\":120,\"equal\":120,\"verdict\":\"same\",\"positions\":[],…}, or {\"line\":2,\"error\":\"…\"}
Exit codes: 0 no verdict is other, 1 one is or a line is bad, 2 the trace or the model cannot be read.

Example:
  onedraw generate \"Once upon a time\" --seed 7 --trace t.jsonl && onedraw audit t.jsonl")]
pub struct Arguments {
    /// The trace; - is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    model: ModelFlags,
    /// The weaker model of texts that were written with --contrast=DIR
    #[arg(long, value_name = "DIR")]
    amateur: Option<String>,
    /// Audit texts of models with other weights or another tokenizer, too
    #[arg(long)]
    any_model: bool,
    /// The rate at which honest texts in other arithmetic may be called something else
    #[arg(long, value_name = "RATE", default_value_t = FALSE_ALARMS, value_parser = rate)]
    false_alarms: f64,
    /// How to print: to read, or one JSON object for each line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write a page with the texts, coloured by distance from the drawn tokens
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn rate(text: &str) -> Result<f64> {
    Ok(check_false_alarms(text.parse()?)?)
}

/// Audits every line and gives the exit code.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let source = open(&arguments.trace)?;
    let html = arguments.html.clone().map(|path| Destination::open("--html", path)).transpose()?;
    let model = Model::open(&arguments.model)?;
    let Arguments { any_model, false_alarms, .. } = *arguments;
    let mut settings = Settings {
        model: &model,
        counterparts: Counterparts::new(&model, arguments.amateur.as_deref(), any_model),
        any_model,
        false_alarms,
        grammar: None,
    };
    let mut sum = Sum::default();
    let mut page = html.as_ref().map(|_| Page::default());
    for read in Lines::new(source) {
        let (line, audited) = match read {
            Ok((number, trace)) => {
                let audited = settings.audit(&trace);
                if let Some(page) = &mut page {
                    page.add(number, &trace, &audited, &model.tokenizer);
                }
                (number, audited)
            }
            // The file could be opened and not be read to its end, such as a folder.
            Err(error) if error.is_last => {
                return Err(anyhow!("{}: {error}", arguments.trace.display()));
            }
            Err(error) => {
                if let Some(page) = &mut page {
                    page.add_bad(error.line, &error.message);
                }
                (error.line, Audited::Bad(error.message))
            }
        };
        sum.add(&audited);
        match arguments.format {
            Format::Json => writeln!(out, "{}", audited.json(line, false_alarms))?,
            Format::Table => table::write(out, line, &audited, &model.tokenizer)?,
        }
        out.flush()?;
    }
    if arguments.format == Format::Table {
        sum.write(out, false_alarms)?;
    }
    if let (Some(html), Some(page)) = (html, page) {
        html.write(page.finish().as_bytes())?;
    }
    Ok(if sum.is_good() { DONE } else { ROW_FAILED })
}

fn open(path: &PathBuf) -> Result<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
