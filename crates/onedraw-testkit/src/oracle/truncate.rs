//! What the truncations keep, and what they might keep with other rounding.

use std::collections::BTreeSet;
use std::f64::consts::LN_2;
use std::ops::{Range, RangeInclusive};

use super::left::{Left, Softmax, Token};

/// How near to p, as a share of the total, the mass of a set makes a decision about it uncertain.
const MASS_MARGIN: f64 = 1e-6;
/// How near to a bar, relative to it, a probability makes its token's place uncertain.
const PROBABILITY_MARGIN: f64 = 1e-6;
/// The same for a number that is compared in f64 by both sides, such as a logit or a standard deviation.
const EXACT_MARGIN: f64 = 1e-9;
/// How far off the engine's entropy may be, in nats.
pub(super) const ENTROPY_MARGIN: f64 = 2e-6;
/// How far off mirostat's k may be, relative to it.
const LENGTH_MARGIN: f64 = 1e-6;
/// How far apart two scores of typical sampling, in nats, may be for the engine to see them the other way
/// round: twice the entropy's error and some rounding. To this comes [`SCORE_SHARE`] of the score, which the
/// engine rounds to f32.
const SCORE_MARGIN: f64 = 6e-6;
const SCORE_SHARE: f64 = 4e-7;
/// More borderline tokens than this at one stage, and only the two ends are followed.
const MOST_READINGS: usize = 16;
/// More windows than this are not even looked at.
const MOST_WINDOWS: usize = 4096;
/// Mirostat 1 fits its slope to so many tokens.
const FITTED: usize = 100;

/// What a truncation keeps: a window of the order, and what else it spares.
pub(super) struct Cut {
    pub kept: Range<usize>,
    /// The other windows that rounding allows, or, where they are too many, the narrowest and the widest.
    pub others: Vec<Range<usize>>,
    /// Whether `others` are all.
    pub is_complete: bool,
    /// These stay even if they stand before the window.
    pub spared: BTreeSet<u32>,
}

impl Cut {
    fn new(kept: Range<usize>, readings: impl Iterator<Item = Range<usize>>) -> Self {
        let mut others: Vec<_> = readings.filter(|reading| *reading != kept).collect();
        others.dedup();
        let mut cut = Self { kept, others, is_complete: true, spared: BTreeSet::new() };
        if cut.others.len() > MOST_READINGS {
            (cut.others, cut.is_complete) = (vec![cut.narrowest(), cut.widest()], false);
        }
        cut
    }

    fn readings(&self) -> impl Iterator<Item = &Range<usize>> {
        self.others.iter().chain([&self.kept])
    }

    /// What every reading keeps. It may be empty.
    pub fn narrowest(&self) -> Range<usize> {
        let start = self.readings().map(|reading| reading.start).max().unwrap_or(0);
        start..self.readings().map(|reading| reading.end).min().unwrap_or(0).max(start)
    }

    /// What any reading keeps.
    pub fn widest(&self) -> Range<usize> {
        let start = self.readings().map(|reading| reading.start).min().unwrap_or(0);
        start..self.readings().map(|reading| reading.end).max().unwrap_or(0)
    }
}

/// How many tokens pass a test, by the sums, and how few and how many might with other rounding.
struct Count {
    sum: usize,
    fewest: usize,
    most: usize,
}

impl Count {
    /// Counts with the bar where it is, and moved up and down by the margin: −1, 0 or 1 times.
    fn of(count: impl Fn(f64) -> usize) -> Self {
        Self { sum: count(0.0), fewest: count(1.0), most: count(-1.0) }
    }

    fn at_least(self, least: usize) -> Self {
        Self { sum: self.sum.max(least), fewest: self.fewest.max(least), most: self.most.max(least) }
    }

    fn range(&self) -> RangeInclusive<usize> {
        self.fewest..=self.most
    }

    /// The first so many tokens; ties may be parted.
    fn first(self) -> Cut {
        Cut::new(0..self.sum, self.range().map(|length| 0..length))
    }

    /// The first so many tokens and no less than those with the best logit, equal logits decided alike.
    fn first_with_ties(self, left: &Left) -> Cut {
        let best = left.tokens[0].logit;
        let count = self.at_least(left.tokens.iter().filter(|token| token.logit == best).count());
        Cut::new(0..count.sum, count.range().filter(|&length| left.is_edge(length)).map(|length| 0..length))
    }
}

impl Softmax {
    /// How many tokens have a logprob of at least `bar`, which itself may be off by `bar_doubt`.
    fn count_from(&self, bar: f64, bar_doubt: f64) -> Count {
        // The logarithm of 0 lets everything pass, and has no margin.
        let bar = bar.max(f64::MIN);
        let margin = PROBABILITY_MARGIN + EXACT_MARGIN * bar.abs() + bar_doubt;
        Count::of(|side| {
            let passes = |(logprob, doubt): (&f64, &f64)| *logprob >= bar + side * (margin + doubt);
            self.logprobs.iter().zip(&self.logprob_doubts).filter(|&pair| passes(pair)).count()
        })
    }
}

pub(super) fn top_k(left: &Left, k: i64) -> Cut {
    let k = usize::try_from(k).expect("a set top_k is above 0").min(left.tokens.len());
    Count { sum: k, fewest: k, most: k }.first()
}

pub(super) fn top_p(left: &Left, p: f64) -> Cut {
    let softmax = Softmax::of(left);
    let margin = MASS_MARGIN + softmax.mass_doubt;
    let count = Count::of(|side| {
        let limit = (p - side * margin) * softmax.total;
        let mut before = 0.0;
        let mut length = 0;
        for weight in &softmax.weights {
            length += usize::from(before < limit);
            before += weight;
        }
        length
    });
    // Nothing is before the best token: it stays for any p.
    count.at_least(1).first()
}

pub(super) fn min_p(left: &Left, min_p: f64) -> Cut {
    let best = left.tokens[0];
    let threshold = left.temperature * min_p.ln();
    let margin = threshold.abs() * (EXACT_MARGIN + left.temperature_doubt) + best.doubt;
    let count = Count::of(|side| {
        let passes = |token: &Token| {
            let below = f64::from(token.logit) - f64::from(best.logit);
            below >= threshold + side * (margin + token.doubt)
        };
        left.tokens.iter().filter(|token| passes(token)).count()
    });
    count.first_with_ties(left)
}

pub(super) fn top_n_sigma(left: &Left, n: f64) -> Cut {
    let tokens = &left.tokens;
    let mean_of = |value: &dyn Fn(&Token) -> f64| tokens.iter().map(value).sum::<f64>() / tokens.len() as f64;
    let mean = mean_of(&|token| f64::from(token.logit));
    let sigma = mean_of(&|token| (f64::from(token.logit) - mean).powi(2)).sqrt();
    let best = tokens[0];
    let below = |token: &Token| f64::from(best.logit) - f64::from(token.logit);
    let range = below(&tokens[tokens.len() - 1]);
    // σ moves by no more than the root mean square of what the logits move by.
    let sigma_doubt = EXACT_MARGIN * range + mean_of(&|token| token.doubt.powi(2)).sqrt();
    let margin = n * sigma_doubt + best.doubt;
    let count = Count::of(|side| {
        tokens.iter().filter(|token| below(token) <= n * sigma - side * (margin + token.doubt)).count()
    });
    count.first_with_ties(left)
}

pub(super) fn epsilon(left: &Left, epsilon: f64) -> Cut {
    Softmax::of(left).count_from(epsilon.ln(), 0.0).first_with_ties(left)
}

pub(super) fn eta(left: &Left, eta: f64) -> Cut {
    let softmax = Softmax::of(left);
    let (fixed, falling) = (eta.ln(), 0.5 * eta.ln() - softmax.entropy);
    let doubt = ENTROPY_MARGIN + softmax.entropy_doubt;
    let bar_doubt = if falling <= fixed + doubt { doubt } else { 0.0 };
    softmax.count_from(fixed.min(falling), bar_doubt).first_with_ties(left)
}

pub(super) fn top_a(left: &Left, a: f64) -> Cut {
    let softmax = Softmax::of(left);
    let bar_doubt = 2.0 * (PROBABILITY_MARGIN + softmax.logprob_doubts[0]);
    softmax.count_from(a.ln() + 2.0 * softmax.logprobs[0], bar_doubt).first_with_ties(left)
}

/// Removes all top choices but the last. Whether it does so at all, the coin said.
pub(super) fn xtc(left: &Left, threshold: f64, protected: &[u32]) -> Cut {
    let choices = Softmax::of(left).count_from(threshold.ln(), 0.0);
    let without = |choices: usize| choices.saturating_sub(1)..left.tokens.len();
    let readings = choices.range().filter(|&choices| left.is_edge(choices)).map(without);
    Cut { spared: protected.iter().copied().collect(), ..Cut::new(without(choices.sum), readings) }
}

/// Keeps −log2 p <= mu.
pub(super) fn mirostat_2(left: &Left, mu: f64) -> Cut {
    Softmax::of(left).count_from(-mu * LN_2, 0.0).first_with_ties(left)
}

/// Keeps k tokens, k from the slope of the best logprobs over the logarithm of their rank.
pub(super) fn mirostat_1(left: &Left, mu: f64, vocabulary: usize) -> Cut {
    let (mut products, mut squares, mut doubts) = (0.0, 0.0, 0.0);
    let fitted = &left.tokens[..left.tokens.len().min(FITTED)];
    for (i, pair) in fitted.windows(2).enumerate() {
        let t = ((i + 2) as f64 / (i + 1) as f64).ln();
        products += t * (f64::from(pair[0].logit) - f64::from(pair[1].logit)) / left.temperature;
        doubts += t * (pair[0].doubt + pair[1].doubt) / left.temperature;
        squares += t * t;
    }
    // One token alone has no slope.
    let per_square = |sum: f64| if squares > 0.0 { sum / squares } else { 0.0 };
    let slope = per_square(products);
    let slope_doubt = per_square(doubts) + left.temperature_doubt * slope;
    let log_n = (vocabulary as f64).ln();
    let length = |slope: f64, side: f64| {
        let e = slope - 1.0;
        let log_r = if e == 0.0 { -log_n.ln() } else { (e / -(-e * log_n).exp_m1()).ln() };
        // Rounding alone decides where the two cancel.
        let surprise = mu * LN_2 + log_r + side * 1e-12 * (mu.abs() + log_r.abs());
        let log_k = surprise / slope + side * LENGTH_MARGIN;
        let k = match slope == 0.0 || log_k.is_nan() {
            true if surprise > 0.0 => f64::INFINITY,
            true => 1.0,
            false => log_k.exp(),
        };
        k.floor().clamp(1.0, left.tokens.len() as f64) as usize
    };
    let slopes = [slope, slope + slope_doubt, (slope - slope_doubt).max(0.0)];
    let lengths = || slopes.into_iter().flat_map(|slope| [length(slope, -1.0), length(slope, 1.0)]);
    let sum = length(slope, 0.0);
    let (fewest, most) = (lengths().min().unwrap_or(sum), lengths().max().unwrap_or(sum));
    Count { sum, fewest, most }.first()
}

/// Keeps the tokens whose surprise is nearest to the entropy, until their mass reaches p.
///
/// −ln p grows along the order, so what is near to the entropy is a window of it.
pub(super) fn typical(left: &Left, p: f64) -> Cut {
    let softmax = Softmax::of(left);
    let count = left.tokens.len();
    let scores: Vec<f64> =
        softmax.logprobs.iter().map(|logprob| (-logprob - softmax.entropy).abs()).collect();
    let mut nearest: Vec<usize> = (0..count).collect();
    nearest.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    // The smallest score up to which the tokens have such a mass.
    let reaching = |mass: f64| {
        let mut sum = 0.0;
        let reached = nearest.iter().find(|&&place| {
            sum += softmax.weights[place];
            sum >= mass * softmax.total
        });
        scores[*reached.unwrap_or(&nearest[count - 1])]
    };
    // What passes is a window, empty if nothing does.
    let window = |passes: &dyn Fn(usize) -> bool| {
        let start = (0..count).find(|&place| passes(place));
        start.map(|start| start..(start..count).find(|&place| !passes(place)).unwrap_or(count))
    };
    let margin = MASS_MARGIN + softmax.mass_doubt;
    let [low, limit, high] = [p - margin, p, p + margin].map(reaching);
    let border = |place: usize| {
        let doubt = softmax.logprob_doubts[place] + softmax.entropy_doubt;
        SCORE_MARGIN + SCORE_SHARE * scores[place] + 2.0 * doubt
    };
    let kept = window(&|place| scores[place] <= limit).expect("the token that reaches p is kept");
    let widest = window(&|place| scores[place] <= high + border(place)).expect("the token that reaches p");
    let narrowest = window(&|place| scores[place] < low - border(place));

    // A reading has enough mass and keeps no token that is clearly farther than one it removes.
    let masses: Vec<f64> = std::iter::once(0.0)
        .chain(softmax.probabilities.iter().scan(0.0, |sum, p| {
            *sum += p;
            Some(*sum)
        }))
        .collect();
    let is_reading = |window: &Range<usize>| {
        let Range { start, end } = *window;
        let farthest = if scores[start] > scores[end - 1] { start } else { end - 1 };
        let outside = [start.checked_sub(1), Some(end).filter(|&end| end < count)];
        masses[end] - masses[start] >= p - margin
            && outside.into_iter().flatten().all(|place| scores[farthest] <= scores[place] + border(farthest))
    };
    let edges = |places: RangeInclusive<usize>| -> Vec<usize> {
        places.filter(|&place| left.is_edge(place)).collect()
    };
    let narrowest = narrowest.unwrap_or(kept.start..kept.start);
    let (starts, ends) = match narrowest.is_empty() {
        true => (edges(widest.start..=widest.end - 1), edges(widest.start + 1..=widest.end)),
        false => (edges(widest.start..=narrowest.start), edges(narrowest.end..=widest.end)),
    };
    if starts.len() * ends.len() > MOST_WINDOWS {
        return Cut { kept, others: vec![narrowest, widest], is_complete: false, spared: BTreeSet::new() };
    }
    let windows = starts.iter().flat_map(|&start| ends.iter().map(move |&end| start..end));
    Cut::new(kept, windows.filter(|window| !window.is_empty() && is_reading(window)))
}
