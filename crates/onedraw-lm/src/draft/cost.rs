//! What passes of the target and other pieces of work cost, learned from the times that they took.
//!
//! Clocks decide how much is guessed, and in `exact` mode no token depends on that.

use std::time::Duration;

/// A time of more than this many times the expected one was interrupted, or did other work too. It counts as
/// this much, or not at all. Chosen by hand: the same work seldom varies by as much.
pub(super) const INTERRUPTED: f64 = 2.0;

/// How far an estimate moves towards each new time: about ten times are remembered. Chosen by hand, to follow
/// a machine that becomes slower or faster within some ten passes.
pub(super) const LEARNING_RATE: f64 = 0.1;

/// Seconds that a piece of work takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    pub seconds: f64,
    pub measured: usize,
}

impl Estimate {
    /// Learns from one time.
    pub(super) fn learn(&mut self, seconds: f64) {
        /// The shortest of so many first times counts: the very first expansion of a text reads the whole
        /// text, and the next find their weights far from the processor.
        const FIRST_TIMES: usize = 4;
        self.measured += 1;
        self.seconds = match self.measured {
            1 => seconds,
            2..=FIRST_TIMES => seconds.min(self.seconds),
            _ => self.seconds + LEARNING_RATE * (seconds.min(INTERRUPTED * self.seconds) - self.seconds),
        };
    }
}

/// Seconds that a pass of the target takes, by its number of positions.
#[derive(Clone, Debug, Default)]
pub(super) struct PassCosts {
    /// Numbers of positions, ascending, and the seconds of such a pass; lines lie between them and beyond the
    /// last. Empty until they are measured.
    points: Vec<(usize, f64)>,
}

impl PassCosts {
    /// Whether they are still to be measured.
    pub(super) fn are_unknown(&self) -> bool {
        self.points.is_empty()
    }

    /// Sets the costs of at least two numbers of positions, in ascending order.
    pub(super) fn set(&mut self, costs: &[(usize, Duration)]) {
        self.points = costs.iter().map(|&(positions, time)| (positions, time.as_secs_f64())).collect();
        self.make_ascending();
    }

    /// More positions never take less time. Where the times say so, the pass of fewer positions was
    /// interrupted.
    fn make_ascending(&mut self) {
        for i in (1..self.points.len()).rev() {
            self.points[i - 1].1 = self.points[i - 1].1.min(self.points[i].1);
        }
    }

    /// The segment that a number of positions lies on, by the index of its first point, and how far along it:
    /// 0 at the first point, 1 at the second, more beyond the last.
    fn segment(&self, positions: usize) -> (usize, f64) {
        let upper = self.points.iter().position(|&(measured, _)| measured >= positions);
        let upper = upper.unwrap_or(self.points.len() - 1).max(1);
        let (low, high) = (self.points[upper - 1].0, self.points[upper].0);
        (upper - 1, (positions as f64 - low as f64) / (high - low) as f64)
    }

    /// Seconds of a pass; 0 while they are unknown.
    pub(super) fn of(&self, positions: usize) -> f64 {
        if self.are_unknown() {
            return 0.0;
        }
        let (place, share) = self.segment(positions);
        let (low, high) = (self.points[place].1, self.points[place + 1].1);
        low + share * (high - low)
    }

    /// Learns from the time of one pass.
    pub(super) fn learn(&mut self, positions: usize, time: Duration) {
        /// How far the two points around the pass follow it beyond the others. Half of [`LEARNING_RATE`]:
        /// costs that were learned one by one were off by a factor after one interruption, and gained 1.27
        /// where one pace for all gains 1.34 (bench/results/2026-11-16-speculation.md).
        const RATE_AROUND: f64 = 0.05;
        let expected = self.of(positions);
        if expected <= 0.0 {
            return;
        }
        let ratio = (time.as_secs_f64() / expected).clamp(1.0 / INTERRUPTED, INTERRUPTED);
        let (place, share) = self.segment(positions);
        for (i, (_, seconds)) in self.points.iter_mut().enumerate() {
            let nearness = match i.checked_sub(place) {
                Some(0) => 1.0 - share,
                Some(1) => share,
                _ => 0.0,
            };
            *seconds *= 1.0 + (ratio - 1.0) * (LEARNING_RATE + RATE_AROUND * nearness.clamp(0.0, 1.0));
        }
        self.make_ascending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Passes of 1, 2, 4 and 8 positions take 1, 1.2, 1.6 and 3.2 ms.
    fn costs() -> PassCosts {
        let mut costs = PassCosts::default();
        costs.set(
            &[(1, 10), (2, 12), (4, 16), (8, 32)]
                .map(|(positions, time)| (positions, time * MILLISECOND / 10)),
        );
        costs
    }

    #[test]
    fn costs_are_lines_between_what_was_measured() {
        let costs = costs();
        for (positions, cost) in [(1, 1.0), (2, 1.2), (3, 1.4), (6, 2.4), (8, 3.2), (16, 6.4), (20, 8.0)] {
            assert!((costs.of(positions) * 1e3 - cost).abs() < 1e-9, "{positions}: {}", costs.of(positions));
        }
    }

    #[test]
    fn costs_follow_what_passes_take_but_not_an_interruption() {
        let mut costs = costs();
        for _ in 0..100 {
            costs.learn(4, 2 * MILLISECOND);
        }
        assert!((costs.of(4) * 1e3 - 2.0).abs() < 1e-3, "{}", costs.of(4));
        // The machine has become slower, and passes of four positions most of all.
        let relative = costs.of(1) / costs.of(4);
        assert!(relative > 0.55 && relative < 1.0 / 1.6, "{relative}");
        costs.learn(4, Duration::from_secs(1));
        assert!(costs.of(4) * 1e3 < 2.31, "{}", costs.of(4));
        // A pass that seems far too short is not believed either: the line beyond the last point falls by a
        // tenth.
        let before = costs.of(40);
        costs.learn(40, MILLISECOND);
        let fallen = costs.of(40) / before;
        assert!(fallen > 0.85 && fallen < 0.95, "{fallen}");
    }

    #[test]
    fn more_positions_never_cost_less() {
        let mut costs = PassCosts::default();
        costs.set(&[(1, 3), (2, 1), (4, 2)].map(|(positions, time)| (positions, time * MILLISECOND)));
        assert_eq!([1, 2, 4].map(|positions| costs.of(positions) * 1e3), [1.0, 1.0, 2.0]);
    }
}
