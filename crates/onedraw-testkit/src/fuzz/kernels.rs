//! Rows whose lengths lie about the borders of vectors and blocks, by every kernel and by the scalar
//! reference.

use onedraw::{LogprobsMode, Row, SamplingParams};

use super::Bytes;
use crate::kernels::Kernels;
use crate::rows::{self, SplitMix64};

/// One less than a multiple of the vectors, blocks or groups of blocks, the multiple, one more, or any.
fn length(bytes: &mut Bytes<'_>) -> usize {
    let (unit, most) = [(16, 40), (64, 20), (1024, 3)][bytes.below(3)];
    let multiple = unit * (1 + bytes.below(most));
    match bytes.below(4) {
        0 => multiple - 1,
        1 => multiple,
        2 => multiple + 1,
        _ => 1 + usize::from(bytes.u16()) % 3200,
    }
}

/// Each logit from one of some shapes, then now and then any bits at a few places.
fn logits(bytes: &mut Bytes<'_>, length: usize) -> Vec<f32> {
    let seed = u64::from(bytes.u16());
    let shape = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => rows::gaussian(seed, length, f64::from(bytes.u8()) / 32.0),
        1 => rows::peaked(seed, length),
        2 => rows::ties(seed, length, 1 + bytes.below(6)),
        3 => rows::masked(seed, length, f64::from(bytes.u8()) / 255.0),
        4 => rows::denormal(seed, length),
        5 => rows::extreme(seed, length),
        6 => rows::flat(length, f32::NEG_INFINITY),
        _ => rows::flat(length, f32::from_bits(bytes.u32())),
    };
    let shapes: Vec<_> = (0..=bytes.below(3)).map(|_| shape(bytes)).collect();
    let mut row = rows::mixed(seed, &shapes);
    let places = if bytes.below(4) == 3 { 4 } else { 0 };
    for (place, value) in bytes.list(places, |bytes| (usize::from(bytes.u16()), f32::from_bits(bytes.u32())))
    {
        row[place % length] = value;
    }
    row
}

/// None, about half of the tokens, few, or nearly all.
fn mask(bytes: &mut Bytes<'_>, length: usize) -> Option<Vec<u32>> {
    let (kind, mut random) = (bytes.below(6), SplitMix64::new(u64::from(bytes.u16())));
    let mut half = || random.next_u64() as u32;
    let mut word = || match kind {
        3 => half(),
        4 => half() & half() & half() & half() & half(),
        _ => half() | half() | half() | half() | half(),
    };
    (kind >= 3).then(|| (0..length.div_ceil(32)).map(|_| word()).collect())
}

/// One to three of the stages that read the row, or the draw alone; ids are those of `vocabulary`.
fn parameters(bytes: &mut Bytes<'_>, vocabulary: usize) -> SamplingParams {
    let mut params = SamplingParams {
        seed: Some(u64::from(bytes.u16())),
        temperature: [1.0, 0.0, 0.3, 1.7][bytes.below(4)],
        logprobs: [None, Some(0), Some(5), Some(-1)][bytes.below(4)],
        logprobs_mode: [LogprobsMode::RawLogprobs, LogprobsMode::ProcessedLogprobs][bytes.below(2)],
        ..SamplingParams::default()
    };
    let share = |bytes: &mut Bytes<'_>| f64::from(1 + u16::from(bytes.u8())) / 256.0;
    let token = |bytes: &mut Bytes<'_>| u32::from(bytes.u16()) % vocabulary as u32;
    for _ in 0..bytes.below(4) {
        match bytes.below(8) {
            0 => params.top_k = i64::from(bytes.u16() % 2100),
            1 => params.top_p = share(bytes),
            2 => params.min_p = share(bytes),
            3 => params.typical_p = share(bytes),
            4 => (params.xtc_probability, params.xtc_threshold) = (1.0, share(bytes) / 4.0),
            5 => params.top_n_sigma = 4.0 * share(bytes),
            6 => {
                params.logit_bias =
                    bytes.list(4, |bytes| (token(bytes), 8.0 * share(bytes))).into_iter().collect()
            }
            _ => {
                (params.repetition_penalty, params.presence_penalty) = (1.0 + share(bytes), share(bytes));
                params.output_token_ids = bytes.list(8, token);
            }
        }
    }
    params
}

/// Two rows, one after the other in the same memory, in a dtype and at any alignment, with and without masks
/// and edits. All kernels give the tokens, numbers and errors of the scalar reference.
pub fn kernels(data: &[u8]) {
    let bytes = &mut Bytes(data);
    let lengths = [length(bytes), length(bytes)];
    let params = parameters(bytes, lengths[0].min(lengths[1]));
    let mut kernels = Kernels::new(params).expect("valid parameters");
    for length in lengths {
        let (dtype, start) = (bytes.below(3), bytes.below(33));
        let mut row = vec![0.0; start];
        row.extend(logits(bytes, length));
        let mask = mask(bytes, length);
        let (half, brain);
        let row = match dtype {
            0 => Row::from(&row),
            1 => {
                half = rows::to_f16(&rows::representable_f16(&row));
                Row::from(&half)
            }
            _ => {
                brain = rows::to_bf16(&rows::representable_bf16(&row));
                Row::from(&brain)
            }
        };
        kernels.check(row.part(start..start + length), mask.as_deref());
    }
}
