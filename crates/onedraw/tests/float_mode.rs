//! A thread that a numeric library left in flush-to-zero mode draws the same tokens, and keeps its mode
//! afterwards.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)]

use std::arch::asm;

use onedraw::beam::{Continuation, Drawn, StochasticBeams};
use onedraw::{Row, Sampler, SamplingParams};

const FLUSH_TO_ZERO: u32 = 1 << 15;
const DENORMALS_ARE_ZERO: u32 = 1 << 6;
const ROUND_UP: u32 = 0b10 << 13;

fn mode() -> u32 {
    let mut mode = 0u32;
    // SAFETY: stores MXCSR to a live u32.
    unsafe { asm!("stmxcsr [{}]", in(reg) &mut mode, options(nostack, preserves_flags)) };
    mode & !0x3f
}

fn set(mode: u32) {
    // SAFETY: loads a mode that has only defined bits; the test restores the standard one.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &mode, options(nostack, readonly)) };
}

/// Texts drawn without replacement from a model whose logits do not depend on the text. Their scores are sums
/// that the library computes.
fn beams(row: &[f32]) -> Vec<Drawn> {
    let params = SamplingParams { seed: Some(3), max_tokens: 6, ..SamplingParams::default() };
    let mut beams = StochasticBeams::new(params, 4).expect("beams");
    while !beams.is_done() {
        let rows = vec![Row::from(row); beams.len()];
        beams.step(&rows, &[], |_, _| Continuation::Goes).expect("a step");
    }
    beams.finish()
}

#[test]
fn flushing_and_rounding_modes_do_not_matter() {
    // Subnormal logits, all equal to 0 under flush-to-zero. Even temperature 1e-5 would not separate them, so
    // the test looks at the order: greedy and top-k.
    let row: Vec<f32> = (0..200u32).map(|i| f32::from_bits(i * 37 % 199)).collect();
    let best = (0..200).max_by_key(|&i| row[i as usize].to_bits()).expect("a row");
    let wide = onedraw_testkit::rows::gaussian(4, 3000, 2.0);
    let sampler = |json: &str| Sampler::new(SamplingParams::from_json(json).expect(json)).expect(json);
    // Parameters are rounded when a sampler is made, so that happens in this mode too.
    let draw = || {
        let mut greedy = sampler(r#"{"temperature": 0}"#);
        // If this bias were flushed to zero, the first of the equal logits would win.
        let mut lifted = sampler(r#"{"temperature": 0, "logit_bias": {"2": 1e-40}}"#);
        let mut warm = sampler(
            r#"{"temperature": 0.7, "top_p": 0.9, "min_p": 0.003, "repetition_penalty": 1.1, "seed": 6}"#,
        );
        let best = greedy.sample(&row).expect("a row").token;
        assert_eq!(lifted.sample(&[0.0f32; 4]).expect("a row").token, 2);
        let tokens: Vec<u32> = (0..50).map(|_| warm.sample(&wide).expect("a row").token).collect();
        (best, tokens, warm.distribution(&wide).expect("a row"), beams(&wide))
    };
    let expected = draw();
    assert_eq!(expected.0, best);
    let standard = mode();
    for deviation in [FLUSH_TO_ZERO | DENORMALS_ARE_ZERO, ROUND_UP, FLUSH_TO_ZERO | ROUND_UP] {
        set(standard | deviation);
        let drawn = draw();
        let after = mode();
        set(standard);
        assert_eq!(drawn, expected, "{deviation:#x}");
        assert_eq!(after, standard | deviation, "the caller's mode is given back");
    }
}
