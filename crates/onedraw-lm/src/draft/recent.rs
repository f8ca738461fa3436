//! The times that the same piece of work took lately.

use std::collections::VecDeque;
use std::time::Duration;

/// A time of more than this many times the shortest was interrupted, or did other work too, and counts as this much.
/// The same work on an idle machine seldom varies by as much.
pub(super) const INTERRUPTED: f64 = 1.25;

/// How many times are remembered: enough that one of them was not interrupted even on a busy machine, and few enough
/// to follow a machine that becomes slower.
const REMEMBERED: usize = 8;

/// The last times, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(VecDeque<f64>);

impl Recent {
    pub(super) fn learn(&mut self, time: Duration) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(time.as_secs_f64());
    }

    /// The shortest: what the work takes by itself. `None` if it was never measured.
    pub(super) fn shortest(&self) -> Option<f64> {
        self.0.iter().copied().reduce(f64::min)
    }

    /// What it takes on average, where interruptions count only so much.
    pub(super) fn usual(&self) -> Option<f64> {
        let most = INTERRUPTED * self.shortest()?;
        Some(self.0.iter().map(|time| time.min(most)).sum::<f64>() / self.0.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_count_only_so_much_and_old_times_not_at_all() {
        let mut recent = Recent::default();
        assert_eq!((recent.shortest(), recent.usual()), (None, None));
        [2, 3, 100].into_iter().for_each(|seconds| recent.learn(Duration::from_secs(seconds)));
        assert_eq!((recent.shortest(), recent.usual()), (Some(2.0), Some((2.0 + 2.5 + 2.5) / 3.0)));
        (0..REMEMBERED).for_each(|_| recent.learn(Duration::from_secs(8)));
        assert_eq!((recent.shortest(), recent.usual()), (Some(8.0), Some(8.0)));
    }
}
