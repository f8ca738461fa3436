//! The logprobs of several draws as arrays of one width, as engines hand them on.

use std::collections::HashSet;

use onedraw::Sampled;

/// Arrays with a line for each draw.
pub struct Table {
    /// The drawn token, then the best tokens in order.
    pub tokens: Vec<i32>,
    /// Their logprobs.
    pub logprobs: Vec<f32>,
    /// The rank of the drawn token.
    pub ranks: Vec<i64>,
}

impl Table {
    /// The table with `best` best tokens in each line. Where a draw lists fewer, the first ids of the vocabulary that
    /// it does not list follow, with a logprob of −inf; they may not suffice if the vocabulary is too small.
    pub fn new(draws: &[Sampled], best: usize, vocabulary: usize) -> Self {
        let width = best + 1;
        let mut table = Self {
            tokens: Vec::with_capacity(draws.len() * width),
            logprobs: Vec::with_capacity(draws.len() * width),
            ranks: draws.iter().map(|draw| draw.rank.map_or(0, i64::from)).collect(),
        };
        for (draw, end) in draws.iter().zip((width..).step_by(width)) {
            table.push(draw.token, draw.logprob.unwrap_or(f64::NEG_INFINITY));
            let Some((drawn, others)) = draw.logprobs.split_first() else {
                table.fill(draw.token, &[], end, vocabulary);
                continue;
            };
            // The drawn token stands first, and again at its place among the best.
            let place = (drawn.rank as usize).saturating_sub(1).min(others.len());
            let is_best = drawn.rank as usize == place + 1;
            let (before, after) = others.split_at(place);
            let ordered = before.iter().chain(is_best.then_some(drawn)).chain(after);
            for entry in ordered.take(best) {
                table.push(entry.token, entry.logprob);
            }
            table.fill(draw.token, others, end, vocabulary);
        }
        table
    }

    fn push(&mut self, token: u32, logprob: f64) {
        self.tokens.push(token as i32);
        self.logprobs.push(logprob as f32);
    }

    /// Fills a line up to `end`.
    fn fill(&mut self, drawn: u32, others: &[onedraw::TokenLogprob], end: usize, vocabulary: usize) {
        if self.tokens.len() == end {
            return;
        }
        let listed: HashSet<u32> = others.iter().map(|entry| entry.token).chain([drawn]).collect();
        for token in (0..vocabulary as u32).filter(|token| !listed.contains(token)) {
            if self.tokens.len() == end {
                return;
            }
            self.push(token, f64::NEG_INFINITY);
        }
        while self.tokens.len() < end {
            self.push(drawn, f64::NEG_INFINITY);
        }
    }
}
