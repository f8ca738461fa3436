//! One row through the engine and through the scalar reference.

use std::collections::BTreeSet;

use half::{bf16, f16};
use onedraw::noise::Noise;
use onedraw::reference::{self, Left};
use onedraw::{
    Batch, Distribution, Kernel, LogprobsMode, Row, RowError, Sampled, Sampler, SamplingParams, Shards,
    Stage, Step,
};

use super::Bytes;
use super::given::{number, parameters};
use super::params::check_message;
use crate::rows;

/// Any bits; a few values over and over; or a model's row with any bits at a few places.
fn logits(bytes: &mut Bytes<'_>, vocabulary: usize) -> Vec<f32> {
    let any = |bytes: &mut Bytes<'_>| f32::from_bits(bytes.u32());
    match bytes.below(4) {
        0 => (0..vocabulary).map(|_| any(bytes)).collect(),
        1 => {
            let values: Vec<_> = (0..=bytes.below(16)).map(|_| any(bytes)).collect();
            (0..vocabulary).map(|_| values[bytes.below(values.len())]).collect()
        }
        kind => {
            let seed = u64::from(bytes.u8());
            let mut row =
                if kind == 2 { rows::peaked(seed, vocabulary) } else { rows::extreme(seed, vocabulary) };
            for (place, value) in bytes.list(8, |bytes| (usize::from(bytes.u16()), any(bytes))) {
                row[place % vocabulary] = value;
            }
            row
        }
    }
}

pub(super) enum Logits {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Logits {
    pub(super) fn row(&self) -> Row<'_> {
        match self {
            Logits::F32(values) => values.into(),
            Logits::F16(values) => values.into(),
            Logits::Bf16(values) => values.into(),
        }
    }
}

/// Everything a draw depends on, and everything it must not depend on.
pub(super) struct Case {
    pub logits: Logits,
    pub params: SamplingParams,
    pub mask: Option<Vec<u32>>,
    shards: Shards,
    kernel: Kernel,
    ahead: u32,
    uniform: f64,
}

impl Case {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        let vocabulary = 1 + usize::from(bytes.u16()) % 300;
        let params = parameters(bytes, vocabulary);
        let mask = match bytes.below(4) {
            0 | 1 => None,
            2 => Some((0..vocabulary.div_ceil(32)).map(|_| bytes.u32()).collect()),
            // Too short, or words after the end, which are not read.
            _ => Some(bytes.list(12, Bytes::u32)),
        };
        let shards = match bytes.below(2) {
            0 => Shards::even(bytes.below(20)),
            _ => Shards::at(bytes.list(6, |bytes| match bytes.u16() {
                u16::MAX => usize::MAX,
                point => usize::from(point) % 320,
            })),
        };
        let kernel = Kernel::ALL[bytes.below(Kernel::ALL.len())];
        let (ahead, uniform) = (bytes.u32(), number(bytes, 0.25));
        let dtype = bytes.below(3);
        let row = logits(bytes, vocabulary);
        let logits = match dtype {
            0 => Logits::F32(row),
            1 => Logits::F16(rows::to_f16(&row)),
            _ => Logits::Bf16(rows::to_bf16(&row)),
        };
        Self { logits, params, mask, shards, kernel, ahead, uniform }
    }
}

/// The lists whose ids must be tokens.
fn ids(params: &SamplingParams) -> [(&'static str, Vec<u32>); 9] {
    [
        ("logit_bias", params.logit_bias.keys().copied().collect()),
        ("allowed_token_ids", params.allowed_token_ids.clone().unwrap_or_default()),
        ("bad_words_ids", params.bad_words_ids.concat()),
        ("stop_token_ids", params.stop_token_ids.clone()),
        ("eos_token_id", params.eos_token_id.clone()),
        ("prompt_token_ids", params.prompt_token_ids.clone()),
        ("output_token_ids", params.output_token_ids.clone()),
        ("xtc_protected_token_ids", params.xtc_protected_token_ids.clone()),
        ("dry_sequence_breakers", params.dry_sequence_breakers.concat()),
    ]
}

/// What the chain leaves, by the reference, after the checks that come before any row is read.
fn expected(
    row: Row<'_>,
    mask: Option<&[u32]>,
    params: &SamplingParams,
    found: &RowError,
) -> Result<Left, RowError> {
    let vocabulary = row.len();
    let is_outside = |id: &u32| *id as usize >= vocabulary;
    let lists = ids(params);
    if lists.iter().any(|(_, ids)| ids.iter().any(is_outside)) {
        // Which of several is named is the engine's choice, but it must be one of them.
        let is_named = |(field, ids): &(&'static str, Vec<u32>)| {
            ids.iter().any(|&token| {
                is_outside(&token) && *found == RowError::OutsideVocabulary { field, token, vocabulary }
            })
        };
        assert!(lists.iter().any(is_named), "{found:?} for {params:?}");
        return Err(found.clone());
    }
    let needed = vocabulary.div_ceil(32);
    if let Some(words) = mask.map(<[u32]>::len).filter(|&words| words < needed) {
        return Err(RowError::MaskTooShort { words, needed });
    }
    if mask.is_some() && params.order.as_ref().is_some_and(|order| !order.names(&Stage::Allowed)) {
        return Err(RowError::MaskWithoutStage);
    }
    reference::left(row, mask, params, &noise(params, 0))
}

/// The noise so many positions after the history's end.
fn noise(params: &SamplingParams, ahead: u32) -> Noise {
    let position = (params.output_token_ids.len() as u32).wrapping_add(ahead);
    Noise { seed: params.seed.unwrap_or(0), position, sequence: 0, round: 0 }
}

/// The token that the reference draws so many positions after the history's end.
fn token_at(
    row: Row<'_>,
    mask: Option<&[u32]>,
    params: &SamplingParams,
    ahead: u32,
) -> Result<u32, RowError> {
    let noise = noise(params, ahead);
    Ok(reference::left(row, mask, params, &noise)?.draw(&noise))
}

fn only_token(result: &Result<Sampled, RowError>) -> Result<u32, RowError> {
    result.as_ref().map(|sampled| sampled.token).map_err(Clone::clone)
}

/// Roughly a distribution at all; that it is the right one, the reference says.
fn check_sane(distribution: &Distribution) {
    let sum: f64 = distribution.probabilities.iter().sum();
    assert!((sum - 1.0).abs() < 1e-4, "probabilities sum to {sum}: {distribution:?}");
    assert!(distribution.logprobs.iter().all(|logprob| !logprob.is_nan()), "{distribution:?}");
}

/// One row through the engine: whole, in shards, by any kernel, alone or in a batch, with and without a mask.
/// Tokens, probabilities and errors are those of the scalar reference.
pub fn chain(data: &[u8]) {
    let case = Case::read(&mut Bytes(data));
    if let Err(error) = case.params.validate() {
        check_message(&error, &BTreeSet::new());
        assert_eq!(Sampler::new(case.params).err(), Some(error));
        return;
    }
    check_case(&case, None);
    if let Some(mask) = &case.mask {
        check_case(&case, Some(mask));
    }
}

fn check_case(case: &Case, mask: Option<&[u32]>) {
    // Alone, a draw tells its probability with its logprobs; in a batch it must be asked.
    let params = &SamplingParams { probability: case.params.logprobs.is_some(), ..case.params.clone() };
    let row = case.logits.row();
    let mut sampler = Sampler::new(params.clone()).expect("valid parameters").shards(case.shards.clone());
    let mut batch = Batch::new().split(case.shards.clone()).kernel(case.kernel);
    let sequence = batch.add(params.clone()).expect("valid parameters");
    let steps = [Step { sequence, row, mask }];
    let distribution = match mask {
        None => sampler.distribution(row),
        Some(mask) => sampler.distribution_masked(row, mask),
    };
    let found = distribution.as_ref().err().unwrap_or(&RowError::UnknownSequence);
    let left = expected(row, mask, params, found);
    let defined = left.as_ref().map(Left::distribution).map_err(Clone::clone);
    assert_eq!(distribution, defined, "{params:?}");
    assert_eq!(batch.distributions(&steps), std::slice::from_ref(&distribution), "in a batch");
    let _ = distribution.as_ref().map(check_sane);

    for ahead in [0, case.ahead] {
        let drawn = batch.peek(&steps, ahead).remove(0);
        let defined = left.as_ref().map_err(Clone::clone).and_then(|_| token_at(row, mask, params, ahead));
        assert_eq!(only_token(&drawn), defined, "{ahead} ahead: {params:?}");
        if mask.is_none() {
            assert_eq!(sampler.peek(row, ahead), drawn, "alone and in a batch");
        }
        if let (Ok(drawn), Ok(distribution), 0) = (&drawn, &distribution, ahead) {
            check_logprobs(params, drawn, distribution);
        }
    }
    if mask.is_none() {
        let drawn = only_token(&sampler.clone().sample_uniform(row, case.uniform));
        match &left {
            Ok(left) if (0.0..1.0).contains(&case.uniform) => assert_eq!(drawn, Ok(left.at(case.uniform))),
            Ok(_) => assert!(matches!(drawn, Err(RowError::UniformOutOfRange { .. })), "{drawn:?}"),
            Err(error) => assert_eq!(drawn.as_ref(), Err(error)),
        }
    }
    check_history(&mut sampler, row, mask, params);
}

/// What is reported of the drawn token, where it is taken from the distribution that is drawn from.
fn check_logprobs(params: &SamplingParams, drawn: &Sampled, distribution: &Distribution) {
    assert_eq!(drawn.logprob.is_some(), params.logprobs.is_some());
    assert_eq!(drawn.logprobs.is_empty(), params.logprobs.is_none());
    let place =
        distribution.tokens.iter().position(|&token| token == drawn.token).expect("a drawn token is kept");
    let probability = distribution.probabilities[place];
    assert_eq!(drawn.probability, params.probability.then_some(probability));
    if params.logprobs.is_none() || params.logprobs_mode != LogprobsMode::ProcessedLogprobs {
        return;
    }
    assert_eq!(drawn.rank, Some(place as u32 + 1));
    assert_eq!(drawn.logprob, Some(distribution.logprobs[place]));
}

/// A token that was drawn and kept is history like one that came with the parameters, and can be taken back.
fn check_history(sampler: &mut Sampler, row: Row<'_>, mask: Option<&[u32]>, params: &SamplingParams) {
    let sample = |sampler: &mut Sampler| match mask {
        None => sampler.sample(row),
        Some(mask) => sampler.sample_masked(row, mask),
    };
    let first = sample(sampler);
    let Ok(drawn) = &first else {
        assert_eq!(sampler.output(), params.output_token_ids);
        return;
    };
    let mut longer = params.clone();
    longer.output_token_ids.push(drawn.token);
    longer.mirostat_mu = drawn.mirostat_mu.or(params.mirostat_mu);
    let defined = token_at(row, mask, &longer, 0);
    assert_eq!(only_token(&sample(sampler)), defined, "after one token: {params:?}");
    sampler.rewind(params.output_token_ids.len());
    assert_eq!(sample(sampler), first, "after a rewind");
}
