//! A model computes the same bits on a thread, and on threads made by one, that a numeric library left in
//! flush-to-zero mode.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)]

use std::arch::asm;
use std::path::Path;

use onedraw::Kernel;
use onedraw_lm::{Asks, LanguageModel, Llama, Run};

const DEVIATIONS: u32 = 1 << 15 | 1 << 6 | 0b10 << 13;

fn mode() -> u32 {
    let mut mode = 0u32;
    // SAFETY: stores MXCSR to a live u32.
    unsafe { asm!("stmxcsr [{}]", in(reg) &mut mode, options(nostack, preserves_flags)) };
    mode & !0x3f
}

fn set(mode: u32) {
    // SAFETY: loads a mode that has only defined bits; the test gives the standard one back.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &mode, options(nostack, readonly)) };
}

#[test]
fn flushing_and_rounding_modes_do_not_matter() {
    let run = |name: &str, threads: usize| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let model = Llama::open(&folder).unwrap().on(Kernel::Auto, threads).unwrap();
        let mut sequence = model.start();
        let tokens: Vec<u32> = (0..40).collect();
        let asks = Asks { states: &[1], ..Asks::default() };
        let run = Run { asks, ..Run::line(&mut sequence, &tokens) };
        let answer = model.forward(&mut [run]).unwrap().remove(0);
        let early = model.logits(&answer.states[0]);
        answer.logits.into_iter().chain(early).map(f32::to_bits).collect::<Vec<_>>()
    };
    for name in ["tests/transformers/llama-linear", "../../models/stories"] {
        let expected = run(name, 1);
        let standard = mode();
        for threads in [1, 2] {
            set(standard | DEVIATIONS);
            let found = run(name, threads);
            let after = mode();
            set(standard);
            assert_eq!(after, standard | DEVIATIONS, "the caller's mode is given back");
            assert!(found == expected, "{name}, {threads} threads");
        }
    }
}
