//! Masses by steps of the logit: how much the tokens after a place weigh, the largest logits first.
//!
//! The naive loop:
//!
//! ```text
//! for each token after `last`: masses[step of its logit] += its weight relative to the logit of `last`
//! ```
//!
//! A step is an eighth of a power of two of weight down to 2^-12, then a whole power of two down to 2^-44,
//! below which every weight is 0. Near the top the steps are fine because that is where most of the mass
//! lies, and where a truncation by mass cuts it.
//!
//! What this code does differently: blocks in which every weight is 0 are skipped, and the weights and
//! steps of a block are computed sixteen at a time. Both give the same sums, which are sums of integers. A
//! sum is rounded to f32 in the end.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, i32x16};

use crate::kernels::passes::vectorized;
use crate::kernels::weight::powers;
use crate::logits::block::{only, up_to};
use crate::logits::edited::EditedRow;
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::numeric::noise::BLOCK;

/// How many steps there are: 96 fine ones, then 32.
pub(crate) const STEPS: usize = 128;

/// Fine steps for each power of two.
const FINE: f32 = 8.0;

/// The number of coarse step n is n powers of two plus this. At 12 powers of two both rules give 96.
const COARSE: f32 = 84.0;

/// The step of a logit, at most `softmax.x_max`. A lower logit has the same step or a later one: every
/// operation is monotone, rounded or not.
pub(crate) fn step_of(x: f32, softmax: Softmax) -> usize {
    let depth = (softmax.x_max - x) * softmax.scale;
    let step = (FINE * depth).min(depth + COARSE).min(STEPS as f32 - 1.0);
    step as usize
}

/// Writes the masses of the tokens after `last`, whose logit is `softmax.x_max`, step by step.
pub(crate) fn masses(row: &EditedRow<'_>, last: Key, softmax: Softmax, masses: &mut [f32]) {
    let Softmax { x_max, scale } = softmax;
    // Weights are 0 from 2^-44 on; the rest is room for rounding.
    let nothing_below = x_max - 50.0 / scale;
    let mut sums = [0u64; STEPS];
    let (mut buffer, mut after) = ([0.0; BLOCK], [0.0; BLOCK]);
    let (mut weights, mut steps) = ([0.0; BLOCK], [0i32; BLOCK]);
    vectorized!(row.passes, simd => for (block, &maximum) in row.maxima().iter().enumerate() {
        if maximum < nothing_below {
            continue;
        }
        let lanes = row.lanes_by(simd, block, &mut buffer);
        let listed = if maximum < x_max { 0 } else { up_to(simd, lanes, row.span.token(block, 0), last) };
        let lanes = only(simd, lanes, !listed, &mut after);
        powers(simd, lanes, softmax, &mut weights);
        for i in 0..BLOCK / 16 {
            let logits = f32x16::from_slice(simd, &lanes[16 * i..16 * i + 16]);
            let depth = (f32x16::splat(simd, x_max) - logits) * scale;
            let step = (depth * FINE).min(depth + COARSE).min(STEPS as f32 - 1.0);
            let step: i32x16<_> = step.to_int();
            step.store_slice(&mut steps[16 * i..16 * i + 16]);
        }
        for (&step, &weight) in steps.iter().zip(&weights) {
            sums[step as usize % STEPS] += weight as u64;
        }
    });
    for (mass, sum) in masses.iter_mut().zip(sums) {
        *mass = sum as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::passes::Passes;
    use crate::kernels::row::Row;
    use crate::logits::edited::EditedMemory;
    use crate::logits::span::Span;
    use onedraw_testkit::rows;

    #[test]
    fn steps_are_monotone_and_cover_every_weight() {
        let softmax = Softmax::new(3.0, 0.8);
        assert_eq!(step_of(3.0, softmax), 0);
        assert_eq!(step_of(-f32::MAX, softmax), STEPS - 1);
        assert_eq!(step_of(f32::NEG_INFINITY, softmax), STEPS - 1);
        let (mut x, mut last) = (3.0f32, 0);
        let mut met = 1;
        while x > -40.0 {
            let step = step_of(x, softmax);
            assert!(step == last || step == last + 1, "{x}: {step} after {last}");
            met += usize::from(step != last);
            assert!(step < STEPS - 1 || softmax.weight(x) <= 1, "{x}");
            (last, x) = (step, x - 1e-3);
        }
        assert_eq!(met, STEPS);
    }

    #[test]
    fn every_instruction_set_sums_the_same_masses() {
        for (seed, row) in
            [rows::gaussian(3, 5000, 4.0), rows::ties(4, 3000, 9), rows::masked(5, 2000, 0.5), vec![1.0; 70]]
                .into_iter()
                .enumerate()
        {
            let start = 37 * seed;
            let mut order: Vec<Key> =
                (start as u32..).zip(&row).map(|(token, &x)| Key::new(x, token)).collect();
            order.retain(|&key| key < Key::END);
            order.sort_unstable();
            for place in [0, 1, 49, order.len() - 1] {
                let softmax = Softmax::new(order[place].logit(), 0.7);
                let mut expected = [0u64; STEPS];
                for key in &order[place + 1..] {
                    expected[step_of(key.logit(), softmax)] += softmax.weight(key.logit());
                }
                for passes in Passes::supported() {
                    let mut memory = EditedMemory::default();
                    let span = Span { row: Row::from(&row), start };
                    let mut edited = EditedRow { span, passes, memory: &mut memory };
                    edited.reset();
                    edited.scan().expect("a good row");
                    let mut found = [0.0; STEPS];
                    masses(&edited, order[place], softmax, &mut found);
                    assert_eq!(found, expected.map(|mass| mass as f32), "{passes:?}, place {place}");
                }
            }
        }
    }
}
