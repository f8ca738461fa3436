//! Products of a matrix with the numbers of many positions.
//!
//! A few rows of the matrix meet a few positions at a time, as many sums as registers hold, so that weights are read once for several
//! positions. How they are grouped changes the speed, and no sum.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f32x16};

use crate::kernels::dot::{Arranged, advanced, folded, padded};
#[cfg(target_arch = "x86_64")]
use crate::kernels::tile::tiles;
use crate::kernels::weight::{STEP, Weight};

/// Weights of one step, widened.
type Widened<S> = (f32x16<S>, f32x16<S>);

/// Sums side by side. They are fields, for the elements of an array would live in memory.
trait Sums<S: Simd>: Copy {
    /// How many.
    const COUNT: usize;

    fn zero(simd: S) -> Self;

    /// One row of weights goes on with the numbers of several positions.
    fn across(self, simd: S, weights: Widened<S>, positions: &[&[[f32; STEP]]], step: usize) -> Self;

    /// Several rows of weights go on with the numbers of one position.
    fn along(self, simd: S, weights: impl Fn(usize) -> Widened<S>, numbers: &[f32; STEP]) -> Self;

    /// The sums, folded, one after the other.
    fn put(self, products: &mut [f32]);
}

macro_rules! sums {
    ($name:ident: $count:literal, $($field:ident $number:literal),*) => {
        #[derive(Clone, Copy)]
        struct $name<S: Simd> {
            $($field: f32x16<S>,)*
        }

        impl<S: Simd> Sums<S> for $name<S> {
            const COUNT: usize = $count;

            #[inline(always)]
            fn zero(simd: S) -> Self {
                let zero = f32x16::splat(simd, 0.0);
                Self { $($field: zero,)* }
            }

            #[inline(always)]
            fn across(self, simd: S, weights: Widened<S>, positions: &[&[[f32; STEP]]], step: usize) -> Self {
                Self { $($field: advanced(simd, self.$field, weights, &positions[$number][step]),)* }
            }

            #[inline(always)]
            fn along(self, simd: S, weights: impl Fn(usize) -> Widened<S>, numbers: &[f32; STEP]) -> Self {
                Self { $($field: advanced(simd, self.$field, weights($number), numbers),)* }
            }

            #[inline(always)]
            fn put(self, products: &mut [f32]) {
                $(products[$number] = folded(self.$field);)*
            }
        }
    };
}

sums!(One: 1, a 0);
sums!(Four: 4, a 0, b 1, c 2, d 3);
sums!(Eight: 8, a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7);

/// The products of the rows of `weights` with every position, position by position: `products[position · rows + row]`.
pub(crate) fn products<W: Weight>(level: Level, weights: &[W], positions: &Arranged, products: &mut [f32]) {
    let (length, count) = (positions.length(), positions.len());
    let rows = products.len() / count.max(1);
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if let Level::Avx512(simd) = level {
        done = simd.vectorize(
            #[inline(always)]
            || tiles(simd, weights, positions, rows, products),
        );
    }
    if done == rows {
        return;
    }
    let weights = &weights[done * length..];
    if count == 1 {
        dispatch!(level, simd => all(simd, weights, positions, &mut products[done..]));
        return;
    }
    let mut by_row = vec![0.0; (rows - done) * count];
    dispatch!(level, simd => all(simd, weights, positions, &mut by_row));
    for (row, sums) in by_row.chunks_exact(count).enumerate() {
        for (position, &sum) in sums.iter().enumerate() {
            products[position * rows + done + row] = sum;
        }
    }
}

/// The same row by row: `products[row · positions + position]`.
#[inline(always)]
fn all<S: Simd, W: Weight>(simd: S, weights: &[W], positions: &Arranged, products: &mut [f32]) {
    let (length, count) = (positions.length(), positions.len());
    let is_wide = S::f32s::LEN == 16;
    let mut weights = weights;
    let mut products = products;
    if count == 1 {
        // One position: many rows at a time, for one sum alone would wait for itself.
        while products.len() >= Eight::<S>::COUNT {
            let (rows, rest) = weights.split_at(Eight::<S>::COUNT * length);
            let (own, others) = products.split_at_mut(Eight::<S>::COUNT);
            column::<S, W, Eight<S>>(simd, rows, positions, own);
            (weights, products) = (rest, others);
        }
    }
    while products.len() >= 2 * count && is_wide {
        let (rows, rest) = weights.split_at(2 * length);
        let (own, others) = products.split_at_mut(2 * count);
        two_rows(simd, rows.split_at(length), positions, own);
        (weights, products) = (rest, others);
    }
    while !products.is_empty() {
        let (row, rest) = weights.split_at(length);
        let (own, others) = products.split_at_mut(count);
        one_row(simd, row, positions, own);
        (weights, products) = (rest, others);
    }
}

/// Two rows with all positions, eight at a time.
#[inline(always)]
fn two_rows<S: Simd, W: Weight>(simd: S, rows: (&[W], &[W]), positions: &Arranged, products: &mut [f32]) {
    let count = positions.len();
    let (upper, lower) = products.split_at_mut(count);
    let mut first = 0;
    while first + Eight::<S>::COUNT <= count {
        pair::<S, W, Eight<S>>(simd, rows, positions, first, &mut upper[first..], &mut lower[first..]);
        first += Eight::<S>::COUNT;
    }
    if first + Four::<S>::COUNT <= count {
        pair::<S, W, Four<S>>(simd, rows, positions, first, &mut upper[first..], &mut lower[first..]);
        first += Four::<S>::COUNT;
    }
    while first < count {
        pair::<S, W, One<S>>(simd, rows, positions, first, &mut upper[first..], &mut lower[first..]);
        first += 1;
    }
}

/// One row with all positions, four at a time.
#[inline(always)]
fn one_row<S: Simd, W: Weight>(simd: S, row: &[W], positions: &Arranged, products: &mut [f32]) {
    let mut first = 0;
    while first + Four::<S>::COUNT <= products.len() {
        single::<S, W, Four<S>>(simd, row, positions, first, &mut products[first..]);
        first += Four::<S>::COUNT;
    }
    while first < products.len() {
        single::<S, W, One<S>>(simd, row, positions, first, &mut products[first..]);
        first += 1;
    }
}

/// As many rows as there are sums, with one position.
#[inline(always)]
fn column<S: Simd, W: Weight, Q: Sums<S>>(simd: S, rows: &[W], position: &Arranged, products: &mut [f32]) {
    let (length, numbers) = (position.length(), position.row(0));
    let whole = length / STEP;
    let mut sums = Q::zero(simd);
    for (step, numbers) in numbers[..whole].iter().enumerate() {
        sums = sums.along(
            simd,
            #[inline(always)]
            |row| W::load(simd, step_of(&rows[row * length..], step)),
            numbers,
        );
    }
    if let Some(numbers) = numbers.get(whole) {
        sums = sums.along(
            simd,
            #[inline(always)]
            |row| W::load(simd, &padded(&rows[row * length + whole * STEP..(row + 1) * length])),
            numbers,
        );
    }
    sums.put(products);
}

/// Two rows with as many positions as there are sums.
#[inline(always)]
fn pair<S: Simd, W: Weight, Q: Sums<S>>(
    simd: S,
    (upper, lower): (&[W], &[W]),
    positions: &Arranged,
    first: usize,
    upper_products: &mut [f32],
    lower_products: &mut [f32],
) {
    let numbers = numbers::<S, Q>(positions, first);
    let numbers = &numbers[..Q::COUNT];
    let (mut a, mut b) = (Q::zero(simd), Q::zero(simd));
    let (steps, rest) = upper.as_chunks::<STEP>();
    let (lower_steps, lower_rest) = lower.as_chunks::<STEP>();
    for (step, (upper, lower)) in steps.iter().zip(lower_steps).enumerate() {
        a = a.across(simd, W::load(simd, upper), numbers, step);
        b = b.across(simd, W::load(simd, lower), numbers, step);
    }
    if !rest.is_empty() {
        a = a.across(simd, W::load(simd, &padded(rest)), numbers, steps.len());
        b = b.across(simd, W::load(simd, &padded(lower_rest)), numbers, steps.len());
    }
    a.put(upper_products);
    b.put(lower_products);
}

/// One row with as many positions as there are sums.
#[inline(always)]
fn single<S: Simd, W: Weight, Q: Sums<S>>(
    simd: S,
    row: &[W],
    positions: &Arranged,
    first: usize,
    products: &mut [f32],
) {
    let numbers = numbers::<S, Q>(positions, first);
    let numbers = &numbers[..Q::COUNT];
    let mut sums = Q::zero(simd);
    let (steps, rest) = row.as_chunks::<STEP>();
    for (step, weights) in steps.iter().enumerate() {
        sums = sums.across(simd, W::load(simd, weights), numbers, step);
    }
    if !rest.is_empty() {
        sums = sums.across(simd, W::load(simd, &padded(rest)), numbers, steps.len());
    }
    sums.put(products);
}

/// The numbers of as many positions as there are sums.
#[inline(always)]
fn numbers<S: Simd, Q: Sums<S>>(positions: &Arranged, first: usize) -> [&[[f32; STEP]]; 8] {
    std::array::from_fn(
        #[inline(always)]
        |i| positions.row(first + if i < Q::COUNT { i } else { 0 }),
    )
}

#[inline(always)]
fn step_of<W: Weight>(row: &[W], step: usize) -> &[W; STEP] {
    &row.as_chunks().0[step]
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use onedraw::Kernel;

    /// The definition, one number after the other.
    fn dot(weights: &[f32], numbers: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        for start in (0..numbers.len()).step_by(STEP) {
            for odd in 0..2 {
                for (lane, sum) in lanes.iter_mut().enumerate() {
                    let place = start + 2 * lane + odd;
                    let term = |values: &[f32]| values.get(place).copied().unwrap_or(0.0);
                    *sum = libm::fmaf(term(weights), term(numbers), *sum);
                }
            }
        }
        let eight: Vec<f32> = (0..8).map(|i| lanes[i] + lanes[i + 8]).collect();
        let four: Vec<f32> = (0..4).map(|i| eight[i] + eight[i + 4]).collect();
        (four[0] + four[2]) + (four[1] + four[3])
    }

    fn number(i: usize) -> f32 {
        let word = (i as u32).wrapping_mul(2_654_435_761) >> 7;
        f16::from_f32(word as f32 / 1e7 - 1.6).to_f32()
    }

    #[test]
    fn every_shape_and_kernel_gives_the_definition() {
        for length in [1, 2, 31, 32, 33, 64, 100, 160] {
            for count in [1, 2, 3, 4, 5, 7, 8, 9, 12, 17] {
                let rows = 37;
                let weights: Vec<f32> =
                    (0..rows * length).map(|i| bf16::from_f32(number(i)).to_f32()).collect();
                let inputs: Vec<f32> = (0..count * length).map(|i| number(i + 77) * 3.7).collect();
                let arranged = Arranged::rows(&inputs, length);
                assert_eq!((arranged.len(), arranged.length()), (count, length));
                let expected: Vec<f32> = (0..rows * count)
                    .map(|i| {
                        let (row, position) = (i % rows, i / rows);
                        dot(&weights[row * length..][..length], &inputs[position * length..][..length])
                    })
                    .collect();
                for kernel in Kernel::ALL {
                    let Some(level) = crate::kernels::level(kernel) else { continue };
                    let mut found = vec![f32::NAN; rows * count];
                    products(level, &weights, &arranged, &mut found);
                    assert_eq!(found, expected, "f32, {kernel}, {length} x {count}");
                    let halves: Vec<bf16> = weights.iter().map(|&x| bf16::from_f32(x)).collect();
                    products(level, &halves, &arranged, &mut found);
                    assert_eq!(found, expected, "bf16, {kernel}, {length} x {count}");
                }
            }
        }
    }

    #[test]
    fn halves_of_ieee_are_widened_exactly() {
        // Every half that is a number, a row each, times one.
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|half| half.is_finite()).collect();
        for kernel in Kernel::ALL {
            let Some(level) = crate::kernels::level(kernel) else { continue };
            let one = Arranged::rows(&[1.0], 1);
            let mut found = vec![0.0; halves.len()];
            products(level, &halves, &one, &mut found);
            let wrong = halves.iter().zip(&found).find(|&(half, &found)| half.to_f32() != found);
            assert_eq!(wrong, None, "{kernel}");
        }
    }
}
