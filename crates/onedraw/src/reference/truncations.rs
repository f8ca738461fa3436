//! Truncations over a list in order.

use super::{Candidate, Left};
use crate::numeric::math::{exp, ln};
use crate::params::SamplingParams;
use crate::params::chain::Stage;

pub(super) fn apply(stage: &Stage, left: &mut Left, vocabulary: usize, params: &SamplingParams) {
    match stage {
        Stage::MinP if params.min_p > 0.0 => min_p(left, params.min_p),
        Stage::TopK if params.top_k > 0 => {
            left.candidates.truncate(usize::try_from(params.top_k).unwrap_or(usize::MAX));
        }
        Stage::TopP if params.top_p < 1.0 => top_p(left, params.top_p),
        Stage::Typical if params.typical_p < 1.0 => typical(left, params.typical_p),
        Stage::TopNSigma if params.top_n_sigma > 0.0 => top_n_sigma(left, params.top_n_sigma),
        Stage::Epsilon if params.epsilon_cutoff > 0.0 => cutoff(left, ln(params.epsilon_cutoff)),
        Stage::Eta if params.eta_cutoff > 0.0 => {
            let e = ln(params.eta_cutoff);
            cutoff(left, e.min(0.5 * e - left.entropy()));
        }
        Stage::TopA if params.top_a > 0.0 => top_a(left, params.top_a),
        Stage::Mirostat => {
            let mu = params.mirostat_mu.unwrap_or(2.0 * params.mirostat_tau);
            match params.mirostat {
                1 => mirostat_1(left, mu, vocabulary),
                2 => cutoff(left, -mu * std::f64::consts::LN_2),
                _ => {}
            }
        }
        _ => {}
    }
}

fn min_p(left: &mut Left, min_p: f64) {
    let (x_max, temperature) = (f64::from(left.candidates[0].logit), left.temperature);
    left.candidates.retain(|c| f64::from(c.logit) - x_max >= temperature.value * ln(min_p));
}

/// A share as a fraction of 2^53.
fn fraction(share: f64) -> u128 {
    ((share * 9_007_199_254_740_992.0).round() as u128).max(1)
}

fn weights(left: &Left) -> Vec<u64> {
    let softmax = left.temperature.softmax(left.candidates[0].logit);
    left.candidates.iter().map(|c| softmax.weight(c.logit)).collect()
}

fn top_p(left: &mut Left, p: f64) {
    let weights = weights(left);
    let total: u64 = weights.iter().sum();
    let mut before: u64 = 0;
    let is_kept = |weight: &u64| {
        let is_kept = u128::from(before) << 53 < fraction(p) * u128::from(total);
        before += weight;
        is_kept
    };
    let kept = weights.iter().map(is_kept).filter(|&is_kept| is_kept).count();
    left.candidates.truncate(kept);
}

/// Keeps what is at least as likely as the exponential of `ln_bar`, and all that is as likely as the best.
fn cutoff(left: &mut Left, ln_bar: f64) {
    keep_from(left, ln_bar + ln(left.mass()));
}

/// The best probability is 1 / mass: `p ≥ a·p_max²` is `y − ln mass ≥ ln a − 2·ln mass`.
fn top_a(left: &mut Left, a: f64) {
    keep_from(left, ln(a) - ln(left.mass()));
}

fn keep_from(left: &mut Left, y: f64) {
    let lowest = if y < 0.0 { y } else { 0.0 };
    let kept = left.candidates.iter().filter(|c| left.y(c) >= lowest).count();
    left.candidates.truncate(kept);
}

fn typical(left: &mut Left, p: f64) {
    let mean = -left.mean_surprise();
    let distance = |c: &Candidate| (left.y(c) - mean).abs() as f32;
    let weights = weights(left);
    let total: u64 = weights.iter().sum();
    let mut nearest: Vec<(f32, u64)> = left.candidates.iter().map(distance).zip(weights).collect();
    nearest.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut within: u64 = 0;
    let reaches = |&&(_, weight): &&(f32, u64)| {
        within += weight;
        u128::from(within) << 53 >= fraction(p) * u128::from(total)
    };
    let farthest = nearest.iter().find(reaches).map_or(f32::INFINITY, |&(distance, _)| distance);
    let distances: Vec<f32> = left.candidates.iter().map(distance).collect();
    let mut distances = distances.into_iter();
    left.candidates.retain(|_| distances.next().is_some_and(|distance| distance <= farthest));
}

fn top_n_sigma(left: &mut Left, n: f64) {
    let best = f64::from(left.candidates[0].logit);
    let below: Vec<f64> = left.candidates.iter().map(|c| best - f64::from(c.logit)).collect();
    let range = below[below.len() - 1];
    if range == 0.0 {
        return;
    }
    // The smallest power of two that is no less than the range.
    let mut unit = 1.0;
    while unit < range {
        unit *= 2.0;
    }
    while unit / 2.0 >= range {
        unit /= 2.0;
    }
    const STEPS: f64 = 1_099_511_627_776.0;
    let q: Vec<u128> = below.iter().map(|below| (below / unit * STEPS) as u128).collect();
    let count = q.len() as u128;
    let (sum, squares) = (q.iter().sum::<u128>(), q.iter().map(|q| q * q).sum::<u128>());
    let sigma = ((count * squares - sum * sum) as f64).sqrt() / count as f64 * (unit / STEPS);
    left.candidates.retain(|c| best - f64::from(c.logit) <= n * sigma);
}

pub(super) fn xtc(left: &mut Left, params: &SamplingParams, coin: f64) {
    if coin >= params.xtc_probability {
        return;
    }
    let bar = ln(params.xtc_threshold) + ln(left.mass());
    let top_choices = left.candidates.iter().filter(|c| left.y(c) >= bar).count();
    let mut place = 0;
    left.candidates.retain(|c| {
        place += 1;
        place >= top_choices || params.xtc_protected_token_ids.contains(&c.token)
    });
}

/// Zipf's exponent from the steps between the first hundred, and the k that the law says.
fn mirostat_1(left: &mut Left, mu: f64, vocabulary: usize) {
    let ys: Vec<f64> = left.candidates.iter().take(100).map(|c| left.y(c)).collect();
    let (mut products, mut squares) = (0.0, 0.0);
    for i in 0..ys.len() - 1 {
        let t = ln((i as f64 + 2.0) / (i as f64 + 1.0));
        products += t * (ys[i] - ys[i + 1]);
        squares += t * t;
    }
    let s = if squares > 0.0 { products / squares } else { 0.0 };
    let e = s - 1.0;
    let ln_n = ln(vocabulary as f64);
    let ratio = if e == 0.0 { 1.0 / ln_n } else { e / (1.0 - exp(-e * ln_n)) };
    let power = mu * std::f64::consts::LN_2 + ln(ratio);
    let k = match power / s {
        ln_k if s != 0.0 && !ln_k.is_nan() => exp(ln_k),
        _ if power > 0.0 => f64::INFINITY,
        _ => 1.0,
    };
    left.candidates.truncate((k as usize).max(1));
}
