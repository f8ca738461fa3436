//! What every sampler in the comparison has to say.

use onedraw::{Kernel, Sampler, SamplingParams};
use onedraw_bench::aligned::Aligned;
use onedraw_bench::contender::Contender;
use onedraw_bench::strategies::Strategy;
use onedraw_bench::suite;

/// A sampler over a set of rows.
pub trait Engine {
    /// The name, as it stands in the report.
    fn name(&self) -> &'static str;

    /// The sampler at work; `None` where it has no such strategy.
    fn contender(&mut self, strategy: &Strategy) -> Option<Box<dyn Contender + '_>>;

    /// What it would draw from, as far as it tells.
    fn answer(&mut self, strategy: &Strategy, row: usize) -> Option<Answer>;

    /// The tokens and logprobs that a draw lists, where the strategy asks for them and the sampler has them.
    fn logprobs(&mut self, _: &Strategy, _row: usize) -> Option<Vec<(u32, f64)>> {
        None
    }

    /// The parameters whose distribution its answer should be: where its own customs differ from onedraw's
    /// defaults (the order of the stages, whether the prompt counts), it is held to its own.
    fn own_reading(&self, params: SamplingParams) -> SamplingParams {
        params
    }
}

/// What a sampler tells about its distribution.
pub enum Answer {
    /// All of it.
    Distribution {
        /// The tokens that can be drawn, in any order.
        tokens: Vec<u32>,
        /// The probability of each.
        probabilities: Vec<f64>,
    },
    /// Draws from a small row, from a sampler that gives nothing else.
    Draws {
        /// The row.
        logits: Vec<f32>,
        /// The tokens drawn.
        tokens: Vec<u32>,
    },
}

/// onedraw itself, checked like the others.
pub struct Onedraw<'a> {
    rows: &'a [Aligned<f32>],
    vocabulary: usize,
    sampler: Option<Sampler>,
}

impl<'a> Onedraw<'a> {
    /// Draws from these rows.
    pub fn new(rows: &'a [Aligned<f32>]) -> Self {
        Self { rows, vocabulary: rows[0].row().len(), sampler: None }
    }

    fn sampler(&self, strategy: &Strategy) -> Sampler {
        let params = strategy.params(1, self.vocabulary);
        Sampler::new(params).expect("valid parameters").kernel(Kernel::Auto)
    }
}

impl Engine for Onedraw<'_> {
    fn name(&self) -> &'static str {
        "onedraw"
    }

    fn contender(&mut self, strategy: &Strategy) -> Option<Box<dyn Contender + '_>> {
        let sampler = self.sampler(strategy);
        Some(Box::new(suite::draws(self.sampler.insert(sampler), self.rows)))
    }

    fn answer(&mut self, strategy: &Strategy, row: usize) -> Option<Answer> {
        let distribution = self.sampler(strategy).distribution(self.rows[row].row()).ok()?;
        Some(Answer::Distribution { tokens: distribution.tokens, probabilities: distribution.probabilities })
    }

    fn logprobs(&mut self, strategy: &Strategy, row: usize) -> Option<Vec<(u32, f64)>> {
        let sampled = self.sampler(strategy).peek(self.rows[row].row(), 0).ok()?;
        Some(sampled.logprobs.iter().map(|entry| (entry.token, entry.logprob)).collect())
    }
}

/// The order that a chain with the temperature at its end has, which llama.cpp and llm-samplers advise.
pub fn temperature_last(params: SamplingParams) -> SamplingParams {
    let has_order = params.temperature != 1.0 && params.mirostat == 0;
    let order = has_order.then(|| "llama.cpp".parse().expect("the name of an order"));
    SamplingParams { order, ..params }
}
