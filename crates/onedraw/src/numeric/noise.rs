//! The noise: random numbers that can be computed for any token alone, in any order. They are Philox4x32-10
//! with the seed as key and (index, position, sequence, purpose) as counter.
//!
//! Each token i has an `E_i`, exponential with mean 1, and finishes the race at `E_i / w_i`. The noise has
//! two layers, which together have exactly the distribution of independent exponentials. The smallest E of a
//! block of 64 is `M = Exp(1)/64`, the lane that has it is uniform, and every other lane is `M` plus a fresh
//! Exp(1), because the exponential distribution has no memory. So one random word per block bounds the noise
//! of all its 64 tokens.
//!
//! The noise of speculation also depends on the depth: how many tokens of the draft stand before the
//! position, modulo 2^12. A draft may look at the noise of positions that it then gives up, and block
//! verification gives them up because of what it saw there. The next draft reaches such a position at another
//! depth and finds fresh noise. Ids are below 2^20, so the depth shares no bits with the rest of the index.
//! Two drafts of one round reach a position at the same depth only if one begins where the other did, after
//! an undo, or 4,096 tokens after it, which is longer than any draft.

use crate::numeric::math::ln;

/// The number of tokens in a block: `block = id / 64`. It is part of the definition, because the noise uses
/// it.
pub const BLOCK: usize = 64;

/// What a random word is used for. Each purpose has a random stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The smallest E of a block; index block/4, word block%4.
    BlockMinimum = 0,
    /// The lane that has the smallest E, in the top six bits of the word; indexed like `BlockMinimum`.
    BlockLane = 1,
    /// A token's own exponential; index id/4, word id%4.
    Token = 2,
    /// XTC's coin; index: the number of XTC stages before it in the order, word 0.
    Xtc = 3,
    /// Speculation: a token that a drafter may guess; index id/4 + depth·2^20, word id%4.
    Draft = 4,
    /// Speculation: whether a guess is accepted; index its number among its siblings + depth·2^20, words 0
    /// and 1.
    Accept = 5,
    /// Speculation: the token after the accepted guesses; indexed like `Draft`.
    Residual = 6,
    /// Stochastic beams: a token after a beam; index id/4, word id%4, and the index of the beam as the
    /// sequence. The root has the last word of all.
    Beam = 7,
}

/// The noise of one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// The seed.
    pub seed: u64,
    /// The number of output tokens before this one.
    pub position: u32,
    /// Which of the `n` sequences of a prompt this is.
    pub sequence: u32,
    /// How often text was taken back because of what was drawn, below 2^24: a position that is drawn again
    /// needs fresh noise.
    pub round: u32,
}

impl Noise {
    /// Four random words of one purpose.
    #[inline(always)]
    pub fn words(&self, purpose: Purpose, index: u32) -> [u32; 4] {
        let counter = [index, self.position, self.sequence, purpose as u32 | self.round << 8];
        philox4x32_10([self.seed as u32, (self.seed >> 32) as u32], counter)
    }

    /// XTC's coin, uniform in (0, 1): `(bits + ½) / 2^32`, for the XTC stage that has `index` XTC stages
    /// before it.
    pub fn xtc(&self, index: u32) -> f64 {
        (f64::from(self.words(Purpose::Xtc, index)[0]) + 0.5) / 4_294_967_296.0
    }

    /// The coin that decides whether a guess is accepted, uniform in (0, 1): `(bits + ½) / 2^52`, which is
    /// exact.
    pub fn coin(&self, depth: u32, guess: u32) -> f64 {
        let [high, low, ..] = self.words(Purpose::Accept, guess | (depth << 20));
        let bits = (u64::from(high) << 20) | u64::from(low >> 12);
        (bits as f64 + 0.5) / 4_503_599_627_370_496.0
    }

    /// The exponential of a token in the races of speculation; `purpose` is [`Purpose::Draft`] or
    /// [`Purpose::Residual`].
    pub fn runner(&self, purpose: Purpose, depth: u32, id: u32) -> f64 {
        exponential(self.words(purpose, (id / 4) | (depth << 20))[id as usize % 4])
    }

    /// `M`: the smallest E of a block of 64 tokens.
    #[inline]
    pub fn block_minimum(&self, block: u32) -> f64 {
        exponential(self.words(Purpose::BlockMinimum, block / 4)[block as usize % 4]) / BLOCK as f64
    }

    /// The lane of the block that has the smallest E.
    #[inline]
    pub fn block_lane(&self, block: u32) -> u32 {
        self.words(Purpose::BlockLane, block / 4)[block as usize % 4] >> 26
    }

    /// `E` of one token, computed alone.
    pub fn token(&self, id: u32) -> f64 {
        let block = id / BLOCK as u32;
        let minimum = self.block_minimum(block);
        if self.block_lane(block) == id % BLOCK as u32 {
            minimum
        } else {
            minimum + exponential(self.words(Purpose::Token, id / 4)[id as usize % 4])
        }
    }
}

/// An exponential with mean 1 from 32 random bits: `−ln(1 − u)`, `u = (bits + ½) / 2^32`.
///
/// u and 1 − u are exact in f64, so the result is precise near 0, where the winners are. The result is in
/// [2^-33, 22.9].
#[inline]
pub fn exponential(bits: u32) -> f64 {
    -ln(1.0 - (f64::from(bits) + 0.5) / 4_294_967_296.0)
}

/// Philox4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3;
/// 2011).
#[inline(always)]
pub fn philox4x32_10(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [mut k0, mut k1] = key;
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    for _ in 0..10 {
        let p0 = u64::from(c0) * 0xd251_1f53;
        let p1 = u64::from(c2) * 0xcd9e_8d57;
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors of Philox published.
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox4x32_10([0; 2], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let ones = u32::MAX;
        assert_eq!(philox4x32_10([ones; 2], [ones; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32_10([0xa409_3822, 0x299f_31d0], [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn philox_equals_another_implementation() {
        for i in 0..100_000u32 {
            let word = |j: u32| (i * 8 + j).wrapping_mul(0x9e37_79b9) ^ i;
            let (key, counter) = ([word(0), word(1)], [word(2), word(3), word(4), word(5)]);
            assert_eq!(philox4x32_10(key, counter), rand_philox::philox4x32_10(counter, key));
        }
    }

    #[test]
    fn exponential_spans_its_range_and_has_mean_one() {
        assert_eq!(exponential(0), core_math::log1p(-0.5 / 4_294_967_296.0).abs());
        assert!((exponential(u32::MAX) - 22.873_856_958_478_196).abs() < 1e-12);
        let mean = (0..1_000_000u64)
            .map(|i| exponential((i * 4_294_967_296 / 1_000_000) as u32))
            .fold(0.0, |a, b| a + b)
            / 1e6;
        assert!((mean - 1.0).abs() < 1e-3, "{mean}");
    }

    #[test]
    fn words_are_addressed_as_documented() {
        let noise = Noise { seed: 0x0123_4567_89ab_cdef, position: 7, sequence: 3, round: 2 };
        let key = [0x89ab_cdef, 0x0123_4567];
        assert_eq!(noise.words(Purpose::Token, 99), philox4x32_10(key, [99, 7, 3, 2 | 2 << 8]));
        let m = exponential(philox4x32_10(key, [5, 7, 3, 2 << 8])[1]) / 64.0;
        assert_eq!(noise.block_minimum(21), m);
        let lane = philox4x32_10(key, [5, 7, 3, 1 | 2 << 8])[1] >> 26;
        assert_eq!(noise.block_lane(21), lane);
        assert_eq!(noise.token(21 * 64 + lane), m);
        let other = 21 * 64 + (lane + 1) % 64;
        let words = philox4x32_10(key, [other / 4, 7, 3, 2 | 2 << 8]);
        assert_eq!(noise.token(other), m + exponential(words[other as usize % 4]));
        let coin = philox4x32_10(key, [1, 7, 3, 3 | 2 << 8])[0];
        assert_eq!(noise.xtc(1), (f64::from(coin) + 0.5) / 4_294_967_296.0);
        let words = philox4x32_10(key, [6 + (5 << 20), 7, 3, 4 | 2 << 8]);
        assert_eq!(noise.runner(Purpose::Draft, 5, 26), exponential(words[2]));
        let words = philox4x32_10(key, [6 + (5 << 20), 7, 3, 6 | 2 << 8]);
        assert_eq!(noise.runner(Purpose::Residual, 5, 26), exponential(words[2]));
        let [high, low, ..] = philox4x32_10(key, [2 + (5 << 20), 7, 3, 5 | 2 << 8]);
        let uniform = f64::from(high) / 4_294_967_296.0 + f64::from(low) / 18_446_744_073_709_551_616.0;
        assert!((noise.coin(5, 2) - uniform).abs() < 2.3e-16);
        assert_eq!(noise.coin(5 + 4096, 2), noise.coin(5, 2), "the depth is counted modulo 2^12");
    }
}
