//! `onedraw sample --kernel cuda`: the rows are copied to the first CUDA device and drawn there. The printed
//! lines are the same as those of the CPU.

use std::io::Write;
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use onedraw::{RowError, Sampled, SamplingParams};
use onedraw_cuda::once::{self, SEQUENCES_PER_LAUNCH};
use onedraw_cuda::{Batch, Copied, CudaError, Device, SequenceId, Turn};

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
    /// The parameters of each row, for all its draws.
    params: Vec<SamplingParams>,
    sequences: Vec<SequenceId>,
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
            for part in &mut parts {
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
        let mut params: Vec<_> = params_of(self.asked, rows.clone()).into_iter().cloned().collect();
        if self.asked.arguments.draws > 1 {
            params.iter_mut().for_each(settle_history);
        }
        let mut sequences = Vec::new();
        for (row, params) in rows.clone().zip(&mut params) {
            let added = self.add(row, params, 0)?;
            // All draws share one seed, also if it comes from the system.
            params.seed = added.first().and_then(|id| self.batch.seed(*id));
            sequences.extend(added);
        }
        let logits = Copied::new(self.device, self.asked.matrix.rows_of(rows.clone()))?;
        Ok(Part { rows, logits, params, sequences })
    }

    /// Adds the sequences of a row at the position of a draw. That is not the position of the parameters if
    /// some of their history is left out.
    fn add(&mut self, row: usize, params: &SamplingParams, draw: u32) -> Result<Vec<SequenceId>, CudaError> {
        let ids = self.batch.add_all(params)?;
        let written = self.asked.requests.of(row).params.output_token_ids.len() as u32;
        let position = written.wrapping_add(draw);
        if position != params.output_token_ids.len() as u32 {
            for id in &ids {
                self.batch.set_position(*id, position)?;
            }
        }
        Ok(ids)
    }

    /// Draw number `draw` of each sequence, from the history that its parameters give.
    fn peek(&mut self, part: &mut Part, draw: u32) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        if draw > 0 && part.params.iter().any(has_penalties) {
            self.begin_again(part, draw)?;
        }
        let vocabulary = self.asked.matrix.vocabulary();
        let mut results = Vec::with_capacity(part.sequences.len());
        for launch in once::launches(part.rows.clone(), &part.sequences) {
            let turns: Vec<_> = launch.sequences.iter().map(|id| Turn::new(*id)).collect();
            // The copy begins with the first row of the part.
            let stride = if launch.is_one_row { 0 } else { vocabulary };
            let matrix = part.logits.matrix(turns.len(), vocabulary, stride)?;
            results.extend(self.batch.sample(&turns, &matrix)?);
        }
        Ok(results)
    }

    /// The device has counted the tokens of the last draw, so all sequences are made anew, at the position of
    /// this draw.
    fn begin_again(&mut self, part: &mut Part, draw: u32) -> Result<(), CudaError> {
        self.remove(&part.sequences);
        part.sequences.clear();
        for (row, params) in part.rows.clone().zip(&part.params) {
            part.sequences.extend(self.add(row, params, draw)?);
        }
        Ok(())
    }

    fn remove(&mut self, sequences: &[SequenceId]) {
        for id in sequences {
            self.batch.remove(*id);
        }
    }
}

/// Settles everything that depends on the end of the history. All draws of a row have the same history, but
/// the device appends each token that it draws.
fn settle_history(params: &mut SamplingParams) {
    let output = &params.output_token_ids;
    let banned = params.bad_words_ids.iter().filter_map(|word| word.split_last());
    let banned = banned.filter(|(_, rest)| output.ends_with(rest)).map(|(last, _)| vec![*last]);
    params.bad_words_ids = banned.collect();
    let is_too_short = output.len() < params.min_tokens as usize;
    // A text that is too short stays too short for every draw.
    (params.min_tokens, params.max_tokens) = if is_too_short { (u32::MAX, u32::MAX) } else { (0, u32::MAX) };
    apply_window(params);
}

/// Leaves out the tokens that the penalty window does not reach, and then the window itself, because the
/// device cannot draw at another position with a window.
fn apply_window(params: &mut SamplingParams) {
    let (prompt, output) = (&mut params.prompt_token_ids, &mut params.output_token_ids);
    let window = std::mem::take(&mut params.penalty_window) as usize;
    if window > 0 {
        let forgotten = (prompt.len() + output.len()).saturating_sub(window);
        let of_prompt = forgotten.min(prompt.len());
        prompt.drain(..of_prompt);
        output.drain(..forgotten - of_prompt);
    }
}

fn has_penalties(params: &SamplingParams) -> bool {
    params.repetition_penalty != 1.0 || params.frequency_penalty != 0.0 || params.presence_penalty != 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_the_history_is_decided_once() {
        let given = SamplingParams {
            bad_words_ids: vec![vec![9], vec![1, 2, 8], vec![3, 2, 7], vec![5, 1, 2, 6]],
            min_tokens: 3,
            prompt_token_ids: vec![5],
            output_token_ids: vec![1, 2],
            ..Default::default()
        };
        let mut params = given.clone();
        settle_history(&mut params);
        assert_eq!(params.bad_words_ids, [vec![9], vec![8]], "words begin in the output");
        assert_eq!((params.min_tokens, params.max_tokens), (u32::MAX, u32::MAX));
        assert_eq!((params.output_token_ids, params.seed), (given.output_token_ids.clone(), None));
        let mut long_enough = SamplingParams { min_tokens: 2, ..given };
        settle_history(&mut long_enough);
        assert_eq!(long_enough.min_tokens, 0);
    }

    #[test]
    fn what_a_window_does_not_reach_is_left_out() {
        let left = |window| {
            let mut params = SamplingParams {
                penalty_window: window,
                prompt_token_ids: vec![1, 2, 3],
                output_token_ids: vec![4, 5],
                ..Default::default()
            };
            apply_window(&mut params);
            assert_eq!(params.penalty_window, 0);
            (params.prompt_token_ids, params.output_token_ids)
        };
        assert_eq!(left(0), (vec![1, 2, 3], vec![4, 5]), "no window sees everything");
        assert_eq!(left(1), (vec![], vec![5]));
        assert_eq!(left(2), (vec![], vec![4, 5]));
        assert_eq!(left(4), (vec![2, 3], vec![4, 5]));
        assert_eq!(left(9), (vec![1, 2, 3], vec![4, 5]));
    }
}
