//! Parameters made of bytes: not always valid, nor fit for the vocabulary.

use onedraw::{LogprobsMode, Order, PenaltyScope, SamplingParams, Stage};

use super::Bytes;

/// Where numbers change what they mean: borders of ranges, of rounding and of f32.
const NUMBERS: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    5e-324,
    1e-300,
    -1e-40,
    1e-12,
    9e-6,
    1e-5,
    1e-3,
    0.5,
    0.9,
    0.999,
    1.0 - f64::EPSILON / 2.0,
    1.0 + f64::EPSILON,
    100.0,
    1e6,
    3e38,
    -3e38,
    3.5e38,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// How many kinds of samplers [`extended`] knows.
const KINDS: usize = 12;

/// The default more often than not; else a plain number, a border, or any bits.
pub(super) fn number(bytes: &mut Bytes<'_>, default: f64) -> f64 {
    match bytes.u8() {
        0..=63 => default,
        byte @ 64..=191 => f64::from(byte - 64) / 64.0,
        byte @ 192..=239 => NUMBERS[usize::from(byte) % NUMBERS.len()],
        _ => f64::from_bits(bytes.u64()),
    }
}

/// A token of the vocabulary, or once in a while any id.
pub(super) fn token(bytes: &mut Bytes<'_>, vocabulary: usize) -> u32 {
    match bytes.u16() {
        0xff00.. => bytes.u32(),
        id => u32::from(id) % vocabulary as u32,
    }
}

pub(super) fn order(bytes: &mut Bytes<'_>) -> Option<Order> {
    let stage = |bytes: &mut Bytes<'_>| Stage::ALL[bytes.below(Stage::ALL.len())].clone();
    let mut stages = match bytes.below(8) {
        0..=2 => return None,
        3 => return Some([Order::vllm(), Order::huggingface(), Order::llama_cpp()][bytes.below(3)].clone()),
        4 | 5 => bytes.list(20, stage),
        _ => {
            let part = bytes.list(5, stage);
            std::iter::repeat_n(part, 1 + bytes.below(60)).flatten().collect()
        }
    };
    if bytes.below(2) == 1 {
        // A parameter that is set needs its stage.
        stages.extend(Stage::ALL.into_iter().filter(|stage| !stages.contains(stage)).collect::<Vec<_>>());
    }
    Some(Order::of(stages))
}

/// Any tokens, or more of a few, which then repeat themselves.
fn history(bytes: &mut Bytes<'_>, vocabulary: usize) -> Vec<u32> {
    match bytes.below(2) {
        0 => bytes.list(12, |bytes| token(bytes, vocabulary)),
        _ => bytes.list(20, |bytes| bytes.below(vocabulary.min(3)) as u32),
    }
}

/// The samplers beyond temperature, top-k, top-p and min-p: none of them, those of some stages, or all.
fn extended(bytes: &mut Bytes<'_>, vocabulary: usize) -> SamplingParams {
    let mut params = SamplingParams::default();
    let kinds = match bytes.below(8) {
        0..=2 => return params,
        3..=6 => bytes.list(3, |bytes| bytes.below(KINDS)),
        _ => (0..KINDS).collect(),
    };
    let few = |bytes: &mut Bytes<'_>| bytes.below(vocabulary.min(3)) as u32;
    for kind in kinds {
        match kind {
            0 => params.typical_p = number(bytes, 0.9),
            1 => params.top_n_sigma = number(bytes, 1.5),
            2 => params.epsilon_cutoff = number(bytes, 0.01),
            3 => params.eta_cutoff = number(bytes, 0.01),
            4 => params.top_a = number(bytes, 0.2),
            5 => {
                (params.xtc_probability, params.xtc_threshold) = (number(bytes, 1.0), number(bytes, 0.1));
                params.xtc_protected_token_ids = bytes.list(3, |bytes| token(bytes, vocabulary));
            }
            6 => {
                params.mirostat = bytes.below(4) as u8;
                (params.mirostat_tau, params.mirostat_eta) = (number(bytes, 5.0), number(bytes, 0.1));
                params.mirostat_mu = (bytes.below(2) == 1).then(|| number(bytes, 3.0));
            }
            7 => {
                (params.dynatemp_range, params.dynatemp_exponent) = (number(bytes, 0.5), number(bytes, 1.0));
            }
            8 => (params.smoothing_factor, params.smoothing_curve) = (number(bytes, 0.3), number(bytes, 1.0)),
            9 => {
                (params.dry_multiplier, params.dry_base) = (number(bytes, 0.8), number(bytes, 1.75));
                params.dry_allowed_length = bytes.below(5) as u32;
                params.dry_penalty_last_n = bytes.below(24) as u32;
                params.dry_sequence_breakers = bytes.list(3, |bytes| match bytes.u8() {
                    255 => bytes.list(24, |bytes| token(bytes, vocabulary)),
                    _ => bytes.list(3, few),
                });
            }
            10 => params.no_repeat_ngram_size = bytes.below(6) as u32,
            _ => params.banned_strings = bytes.list(2, |bytes| "a".repeat(bytes.below(3))),
        }
    }
    params
}

/// Parameters that need not be valid, nor fit the vocabulary.
pub(super) fn parameters(bytes: &mut Bytes<'_>, vocabulary: usize) -> SamplingParams {
    let id = |bytes: &mut Bytes<'_>| token(bytes, vocabulary);
    let min_tokens = bytes.below(16) as u32;
    SamplingParams {
        seed: Some(u64::from(bytes.u16())),
        order: order(bytes),
        temperature: number(bytes, 1.0),
        top_k: match bytes.u8() {
            byte @ 0..=249 => i64::from(byte.saturating_sub(64)),
            _ => bytes.u64() as i64,
        },
        top_p: number(bytes, 1.0),
        min_p: number(bytes, 0.0),
        repetition_penalty: number(bytes, 1.0),
        frequency_penalty: number(bytes, 0.0),
        presence_penalty: number(bytes, 0.0),
        penalty_window: bytes.below(16) as u32,
        penalty_scope: [PenaltyScope::Output, PenaltyScope::All][bytes.below(2)],
        logit_bias: bytes.list(6, |bytes| (id(bytes), number(bytes, 1.5))).into_iter().collect(),
        allowed_token_ids: (bytes.below(4) == 3).then(|| bytes.list(40, id)),
        bad_words_ids: bytes.list(3, |bytes| bytes.list(3, id)),
        min_tokens,
        max_tokens: min_tokens + 1 + bytes.below(16) as u32,
        stop_token_ids: bytes.list(3, id),
        eos_token_id: bytes.list(3, id),
        logprobs: Some(i64::from(bytes.u8()) - 128).filter(|&count| count >= -1),
        logprobs_mode: [
            LogprobsMode::RawLogprobs,
            LogprobsMode::RawLogits,
            LogprobsMode::ProcessedLogprobs,
            LogprobsMode::ProcessedLogits,
        ][bytes.below(4)],
        prompt_token_ids: history(bytes, vocabulary),
        output_token_ids: history(bytes, vocabulary),
        ..extended(bytes, vocabulary)
    }
}
