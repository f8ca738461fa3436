//! The lazy draw in its shortest form, and deliberate mistakes in it.
//!
//! [`Model`] draws as the engine does: a skyline, a race in which only those blocks are opened that could
//! hold the winner, and a question to the truncations about the winner alone. Without a mistake it is tested
//! to give the engine's tokens. So it may stand in for the engine when a test shows that it would notice a
//! [`Mutant`].

use onedraw::SamplingParams;
use onedraw::key::Key;
use onedraw::mass::Softmax;
use onedraw::math::ln;
use onedraw::noise::{BLOCK, Noise, Purpose, exponential};
use onedraw::params::GREEDY_BELOW;

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// No mistake.
    None,
    /// The temperature is a tenth too high.
    Temperature,
    /// Top-p drops the token in which the mass crosses p.
    CrossingToken,
    /// The row's place in the batch is part of the noise's counter.
    RowKeyed,
    /// The lane of a block's smallest E is read from the word that made that E.
    LaneFromMinimum,
    /// Uniforms have 16 bits.
    CoarseUniforms,
    /// The skyline is that of the row before the edits.
    RawSkyline,
    /// After a rejected winner the race goes on among the blocks that were opened already.
    StalePruning,
}

/// So much may be wrong with a bound before it prunes a winner.
const MARGIN: f64 = 1.0 / 1024.0;

/// A row under parameters: all that a draw needs but the noise.
#[derive(Clone, Debug)]
pub struct Model {
    mutant: Mutant,
    seed: u64,
    is_greedy: bool,
    /// 1/T.
    inverse: f64,
    /// The logits after the edits, filled up with −inf to whole blocks.
    logits: Vec<f32>,
    /// The skyline: each block's largest logit.
    maxima: Vec<f32>,
    /// The largest of all.
    x_max: f32,
    /// The tokens alive in their order: logit descending, id ascending.
    order: Vec<Key>,
    /// The mass before each of them; last, the mass of all.
    mass: Vec<u64>,
    /// How many of them min-p and top-k keep.
    listed: usize,
    /// p as a fraction of 2^53; `None`: no top-p.
    top_p: Option<u128>,
}

impl Model {
    /// A model of `temperature`, `top_k`, `top_p`, `min_p` and `logit_bias`, in vLLM's order, for one
    /// sequence without a history.
    ///
    /// # Panics
    ///
    /// If any other parameter is set, the seed is not, or nothing of the row is alive.
    pub fn new(row: &[f32], params: &SamplingParams, mutant: Mutant) -> Self {
        let modelled = SamplingParams {
            temperature: params.temperature,
            top_k: params.top_k,
            top_p: params.top_p,
            min_p: params.min_p,
            logit_bias: params.logit_bias.clone(),
            seed: params.seed,
            ..SamplingParams::default()
        };
        assert_eq!(params, &modelled, "the model knows only these parameters");

        let mut logits = row.to_vec();
        logits.resize(row.len().next_multiple_of(BLOCK), f32::NEG_INFINITY);
        let raw = logits.clone();
        for (&token, &bias) in &params.logit_bias {
            let x = &mut logits[token as usize];
            if *x > f32::NEG_INFINITY {
                *x = (*x + bias as f32).clamp(-f32::MAX, f32::MAX);
            }
        }
        let skyline_of = if mutant == Mutant::RawSkyline { &raw } else { &logits };
        let largest = |lanes: &[f32]| lanes.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let maxima: Vec<f32> = skyline_of.chunks_exact(BLOCK).map(largest).collect();
        let x_max = largest(&maxima);

        let alive = (0..).zip(&logits).filter(|(_, x)| **x > f32::NEG_INFINITY);
        let mut order: Vec<Key> = alive.map(|(token, &x)| Key::new(x, token)).collect();
        order.sort_unstable();
        let is_greedy = params.temperature < GREEDY_BELOW;
        let factor = if mutant == Mutant::Temperature { 1.1 } else { 1.0 };
        let temperature = if is_greedy { 1.0 } else { params.temperature * factor };
        let softmax = Softmax::new(x_max, temperature);
        let mut mass = vec![0];
        for key in &order {
            // Only a raw skyline knows less than the largest logit.
            mass.push(mass[mass.len() - 1] + softmax.weight(key.logit().min(x_max)));
        }
        let threshold = if params.min_p > 0.0 { temperature * ln(params.min_p) } else { f64::NEG_INFINITY };
        let likely = order.partition_point(|key| f64::from(key.logit()) - f64::from(x_max) >= threshold);
        let top_k = if params.top_k > 0 { params.top_k as usize } else { usize::MAX };
        let fraction = || ((params.top_p * 9_007_199_254_740_992.0).round() as u128).max(1);
        Self {
            mutant,
            seed: params.seed.expect("a model needs a seed"),
            is_greedy,
            inverse: 1.0 / temperature,
            logits,
            maxima,
            x_max,
            order,
            mass,
            listed: likely.min(top_k),
            top_p: (params.top_p < 1.0).then(fraction),
        }
    }

    /// The token at a position. The row's place in its batch means nothing, but to one mutant.
    pub fn draw(&self, position: u32, place: u32) -> u32 {
        if self.is_greedy {
            return self.order[0].token();
        }
        let sequence = if self.mutant == Mutant::RowKeyed { place } else { 0 };
        let noise = Noise { seed: self.seed, position, sequence, round: 0 };
        let minima = self.minima(&noise);
        let mut blocks: Vec<usize> = (0..minima.len()).collect();
        let mut before = None;
        loop {
            let (winner, opened) = self.race(&noise, &minima, &blocks, before);
            match winner {
                Some(winner) if self.keeps(winner) => return winner.token(),
                // Nothing after it in the order is kept either: the race goes on before it.
                Some(winner) => before = Some(winner),
                None => return self.order[0].token(),
            }
            if self.mutant == Mutant::StalePruning {
                blocks = opened;
            }
        }
    }

    /// Whether the truncations keep a token: asked for its place in the order and the mass before it.
    fn keeps(&self, key: Key) -> bool {
        let place = self.order.partition_point(|&other| other < key);
        let total = u128::from(self.mass[self.listed]);
        let before = self.mass[if self.mutant == Mutant::CrossingToken { place + 1 } else { place }];
        let is_below = |p: u128| u128::from(before) << 53 < p * total;
        place == 0 || place < self.listed && self.top_p.is_none_or(is_below)
    }

    /// The first token before `before`, among those of `blocks`, to finish, and the blocks that were opened
    /// to find it.
    fn race(
        &self,
        noise: &Noise,
        minima: &[f64],
        blocks: &[usize],
        before: Option<Key>,
    ) -> (Option<Key>, Vec<usize>) {
        // No token has a larger logit than its block's largest, nor a smaller E than its block's smallest.
        let bound = |&block: &usize| (self.scaled(self.maxima[block]) - ln(minima[block]), block);
        let mut contenders: Vec<(f64, usize)> = blocks.iter().map(bound).collect();
        let mut opened = Vec::new();
        let mut best: Option<(f64, Key)> = None;
        let highest = |contenders: &[(f64, usize)]| {
            (0..contenders.len()).max_by(|&a, &b| contenders[a].0.total_cmp(&contenders[b].0))
        };
        while let Some(next) = highest(&contenders) {
            let (_, block) = contenders.swap_remove(next);
            opened.push(block);
            for (lane, e) in self.block(noise, block, minima[block]).into_iter().enumerate() {
                let token = block * BLOCK + lane;
                let x = self.logits[token];
                let key = Key::new(x, token as u32);
                if x == f32::NEG_INFINITY || before.is_some_and(|before| key >= before) {
                    continue;
                }
                let score = self.scaled(x) - ln(e);
                if best.is_none_or(|(highest, leader)| {
                    score > highest || score == highest && key.token() < leader.token()
                }) {
                    best = Some((score, key));
                }
            }
            contenders.retain(|&(bound, _)| best.is_none_or(|(highest, _)| bound + MARGIN >= highest));
        }
        (best.map(|(_, key)| key), opened)
    }

    /// `y`, the logarithm of a weight.
    fn scaled(&self, x: f32) -> f64 {
        (f64::from(x) - f64::from(self.x_max)) * self.inverse
    }

    /// The smallest E of every block: an exponential of mean 1/64.
    fn minima(&self, noise: &Noise) -> Vec<f64> {
        let calls = (0..self.maxima.len().div_ceil(4) as u32).map(|i| noise.words(Purpose::BlockMinimum, i));
        calls.flatten().take(self.maxima.len()).map(|word| self.exponential(word) / BLOCK as f64).collect()
    }

    /// Every E of a block: one lane has the smallest, the others that and a fresh exponential.
    fn block(&self, noise: &Noise, block: usize, minimum: f64) -> [f64; BLOCK] {
        let lane_from =
            if self.mutant == Mutant::LaneFromMinimum { Purpose::BlockMinimum } else { Purpose::BlockLane };
        let first = noise.words(lane_from, block as u32 / 4)[block % 4] >> 26;
        let mut times = [minimum; BLOCK];
        for (lane, time) in times.iter_mut().enumerate().filter(|(lane, _)| *lane != first as usize) {
            let token = block * BLOCK + lane;
            *time += self.exponential(noise.words(Purpose::Token, token as u32 / 4)[token % 4]);
        }
        times
    }

    fn exponential(&self, word: u32) -> f64 {
        exponential(if self.mutant == Mutant::CoarseUniforms { word & 0xffff_0000 } else { word })
    }
}
