//! `onedraw sample --kernel cuda`: the rows are copied to the first CUDA device and drawn there. The printed
//! lines are the same as those of the CPU.

use std::io::Write;
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use onedraw::{RowError, Sampled, SamplingParams};
use onedraw_cuda::once::{self, SEQUENCES_PER_LAUNCH};
use onedraw_cuda::{Batch, Copied, CudaError, Device, SequenceId, Stream, Turn};

use super::arguments::Arguments;
use super::asked::{Asked, ROWS_AT_A_TIME};
use crate::exit::{DONE, ROW_FAILED};
use crate::output::Printer;
use crate::request::Requests;

// A group of rows with one sequence each is one launch.
const _: () = assert!(ROWS_AT_A_TIME <= SEQUENCES_PER_LAUNCH);

/// Opens the device, if it can do what is asked; the error names what it cannot do.
pub(super) fn open(arguments: &Arguments, requests: &Requests) -> Result<Device> {
    let flags = [
        (arguments.distribution, "--distribution"),
        (arguments.explain, "--explain"),
        (arguments.shards > 1, "--shards"),
    ];
    if let Some((_, flag)) = flags.into_iter().find(|(is_given, _)| *is_given) {
        return Err(named(&CudaError::Unsupported { what: flag.to_owned() }));
    }
    for (row, request) in requests.all() {
        match (onedraw_cuda::check(&request.params), row) {
            // Errors in a parameter's own value are reported once the rows are read, as they are without a
            // device.
            (Ok(()) | Err(CudaError::Params(_)), _) => {}
            (Err(error), None) => return Err(named(&error)),
            (Err(error), Some(row)) => bail!("--kernel cuda: params[{row}]: {error}"),
        }
    }
    Device::new(0).map_err(|error| named(&error))
}

fn named(error: &CudaError) -> anyhow::Error {
    anyhow!("--kernel cuda: {error}")
}

/// Draws from every row and gives the exit code.
pub(super) fn run(asked: Asked<'_>, device: &Device, printer: &mut Printer<impl Write>) -> Result<u8> {
    let rows = asked.matrix.rows();
    if asked.matrix.vocabulary() == 0 {
        // There is nothing to copy, and every row has the same error.
        for row in 0..rows {
            printer.error(row, &RowError::EmptyRow)?;
        }
        return Ok(if rows == 0 { DONE } else { ROW_FAILED });
    }
    let groups = asked.groups();
    let params: Vec<_> = groups.iter().map(|group| params_of(asked, group.clone())).collect();
    let capacity = once::capacity(params.iter().map(Vec::as_slice), asked.matrix.vocabulary());
    let batch = Batch::new(device, capacity).map_err(|error| named(&error))?;
    let mut job = Job { asked, device, batch };
    let mut all_good = true;
    for group in groups {
        all_good &= job.print_draws(group, printer)?;
        printer.flush()?;
    }
    Ok(if all_good { DONE } else { ROW_FAILED })
}

/// The parameters of rows.
fn params_of(asked: Asked<'_>, rows: Range<usize>) -> Vec<&SamplingParams> {
    rows.map(|row| &asked.requests.of(row).params).collect()
}

struct Job<'a> {
    asked: Asked<'a>,
    device: &'a Device,
    /// Empty between one group of rows and the next.
    batch: Batch,
}

/// Rows that are drawn together.
struct Part {
    rows: Range<usize>,
    logits: Copied,
    sequences: Vec<SequenceId>,
    /// The output tokens that the parameters of each sequence give.
    written: Vec<u32>,
}

impl Job<'_> {
    /// Returns whether every row could be drawn.
    fn print_draws(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let (asked, params) = (self.asked, params_of(self.asked, rows.clone()));
        let mut end = 0;
        let results_of = params.iter().map(|params| {
            let start = end;
            end += params.n as usize;
            start..end
        });
        let results_of: Vec<_> = results_of.collect();
        let mut parts = Vec::new();
        for part in once::parts(&params) {
            let part = rows.start + part.start..rows.start + part.end;
            parts.push(self.add_part(part).map_err(|error| named(&error))?);
        }
        let peek = |draw| {
            let mut results = Vec::new();
            for part in &parts {
                results.extend(self.peek(part, draw).map_err(|error| named(&error))?);
            }
            Ok(results)
        };
        let all_good = asked.print_draws(rows, &results_of, peek, printer)?;
        for part in &parts {
            self.remove(&part.sequences);
        }
        Ok(all_good)
    }

    /// Copies rows to the device and adds their sequences.
    fn add_part(&mut self, rows: Range<usize>) -> Result<Part, CudaError> {
        let mut sequences = Vec::new();
        for params in params_of(self.asked, rows.clone()) {
            let written = params.output_token_ids.len() as u32;
            sequences.extend(self.batch.add_all(params)?.into_iter().map(|id| (id, written)));
        }
        let (sequences, written) = sequences.into_iter().unzip();
        let logits = Copied::new(self.device, self.asked.matrix.rows_of(rows.clone()))?;
        Ok(Part { rows, logits, sequences, written })
    }

    /// Draw number `draw` of each sequence. All have the history that their parameters give, and nothing is
    /// appended.
    fn peek(&mut self, part: &Part, draw: u32) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        if draw > 0 {
            for (&id, written) in part.sequences.iter().zip(&part.written) {
                self.batch.set_position(id, written.wrapping_add(draw))?;
            }
        }
        let vocabulary = self.asked.matrix.vocabulary();
        let mut results = Vec::with_capacity(part.sequences.len());
        for launch in once::launches(part.rows.clone(), &part.sequences) {
            let turns: Vec<_> = launch.sequences.iter().map(|id| Turn::new(*id)).collect();
            // The copy begins with the first row of the part.
            let stride = if launch.is_one_row { 0 } else { vocabulary };
            let matrix = part.logits.matrix(turns.len(), vocabulary, stride)?;
            results.extend(self.batch.peek_on(Stream::default(), &turns, &matrix)?);
        }
        Ok(results)
    }

    fn remove(&mut self, sequences: &[SequenceId]) {
        for id in sequences {
            self.batch.remove(*id);
        }
    }
}
