//! How results are written: JSON lines here, the readable form in [`crate::table`].

use std::io::{self, Write};

use clap::ValueEnum;
use onedraw::{Distribution, Explanation, Kept, RowError, Sampled, TokenLogprob};
use serde::Serialize;

use crate::explanation;
use crate::request::Request;
use crate::table::Table;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON value per line, for programs.
    #[value(help = None)]
    Json,
    /// Aligned columns, for people.
    #[value(help = None)]
    Table,
}

/// Writes results in one [`Format`].
#[derive(Debug)]
pub struct Printer<W> {
    out: W,
    table: Option<Table>,
}

impl<W: Write> Printer<W> {
    /// `has_sequences`: whether any row has more than one sequence. A table then has a column for it.
    pub fn new(out: W, format: Format, has_sequences: bool) -> Self {
        let table = match format {
            Format::Json => None,
            Format::Table => Some(Table::new(has_sequences)),
        };
        Self { out, table }
    }

    /// One drawn token.
    pub fn draw(&mut self, row: usize, draw: u32, sampled: &Sampled, request: &Request) -> io::Result<()> {
        let logprobs = request.lists_logprobs.then_some(sampled.logprobs.as_slice());
        match &mut self.table {
            Some(table) => table.draw(&mut self.out, row, draw, sampled, logprobs),
            None => {
                let sequence = (request.params.n > 1).then_some(sampled.sequence);
                self.line(&DrawLine::new(row, draw, sequence, sampled, logprobs))
            }
        }
    }

    /// The distribution of one row.
    pub fn distribution(&mut self, row: usize, distribution: &Distribution) -> io::Result<()> {
        match &mut self.table {
            Some(table) => table.distribution(&mut self.out, row, distribution),
            None => {
                let Distribution { tokens, probabilities, logprobs, .. } = distribution;
                self.line(&DistributionLine { row, tokens, probabilities, logprobs })
            }
        }
    }

    /// What the chain did to one row.
    pub fn explanation(&mut self, row: usize, explanation: &Explanation) -> io::Result<()> {
        match &self.table {
            Some(_) => explanation::table(&mut self.out, row, explanation),
            None => self.line(&ExplanationLine { row, explanation }),
        }
    }

    /// A row that could not be sampled.
    pub fn error(&mut self, row: usize, error: &RowError) -> io::Result<()> {
        match &mut self.table {
            Some(table) => table.error(&mut self.out, row, error),
            None => {
                let error = ErrorText { kind: error.kind(), message: error.to_string() };
                self.line(&ErrorLine { row, error })
            }
        }
    }

    /// Hands everything written so far to the reader.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        // These values can always be serialized, so an error is one of writing, which the conversion gives
        // back.
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)?;
        self.out.write_all(b"\n")
    }
}

// The keys are written in the order of the fields. Numbers that are not finite become null.

#[derive(Serialize)]
struct DrawLine<'a> {
    row: usize,
    draw: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u32>,
    token: u32,
    logprob: Option<f64>,
    probability: Option<f64>,
    rank: Option<u32>,
    seed: u64,
    position: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [TokenLogprob]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat_mu: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<&'a Kept>,
}

impl<'a> DrawLine<'a> {
    fn new(
        row: usize,
        draw: u32,
        sequence: Option<u32>,
        sampled: &'a Sampled,
        logprobs: Option<&'a [TokenLogprob]>,
    ) -> Self {
        let &Sampled { token, logprob, probability, rank, seed, position, mirostat_mu, ref kept, .. } =
            sampled;
        let kept = kept.as_ref();
        Self {
            row,
            draw,
            sequence,
            token,
            logprob,
            probability,
            rank,
            seed,
            position,
            logprobs,
            mirostat_mu,
            kept,
        }
    }
}

#[derive(Serialize)]
struct DistributionLine<'a> {
    row: usize,
    tokens: &'a [u32],
    probabilities: &'a [f64],
    logprobs: &'a [f64],
}

#[derive(Serialize)]
struct ExplanationLine<'a> {
    row: usize,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

#[derive(Serialize)]
struct ErrorLine {
    row: usize,
    error: ErrorText,
}

#[derive(Serialize)]
struct ErrorText {
    kind: &'static str,
    message: String,
}
