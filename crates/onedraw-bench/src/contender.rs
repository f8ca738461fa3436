//! Who draws, and the rounds in which several take turns.

use crate::stopwatch::{Record, Stopwatch, Times};

/// Somebody who draws from rows it holds, and is timed.
pub trait Contender {
    /// The time of each draw from these rows, gone through in a circle, at positions from `position` on.
    fn times(&mut self, rows: &[usize], position: u32, watch: &Stopwatch) -> Times;
}

/// A function of the row's number and the position.
impl<F: FnMut(usize, u32)> Contender for F {
    fn times(&mut self, rows: &[usize], position: u32, watch: &Stopwatch) -> Times {
        watch.times(rows, position, self)
    }
}

/// Whether a row is in cache when it is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The same row again and again: in L2, where it fits.
    Hot,
    /// A circle of rows far larger than L2: from L3 or memory.
    Cold,
}

impl Cache {
    /// The name, as it stands in a report.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Hot => "hot",
            Cache::Cold => "cold",
        }
    }

    /// The circles in which `rows` rows are gone through: one for each row, or one of all.
    fn circles(self, rows: usize) -> Vec<Vec<usize>> {
        match self {
            Cache::Hot => (0..rows).map(|row| vec![row]).collect(),
            Cache::Cold => vec![(0..rows).collect()],
        }
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How often everybody has a turn.
    pub rounds: u32,
    /// A turn on one row, or on the circle of rows.
    pub turn: Stopwatch,
    /// The same for the floor.
    pub floor: Stopwatch,
}

/// Lets the contenders take turns, each between two looks at the floor in the same rows and the same state of
/// the caches. The records are the floor's and those of the contenders, in their order.
pub fn take_turns(
    floor: &mut dyn Contender,
    contenders: &mut [&mut dyn Contender],
    cache: Cache,
    rows: usize,
    effort: &Effort,
) -> (Record, Vec<Record>) {
    let (mut bare, mut records) = (Record::default(), vec![Record::default(); contenders.len()]);
    let turns = contenders.len() + 1;
    let mut look = 0;
    let mut look_at_floor = |circle: &[usize], bare: &mut Record| {
        bare.add(floor.times(circle, look, &effort.floor).uninterrupted());
        look += effort.floor.warm_up + effort.floor.draws;
    };
    for round in 0..effort.rounds {
        bare.begin_round();
        records.iter_mut().for_each(Record::begin_round);
        // Every round has positions of its own.
        let position = round * (effort.turn.warm_up + effort.turn.draws);
        for circle in cache.circles(rows) {
            for (turn, (contender, record)) in contenders.iter_mut().zip(&mut records).enumerate() {
                look_at_floor(&circle, &mut bare);
                // Elsewhere in the circle, so that nobody finds in cache what the one before has read.
                let ahead = circle.len() * (turn + 1) / turns;
                record.add(contender.times(&circle, position + ahead as u32, &effort.turn));
            }
            look_at_floor(&circle, &mut bare);
        }
    }
    (bare, records)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_floor_is_before_and_after_every_turn() {
        let seen = RefCell::new(Vec::new());
        let note = |name| {
            let seen = &seen;
            move |row: usize, _: u32| seen.borrow_mut().push((name, row))
        };
        let watch = Stopwatch { warm_up: 0, draws: 1, at_most: Duration::from_secs(1) };
        let effort = Effort { rounds: 1, turn: watch, floor: watch };
        let (mut a, mut b) = (note("a"), note("b"));
        let (floor, records) = take_turns(&mut note("floor"), &mut [&mut a, &mut b], Cache::Hot, 2, &effort);
        let turns = |row| [("floor", row), ("a", row), ("floor", row), ("b", row), ("floor", row)];
        assert_eq!(*seen.borrow(), [turns(0), turns(1)].concat());
        assert_eq!((floor.all().0.len(), records.len(), records[1].all().0.len()), (6, 2, 2));

        seen.borrow_mut().clear();
        take_turns(&mut note("floor"), &mut [&mut a, &mut b], Cache::Cold, 6, &effort);
        assert_eq!(*seen.borrow(), [("floor", 0), ("a", 2), ("floor", 1), ("b", 4), ("floor", 2)]);
    }
}
