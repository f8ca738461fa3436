//! The same sequences on the device and on the CPU, which must draw the same.

use onedraw::{Row, RowError, Sampled, SamplingParams, Step};
use onedraw_cuda::{Batch, Capacity, Device, Matrix, SequenceId, Turn};

use super::MaskPair;
use super::cases::MOST_LOGPROBS;

/// One sequence, by both its names.
pub type Pair = (SequenceId, onedraw::SequenceId);

pub struct Twins {
    pub device: Device,
    pub gpu: Batch,
    pub cpu: onedraw::Batch,
}

impl Twins {
    pub fn new(device: &Device, sequences: usize, vocabulary: usize) -> Self {
        let capacity = Capacity { sequences, rows: sequences, vocabulary, logprobs: MOST_LOGPROBS };
        let gpu = Batch::new(device, capacity).expect("a batch");
        Self { device: device.clone(), gpu, cpu: onedraw::Batch::new() }
    }

    /// Rows of the CPU on all its cores.
    pub fn on_all_cores(self) -> Self {
        Self { cpu: self.cpu.threads(0), ..self }
    }

    /// The seed must be set: each side would draw its own.
    pub fn add(&mut self, params: &SamplingParams) -> Pair {
        let gpu = self.gpu.add(params).unwrap_or_else(|error| panic!("{error}: {params:?}"));
        (gpu, self.cpu.add(params.clone()).expect("valid parameters"))
    }

    pub fn remove(&mut self, pair: Pair) {
        assert!(self.gpu.remove(pair.0));
        assert!(self.cpu.remove(pair.1));
    }

    /// What the CPU draws for the rows.
    pub fn expected<'a>(
        &mut self,
        pairs: &[Pair],
        row: impl Fn(usize) -> Row<'a>,
        masks: &[Option<&'a MaskPair>],
    ) -> Vec<Result<Sampled, RowError>> {
        let step = |(i, pair): (usize, &Pair)| {
            let mask = masks.get(i).copied().flatten().map(|mask| &mask.words[..]);
            Step { sequence: pair.1, row: row(i), mask }
        };
        let steps: Vec<_> = pairs.iter().enumerate().map(step).collect();
        self.cpu.sample(&steps)
    }

    /// The turns of the device.
    pub fn turns(&self, pairs: &[Pair], masks: &[Option<&MaskPair>]) -> Vec<Turn> {
        let turn = |(i, pair): (usize, &Pair)| {
            let mask = masks.get(i).copied().flatten().map(|mask| mask.mask(&self.device));
            Turn { sequence: pair.0, mask }
        };
        pairs.iter().enumerate().map(turn).collect()
    }

    /// Draws on both sides and compares everything that is said of each row.
    pub fn step<'a>(
        &mut self,
        pairs: &[Pair],
        matrix: &Matrix<'_>,
        row: impl Fn(usize) -> Row<'a>,
        masks: &[Option<&'a MaskPair>],
        what: &str,
    ) -> Vec<Result<Sampled, RowError>> {
        let expected = self.expected(pairs, row, masks);
        let turns = self.turns(pairs, masks);
        let drawn = self.gpu.sample(&turns, matrix).expect("a step");
        assert_eq!(drawn.len(), expected.len());
        for (i, (drawn, expected)) in drawn.iter().zip(&expected).enumerate() {
            let saved = self.cpu.save(pairs[i].1);
            assert_eq!(drawn, expected, "{what}, row {i}: {saved:?}");
        }
        drawn
    }
}
