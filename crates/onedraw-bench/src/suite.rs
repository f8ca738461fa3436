//! onedraw, measured: single draws in and out of cache, the types of logits, batches and threads.

use std::hint::black_box;
use std::time::Duration;

use fearless_simd::Level;
use half::{bf16, f16};
use onedraw::{Batch, Kernel, Row, Sampler, SamplingParams, SequenceId, Step};

use crate::aligned::Aligned;
use crate::contender::{Cache, Contender, Effort, take_turns};
use crate::floor::bare_maximum;
use crate::report::{Judged, Line, Setting, Target, ToOther};
use crate::rows::Shape;
use crate::stopwatch::Stopwatch;
use crate::strategies::{self, Strategy};

/// The bytes of a circle of cold rows: many times an L2.
pub const COLD_BYTES: usize = 64 << 20;
/// The most a draw from bf16 or f16 may take of one from f32, out of cache.
pub const HALVES_TARGET: f64 = 0.8;
/// The least that a second thread should do for a batch of [`LARGEST_BATCH`].
pub const SPEED_UP_TARGET: f64 = 1.8;
/// The size of the batch that has a target.
pub const LARGEST_BATCH: usize = 64;
/// The sizes of batches.
pub const BATCHES: [usize; 2] = [8, LARGEST_BATCH];
/// The strategies that are measured out of cache.
pub const FOR_COLD: [&str; 4] = ["greedy", "temperature 0.8", "top-k 50, top-p 0.9", "top-p 0.9"];
/// The strategies that are measured in batches.
pub const FOR_BATCHES: [&str; 2] = ["temperature 0.8", "top-k 50, top-p 0.9"];

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The logits of a row.
    pub vocabulary: usize,
    /// Who reads the rows.
    pub kernel: Kernel,
    /// The strategies whose names have this in them.
    pub part_of_name: String,
    /// Different rows of each shape.
    pub rows: usize,
    /// Turns on rows in cache.
    pub hot: Effort,
    /// Turns on rows out of cache.
    pub cold: Effort,
    /// Turns of batches.
    pub batches: Effort,
}

impl Suite {
    /// Below a minute on two cores, for 128,256 logits.
    pub fn full(vocabulary: usize, kernel: Kernel, part_of_name: &str) -> Self {
        let turn = |warm_up, draws, milliseconds| Stopwatch {
            warm_up,
            draws,
            at_most: Duration::from_millis(milliseconds),
        };
        Self {
            vocabulary,
            kernel,
            part_of_name: part_of_name.to_owned(),
            rows: 5,
            hot: Effort { rounds: 5, turn: turn(5, 400, 20), floor: turn(5, 40, 10) },
            cold: Effort { rounds: 5, turn: turn(5, 300, 40), floor: turn(5, 100, 40) },
            batches: Effort { rounds: 5, turn: turn(1, 60, 60), floor: turn(5, 100, 40) },
        }
    }

    /// The same with a few draws: a look, not a measurement.
    pub fn quick(vocabulary: usize, kernel: Kernel, part_of_name: &str) -> Self {
        let full = Self::full(vocabulary, kernel, part_of_name);
        let fewer = |effort: Effort| {
            let part =
                |watch: Stopwatch| Stopwatch { draws: watch.draws / 5, at_most: watch.at_most / 5, ..watch };
            Effort { rounds: 3, turn: part(effort.turn), floor: part(effort.floor) }
        };
        let [hot, cold, batches] = [full.hot, full.cold, full.batches].map(fewer);
        Self { rows: 2, hot, cold, batches, ..full }
    }

    fn strategies(&self, among: &[&str]) -> Vec<&'static Strategy> {
        strategies::named(&self.part_of_name).filter(|strategy| among.contains(&strategy.name)).collect()
    }

    /// Measures everything; `progress` is told what is next.
    pub fn lines(&self, progress: &mut dyn FnMut(&str)) -> Vec<Line> {
        let mut lines = Vec::new();
        for shape in Shape::ALL {
            let rows: Vec<_> = (1..=self.rows as u64).map(|seed| shape.row(seed, self.vocabulary)).collect();
            let aligned: Vec<_> = rows.iter().map(|row| Aligned::new(row)).collect();
            for strategy in strategies::named(&self.part_of_name) {
                progress(&format!("measuring {}, {}", shape.name(), strategy.name));
                lines.push(self.hot_line(strategy, shape, &aligned));
            }
        }
        let rows: Vec<_> =
            (1..=self.rows as u64).map(|seed| Shape::Peaked.row(seed, self.vocabulary)).collect();
        let cold = cold_rows(&rows, cold_count(self.vocabulary), |logit| logit);
        lines.extend(self.cold_lines(&rows, &cold, progress));
        lines.extend(self.batch_lines(&cold, progress));
        lines
    }

    fn sampler(&self, strategy: &Strategy) -> Sampler {
        let sampler = Sampler::new(strategy.params(1, self.vocabulary)).expect("valid parameters");
        sampler.kernel(self.kernel)
    }

    fn setting(&self, shape: Shape, element: &'static str, cache: Cache) -> Setting {
        let (rows, cache, vocabulary) = (shape.name(), cache.name(), self.vocabulary);
        Setting { rows, element, vocabulary, cache, batch: 1, threads: 1 }
    }

    fn hot_line(&self, strategy: &Strategy, shape: Shape, rows: &[Aligned<f32>]) -> Line {
        let mut samplers = vec![self.sampler(strategy)];
        samplers.extend(strategy.beside.map(|beside| self.sampler(beside.strategy())));
        let mut draws: Vec<_> = samplers.iter_mut().map(|sampler| draws(sampler, rows)).collect();
        let mut contenders: Vec<&mut dyn Contender> =
            draws.iter_mut().map(|draw| draw as &mut dyn Contender).collect();
        let (floor, records) =
            take_turns(&mut floor(rows), &mut contenders, Cache::Hot, rows.len(), &self.hot);
        let target = strategy.targets.hot(shape.name(), self.vocabulary);
        let setting = self.setting(shape, "f32", Cache::Hot);
        let mut line = Line::new(strategy.name, setting, &records[0], &floor, target);
        line.to_other = strategy.beside.map(|beside| {
            let target = beside.target(shape.name()).map(Target::AtMost);
            ToOther { other: beside.name, ratio: Judged::new(records[0].ratio_to(&records[1]), target) }
        });
        line
    }

    /// The same draws from f32, bf16 and f16, in turns.
    fn cold_lines(
        &self,
        rows: &[Vec<f32>],
        cold: &[Aligned<f32>],
        progress: &mut dyn FnMut(&str),
    ) -> Vec<Line> {
        let strategies = self.strategies(&FOR_COLD);
        if strategies.is_empty() {
            return Vec::new();
        }
        let brains = cold_rows(rows, cold.len(), bf16::from_f32);
        let halves = cold_rows(rows, cold.len(), f16::from_f32);
        let mut by_element = [const { Vec::new() }; 3];
        for strategy in strategies {
            progress(&format!("measuring cold, {}", strategy.name));
            let [mut single, mut brain, mut half] = [(); 3].map(|()| self.sampler(strategy));
            let mut contenders: [&mut dyn Contender; 3] = [
                &mut draws(&mut single, cold),
                &mut draws(&mut brain, &brains),
                &mut draws(&mut half, &halves),
            ];
            let (floor, records) =
                take_turns(&mut floor(cold), &mut contenders, Cache::Cold, cold.len(), &self.cold);
            for ((element, record), lines) in
                ["f32", "bf16", "f16"].into_iter().zip(&records).zip(&mut by_element)
            {
                let setting = self.setting(Shape::Peaked, element, Cache::Cold);
                let mut line = Line::new(strategy.name, setting, record, &floor, None);
                if element != "f32" {
                    line.to_f32 =
                        Some(Judged::new(record.ratio_to(&records[0]), Some(Target::AtMost(HALVES_TARGET))));
                }
                lines.push(line);
            }
        }
        by_element.concat()
    }

    /// Batches on one thread and on two, in turns.
    fn batch_lines(&self, cold: &[Aligned<f32>], progress: &mut dyn FnMut(&str)) -> Vec<Line> {
        let mut lines = Vec::new();
        for size in BATCHES {
            let mut by_threads = [const { Vec::new() }; 2];
            for strategy in self.strategies(&FOR_BATCHES) {
                progress(&format!("measuring batches of {size}, {}", strategy.name));
                let params = |row: usize| strategy.params(row as u64, self.vocabulary);
                let mut one = Sequences::new(size, params, 1, self.kernel, cold);
                let mut two = Sequences::new(size, params, 2, self.kernel, cold);
                let mut contenders: [&mut dyn Contender; 2] =
                    [&mut |_, position| one.draw(position), &mut |_, position| two.draw(position)];
                let (floor, records) =
                    take_turns(&mut floor(cold), &mut contenders, Cache::Cold, cold.len(), &self.batches);
                for ((threads, record), lines) in (1..).zip(&records).zip(&mut by_threads) {
                    let setting =
                        Setting { batch: size, threads, ..self.setting(Shape::Peaked, "f32", Cache::Cold) };
                    let mut line = Line::new(strategy.name, setting, record, &floor, None);
                    if threads > 1 {
                        let target = (size == LARGEST_BATCH).then_some(Target::AtLeast(SPEED_UP_TARGET));
                        line.speed_up = Some(Judged::new(records[0].ratio_to(record), target));
                    }
                    lines.push(line);
                }
            }
            lines.extend(by_threads.concat());
        }
        lines
    }
}

/// The floor as a contender.
pub fn floor(rows: &[Aligned<f32>]) -> impl FnMut(usize, u32) {
    let level = Level::new();
    move |row, _| {
        black_box(bare_maximum(level, black_box(rows[row].row())));
    }
}

/// onedraw as a contender. The history stays as it is, so that every draw is of the same kind.
pub fn draws<'a, T: Copy + Default>(
    sampler: &'a mut Sampler,
    rows: &'a [Aligned<T>],
) -> impl FnMut(usize, u32) + 'a
where
    &'a [T]: Into<Row<'a>>,
{
    move |row, position| drop(black_box(sampler.peek(black_box(rows[row].row()), position)))
}

/// How many rows of f32 fill [`COLD_BYTES`]; at least a batch.
pub fn cold_count(vocabulary: usize) -> usize {
    (COLD_BYTES / (vocabulary * size_of::<f32>()) + 1).max(LARGEST_BATCH)
}

/// So many copies of the rows, in turn.
pub fn cold_rows<T: Copy + Default>(
    rows: &[Vec<f32>],
    count: usize,
    convert: impl Fn(f32) -> T,
) -> Vec<Aligned<T>> {
    let converted: Vec<Vec<T>> =
        rows.iter().map(|row| row.iter().map(|&logit| convert(logit)).collect()).collect();
    converted.iter().cycle().take(count).map(|row| Aligned::new(row)).collect()
}

/// A batch of sequences, each with a seed of its own, that goes through the cold rows.
pub struct Sequences<'a> {
    batch: Batch,
    steps: Vec<Vec<Step<'a>>>,
}

impl<'a> Sequences<'a> {
    /// `size` sequences on so many threads; `params` are those of each.
    pub fn new(
        size: usize,
        params: impl Fn(usize) -> SamplingParams,
        threads: usize,
        kernel: Kernel,
        rows: &'a [Aligned<f32>],
    ) -> Self {
        let mut batch = Batch::new().threads(threads).kernel(kernel);
        let sequences: Vec<SequenceId> =
            (0..size).map(|row| batch.add(params(row)).expect("valid parameters")).collect();
        let step = |(sequence, row): (&SequenceId, &'a Aligned<f32>)| Step::new(*sequence, row.row());
        let steps =
            rows.chunks_exact(size).map(|rows| sequences.iter().zip(rows).map(step).collect()).collect();
        Self { batch, steps }
    }

    /// Draws the whole batch once.
    pub fn draw(&mut self, position: u32) {
        let steps = &self.steps[position as usize % self.steps.len()];
        drop(black_box(self.batch.peek(black_box(steps), position)));
    }
}
