//! Times of single draws, and what becomes of them over the rounds.

use std::time::{Duration, Instant};

use serde::Serialize;

/// How long somebody draws at a time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    /// Draws before the first that counts.
    pub warm_up: u32,
    /// The most draws that count.
    pub draws: u32,
    /// No draw begins after so long, once there were [`Stopwatch::FEWEST`].
    pub at_most: Duration,
}

impl Stopwatch {
    /// The fewest draws that count.
    pub const FEWEST: u32 = 5;

    /// Times draw after draw. `rows` are gone through in a circle: one row is a row that stays in cache, many
    /// are rows that do not. Each draw has another position, the first of them `position`.
    pub fn times(&self, rows: &[usize], position: u32, mut draw: impl FnMut(usize, u32)) -> Times {
        let mut times = Times::default();
        let row = |position: u32| rows[position as usize % rows.len()];
        let first = position + self.warm_up;
        (position..first).for_each(|position| draw(row(position), position));
        let begin = Instant::now();
        for position in first..first + self.draws {
            let start = Instant::now();
            draw(row(position), position);
            times.0.push(start.elapsed().as_secs_f64() * 1e6);
            if begin.elapsed() > self.at_most && position - first + 1 >= Self::FEWEST {
                break;
            }
        }
        times
    }
}

/// The microseconds of each draw.
#[derive(Clone, Debug, Default)]
pub struct Times(pub Vec<f64>);

impl Times {
    /// More of the same round.
    pub fn absorb(&mut self, others: Times) {
        self.0.extend(others.0);
    }

    /// Without what took more than three times the median: of work that is always the same, these are the
    /// times when something else had the core.
    pub fn uninterrupted(mut self) -> Self {
        let longest = 3.0 * self.quantile(0.5);
        self.0.retain(|time| *time <= longest);
        self
    }

    /// The mean: what a step costs in the long run.
    pub fn mean(&self) -> f64 {
        mean(self.0.iter().copied())
    }

    /// The time that a share of the draws stays below.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
            .get(((sorted.len() as f64 * share) as usize).min(sorted.len().max(1) - 1))
            .copied()
            .unwrap_or(f64::NAN)
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.fold(0.0, |sum, value| sum + value) / count
}

/// One contender's times, a round each.
#[derive(Clone, Debug, Default)]
pub struct Record {
    rounds: Vec<Times>,
}

impl Record {
    /// Begins the next round.
    pub fn begin_round(&mut self) {
        self.rounds.push(Times::default());
    }

    /// Adds to the round that was begun last.
    pub fn add(&mut self, times: Times) {
        if self.rounds.is_empty() {
            self.begin_round();
        }
        let last = self.rounds.len() - 1;
        self.rounds[last].absorb(times);
    }

    /// The mean of the rounds' means.
    pub fn mean(&self) -> f64 {
        mean(self.rounds.iter().map(Times::mean))
    }

    /// All draws of all rounds.
    pub fn all(&self) -> Times {
        Times(self.rounds.iter().flat_map(|round| round.0.iter().copied()).collect())
    }

    /// Means as a multiple of another contender's, round by round: the machine may change between rounds, and
    /// a ratio within one does not see it.
    pub fn ratio_to(&self, other: &Record) -> Spread {
        Spread::of(self.rounds.iter().zip(&other.rounds).map(|(mine, theirs)| mine.mean() / theirs.mean()))
    }
}

/// One number from several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median of the rounds.
    pub value: f64,
    /// The lowest of them.
    pub low: f64,
    /// The highest of them.
    pub high: f64,
}

impl Spread {
    /// Of at least one round.
    pub fn of(rounds: impl Iterator<Item = f64>) -> Self {
        let rounds = Times(rounds.collect());
        Self { value: rounds.quantile(0.5), low: rounds.quantile(0.0), high: rounds.quantile(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_go_through_rows_and_positions() {
        let mut seen = Vec::new();
        let watch = Stopwatch { warm_up: 2, draws: 6, at_most: Duration::from_secs(60) };
        let times = watch.times(&[3, 4, 9], 1, |row, position| seen.push((row, position)));
        let rows = [4, 9, 3, 4, 9, 3, 4, 9];
        assert_eq!(seen, rows.into_iter().zip(1..9).collect::<Vec<_>>());
        assert_eq!(times.0.len(), 6);
    }

    #[test]
    fn a_slow_draw_is_timed_five_times() {
        let watch = Stopwatch { warm_up: 0, draws: 100, at_most: Duration::ZERO };
        assert_eq!(watch.times(&[0], 0, |_, _| ()).0.len(), 5);
    }

    #[test]
    fn quantiles_and_means() {
        let times = Times((1..=10).rev().map(f64::from).collect());
        assert_eq!((times.quantile(0.1), times.quantile(0.5), times.quantile(0.9)), (2.0, 6.0, 10.0));
        assert_eq!((times.quantile(0.0), times.quantile(1.0), times.mean()), (1.0, 10.0, 5.5));
        assert_eq!(Times(vec![4.0, 4.5, 4000.0, 5.0, 4.0]).uninterrupted().0, [4.0, 4.5, 5.0, 4.0]);
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let record =
            |rounds: &[f64]| Record { rounds: rounds.iter().map(|&time| Times(vec![time])).collect() };
        // The second round ran on a machine half as fast.
        let (floor, draws) = (record(&[4.0, 8.0, 4.0]), record(&[6.0, 12.0, 8.0]));
        assert_eq!(draws.ratio_to(&floor), Spread { value: 1.5, low: 1.5, high: 2.0 });
        assert_eq!(draws.mean(), 26.0 / 3.0);
    }
}
