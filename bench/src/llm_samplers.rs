//! The crate llm-samplers. Billed: filling its list of logits, which it wants for every token, and the chain.

use llm_samplers::prelude::*;
use onedraw::{PenaltyScope, SamplingParams};
use onedraw_bench::aligned::Aligned;
use onedraw_bench::contender::Contender;
use onedraw_bench::strategies::Strategy;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::engine::{Answer, Engine, temperature_last};

const SEED: u64 = 1;
/// The fewest tokens kept, its own default.
const KEEP: usize = 1;

/// llm-samplers over a set of rows.
pub struct LlmSamplers<'a> {
    rows: &'a [Aligned<f32>],
    vocabulary: usize,
}

impl<'a> LlmSamplers<'a> {
    /// Draws from these rows.
    pub fn new(rows: &'a [Aligned<f32>]) -> Self {
        Self { rows, vocabulary: rows[0].row().len() }
    }

    fn chain(&self, strategy: &Strategy) -> Option<Chain> {
        Chain::new(&strategy.params(SEED, self.vocabulary), self.vocabulary)
    }
}

struct Chain {
    chain: SamplerChain,
    resources: SimpleSamplerResources,
}

impl Chain {
    fn new(params: &SamplingParams, vocabulary: usize) -> Option<Self> {
        let defaults = SamplingParams::default();
        let is_unknown = params.logprobs.is_some()
            || params.epsilon_cutoff != defaults.epsilon_cutoff
            || params.eta_cutoff != defaults.eta_cutoff
            || params.top_n_sigma != defaults.top_n_sigma
            || params.xtc_probability != defaults.xtc_probability
            || params.dynatemp_range != defaults.dynatemp_range
            || params.smoothing_factor != defaults.smoothing_factor;
        if is_unknown {
            return None;
        }
        let history = [&params.prompt_token_ids[..], &params.output_token_ids].concat();
        let rng = Box::new(StdRng::seed_from_u64(SEED));
        let mut chain = SamplerChain::new();
        if !history.is_empty() {
            let [repeat, frequency, presence] =
                [params.repetition_penalty, params.frequency_penalty, params.presence_penalty];
            chain += SampleRepetition::new(repeat as f32, history.len());
            chain += SampleFreqPresence::new(frequency as f32, presence as f32, history.len());
        }
        if params.top_k > 0 {
            chain += SampleTopK::new(params.top_k as usize, KEEP);
        }
        if params.typical_p < 1.0 {
            chain += SampleLocallyTypical::new(params.typical_p as f32, KEEP);
        }
        if params.top_p < 1.0 {
            chain += SampleTopP::new(params.top_p as f32, KEEP);
        }
        if params.min_p > 0.0 {
            chain += SampleMinP::new(params.min_p as f32, KEEP);
        }
        if params.top_a > 0.0 {
            chain += SampleTopA::new(params.top_a as f32, 2.0, KEEP);
        }
        if params.temperature != 0.0 && params.temperature != 1.0 {
            chain += SampleTemperature::new(params.temperature as f32);
        }
        let (tau, eta) = (params.mirostat_tau as f32, params.mirostat_eta as f32);
        match params.mirostat {
            1 => chain += SampleMirostat1::new(vocabulary, tau, eta),
            2 => chain += SampleMirostat2::new(tau, eta),
            _ if params.temperature == 0.0 => chain += SampleGreedy::new(),
            _ => chain += SampleRandDistrib::new(),
        }
        Some(Self { chain, resources: SimpleSamplerResources::new(Some(rng), Some(history)) })
    }

    /// The token, and what it was drawn from.
    fn sample(&mut self, row: &[f32]) -> (Option<u32>, Logits) {
        let mut logits = Logits::try_from_iter(row.iter().copied()).expect("no NaN");
        let token = self.chain.sample_token(&mut self.resources, &mut logits).expect("a token");
        (token, logits)
    }
}

impl Engine for LlmSamplers<'_> {
    fn name(&self) -> &'static str {
        "llm-samplers"
    }

    fn contender(&mut self, strategy: &Strategy) -> Option<Box<dyn Contender + '_>> {
        let (mut chain, rows) = (self.chain(strategy)?, self.rows);
        Some(Box::new(move |row: usize, _: u32| drop(std::hint::black_box(chain.sample(rows[row].row())))))
    }

    fn answer(&mut self, strategy: &Strategy, row: usize) -> Option<Answer> {
        let (token, logits) = self.chain(strategy)?.sample(self.rows[row].row());
        if strategy.params(SEED, self.vocabulary).temperature == 0.0 {
            return Some(Answer::Distribution { tokens: vec![token?], probabilities: vec![1.0] });
        }
        let (tokens, probabilities) =
            logits.iter().map(|logit| (logit.token_id, f64::from(logit.prob))).unzip();
        Some(Answer::Distribution { tokens, probabilities })
    }

    /// The order that its documentation advises, and penalties that count everything.
    fn own_reading(&self, params: SamplingParams) -> SamplingParams {
        temperature_last(SamplingParams { penalty_scope: PenaltyScope::All, ..params })
    }
}
