//! Random rows and parameters, of what the device can do.

use onedraw::{KeptMode, LogprobsMode, Order, PenaltyScope, SamplingParams, Stage};
use onedraw_cuda::Dtype;
use onedraw_testkit::rows::{self, SplitMix64};

/// One of the values.
pub fn one_of<T: Copy>(random: &mut SplitMix64, values: &[T]) -> T {
    values[random.below(values.len())]
}

/// True so often.
pub fn by_chance(random: &mut SplitMix64, probability: f64) -> bool {
    random.uniform() < probability
}

/// Small ones, borders of blocks and masks, and those of models.
pub const VOCABULARIES: [usize; 12] = [1, 2, 17, 63, 64, 65, 1000, 1025, 4096, 32_000, 50_257, 128_256];

pub fn any_dtype(random: &mut SplitMix64) -> Dtype {
    one_of(random, &Dtype::ALL)
}

/// What a row looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// As a language model has it: logits fall with the logarithm of the rank.
    Zipf,
    /// Everything is about as likely.
    Flat,
    /// One logit everywhere.
    Equal,
    /// Few different logits.
    Ties,
    /// A third is −inf.
    Holes,
    /// Logits of any size.
    Wide,
}

pub const SHAPES: [Shape; 6] =
    [Shape::Zipf, Shape::Flat, Shape::Equal, Shape::Ties, Shape::Holes, Shape::Wide];

pub fn any_row(random: &mut SplitMix64, shape: Shape, vocabulary: usize) -> Vec<f32> {
    let seed = random.next_u64();
    match shape {
        Shape::Zipf => rows::peaked(seed, vocabulary),
        Shape::Flat => rows::gaussian(seed, vocabulary, 0.5),
        Shape::Equal => rows::flat(vocabulary, one_of(random, &[0.0, -3.5, 700.0])),
        Shape::Ties => rows::ties(seed, vocabulary, 2 + random.below(8)),
        Shape::Holes => rows::masked(seed, vocabulary, 0.35),
        Shape::Wide => rows::gaussian(seed, vocabulary, one_of(random, &[1e-3, 1.0, 30.0, 1e4])),
    }
}

/// Parameters over a vocabulary; any stage that the device has may be on.
pub fn any_params(random: &mut SplitMix64, vocabulary: usize) -> SamplingParams {
    let mut params = SamplingParams { seed: Some(random.next_u64()), max_tokens: 1000, ..Default::default() };
    set_truncations(&mut params, random, vocabulary);
    set_history(&mut params, random, vocabulary);
    if by_chance(random, 0.5) {
        set_edits(&mut params, random, vocabulary);
    }
    if by_chance(random, 0.4) {
        set_logprobs(&mut params, random);
    }
    params.probability = by_chance(random, 0.2);
    params.order = any_order(random);
    if by_chance(random, 0.2) {
        params.kept = one_of(random, &[KeptMode::Ids, KeptMode::Summary]);
    }
    if params.order.is_none() && params.mirostat > 0 {
        // In the default order mirostat takes the place of every other truncation.
        let SamplingParams { top_k, top_p, min_p, typical_p, .. } = SamplingParams::default();
        (params.top_k, params.top_p, params.min_p, params.typical_p) = (top_k, top_p, min_p, typical_p);
        (params.epsilon_cutoff, params.eta_cutoff, params.top_a) = (0.0, 0.0, 0.0);
        (params.top_n_sigma, params.xtc_probability) = (0.0, 0.0);
    }
    // Not every chain keeps what a summary can say.
    if params.kept == KeptMode::Summary && onedraw::Plan::new(&params).is_err() {
        params.kept = KeptMode::Ids;
    }
    params
}

/// The same for rows that are split: what is reported is the host's, so any of it may be asked for.
pub fn params_of_parts(random: &mut SplitMix64, vocabulary: usize) -> SamplingParams {
    let mut params = any_params(random, vocabulary);
    if by_chance(random, 0.1) {
        params.logprobs = Some(-1);
    }
    if by_chance(random, 0.1) {
        params.kept = KeptMode::Ids;
    }
    params
}

/// Parameters of each stage that changes a part of a row after its first edits, or asks what the text repeats.
/// The text repeats itself, in the first few tokens of the vocabulary.
pub fn params_that_change_parts(seed: u64) -> Vec<SamplingParams> {
    const STAGES: [&str; 17] = [
        r#"{"xtc_probability": 1, "xtc_threshold": 0.02}"#,
        r#"{"xtc_probability": 0.5, "xtc_threshold": 0.02, "xtc_protected_token_ids": [6, 1, 1, 900]}"#,
        r#"{"xtc_probability": 1, "xtc_threshold": 0.02, "xtc_protected_token_ids": [2], "typical_p": 0.9,
            "order": "typical,xtc,temperature,xtc"}"#,
        r#"{"smoothing_factor": 0.3}"#,
        r#"{"smoothing_factor": 0.3, "smoothing_curve": 2.5, "temperature": 0.7, "top_p": 0.9,
            "order": "temperature,top_p,smoothing"}"#,
        r#"{"dry_multiplier": 3, "dry_allowed_length": 1}"#,
        r#"{"dry_multiplier": 3, "dry_allowed_length": 1, "dry_penalty_last_n": 6,
            "dry_sequence_breakers": [[3], [1, 2]]}"#,
        r#"{"no_repeat_ngram_size": 3}"#,
        r#"{"no_repeat_ngram_size": 1, "dry_multiplier": 1, "top_k": 50, "order": "top_k,dry,no_repeat_ngram"}"#,
        r#"{"temperature": 0.7, "repetition_penalty": 1.5, "order": "temperature,penalties"}"#,
        r#"{"top_k": 9, "logit_bias": {"3": 2, "4": -3, "70": 90}, "order": "top_k,logit_bias"}"#,
        r#"{"top_p": 0.8, "temperature": 1.3, "frequency_penalty": 0.6, "bad_words_ids": [[5], [3, 7]],
            "order": "top_p,bad_words,temperature,penalties,top_p"}"#,
        r#"{"min_tokens": 3, "eos_token_id": [0, 1], "min_p": 0.01, "order": "min_p,min_tokens"}"#,
        r#"{"top_k": 40, "temperature": 0.9, "order": "top_k,allowed,temperature"}"#,
        r#"{"top_k": 40, "allowed_token_ids": [0, 2, 4, 6, 8, 500], "temperature": 0.9,
            "order": "temperature,allowed,top_k"}"#,
        r#"{"dynatemp_range": 0.5, "mirostat": 2, "logit_bias": {"2": 1},
            "order": "temperature,logit_bias,mirostat"}"#,
        r#"{"smoothing_factor": 0.2, "xtc_probability": 1, "xtc_threshold": 0.01, "logprobs": 5,
            "logprobs_mode": "processed_logprobs", "repetition_penalty": 2,
            "order": "xtc,penalties,smoothing,xtc,allowed"}"#,
    ];
    let read =
        |json: &&str| SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    let prompt_token_ids = vec![1, 2, 3, 4, 5, 1, 2, 3, 4, 0, 1, 2, 3];
    let params = STAGES.iter().map(read);
    params
        .map(|params| SamplingParams {
            seed: Some(seed),
            prompt_token_ids: prompt_token_ids.clone(),
            ..params
        })
        .collect()
}

/// A row on which the first tokens are likely.
pub fn row_of_few(random: &mut SplitMix64, vocabulary: usize) -> Vec<f32> {
    let shape = one_of(random, &SHAPES[..2]);
    let mut row = any_row(random, shape, vocabulary);
    row.iter_mut().take(9).for_each(|x| *x = 4.0 + random.below(6) as f32);
    row
}

/// The same, every third with mirostat, which learns from each token of a draft.
pub fn params_of_drafts(random: &mut SplitMix64, vocabulary: usize) -> SamplingParams {
    let learns = by_chance(random, 0.3);
    loop {
        let params = any_params(random, vocabulary);
        if (params.mirostat > 0) == learns {
            return params;
        }
    }
}

/// The same with min-p, top-k and top-p alone, and nothing to report.
pub fn plain(params: &SamplingParams) -> SamplingParams {
    let SamplingParams { temperature, top_k, top_p, min_p, seed, .. } = *params;
    SamplingParams { temperature, top_k, top_p, min_p, seed, ..Default::default() }
}

pub fn set_truncations(params: &mut SamplingParams, random: &mut SplitMix64, vocabulary: usize) {
    let often = |random: &mut SplitMix64| by_chance(random, 0.4);
    let rarely = |random: &mut SplitMix64| by_chance(random, 0.1);
    params.temperature = one_of(random, &[0.0, 0.3, 0.8, 1.0, 1.0, 1.5, 4.0, 1000.0]);
    if often(random) {
        params.top_k = one_of(random, &[1, 2, 5, 50, 200, 1000, 1024, 1500, 5000, vocabulary as i64]);
    }
    if often(random) {
        params.top_p = one_of(random, &[0.0, 1e-9, 0.1, 0.5, 0.9, 0.95, 0.999]);
    }
    if often(random) {
        params.min_p = one_of(random, &[1e-6, 0.01, 0.05, 0.5, 1.0]);
    }
    if rarely(random) {
        params.typical_p = one_of(random, &[0.05, 0.5, 0.95]);
    }
    if rarely(random) {
        params.epsilon_cutoff = one_of(random, &[1e-6, 1e-3, 0.3]);
    }
    if rarely(random) {
        params.eta_cutoff = one_of(random, &[1e-6, 1e-3, 0.3]);
    }
    if rarely(random) {
        params.top_a = one_of(random, &[1e-3, 0.2, 1.0]);
    }
    if rarely(random) {
        params.top_n_sigma = one_of(random, &[0.1, 1.0, 3.0]);
    }
    if rarely(random) {
        params.xtc_probability = one_of(random, &[0.5, 1.0, 1.0]);
        params.xtc_threshold = one_of(random, &[1e-6, 0.001, 0.1, 0.5]);
        params.xtc_protected_token_ids = any_tokens(random, vocabulary, 6);
    }
    if rarely(random) {
        params.dynatemp_range = one_of(random, &[0.1, 0.5, 3.0]);
        params.dynatemp_exponent = one_of(random, &[0.0, 0.5, 1.0, 2.5]);
    }
    if rarely(random) {
        params.smoothing_factor = one_of(random, &[1e-3, 0.3, 2.0]);
        params.smoothing_curve = one_of(random, &[1.0, 1.5, 3.0]);
    }
    if rarely(random) {
        params.mirostat = one_of(random, &[1, 2]);
        params.mirostat_tau = one_of(random, &[0.5, 3.0, 8.0]);
        params.mirostat_eta = one_of(random, &[0.0, 0.1, 1.0]);
        params.mirostat_mu = one_of(random, &[None, Some(0.01), Some(4.0)]);
    }
}

/// Often one of the first few, so that histories repeat themselves and lists meet.
pub fn any_token(random: &mut SplitMix64, vocabulary: usize) -> u32 {
    let most = if by_chance(random, 0.6) { vocabulary.min(6) } else { vocabulary };
    random.below(most) as u32
}

fn any_tokens(random: &mut SplitMix64, vocabulary: usize, most: usize) -> Vec<u32> {
    (0..random.below(most + 1)).map(|_| any_token(random, vocabulary)).collect()
}

fn set_history(params: &mut SamplingParams, random: &mut SplitMix64, vocabulary: usize) {
    params.prompt_token_ids = any_tokens(random, vocabulary, 40);
    params.output_token_ids = any_tokens(random, vocabulary, 10);
}

pub fn set_edits(params: &mut SamplingParams, random: &mut SplitMix64, vocabulary: usize) {
    if by_chance(random, 0.6) {
        params.repetition_penalty = one_of(random, &[0.5, 1.0, 1.2, 3.0]);
        params.frequency_penalty = one_of(random, &[0.0, 0.3, -0.5, 1e30]);
        params.presence_penalty = one_of(random, &[0.0, 0.7, -2.0]);
        params.penalty_window = one_of(random, &[0, 0, 1, 3, 8, 100]);
        params.penalty_scope = one_of(random, &[PenaltyScope::Output, PenaltyScope::All]);
    }
    if by_chance(random, 0.3) {
        params.dry_multiplier = one_of(random, &[0.3, 2.0]);
        params.dry_base = one_of(random, &[1.0, 1.75, 30.0]);
        params.dry_allowed_length = one_of(random, &[0, 1, 2, 5]);
        params.dry_penalty_last_n = one_of(random, &[0, 0, 4, 20]);
        let breakers = 0..random.below(4);
        params.dry_sequence_breakers = breakers
            .map(|_| (0..1 + random.below(3)).map(|_| any_token(random, vocabulary)).collect())
            .collect();
    }
    if by_chance(random, 0.2) {
        params.no_repeat_ngram_size = one_of(random, &[1, 2, 3, 6]);
    }
    if by_chance(random, 0.4) {
        let biases = [-100.0, -1.5, 0.1, 4.0, 1e38];
        params.logit_bias = (0..1 + random.below(8))
            .map(|_| (any_token(random, vocabulary), one_of(random, &biases)))
            .collect();
    }
    if by_chance(random, 0.3) {
        let count = 1 + random.below(vocabulary.min(300));
        params.allowed_token_ids = Some((0..count).map(|_| random.below(vocabulary) as u32).collect());
    }
    if by_chance(random, 0.4) {
        params.bad_words_ids = (0..1 + random.below(5))
            .map(|_| (0..1 + random.below(3)).map(|_| any_token(random, vocabulary)).collect())
            .collect();
    }
    if by_chance(random, 0.4) {
        params.min_tokens = (params.output_token_ids.len() + random.below(5)) as u32;
        params.eos_token_id = any_tokens(random, vocabulary, 2);
        params.stop_token_ids = any_tokens(random, vocabulary, 2);
    }
}

/// The most entries that [`set_logprobs`] asks for.
pub const MOST_LOGPROBS: usize = 1024;

pub fn set_logprobs(params: &mut SamplingParams, random: &mut SplitMix64) {
    params.logprobs = Some(one_of(random, &[0, 1, 2, 5, 5, 20, 20, 100, MOST_LOGPROBS as i64]));
    params.logprobs_mode = one_of(random, &LogprobsMode::ALL);
}

/// Chains of about as many edits as a record holds, and of many more, in one segment and in several. Those that name
/// bad words remove token 9, after forty other edits.
pub fn long_chains(seed: u64) -> Vec<SamplingParams> {
    use Stage::*;
    let of = |stages: Vec<Stage>| {
        let order = Order::of(stages);
        let is = |stage| order.names(&stage);
        let mut params = SamplingParams { prompt_token_ids: vec![3, 9, 3, 9, 12], ..Default::default() };
        if is(Penalties) {
            (params.repetition_penalty, params.frequency_penalty) = (1.05, 0.02);
        }
        if is(LogitBias) {
            params.logit_bias = [(3, 0.01), (9, 0.03), (11, -0.02)].into();
        }
        if is(Dry) {
            (params.dry_multiplier, params.dry_allowed_length) = (0.1, 1);
        }
        if is(BadWords) {
            params.bad_words_ids = vec![vec![9], vec![3, 4]];
        }
        params.temperature = if is(Temperature) { 1.5 } else { 1.0 };
        params.top_k = if is(TopK) { 30 } else { 0 };
        params.top_p = if is(TopP) { 0.95 } else { 1.0 };
        SamplingParams { seed: Some(seed), logprobs: Some(3), order: Some(order), ..params }
    };
    let times = |count: usize, stage: Stage| vec![stage; count];
    vec![
        of(times(31, Penalties)),
        of(times(32, Penalties)),
        of(times(40, Penalties)),
        of([times(300, LogitBias), times(40, Penalties), vec![Temperature, TopP]].concat()),
        of([vec![Temperature, TopK], times(20, Penalties), times(20, LogitBias), vec![BadWords]].concat()),
        of([times(33, Dry), vec![TopK], times(40, LogitBias), vec![TopP], times(40, Penalties)].concat()),
        of([vec![Allowed], times(40, LogitBias), vec![BadWords, Temperature, TopP]].concat()),
        of([vec![Allowed, TopK, Allowed], times(40, LogitBias), vec![BadWords, Allowed, TopP]].concat()),
    ]
}

/// The default, or the stages of the device shuffled, most often with the edits first, a few of them twice.
pub fn any_order(random: &mut SplitMix64) -> Option<Order> {
    use Stage::*;
    if by_chance(random, 0.5) {
        return None;
    }
    let mut edits = vec![Allowed, BadWords, MinTokens, LogitBias, Penalties, Dry, NoRepeatNgram];
    // One of them twice, or more of them than a record holds.
    let more = if by_chance(random, 0.2) { one_of(random, &[1, 1, 1, 1, 1, 40]) } else { 0 };
    for _ in 0..more {
        edits.push(edits[random.below(edits.len())].clone());
    }
    let mut steps =
        vec![Temperature, MinP, TopK, TopP, Typical, Epsilon, Eta, TopA, TopNSigma, Xtc, Mirostat];
    // All on and twice would be more than fit.
    if by_chance(random, 0.2) {
        steps.push(Temperature);
    }
    random.shuffle(&mut edits);
    edits.push(Smoothing);
    random.shuffle(&mut steps);
    let mut stages = [edits, steps].concat();
    // Edits anywhere: a chain of several segments.
    if by_chance(random, 0.3) {
        random.shuffle(&mut stages);
    }
    Some(Order::of(stages))
}

/// A grammar's mask that leaves about a share of the tokens, and perhaps none; its end past the vocabulary is
/// set, which must not matter.
pub fn any_mask(random: &mut SplitMix64, vocabulary: usize) -> Vec<u32> {
    let share = one_of(random, &[0.02, 0.5, 0.98]);
    let bits = |random: &mut SplitMix64| {
        (0..32).fold(0, |word, bit| word | u32::from(by_chance(random, share)) << bit)
    };
    let mut words: Vec<u32> = (0..vocabulary.div_ceil(32)).map(|_| bits(random)).collect();
    if !vocabulary.is_multiple_of(32)
        && let Some(last) = words.last_mut()
    {
        *last |= u32::MAX << (vocabulary % 32);
    }
    words
}
