//! `onedraw sample --kernel cuda`: the rows are copied to the first CUDA device and drawn there. The lines are those of the CPU.

use std::io::Write;
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use onedraw::{RowError, Sampled, SamplingParams};
use onedraw_cuda::{Batch, Capacity, Copied, CudaError, Device, SequenceId, Turn};

use super::{Arguments, Asked, ROWS_AT_A_TIME};
use crate::exit::{DONE, ROW_FAILED};
use crate::output::Printer;
use crate::request::Requests;

/// The most sequences drawn together, however many one row has: what a draw remembers of each takes memory.
const AT_A_TIME: usize = 1024;
// Rows of different logits are never parted.
const _: () = assert!(ROWS_AT_A_TIME <= AT_A_TIME);

/// The device, if it can do what is asked; the error names what it cannot.
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
            // What is wrong with a parameter itself is said once the rows are there, as without a device.
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
        // There is nothing to copy; each row says so.
        for row in 0..rows {
            printer.error(row, &RowError::EmptyRow)?;
        }
        return Ok(if rows == 0 { DONE } else { ROW_FAILED });
    }
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while start < rows {
        let group = asked.next_rows(start);
        start = group.end;
        groups.push(group);
    }
    let batch = Batch::new(device, capacity(asked, &groups)).map_err(|error| named(&error))?;
    let mut job = Job { asked, device, batch };
    let mut all_good = true;
    for group in groups {
        all_good &= job.print_draws(group, printer)?;
        printer.flush()?;
    }
    Ok(if all_good { DONE } else { ROW_FAILED })
}

/// Room for the largest group.
fn capacity(asked: Asked<'_>, groups: &[Range<usize>]) -> Capacity {
    let sequences = |rows: Range<usize>| rows.map(|row| asked.requests.of(row).params.n as usize).sum();
    let logprobs = |row| asked.requests.of(row).params.logprobs.unwrap_or(0).max(0) as usize;
    let launches = groups.iter().flat_map(|group| together(asked, group.clone()));
    Capacity {
        sequences: groups.iter().cloned().map(sequences).max().unwrap_or(0),
        rows: launches.map(sequences).max().unwrap_or(0).min(AT_A_TIME),
        vocabulary: asked.matrix.vocabulary(),
        logprobs: (0..asked.matrix.rows()).map(logprobs).max().unwrap_or(0),
    }
}

/// The rows that are drawn together: all, or each by itself where one serves several sequences.
fn together(asked: Asked<'_>, rows: Range<usize>) -> Vec<Range<usize>> {
    match rows.clone().all(|row| asked.requests.of(row).params.n == 1) {
        true => vec![rows],
        false => rows.map(|row| row..row + 1).collect(),
    }
}

struct Job<'a> {
    asked: Asked<'a>,
    device: &'a Device,
    /// Empty between one group of rows and the next.
    batch: Batch,
}

/// Rows that are drawn together.
struct Launch {
    rows: Range<usize>,
    logits: Copied,
    /// Logits from one sequence's row to the next one's: 0 where one row serves all.
    stride: usize,
    /// Of each row, for all its draws.
    params: Vec<SamplingParams>,
    sequences: Vec<SequenceId>,
}

impl Job<'_> {
    /// Says whether every row had its draws.
    fn print_draws(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let mut end = 0;
        let results_of = rows.clone().map(|row| {
            let start = end;
            end += self.asked.requests.of(row).params.n as usize;
            start..end
        });
        let results_of: Vec<_> = results_of.collect();
        let mut launches = Vec::new();
        for part in together(self.asked, rows.clone()) {
            launches.push(self.launch(part).map_err(|error| named(&error))?);
        }
        let asked = self.asked;
        let peek = |draw| {
            let mut results = Vec::new();
            for launch in &mut launches {
                results.extend(self.peek(launch, draw).map_err(|error| named(&error))?);
            }
            Ok(results)
        };
        let all_good = asked.print_draws(rows, &results_of, peek, printer)?;
        for launch in &launches {
            self.remove(&launch.sequences);
        }
        Ok(all_good)
    }

    /// Copies rows to the device and adds their sequences.
    fn launch(&mut self, rows: Range<usize>) -> Result<Launch, CudaError> {
        let (requests, vocabulary) = (self.asked.requests, self.asked.matrix.vocabulary());
        let mut params: Vec<_> = rows.clone().map(|row| requests.of(row).params.clone()).collect();
        if self.asked.arguments.draws > 1 {
            params.iter_mut().for_each(decide);
        }
        let mut sequences = Vec::new();
        for (row, params) in rows.clone().zip(&mut params) {
            let added = self.add(row, params, 0)?;
            // Draws share a seed from the system as they share a given one.
            params.seed = added.first().and_then(|id| self.batch.seed(*id));
            sequences.extend(added);
        }
        let stride = if rows.len() == sequences.len() { vocabulary } else { 0 };
        let logits = Copied::new(self.device, self.asked.matrix.rows_of(rows.clone()))?;
        Ok(Launch { rows, logits, stride, params, sequences })
    }

    /// Adds the sequences of a row at the position of a draw, which is not that of the parameters where some of their history is left out.
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
    fn peek(&mut self, launch: &mut Launch, draw: u32) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        if draw > 0 && launch.params.iter().any(has_penalties) {
            self.begin_again(launch, draw)?;
        }
        let mut results = Vec::with_capacity(launch.sequences.len());
        for sequences in launch.sequences.chunks(AT_A_TIME) {
            let turns: Vec<_> = sequences.iter().map(|id| Turn::new(*id)).collect();
            let matrix = launch.logits.matrix(turns.len(), self.asked.matrix.vocabulary(), launch.stride)?;
            results.extend(self.batch.sample(&turns, &matrix)?);
        }
        Ok(results)
    }

    /// The device has counted what was drawn: sequences anew, at the position of the draw.
    fn begin_again(&mut self, launch: &mut Launch, draw: u32) -> Result<(), CudaError> {
        self.remove(&launch.sequences);
        launch.sequences.clear();
        for (row, params) in launch.rows.clone().zip(&launch.params) {
            launch.sequences.extend(self.add(row, params, draw)?);
        }
        Ok(())
    }

    fn remove(&mut self, sequences: &[SequenceId]) {
        for id in sequences {
            self.batch.remove(*id);
        }
    }
}

/// Decides what depends on the end of the history: all draws have the same, while the device goes on with what it drew.
fn decide(params: &mut SamplingParams) {
    let output = &params.output_token_ids;
    let banned = params.bad_words_ids.iter().filter_map(|word| word.split_last());
    let banned = banned.filter(|(_, rest)| output.ends_with(rest)).map(|(last, _)| vec![*last]);
    params.bad_words_ids = banned.collect();
    let is_too_short = output.len() < params.min_tokens as usize;
    // A text that is too short stays so, however many draws there are.
    (params.min_tokens, params.max_tokens) = if is_too_short { (u32::MAX, u32::MAX) } else { (0, u32::MAX) };
    forget(params);
}

/// Leaves out what a window does not reach, and with it the window: the device cannot draw at another position with one.
fn forget(params: &mut SamplingParams) {
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
        decide(&mut params);
        assert_eq!(params.bad_words_ids, [vec![9], vec![8]], "words begin in the output");
        assert_eq!((params.min_tokens, params.max_tokens), (u32::MAX, u32::MAX));
        assert_eq!((params.output_token_ids, params.seed), (given.output_token_ids.clone(), None));
        let mut long_enough = SamplingParams { min_tokens: 2, ..given };
        decide(&mut long_enough);
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
            forget(&mut params);
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
