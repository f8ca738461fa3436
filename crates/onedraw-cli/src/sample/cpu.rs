//! Rows that are drawn on the CPU.

use std::io::{self, Write};
use std::ops::Range;

use anyhow::Result;
use onedraw::{Batch, RowError, SamplingParams, Step};

use super::arguments::Arguments;
use super::asked::Asked;
use crate::exit::{DONE, ROW_FAILED};
use crate::output::Printer;

/// The most tokens named of those that a stage removes.
const TOKENS_NAMED: usize = 10;

/// Draws from every row and gives the exit code.
pub(super) fn run(asked: Asked<'_>, printer: &mut Printer<impl Write>) -> Result<u8> {
    let mut job = Job { asked, batch: batch(asked) };
    let mut all_good = true;
    for rows in asked.groups() {
        all_good &= if asked.arguments.distribution {
            job.print_distributions(rows, printer)?
        } else if asked.arguments.explain {
            job.print_explanations(rows, printer)?
        } else {
            job.print_draws(rows, printer)?
        };
        printer.flush()?;
    }
    Ok(if all_good { DONE } else { ROW_FAILED })
}

fn batch(asked: Asked<'_>) -> Batch {
    let Arguments { threads, shards, kernel, .. } = asked.arguments;
    let is_one_sequence = asked.matrix.rows() == 1 && !asked.requests.has_sequences();
    // Threads share sequences; for a single one, starting them would take longer than the draw.
    let threads = if is_one_sequence { 1 } else { usize::from(*threads) };
    Batch::new().threads(threads).shards(*shards as usize).kernel(*kernel)
}

struct Job<'a> {
    asked: Asked<'a>,
    /// Empty between one group of rows and the next.
    batch: Batch,
}

impl<'a> Job<'a> {
    /// Returns whether every row had a distribution.
    fn print_distributions(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let steps = self.first_steps(rows.clone())?;
        let results = self.batch.distributions(&steps);
        self.remove(&steps);
        print_each(rows, &results, printer, Printer::distribution)
    }

    /// Returns whether every row could be explained.
    fn print_explanations(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let steps = self.first_steps(rows.clone())?;
        let results = self.batch.explanations(&steps, TOKENS_NAMED);
        self.remove(&steps);
        print_each(rows, &results, printer, Printer::explanation)
    }

    /// The next step of the first sequence of each row.
    fn first_steps(&mut self, rows: Range<usize>) -> Result<Vec<Step<'a>>> {
        let mut steps = Vec::new();
        for row in rows {
            let params = SamplingParams { n: 1, ..self.asked.requests.of(row).params.clone() };
            steps.push(Step::new(self.batch.add(params)?, self.asked.matrix.row(row)));
        }
        Ok(steps)
    }

    /// Returns whether every row could be drawn.
    fn print_draws(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let mut steps = Vec::new();
        // Each row has one step per sequence, and the steps of a row come after those of the row before.
        let mut steps_of = Vec::new();
        for row in rows.clone() {
            let first = steps.len();
            let sequences = self.batch.add_all(self.asked.requests.of(row).params.clone())?;
            steps.extend(
                sequences.into_iter().map(|sequence| Step::new(sequence, self.asked.matrix.row(row))),
            );
            steps_of.push(first..steps.len());
        }
        let (asked, batch) = (self.asked, &mut self.batch);
        let all_good = asked.print_draws(rows, &steps_of, |draw| Ok(batch.peek(&steps, draw)), printer)?;
        self.remove(&steps);
        Ok(all_good)
    }

    fn remove(&mut self, steps: &[Step<'_>]) {
        for step in steps {
            self.batch.remove(step.sequence);
        }
    }
}

/// Prints the result or the error of each row, and returns whether there was no error.
fn print_each<T, W: Write>(
    rows: Range<usize>,
    results: &[Result<T, RowError>],
    printer: &mut Printer<W>,
    print: impl Fn(&mut Printer<W>, usize, &T) -> io::Result<()>,
) -> Result<bool> {
    for (row, result) in rows.zip(results) {
        match result {
            Ok(value) => print(printer, row, value)?,
            Err(error) => printer.error(row, error)?,
        }
    }
    Ok(results.iter().all(Result::is_ok))
}
