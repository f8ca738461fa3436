//! What passes of the target cost, learned from the times that they took.
//!
//! Clocks decide how much is guessed, and in `exact` mode no token depends on that.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::draft::recent::Recent;

/// What a pass of some positions takes beside one of a single position, until it was measured; lines lie between these.
/// Between what the story model takes (1.00, 1.02, 1.36, 2.2) and what a model does whose weights are no longer in the
/// processor's caches.
const FIRST_SHARES: [(usize, f64); 5] = [(1, 1.0), (2, 1.05), (4, 1.3), (8, 2.2), (16, 4.2)];

/// Seconds that a pass of the target takes, by its number of positions.
#[derive(Clone, Debug, Default)]
pub(super) struct PassCosts {
    measured: BTreeMap<usize, Recent>,
}

impl PassCosts {
    /// Whether none was measured.
    pub(super) fn is_unknown(&self) -> bool {
        self.measured.is_empty()
    }

    /// Learns from the time of one pass.
    pub(super) fn learn(&mut self, positions: usize, time: Duration) {
        self.measured.entry(positions).or_default().learn(time);
    }

    /// Seconds of a pass that nothing interrupts; 0 while none was measured.
    pub(super) fn of(&self, positions: usize) -> f64 {
        let fewer = self.measured.range(..=positions).next_back().map(|(&fewer, _)| fewer);
        let more = self.measured.range(positions..).next().map(|(&more, _)| more);
        let (Some(low), Some(high)) = (fewer.or(more), more.or(fewer)) else { return 0.0 };
        let (before, after) = (self.shortest_from(low), self.shortest_from(high));
        // How many times as long as the first shares say passes of about so many positions take.
        let (pace, pace_after) = (before / first_share(low), after / first_share(high));
        let share = if high > low { (positions - low) as f64 / (high - low) as f64 } else { 0.0 };
        let expected = (pace + (pace_after - pace) * share) * first_share(positions);
        let least = if low <= positions { before } else { 0.0 };
        let most = if high >= positions { after } else { f64::INFINITY };
        expected.clamp(least, most)
    }

    /// Seconds of a pass as it usually is, interruptions included.
    pub(super) fn usual(&self, positions: usize) -> f64 {
        let measured = self.measured.get(&positions).and_then(Recent::usual);
        measured.unwrap_or_else(|| self.of(positions))
    }

    /// The shortest time of the passes of at least so many positions. More positions never take less time: where the
    /// times say so, the pass of fewer positions was interrupted.
    fn shortest_from(&self, positions: usize) -> f64 {
        self.measured
            .range(positions..)
            .filter_map(|(_, recent)| recent.shortest())
            .fold(f64::INFINITY, f64::min)
    }
}

/// The line through [`FIRST_SHARES`], which goes on beyond the last.
fn first_share(positions: usize) -> f64 {
    let upper = FIRST_SHARES.iter().position(|&(measured, _)| measured >= positions);
    let upper = upper.unwrap_or(FIRST_SHARES.len() - 1).max(1);
    let ((low, before), (high, after)) = (FIRST_SHARES[upper - 1], FIRST_SHARES[upper]);
    before + (after - before) * (positions as f64 - low as f64) / (high - low) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn costs(times: &[(usize, u32)]) -> PassCosts {
        let mut costs = PassCosts::default();
        times.iter().for_each(|&(positions, time)| costs.learn(positions, time * MILLISECOND));
        costs
    }

    /// The costs in milliseconds.
    fn of<const N: usize>(costs: &PassCosts, positions: [usize; N]) -> [f64; N] {
        positions.map(|positions| (costs.of(positions) * 1e6).round() / 1e3)
    }

    #[test]
    fn one_pass_tells_what_others_cost() {
        assert_eq!(of(&PassCosts::default(), [1, 8]), [0.0, 0.0]);
        assert_eq!(
            of(&costs(&[(1, 10)]), [1, 2, 3, 4, 6, 8, 16, 20]),
            [10.0, 10.5, 11.75, 13.0, 17.5, 22.0, 42.0, 52.0]
        );
        assert_eq!(of(&costs(&[(4, 13)]), [1, 4, 8]), [10.0, 13.0, 22.0]);
    }

    #[test]
    fn what_was_measured_counts_and_bends_what_lies_around() {
        // Passes of eight take half of what was thought, those of six a quarter less.
        let costs = costs(&[(4, 13), (8, 11), (8, 99)]);
        assert_eq!(of(&costs, [8, 16]), [11.0, 21.0]);
        // The pass of four was interrupted, or it would not take longer than one of eight.
        assert_eq!(of(&costs, [4, 6]), [11.0, 11.0]);
        assert!((costs.usual(8) * 1e3 - (11.0 + 13.75) / 2.0).abs() < 1e-9, "{}", costs.usual(8));
        assert_eq!(costs.usual(16), costs.of(16));
    }

    #[test]
    fn more_positions_never_cost_less() {
        assert_eq!(of(&costs(&[(1, 3), (2, 1), (4, 2)]), [1, 2, 3, 4]), [1.0, 1.0, 1.463, 2.0]);
        // A pass that was never measured is not shorter than a shorter one that was.
        assert_eq!(of(&costs(&[(2, 10), (16, 10)]), [2, 3, 8, 16]), [10.0, 10.0, 10.0, 10.0]);
    }
}
