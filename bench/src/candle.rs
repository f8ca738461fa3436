//! candle's `LogitsProcessor`. Billed: `sample`. The tensor of logits is there already, as it is after a
//! model's last layer.

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use onedraw::SamplingParams;
use onedraw_bench::aligned::Aligned;
use onedraw_bench::contender::Contender;
use onedraw_bench::strategies::Strategy;

use crate::engine::{Answer, Engine};

const SEED: u64 = 1;
/// It tells nothing but tokens, so its law is judged by so many draws, from a row of the so many best logits.
const DRAWS: usize = 20_000;
const BEST: usize = 512;

/// candle over a set of rows.
pub struct Candle<'a> {
    rows: &'a [Aligned<f32>],
    tensors: Vec<Tensor>,
}

impl<'a> Candle<'a> {
    /// Draws from these rows.
    pub fn new(rows: &'a [Aligned<f32>]) -> Self {
        Self { rows, tensors: rows.iter().map(|row| tensor(row.row())).collect() }
    }
}

fn tensor(row: &[f32]) -> Tensor {
    Tensor::from_slice(row, row.len(), &Device::Cpu).expect("a tensor in memory")
}

/// Parameters as candle has them, if it does.
fn sampling(params: &SamplingParams) -> Option<Sampling> {
    let SamplingParams { temperature, top_k, top_p, .. } = *params;
    let known = SamplingParams { temperature, top_k, top_p, seed: params.seed, ..SamplingParams::default() };
    let k = top_k as usize;
    match (temperature == 0.0, top_k > 0, top_p < 1.0) {
        _ if known != *params => None,
        (true, ..) => Some(Sampling::ArgMax),
        (_, false, false) => Some(Sampling::All { temperature }),
        (_, true, false) => Some(Sampling::TopK { k, temperature }),
        (_, false, true) => Some(Sampling::TopP { p: top_p, temperature }),
        (_, true, true) => Some(Sampling::TopKThenTopP { k, p: top_p, temperature }),
    }
}

impl Engine for Candle<'_> {
    fn name(&self) -> &'static str {
        "candle"
    }

    fn contender(&mut self, strategy: &Strategy) -> Option<Box<dyn Contender + '_>> {
        let sampling = sampling(&strategy.params(SEED, self.rows[0].row().len()))?;
        let mut processor = LogitsProcessor::from_sampling(SEED, sampling);
        let tensors = &self.tensors;
        Some(Box::new(move |row: usize, _: u32| {
            std::hint::black_box(processor.sample(&tensors[row]).expect("a token"));
        }))
    }

    fn answer(&mut self, strategy: &Strategy, row: usize) -> Option<Answer> {
        let row = self.rows[row].row();
        let sampling = sampling(&strategy.params(SEED, row.len()))?;
        let draws = if sampling == Sampling::ArgMax { 1 } else { DRAWS };
        let logits = best(row);
        let tensor = tensor(&logits);
        let mut processor = LogitsProcessor::from_sampling(SEED, sampling);
        let tokens = (0..draws).map(|_| processor.sample(&tensor).expect("a token")).collect();
        Some(Answer::Draws { logits, tokens })
    }
}

/// The best logits of the row, in their order.
fn best(row: &[f32]) -> Vec<f32> {
    let mut sorted = row.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let bar = sorted[BEST.min(sorted.len()) - 1];
    row.iter().copied().filter(|logit| *logit >= bar).collect()
}
