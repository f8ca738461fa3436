//! Rotary positions. The two halves of a head are the coordinates of points in a plane, which are rotated by
//! an angle that grows with the position.

use crate::config::{Rope, Scaling};

/// The angles by which the pairs of a head rotate from one position to the next.
pub(crate) struct Rotations {
    angles: Vec<f64>,
}

/// The cosines and sines of one position.
#[derive(Clone, Default)]
pub(crate) struct Rotation {
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rotations {
    pub(crate) fn new(rope: Rope, head_size: usize) -> Self {
        let angle = |pair: usize| {
            let angle = libm::pow(rope.theta, -((2 * pair) as f64) / head_size as f64);
            scaled(rope.scaling, angle)
        };
        Self { angles: (0..head_size / 2).map(angle).collect() }
    }

    pub(crate) fn at(&self, position: usize) -> Rotation {
        let pairs = self.angles.iter().map(|angle| libm::sincos(position as f64 * angle));
        let (sines, cosines) = pairs.map(|(sine, cosine)| (sine as f32, cosine as f32)).unzip();
        Rotation { cosines, sines }
    }
}

fn scaled(scaling: Scaling, angle: f64) -> f64 {
    match scaling {
        Scaling::None => angle,
        Scaling::Linear(factor) => angle / factor,
        Scaling::Llama3 { factor, low, high, original } => {
            let wave = std::f64::consts::TAU / angle;
            if wave < original / high {
                return angle;
            }
            if wave > original / low {
                return angle / factor;
            }
            let share = (original / wave - low) / (high - low);
            (1.0 - share) * angle / factor + share * angle
        }
    }
}

impl Rotation {
    /// Rotates one head.
    pub(crate) fn rotate(&self, head: &mut [f32]) {
        let (first, second) = head.split_at_mut(self.cosines.len());
        let pairs = self.cosines.iter().zip(&self.sines);
        for ((a, b), (&cosine, &sine)) in first.iter_mut().zip(second).zip(pairs) {
            // Two products and a sum, each rounded: no machine fuses them.
            (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_keeps_lengths_and_adds_up() {
        let rotations = Rotations::new(Rope { theta: 10_000.0, scaling: Scaling::None }, 8);
        let head = [1.0, -2.0, 0.5, 3.0, 0.25, 1.5, -1.0, 2.0];
        let mut once = head;
        rotations.at(7).rotate(&mut once);
        rotations.at(5).rotate(&mut once);
        let mut at_once = head;
        rotations.at(12).rotate(&mut at_once);
        for (a, b) in once.iter().zip(at_once) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
        // Pair 0 rotates by one radian per position.
        assert!((at_once[0] - (1.0 * 12f32.cos() - 0.25 * 12f32.sin())).abs() < 1e-5);
    }

    #[test]
    fn llama3_stretches_long_waves_only() {
        let scaling = Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
        let tau = std::f64::consts::TAU;
        assert_eq!(scaled(scaling, tau / 2000.0), tau / 2000.0);
        assert_eq!(scaled(scaling, tau / 9000.0), tau / 9000.0 / 8.0);
        let between = scaled(scaling, tau / 4096.0);
        let share = (2.0 - 1.0) / 3.0;
        assert!((between - ((1.0 - share) / 8.0 + share) * tau / 4096.0).abs() < 1e-12);
        assert_eq!(scaled(Scaling::Linear(4.0), 0.5), 0.125);
    }
}
