//! What is asked for, once it is checked, and how draws are printed, wherever they are made.

use std::io::Write;
use std::ops::Range;

use anyhow::Result;
use onedraw::{RowError, Sampled};

use super::arguments::Arguments;
use crate::matrix::Matrix;
use crate::output::Printer;
use crate::request::{Request, Requests};

/// The most rows that are drawn before their results are written.
pub(super) const ROWS_AT_A_TIME: usize = 64;

/// The most numbers that are held before they are written, unless one draw of one row has more.
const NUMBERS_AT_A_TIME: u64 = 1 << 22;

/// What is asked for, checked.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) requests: &'a Requests,
    pub(super) matrix: &'a Matrix,
}

impl Asked<'_> {
    /// All rows, in groups that are drawn before their results are written: each has at least one row, and no
    /// more than memory should hold.
    pub(super) fn groups(&self) -> Vec<Range<usize>> {
        let mut groups = Vec::new();
        let mut start = 0;
        while start < self.matrix.rows() {
            let group = self.next_rows(start);
            start = group.end;
            groups.push(group);
        }
        groups
    }

    fn next_rows(&self, start: usize) -> Range<usize> {
        let mut numbers = 0_u64;
        let limit = self.matrix.rows().min(start.saturating_add(ROWS_AT_A_TIME));
        let fits = |row: &usize| {
            numbers = numbers.saturating_add(self.numbers(self.requests.of(*row)));
            numbers <= NUMBERS_AT_A_TIME
        };
        let end = start + (start..limit).take_while(fits).count();
        start..end.max(start + 1)
    }

    /// About how many numbers the results of one row have.
    fn numbers(&self, request: &Request) -> u64 {
        const PER_DRAW: u64 = 8;
        const PER_TOKEN: u64 = 3;
        let vocabulary = self.matrix.vocabulary() as u64;
        if self.arguments.distribution {
            return PER_TOKEN.saturating_mul(vocabulary);
        }
        let listed = match request.params.logprobs {
            Some(listed) => u64::try_from(listed).unwrap_or(u64::MAX).min(vocabulary),
            None => 0,
        };
        let per_draw = PER_TOKEN.saturating_mul(listed).saturating_add(PER_DRAW);
        let draws = u64::from(self.arguments.draws) * u64::from(request.params.n);
        draws.saturating_mul(per_draw)
    }

    /// Prints the draws of the rows. `peek` makes the draw of a number for all of them, and `results_of` says
    /// which of its results belong to which row. Returns whether every row could be drawn.
    pub(super) fn print_draws(
        &self,
        rows: Range<usize>,
        results_of: &[Range<usize>],
        mut peek: impl FnMut(u32) -> Result<Vec<Result<Sampled, RowError>>>,
        printer: &mut Printer<impl Write>,
    ) -> Result<bool> {
        let mut all_good = true;
        if rows.len() == 1 {
            // Nothing has to wait for another row, so any number of draws needs the memory of one.
            for draw in 0..self.arguments.draws {
                let results = peek(draw)?;
                all_good = self.print_row(rows.start, [(draw, results.as_slice())], printer)?;
                if !all_good {
                    break;
                }
            }
        } else {
            let draws = 0..self.arguments.draws;
            let results = draws.map(|draw| Ok((draw, peek(draw)?))).collect::<Result<Vec<_>>>()?;
            for (row, range) in rows.zip(results_of) {
                let of_the_row = results.iter().map(|(draw, results)| (*draw, &results[range.clone()]));
                all_good &= self.print_row(row, of_the_row, printer)?;
            }
        }
        Ok(all_good)
    }

    /// Prints the draws of one row up to its first error, and returns whether there was none.
    fn print_row<'r>(
        &self,
        row: usize,
        draws: impl IntoIterator<Item = (u32, &'r [Result<Sampled, RowError>])>,
        printer: &mut Printer<impl Write>,
    ) -> Result<bool> {
        let request = self.requests.of(row);
        for (draw, results) in draws {
            for result in results {
                match result {
                    Ok(sampled) => printer.draw(row, draw, sampled, request)?,
                    Err(error) => {
                        printer.error(row, error)?;
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
