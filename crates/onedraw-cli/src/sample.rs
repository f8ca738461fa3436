//! `onedraw sample`: tokens from a file of logits.

mod device;

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use onedraw::{Batch, Kernel, LogprobsMode, Order, RowError, Sampled, SamplingParams, Step};

use crate::exit::{DONE, ROW_FAILED};
use crate::kernel::check_kernel;
use crate::logits;
use crate::matrix::Matrix;
use crate::output::{Format, Printer};
use crate::request::{Overrides, Request, Requests};

/// The most rows drawn before their results are written.
const ROWS_AT_A_TIME: usize = 64;

/// The most tokens named of those that a stage removes.
const TOKENS_NAMED: usize = 10;

/// The most numbers held before they are written, unless one draw of one row has more.
const NUMBERS_AT_A_TIME: u64 = 1 << 22;

/// The arguments of `onedraw sample`.
#[derive(Debug, Args)]
#[command(after_help = "\
JSON output is a line a row and draw:
  {\"row\":0,\"draw\":0,\"token\":7,\"logprob\":-0.51,\"probability\":0.6,\"rank\":1,\"seed\":42,\
\"position\":0}
with \"sequence\" after \"draw\" where n > 1, \"logprobs\" at the end where asked for, and \"mirostat_mu\", where
mirostat stands once the token is accepted, where it is on. Distributions and explanations are those of the first of n sequences.
A row that cannot be sampled gives one line {\"row\":2,\"error\":{\"kind\":…,\"message\":…}};
the other rows get their results, and the exit code is 1.

Example:
  onedraw sample logits.npy --params '{\"temperature\":0.7,\"top_p\":0.9,\"seed\":42}' --draws 3")]
pub struct Arguments {
    /// A .npy (f32, f16; [V] or [B, V]), a .safetensors with a tensor `logits`, or - (.npy on standard input)
    #[arg(value_name = "LOGITS")]
    logits: PathBuf,
    /// Sampling parameters: a JSON object for all rows, or an array of one a row; @FILE reads a file
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// Draws for each row; draw d is that of position (number of output tokens) + d, from the same history and mirostat_mu
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    draws: u32,
    /// List logprobs of the N best tokens; 0: of the drawn one, -1: of all (overrides the parameter)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(-1..))]
    logprobs: Option<i64>,
    /// What logprobs are taken from (overrides the parameter)
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(LogprobsMode::ALL.map(LogprobsMode::name)))]
    logprobs_mode: Option<String>,
    /// Print each row's distribution instead of draws: what is left, best first; with XTC, after the coin of this position
    #[arg(long)]
    distribution: bool,
    /// Print instead, stage by stage, what the next draw leaves of each row: tokens, mass, what went, and the time
    #[arg(long, conflicts_with_all = ["distribution", "draws", "logprobs", "logprobs_mode"])]
    explain: bool,
    /// Order of the stages: vllm, huggingface, llama.cpp or stage,stage,… (overrides the parameter)
    #[arg(long, value_name = "ORDER")]
    order: Option<Order>,
    /// Threads that share the rows; 0: one for each core. Changes no token
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(..=1024))]
    threads: u16,
    /// Instruction set: auto, scalar, sse, avx2, avx512 or neon; cuda: the first GPU. Changes no token
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
    /// Split each row over so many ranks, as if the vocabulary were sharded. Changes no token
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    shards: u32,
    /// How to print: JSON lines, or a table to read (the first 50 tokens of a distribution)
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

/// Draws from every row and gives the exit code. Nothing is written before all arguments have been checked.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let on_device = arguments.kernel == Kernel::Cuda;
    if !on_device {
        check_kernel(arguments.kernel)?;
    }
    let overrides = Overrides {
        logprobs: arguments.logprobs,
        logprobs_mode: arguments.logprobs_mode.clone(),
        order: arguments.order.clone(),
    };
    let requests = Requests::parse(arguments.params.as_deref(), &overrides)?;
    let device = on_device.then(|| device::open(arguments, &requests)).transpose()?;
    let matrix = logits::load(&arguments.logits)?;
    requests.check(matrix.rows(), matrix.vocabulary(), arguments.draws)?;
    let mut printer = Printer::new(out, arguments.format, requests.has_sequences());
    let asked = Asked { arguments, requests: &requests, matrix: &matrix };
    match device {
        Some(device) => device::run(asked, &device, &mut printer),
        None => Job { asked, batch: batch(asked) }.run(&mut printer),
    }
}

fn batch(asked: Asked<'_>) -> Batch {
    let Arguments { threads, shards, kernel, .. } = asked.arguments;
    let is_one_sequence = asked.matrix.rows() == 1 && !asked.requests.has_sequences();
    // Threads share sequences; for a single one, starting them would take longer than the draw.
    let threads = if is_one_sequence { 1 } else { usize::from(*threads) };
    Batch::new().threads(threads).shards(*shards as usize).kernel(*kernel)
}

/// What is asked for, checked.
#[derive(Clone, Copy)]
struct Asked<'a> {
    arguments: &'a Arguments,
    requests: &'a Requests,
    matrix: &'a Matrix,
}

impl Asked<'_> {
    /// The rows to do together from `start` on: at least one, and no more than memory should hold.
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

    /// About how many numbers the results of one row are.
    fn numbers(&self, request: &Request) -> u64 {
        const OF_A_DRAW: u64 = 8;
        const OF_A_TOKEN: u64 = 3;
        let vocabulary = self.matrix.vocabulary() as u64;
        if self.arguments.distribution {
            return OF_A_TOKEN.saturating_mul(vocabulary);
        }
        let listed = match request.params.logprobs {
            Some(listed) => u64::try_from(listed).unwrap_or(u64::MAX).min(vocabulary),
            None => 0,
        };
        let of_a_draw = OF_A_TOKEN.saturating_mul(listed).saturating_add(OF_A_DRAW);
        let draws = u64::from(self.arguments.draws) * u64::from(request.params.n);
        draws.saturating_mul(of_a_draw)
    }

    /// Prints the draws of the rows, which `peek` makes for all of them: `results_of` says which of its results are a row's. Says whether every row had its draws.
    fn print_draws(
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

    /// Prints the draws of one row up to its first error, and says whether there was none.
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

struct Job<'a> {
    asked: Asked<'a>,
    /// Empty between one group of rows and the next.
    batch: Batch,
}

impl<'a> Job<'a> {
    fn run(mut self, printer: &mut Printer<impl Write>) -> Result<u8> {
        let mut all_good = true;
        let mut start = 0;
        while start < self.asked.matrix.rows() {
            let rows = self.asked.next_rows(start);
            start = rows.end;
            all_good &= if self.asked.arguments.distribution {
                self.print_distributions(rows, printer)?
            } else if self.asked.arguments.explain {
                self.print_explanations(rows, printer)?
            } else {
                self.print_draws(rows, printer)?
            };
            printer.flush()?;
        }
        Ok(if all_good { DONE } else { ROW_FAILED })
    }

    /// Says whether every row had a distribution.
    fn print_distributions(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let steps = self.one_step_a_row(rows.clone())?;
        let results = self.batch.distributions(&steps);
        self.remove(&steps);
        print_each(rows, &results, printer, Printer::distribution)
    }

    /// Says whether every row could be explained.
    fn print_explanations(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let steps = self.one_step_a_row(rows.clone())?;
        let results = self.batch.explanations(&steps, TOKENS_NAMED);
        self.remove(&steps);
        print_each(rows, &results, printer, Printer::explanation)
    }

    /// The next step of each row's first sequence.
    fn one_step_a_row(&mut self, rows: Range<usize>) -> Result<Vec<Step<'a>>> {
        let mut steps = Vec::new();
        for row in rows {
            let params = SamplingParams { n: 1, ..self.asked.requests.of(row).params.clone() };
            steps.push(Step::new(self.batch.add(params)?, self.asked.matrix.row(row)));
        }
        Ok(steps)
    }

    /// Says whether every row had its draws.
    fn print_draws(&mut self, rows: Range<usize>, printer: &mut Printer<impl Write>) -> Result<bool> {
        let mut steps = Vec::new();
        // Each row has one step a sequence, the rows' steps one after the other.
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

/// Prints each row's result or error, and says whether there was no error.
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
