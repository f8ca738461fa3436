//! Vocabularies split over ranks: how many draws one exchange decides, and how much is sent. `bench/ranks`
//! runs it.
//!
//! All ranks are in this process, and their messages pass from hand to hand, so rounds and bytes are those
//! of any transport; times are not measured. Every token is compared with that of the whole row.

use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Parser;
use onedraw::{Batch, Exchange, Kernel, Rank, RankMemory, SamplingParams, SequenceId, Step};
use onedraw_bench::machine::Machine;
use onedraw_bench::rows::{Shape, text};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How many draws one exchange decides.
#[derive(Parser)]
struct Arguments {
    /// Where to write the day's table
    #[arg(long)]
    results: Option<PathBuf>,
    /// Rows of a model, as .npy of f32
    #[arg(long, value_name = "FILE", default_value = "bench/rows/smollm2-135m-8x49152.npy")]
    rows: PathBuf,
    /// A tenth of the draws: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// `cargo bench` adds it
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

/// The rows of a step.
const BATCH: usize = 32;

/// The chains, by name, at temperature 0.8.
const CHAINS: [(&str, &str); 10] = [
    ("greedy", r#"{"temperature": 0}"#),
    ("temperature", "{}"),
    ("min-p 0.05", r#"{"min_p": 0.05}"#),
    ("top-k 50", r#"{"top_k": 50}"#),
    ("top-p 0.9", r#"{"top_p": 0.9}"#),
    ("top-k 50, top-p 0.9", r#"{"top_k": 50, "top_p": 0.9}"#),
    ("min-p 0.02, top-p 0.9", r#"{"min_p": 0.02, "top_p": 0.9}"#),
    ("top-p 0.9, penalties, bias", r#"{"top_p": 0.9, "repetition_penalty": 1.1, "frequency_penalty": 0.2}"#),
    (
        "top-k 50, top-p 0.9, penalties, bias",
        r#"{"top_k": 50, "top_p": 0.9, "repetition_penalty": 1.1, "frequency_penalty": 0.2}"#,
    ),
    (
        "top-k 50, 5 processed logprobs",
        r#"{"top_k": 50, "logprobs": 5, "logprobs_mode": "processed_logprobs"}"#,
    ),
];

/// What the draws of one chain over one number of ranks came to.
#[derive(Default)]
struct Tally {
    rows: usize,
    open_rows: usize,
    steps: usize,
    open_steps: usize,
    rounds: usize,
    /// Bytes of one rank in all rounds.
    bytes: usize,
    /// The most bytes of a row in the first round.
    slot: usize,
    wrong: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let steps = if arguments.quick { 8 } else { 75 };
    let real = read_npy(&arguments.rows)?;
    let peaked: Vec<Vec<f32>> = (0..40).map(|seed| Shape::Peaked.row(seed, 128_256)).collect();
    let flat: Vec<Vec<f32>> = (0..8).map(|seed| Shape::Flat.row(seed, 128_256)).collect();
    let real_name = format!("{} real rows, V = {}", real.len(), real.first().map_or(0, Vec::len));
    let sets = [
        (real_name.as_str(), &real),
        ("40 peaked rows, V = 128,256", &peaked),
        ("8 flat rows, V = 128,256", &flat),
    ];
    let machine = Machine::here(Kernel::Auto);
    let mut report = head(&machine, steps, &arguments.rows);
    let mut wrong = 0;
    for (name, rows) in sets {
        let (mut closed, mut done) = (String::new(), String::new());
        for (chain, json) in CHAINS {
            write!(closed, "| {chain} |")?;
            write!(done, "| {chain} |")?;
            for ranks in [2, 4, 8, 16] {
                let tally = measure(rows, json, ranks, steps)?;
                wrong += tally.wrong;
                let share = |open: usize, all: usize| 100.0 * (all - open) as f64 / all as f64;
                write!(closed, " {:.2} |", share(tally.open_rows, tally.rows))?;
                let bytes = tally.bytes as f64 / tally.rows as f64;
                let rounds = tally.rounds as f64 / tally.steps as f64;
                write!(done, " {:.1} ({rounds:.2}, {bytes:.0}) |", share(tally.open_steps, tally.steps))?;
                eprintln!(
                    "{name}, {chain}, {ranks} ranks: {:.2} % of rows, {:.1} % of steps, {rounds:.2} rounds, \
                     {bytes:.0} bytes, slot {}, {} wrong",
                    share(tally.open_rows, tally.rows),
                    share(tally.open_steps, tally.steps),
                    tally.slot,
                    tally.wrong
                );
            }
            closed.push('\n');
            done.push('\n');
        }
        writeln!(report, "\n## {name}\n\nPercent of rows that the first exchange decides, by ranks:\n")?;
        writeln!(report, "| | 2 | 4 | 8 | 16 |\n|---|---:|---:|---:|---:|\n{closed}")?;
        writeln!(
            report,
            "Percent of steps of {BATCH} rows that one exchange ends (exchanges per step, bytes per row and \
             rank in all of them):\n"
        )?;
        writeln!(report, "| | 2 | 4 | 8 | 16 |\n|---|---:|---:|---:|---:|\n{done}")?;
    }
    writeln!(report, "Wrong tokens: {wrong}.")?;
    if let Some(folder) = arguments.results {
        let path = folder.join(format!("{}-ranks.md", machine.date));
        std::fs::write(&path, report)?;
        eprintln!("{}", path.display());
    }
    if wrong > 0 { Err(format!("{wrong} wrong tokens").into()) } else { Ok(()) }
}

fn head(machine: &Machine, steps: usize, rows: &Path) -> String {
    let rows = rows.file_name().unwrap_or_default().to_string_lossy();
    let cpu = machine.cpu.as_deref().unwrap_or("an unknown processor");
    format!(
        "# Vocabularies over ranks, {}\n\nWritten by `bench/ranks`. {cpu}, {} cores; all ranks in one process, so \
         this shows exchanges and bytes, not times. Temperature 0.8. Each number is of {steps} steps of {BATCH} rows, {} \
         draws, each with its own seed; ranks hold equal runs of ids. Every token was compared with that of \
         the whole row. A row takes {} bytes of each rank's first message. Real rows: `{rows}`.\n",
        machine.date,
        machine.cores,
        steps * BATCH,
        Exchange::SLOT
    )
}

/// Draws steps of rows over ranks, and each row whole.
fn measure(rows: &[Vec<f32>], json: &str, ranks: usize, steps: usize) -> Result<Tally> {
    let vocabulary = rows.first().map_or(0, Vec::len);
    let parts: Vec<Range<usize>> =
        (0..ranks).map(|i| i * vocabulary / ranks..(i + 1) * vocabulary / ranks).collect();
    let mut memories = vec![RankMemory::default(); ranks];
    let mut tally = Tally::default();
    for step in 0..steps {
        let params = (0..BATCH).map(|row| params(json, (step * BATCH + row) as u64, vocabulary));
        let params: Vec<SamplingParams> = params.collect::<Result<_>>()?;
        let rows: Vec<&[f32]> = (0..BATCH).map(|row| &rows[(step * BATCH + row) % rows.len()][..]).collect();
        let (mut batch, ids) = batch(&params)?;
        let steps: Vec<Step<'_>> = ids.iter().zip(&rows).map(|(&id, &row)| Step::new(id, row)).collect();
        let expected = batch.peek(&steps, 0);
        // Every rank has the same sequences, so one batch can stand for those of all.
        let mut exchanges: Vec<Exchange<'_>> = Vec::new();
        for (part, memory) in parts.iter().zip(&mut memories) {
            let steps = ids.iter().zip(&rows).map(|(&id, &row)| Step::new(id, &row[part.clone()]));
            let rank = Rank { count: ranks, vocabulary, start: part.start };
            exchanges.push(batch.exchange(&steps.collect::<Vec<_>>(), &rank, 0, memory));
        }
        let mut rounds = 0;
        while exchanges[0].message().is_some() {
            let messages: Vec<Vec<u8>> =
                exchanges.iter().filter_map(Exchange::message).map(<[u8]>::to_vec).collect();
            tally.bytes += messages[0].len();
            tally.slot = tally.slot.max(messages[0].len() / BATCH).min(Exchange::SLOT);
            exchanges.iter_mut().for_each(|exchange| exchange.receive(&messages));
            if rounds == 0 {
                tally.open_rows += exchanges[0].open_rows();
                tally.open_steps += usize::from(exchanges[0].open_rows() > 0);
            }
            rounds += 1;
        }
        tally.rounds += rounds;
        tally.steps += 1;
        tally.rows += BATCH;
        for exchange in exchanges {
            tally.wrong += exchange.results().iter().zip(&expected).filter(|(a, b)| a != b).count();
        }
    }
    Ok(tally)
}

fn batch(params: &[SamplingParams]) -> Result<(Batch, Vec<SequenceId>)> {
    let mut batch = Batch::new();
    let ids = params.iter().map(|params| batch.add(params.clone())).collect::<std::result::Result<_, _>>()?;
    Ok((batch, ids))
}

/// The chain with a seed; where it has penalties, with a text and biases for them to change.
fn params(json: &str, seed: u64, vocabulary: usize) -> Result<SamplingParams> {
    let mut params = SamplingParams::from_json(json)?;
    params.seed = Some(seed);
    if params.temperature != 0.0 {
        params.temperature = 0.8;
    }
    if params.repetition_penalty != 1.0 {
        params.output_token_ids = text(seed, 200, vocabulary);
        params.logit_bias = text(seed + 1, 20, vocabulary).into_iter().map(|id| (id, 1.5)).collect();
    }
    Ok(params)
}

/// The rows of a two-dimensional .npy of f32.
fn read_npy(path: &Path) -> Result<Vec<Vec<f32>>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let length = bytes.get(8..10).ok_or("no .npy")?;
    let start = 10 + usize::from(u16::from_le_bytes([length[0], length[1]]));
    let header = std::str::from_utf8(bytes.get(10..start).ok_or("no .npy")?)?;
    let shape =
        header.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')')).ok_or("no shape")?.0;
    let columns: usize = shape.split(',').nth(1).ok_or("not two-dimensional")?.trim().parse()?;
    if !header.contains("'<f4'") || bytes[..6] != *b"\x93NUMPY" {
        return Err(format!("{} is no .npy of f32", path.display()).into());
    }
    let logits: Vec<f32> =
        bytes[start..].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    Ok(logits.chunks_exact(columns.max(1)).map(<[f32]>::to_vec).collect())
}
