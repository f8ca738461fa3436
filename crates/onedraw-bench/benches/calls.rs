//! How long the library's own calls take, for those who measure a binding beside them.
//!
//! `calls FILE` writes 32 peaked rows of 128,256 logits to FILE, as f32, and then answers lines of JSON:
//! `{"params": {…}, "rows": 1, "logits": 128256, "draws": 500}` gets a line with the nanoseconds of each
//! draw. A draw is `Sampler::peek` for one row and `Batch::peek` for several, on one thread. The rows are
//! read from the mapped file: whoever maps it too reads the same pages, which matters where they come from
//! memory.
#![allow(unsafe_code)] // Mapping a file, once.

use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result};
use onedraw::{Batch, Row, Sampler, SamplingParams, Step};
use onedraw_bench::rows::Shape;
use serde::Deserialize;

const VOCABULARY: usize = 128_256;
const ROWS: usize = 32;
/// Positions drawn in turn.
const POSITIONS: usize = 64;

#[derive(Deserialize)]
struct Question {
    params: serde_json::Value,
    rows: usize,
    /// The first so many of each row.
    logits: usize,
    draws: usize,
}

fn main() -> Result<()> {
    // `cargo bench` adds the flag.
    let path = std::env::args().nth(1).filter(|argument| argument != "--bench");
    let path = path.context("calls FILE: where the rows go")?;
    let rows: Vec<Vec<f32>> = (0..ROWS as u64).map(|seed| Shape::Peaked.row(seed, VOCABULARY)).collect();
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|logit| logit.to_le_bytes()).collect();
    std::fs::write(&path, bytes)?;
    // SAFETY: nobody writes to the file any more.
    let mapped = unsafe { memmap2::Mmap::map(&std::fs::File::open(&path)?)? };
    let logits: &[f32] = bytemuck::cast_slice(&mapped);
    let rows: Vec<&[f32]> = logits.chunks(VOCABULARY).collect();
    println!("{{\"rows\": {ROWS}, \"vocabulary\": {VOCABULARY}}}");
    for line in std::io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        let times = times(&question, &rows)?;
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&times)?)?;
    }
    Ok(())
}

fn times(question: &Question, rows: &[&[f32]]) -> Result<Vec<u64>> {
    let params = SamplingParams::from_value(question.params.clone())?;
    let rows: Vec<Row<'_>> =
        rows.iter().take(question.rows).map(|row| Row::from(&row[..question.logits])).collect();
    let mut sampler = Sampler::new(params.clone())?;
    let mut batch = Batch::new().threads(1);
    let ids = rows.iter().map(|_| batch.add(params.clone())).collect::<Result<Vec<_>, _>>()?;
    let steps: Vec<Step<'_>> = ids.iter().zip(&rows).map(|(&id, &row)| Step::new(id, row)).collect();
    let mut draw = |position: usize| {
        let ahead = (position % POSITIONS) as u32;
        let begun = Instant::now();
        match rows.len() {
            1 => _ = std::hint::black_box(sampler.peek(rows[0], ahead)),
            _ => _ = std::hint::black_box(batch.peek(&steps, ahead)),
        }
        begun.elapsed().as_nanos() as u64
    };
    // The first draws fill caches and memory.
    (0..POSITIONS).for_each(|position| _ = draw(position));
    Ok((0..question.draws).map(draw).collect())
}
