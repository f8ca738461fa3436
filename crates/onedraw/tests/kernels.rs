//! Contract C1 at the borders: rows whose lengths are near the ends of vectors, blocks and groups of blocks,
//! with every instruction set of this machine and every dtype, compared with the scalar reference.

use onedraw::{Row, SamplingParams};
use onedraw_testkit::kernels::Kernels;
use onedraw_testkit::rows;

/// Each stage that reads the row in a way of its own, one edit, and both kinds of logprobs.
const CHAINS: [&str; 11] = [
    r#"{"temperature": 0}"#,
    r#"{"temperature": 0.8}"#,
    r#"{"top_k": 5, "temperature": 1.5}"#,
    r#"{"top_k": 1010, "top_p": 0.5}"#,
    r#"{"top_p": 0.9, "temperature": 0.7}"#,
    r#"{"min_p": 0.05}"#,
    r#"{"typical_p": 0.8}"#,
    r#"{"xtc_probability": 1, "xtc_threshold": 0.01}"#,
    r#"{"top_n_sigma": 1.5}"#,
    r#"{"logit_bias": {"0": 2}, "repetition_penalty": 1.3, "output_token_ids": [0], "logprobs": 3}"#,
    r#"{"top_p": 0.8, "logprobs": -1, "logprobs_mode": "processed_logprobs"}"#,
];

fn lengths() -> impl Iterator<Item = usize> {
    (1..=130).chain(1_000..=1_050).chain(2_040..=2_060)
}

/// The shapes in turn, so that every one of them meets each border.
fn row(length: usize) -> Vec<f32> {
    let seed = length as u64;
    match length % 5 {
        0 => rows::gaussian(seed, length, 3.0),
        1 => rows::peaked(seed, length),
        2 => rows::ties(seed, length, 5),
        3 => rows::masked(seed, length, 0.7),
        _ => rows::mixed(seed, &[rows::denormal(seed, length), rows::extreme(seed, length)]),
    }
}

/// Each length, at a start that moves from row to row, so that every alignment is tested; with and without a
/// mask.
fn check<T>(convert: impl Fn(&[f32]) -> Vec<T>)
where
    for<'a> Row<'a>: From<&'a [T]>,
{
    for json in CHAINS {
        let params = SamplingParams { seed: Some(11), ..SamplingParams::from_json(json).expect(json) };
        let mut kernels = Kernels::new(params).expect(json);
        for length in lengths() {
            let start = length % 17;
            let mut padded = vec![f32::NAN; start];
            padded.extend(row(length));
            let mask: Vec<u32> = (0..length.div_ceil(32) as u32).map(|word| 0xa53c_96e7 ^ word).collect();
            let row = &convert(&padded)[start..];
            kernels.check(Row::from(row), None);
            kernels.check(Row::from(row), Some(&mask));
        }
    }
}

#[test]
fn f32_rows_of_every_length() {
    check(<[f32]>::to_vec);
}

#[test]
fn f16_rows_of_every_length() {
    check(|row| rows::to_f16(&rows::representable_f16(row)));
}

#[test]
fn bf16_rows_of_every_length() {
    check(|row| rows::to_bf16(&rows::representable_bf16(row)));
}
