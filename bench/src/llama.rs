//! llama.cpp: a chain of `llama_sampler` over an array of candidates, as `llama_sampler_sample` runs it.
//!
//! Billed: filling the array, which an engine does for every token, the chain, and accepting the token.

use llama_cpp_sys_2 as sys;
use onedraw::{PenaltyScope, SamplingParams};
use onedraw_bench::aligned::Aligned;
use onedraw_bench::contender::Contender;
use onedraw_bench::strategies::Strategy;

use crate::engine::{Answer, Engine, temperature_last};

/// llama.cpp's seed for all its samplers.
const SEED: u32 = 1;
/// How many of the best tokens mirostat 1 fits its slope to, as in llama.cpp's own programs.
const MIROSTAT_FIT: i32 = 100;

/// llama.cpp over a set of rows.
pub struct Llama<'a> {
    rows: &'a [Aligned<f32>],
    vocabulary: usize,
}

impl<'a> Llama<'a> {
    /// Draws from these rows.
    pub fn new(rows: &'a [Aligned<f32>]) -> Self {
        Self { rows, vocabulary: rows[0].row().len() }
    }

    fn chain(&self, strategy: &Strategy) -> Option<Chain> {
        Chain::new(&strategy.params(u64::from(SEED), self.vocabulary), self.vocabulary)
    }
}

impl Engine for Llama<'_> {
    fn name(&self) -> &'static str {
        "llama.cpp"
    }

    fn contender(&mut self, strategy: &Strategy) -> Option<Box<dyn Contender + '_>> {
        let (mut chain, rows) = (self.chain(strategy)?, self.rows);
        Some(Box::new(move |row: usize, _: u32| chain.sample(rows[row].row())))
    }

    fn answer(&mut self, strategy: &Strategy, row: usize) -> Option<Answer> {
        let mut chain = self.chain(strategy)?;
        let (left, selected) = chain.apply(self.rows[row].row());
        if strategy.params(1, self.vocabulary).temperature == 0.0 {
            let token = left.get(selected)?.id as u32;
            return Some(Answer::Distribution { tokens: vec![token], probabilities: vec![1.0] });
        }
        // top-n-sigma masks with −inf and leaves the array as long as it was.
        let alive = left.iter().filter(|token| token.logit > f32::NEG_INFINITY);
        let (tokens, probabilities) = alive.map(|token| (token.id as u32, f64::from(token.p))).unzip();
        Some(Answer::Distribution { tokens, probabilities })
    }

    /// Its chains have the temperature last, and its penalties count every token that was accepted.
    fn own_reading(&self, params: SamplingParams) -> SamplingParams {
        temperature_last(SamplingParams { penalty_scope: PenaltyScope::All, ..params })
    }
}

/// A chain and its array of candidates.
struct Chain {
    chain: *mut sys::llama_sampler,
    candidates: Vec<sys::llama_token_data>,
}

impl Chain {
    /// `None` where llama.cpp has no such sampler.
    fn new(params: &SamplingParams, vocabulary: usize) -> Option<Self> {
        let defaults = SamplingParams::default();
        let is_unknown = params.logprobs.is_some()
            || params.epsilon_cutoff != defaults.epsilon_cutoff
            || params.eta_cutoff != defaults.eta_cutoff
            || params.top_a != defaults.top_a
            || params.smoothing_factor != defaults.smoothing_factor;
        if is_unknown {
            return None;
        }
        // SAFETY: the constructors take numbers and give samplers that the chain owns; `Drop` frees the
        // chain.
        unsafe {
            let mut settings = sys::llama_sampler_chain_default_params();
            settings.no_perf = true;
            let chain = sys::llama_sampler_chain_init(settings);
            for sampler in samplers(params, vocabulary) {
                sys::llama_sampler_chain_add(chain, sampler);
            }
            for &token in params.prompt_token_ids.iter().chain(&params.output_token_ids) {
                sys::llama_sampler_accept(chain, token as i32);
            }
            Some(Self { chain, candidates: Vec::new() })
        }
    }

    /// Fills the array and runs the chain; gives what is left of the array, and the place in it that was
    /// selected.
    fn apply(&mut self, row: &[f32]) -> (&[sys::llama_token_data], usize) {
        self.candidates.clear();
        self.candidates.extend((0..).zip(row).map(|(id, &logit)| sys::llama_token_data {
            id,
            logit,
            p: 0.0,
        }));
        let mut array = sys::llama_token_data_array {
            data: self.candidates.as_mut_ptr(),
            size: self.candidates.len(),
            selected: -1,
            sorted: false,
        };
        // SAFETY: the array is that of the candidates, which outlive the call; the chain moves `data` and
        // `size` only within it, so that the slice lies in the candidates, which are borrowed as long as it
        // is.
        let left = unsafe {
            sys::llama_sampler_apply(self.chain, &mut array);
            std::slice::from_raw_parts(array.data, array.size)
        };
        (left, array.selected as usize)
    }

    fn sample(&mut self, row: &[f32]) {
        let (left, selected) = self.apply(row);
        let token = left[selected].id;
        // SAFETY: the chain lives until `drop`.
        unsafe { sys::llama_sampler_accept(self.chain, token) };
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // SAFETY: made by `llama_sampler_chain_init` and freed once.
        unsafe { sys::llama_sampler_free(self.chain) };
    }
}

/// The samplers of a chain in llama.cpp's order, those that the parameters leave off left out.
///
/// # Safety
///
/// Each must be given to one chain, or freed.
unsafe fn samplers(params: &SamplingParams, vocabulary: usize) -> Vec<*mut sys::llama_sampler> {
    let SamplingParams { temperature, top_k, top_p, min_p, typical_p, top_n_sigma, mirostat, .. } = *params;
    let history = params.prompt_token_ids.len() + params.output_token_ids.len();
    let mut samplers = Vec::new();
    let mut add = |wanted: bool, sampler: &dyn Fn() -> *mut sys::llama_sampler| {
        if wanted {
            samplers.push(sampler());
        }
    };
    let (tau, eta) = (params.mirostat_tau as f32, params.mirostat_eta as f32);
    let [repeat, frequency, presence] =
        [params.repetition_penalty, params.frequency_penalty, params.presence_penalty]
            .map(|penalty| penalty as f32);
    // SAFETY: the constructors take numbers only.
    unsafe {
        add(history > 0, &|| {
            sys::llama_sampler_init_penalties(vocabulary as i32, history as i32, repeat, frequency, presence)
        });
        add(top_n_sigma > 0.0, &|| sys::llama_sampler_init_top_n_sigma(top_n_sigma as f32));
        add(top_k > 0, &|| sys::llama_sampler_init_top_k(top_k as i32));
        add(typical_p < 1.0, &|| sys::llama_sampler_init_typical(typical_p as f32, 0));
        add(top_p < 1.0, &|| sys::llama_sampler_init_top_p(top_p as f32, 0));
        add(min_p > 0.0, &|| sys::llama_sampler_init_min_p(min_p as f32, 0));
        add(params.xtc_probability > 0.0, &|| {
            sys::llama_sampler_init_xtc(params.xtc_probability as f32, params.xtc_threshold as f32, 0, SEED)
        });
        add(temperature > 0.0 && (temperature != 1.0 || params.dynatemp_range > 0.0), &|| {
            let (range, exponent) = (params.dynatemp_range as f32, params.dynatemp_exponent as f32);
            sys::llama_sampler_init_temp_ext(temperature as f32, range, exponent)
        });
        add(mirostat == 1, &|| {
            sys::llama_sampler_init_mirostat(vocabulary as i32, SEED, tau, eta, MIROSTAT_FIT)
        });
        add(mirostat == 2, &|| sys::llama_sampler_init_mirostat_v2(SEED, tau, eta));
        add(mirostat == 0 && temperature > 0.0, &|| sys::llama_sampler_init_dist(SEED));
        add(temperature == 0.0, &|| sys::llama_sampler_init_greedy());
    }
    samplers
}
