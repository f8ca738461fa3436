//! Pearson's chi-square tests: do drawn tokens follow a distribution, do two samples, are two draws
//! independent.
//!
//! Each function returns the probability of a deviation at least as large under the hypothesis. A test states
//! its false-alarm rate by the p-value that it demands, and draws with fixed seeds.

/// The smallest expected count of a bin; below it Pearson's statistic does not follow its law.
const SMALLEST_COUNT: f64 = 10.0;

/// How well `observed` counts agree with the probabilities `expected`.
///
/// Bins whose expected count is below 10 are pooled into one (and that with the smallest other bin, should it
/// still be below 10). A count in a bin of probability 0 is impossible: the p-value is 0. With a single bin
/// left it is 1.
///
/// # Panics
///
/// If the lengths differ or the probabilities do not sum to 1 within 1e-6.
pub fn p_value(observed: &[u64], expected: &[f64]) -> f64 {
    assert_eq!(observed.len(), expected.len(), "each bin needs a count and a probability");
    let sum: f64 = expected.iter().sum();
    assert!((sum - 1.0).abs() <= 1e-6, "the expected probabilities sum to {sum}, not to 1");
    let draws = observed.iter().sum::<u64>() as f64;
    if observed.iter().zip(expected).any(|(&count, &p)| count > 0 && p <= 0.0) {
        return 0.0;
    }
    let (mut bins, mut pool) = (Vec::new(), (0.0, 0.0));
    for (&count, &p) in observed.iter().zip(expected) {
        let (count, mean) = (count as f64, p / sum * draws);
        if mean < SMALLEST_COUNT {
            pool = (pool.0 + count, pool.1 + mean);
        } else {
            bins.push((count, mean));
        }
    }
    if pool.1 >= SMALLEST_COUNT {
        bins.push(pool);
    } else if let Some(smallest) = bins.iter_mut().min_by(|a, b| a.1.total_cmp(&b.1)) {
        *smallest = (smallest.0 + pool.0, smallest.1 + pool.1);
    }
    let statistic: f64 = bins.iter().map(|(count, mean)| (count - mean) * (count - mean) / mean).sum();
    survival(statistic, bins.len().saturating_sub(1))
}

/// Whether two samples, given as counts over the same bins, come from one distribution.
///
/// # Panics
///
/// If the lengths differ.
pub fn two_sample_p_value(first: &[u64], second: &[u64]) -> f64 {
    independence_p_value(&[first.to_vec(), second.to_vec()])
}

/// Whether the row and the column of a contingency table are independent.
///
/// Empty rows and columns are dropped. While the smallest expected count is below 10, the two smallest rows
/// or columns (of whichever are more) are pooled. With a single row or column left the p-value is 1. The time
/// grows with the square of the larger side.
///
/// # Panics
///
/// If the rows differ in length.
pub fn independence_p_value(table: &[Vec<u64>]) -> f64 {
    let width = table.first().map_or(0, Vec::len);
    assert!(table.iter().all(|row| row.len() == width), "the rows of a contingency table have one length");
    let mut rows: Vec<Vec<f64>> =
        table.iter().map(|row| row.iter().map(|&count| count as f64).collect()).collect();
    let mut columns = transposed(&rows, width);
    rows.retain(|row| total(row) > 0.0);
    columns.retain(|column| total(column) > 0.0);
    let draws: f64 = rows.iter().map(|row| total(row)).sum();
    // One side is pooled at a time; the other is made from it again.
    rows = transposed(&columns, table.len());
    rows.retain(|row| total(row) > 0.0);
    loop {
        if rows.len() < 2 || columns.len() < 2 {
            return 1.0;
        }
        let smallest =
            |lists: &[Vec<f64>]| lists.iter().map(|list| total(list)).fold(f64::INFINITY, f64::min);
        if smallest(&rows) * smallest(&columns) / draws >= SMALLEST_COUNT {
            break;
        }
        if columns.len() > rows.len() {
            columns = transposed(&rows, columns.len());
            pool_two_smallest(&mut columns);
            rows = transposed(&columns, rows.len());
        } else {
            pool_two_smallest(&mut rows);
            columns = transposed(&rows, columns.len());
        }
    }
    let mut statistic = 0.0;
    for row in &rows {
        for (count, column) in row.iter().zip(&columns) {
            let mean = total(row) * total(column) / draws;
            statistic += (count - mean) * (count - mean) / mean;
        }
    }
    survival(statistic, (rows.len() - 1) * (columns.len() - 1))
}

fn total(counts: &[f64]) -> f64 {
    counts.iter().sum()
}

fn transposed(rows: &[Vec<f64>], width: usize) -> Vec<Vec<f64>> {
    (0..width).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

fn pool_two_smallest(lists: &mut Vec<Vec<f64>>) {
    lists.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let smallest = lists.pop().expect("there are at least two lists to pool");
    let next = lists.last_mut().expect("there are at least two lists to pool");
    for (sum, count) in next.iter_mut().zip(smallest) {
        *sum += count;
    }
}

/// The probability that a chi-square variable with `degrees` degrees of freedom is at least `statistic`.
/// With 0 degrees it is 1.
pub fn survival(statistic: f64, degrees: usize) -> f64 {
    if degrees == 0 { 1.0 } else { upper_gamma(degrees as f64 / 2.0, statistic / 2.0) }
}

/// The regularised upper incomplete gamma function Q(a, x), a > 0: relative error about 1e-11 for a up to
/// 10^5.
fn upper_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        // P(a, x) = front · Σ x^n / (a (a+1) … (a+n)); every term is positive.
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return (1.0 - front * sum).clamp(0.0, 1.0);
    }
    // Lentz's evaluation of the continued fraction, which keeps its relative precision far into the tail.
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut fraction = d;
    for i in 1..1_000_000 {
        let step = -f64::from(i) * (f64::from(i) - a);
        b += 2.0;
        let denominator = step * d + b;
        d = 1.0 / if denominator.abs() < TINY { TINY } else { denominator };
        c = b + step / c;
        if c.abs() < TINY {
            c = TINY;
        }
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front * fraction
}

/// ln Γ(z) for z > 0 by Lanczos' approximation (g = 7, nine terms): relative error about 1e-15.
fn ln_gamma(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.5203681218851,
        -1259.1392167224028,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507343278686905,
        -0.13857109526572012,
        9.984_369_578_019_572e-6,
        1.5056327351493116e-7,
    ];
    if z < 0.5 {
        // Reflection keeps the approximation where it is good.
        let pi = std::f64::consts::PI;
        return (pi / (pi * z).sin()).ln() - ln_gamma(1.0 - z);
    }
    let z = z - 1.0;
    let series = COEFFICIENTS
        .iter()
        .zip(1..)
        .fold(0.999_999_999_999_809_9, |sum, (coefficient, i)| sum + coefficient / (z + f64::from(i)));
    let t = z + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (z + 0.5) * t.ln() - t + series.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::SplitMix64;

    #[track_caller]
    fn near(got: f64, want: f64, relative: f64) {
        assert!((got - want).abs() <= relative * want.abs(), "{got:e} is not {want:e}");
    }

    #[test]
    fn ln_gamma_is_ln_gamma() {
        near(ln_gamma(0.5), 0.5 * std::f64::consts::PI.ln(), 1e-14);
        near(ln_gamma(0.25), 1.2880225246980774, 1e-14);
        near(ln_gamma(10.0), 362880f64.ln(), 1e-14);
        near(ln_gamma(5000.5), 37586.88488728106, 1e-14);
        assert!(ln_gamma(1.0).abs() < 1e-14 && ln_gamma(2.0).abs() < 1e-14);
    }

    #[test]
    fn survival_has_the_tabulated_values() {
        near(survival(3.841458820694124, 1), 0.05, 1e-12);
        near(survival(18.307038053275146, 10), 0.05, 1e-12);
        near(survival(124.34211340400407, 100), 0.05, 1e-11);
        near(survival(3.325112843066815, 9), 0.95, 1e-12);
        // Closed forms: e^(-x/2) for two degrees of freedom, e^(-x/2) (1 + x/2) for four.
        near(survival(24.0 * 10f64.ln(), 2), 1e-12, 1e-12);
        near(survival(600.0, 2), (-300f64).exp(), 1e-12);
        near(survival(60.0, 4), (-30f64).exp() * 31.0, 1e-12);
        // erfc(√(x/2)) for one.
        near(survival(50.0, 1), 1.537459794428035e-12, 1e-12);
        near(survival(1e-8, 1), 0.9999202115440526, 1e-12);
        assert_eq!(survival(0.0, 5), 1.0);
        assert_eq!(survival(0.0, 0), 1.0);
    }

    #[test]
    fn many_degrees_of_freedom_follow_poisson() {
        // For an even number of degrees Q(a, x) is the chance of fewer than a events at a mean of x.
        for (a, x) in [(500u32, 430.0), (500, 500.0), (500, 650.0), (5000, 5100.0)] {
            let mut log_term = -x;
            let mut sum = f64::exp(log_term);
            for n in 1..a {
                log_term += f64::ln(x) - f64::from(n).ln();
                sum += log_term.exp();
            }
            near(survival(2.0 * x, 2 * a as usize), sum, 1e-9);
        }
    }

    #[test]
    fn a_hand_computed_goodness_of_fit() {
        // (60−50)²/50 · 2 = 4 on one degree of freedom: erfc(√2).
        near(p_value(&[60, 40], &[0.5, 0.5]), 0.04550026389635842, 1e-12);
        assert_eq!(p_value(&[50, 50], &[0.5, 0.5]), 1.0);
        assert_eq!(p_value(&[99, 1], &[1.0, 0.0]), 0.0);
        assert_eq!(p_value(&[100, 0], &[1.0, 0.0]), 1.0);
        // Four bins of mean 5 are pooled to one of mean 20: two bins are left, (30−20)²/20 + (70−80)²/80 =
        // 6.25.
        near(p_value(&[70, 30, 0, 0, 0], &[0.8, 0.05, 0.05, 0.05, 0.05]), 0.012419330651552265, 1e-12);
        // A pool that stays below 10 goes to the smallest bin.
        near(p_value(&[60, 35, 5], &[0.5, 0.45, 0.05]), 0.04550026389635842, 1e-12);
    }

    #[test]
    fn p_values_are_uniform_under_the_hypothesis_and_small_beside_it() {
        let truth = [0.4, 0.3, 0.15, 0.1, 0.05];
        let mut random = SplitMix64::new(11);
        let mut draw = |probabilities: &[f64]| {
            let mut counts = vec![0u64; probabilities.len()];
            for _ in 0..2000 {
                let mut u = random.uniform();
                let i = probabilities.iter().position(|p| {
                    u -= p;
                    u < 0.0
                });
                counts[i.unwrap_or(probabilities.len() - 1)] += 1;
            }
            counts
        };
        let (mut fits, mut pairs) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            let counts = draw(&truth);
            fits.push(p_value(&counts, &truth));
            pairs.push(two_sample_p_value(&counts, &draw(&truth)));
        }
        for p_values in [fits, pairs] {
            for level in [0.01, 0.1, 0.5, 0.9] {
                let share = p_values.iter().filter(|p| **p <= level).count() as f64 / 2000.0;
                // Five standard deviations.
                let room = 5.0 * (level * (1.0 - level) / 2000.0f64).sqrt();
                assert!((share - level).abs() < room, "{share} of the p-values are below {level}");
            }
        }
        let other = draw(&[0.35, 0.35, 0.15, 0.1, 0.05]);
        assert!(p_value(&other, &truth) < 1e-4);
        let same = draw(&truth);
        assert!(two_sample_p_value(&other, &same) < 1e-2);
    }

    #[test]
    fn a_hand_computed_table() {
        // Expected 15 and 35 in both rows: 4 · 25 terms: 25/15·2 + 25/35·2 = 100/21.
        near(independence_p_value(&[vec![10, 40], vec![20, 30]]), survival(100.0 / 21.0, 1), 1e-12);
        // Empty rows and columns say nothing.
        let padded = [vec![10, 0, 40], vec![0, 0, 0], vec![20, 0, 30]];
        near(independence_p_value(&padded), survival(100.0 / 21.0, 1), 1e-12);
        // Two rare columns are pooled to one.
        let split = [vec![10, 4, 36], vec![20, 3, 27]];
        let pooled = [vec![14, 36], vec![23, 27]];
        near(independence_p_value(&split), independence_p_value(&pooled), 1e-12);
        assert_eq!(independence_p_value(&[vec![5, 5]]), 1.0);
        assert_eq!(independence_p_value(&[]), 1.0);
    }
}
