//! What a sequence carries beside its tokens, and what of it each token found: so that tokens can be taken back.

use serde::{Deserialize, Serialize};

use crate::edit::Ban;

/// Where the sequence stands. It counts as history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// Mirostat's, in bits.
    pub mu: f64,
    /// How often text was taken back because of what was drawn: such a position needs fresh noise.
    pub round: u32,
    /// What must not be drawn again, and where.
    pub bans: Vec<Ban>,
    /// What each of the last output tokens found.
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    mu: f64,
    round: u32,
}

impl Path {
    pub(crate) fn new(mu: f64) -> Self {
        Self { mu, round: 0, bans: Vec::new(), marks: Vec::new() }
    }

    /// Whether it can belong to an output of so many tokens.
    pub(crate) fn fits(&self, output: usize) -> bool {
        let is_sound = |mu: f64, round: u32| mu.is_finite() && round < 1 << 24;
        self.marks.len() <= output
            && is_sound(self.mu, self.round)
            && self.marks.iter().all(|mark| is_sound(mark.mu, mark.round))
    }

    /// Whether anything is banned at this position.
    pub(crate) fn has_bans_at(&self, position: u32) -> bool {
        self.bans.iter().any(|ban| ban.position == position)
    }

    pub(crate) fn reserve(&mut self, tokens: usize) {
        self.marks.reserve(tokens);
    }

    /// A token is appended, after which mirostat stands at `mu`.
    pub(crate) fn push(&mut self, mu: f64) {
        self.marks.push(Mark { mu: self.mu, round: self.round });
        self.mu = mu;
    }

    /// An undo, from `output` tokens to `length`: as it was before the token that goes first was drawn. Bans after that place were
    /// made under tokens that are gone.
    pub(crate) fn rewind(&mut self, output: usize, length: usize) {
        if length >= output {
            return;
        }
        let kept = self.marks.len().saturating_sub(output - length);
        if let Some(mark) = self.marks.get(kept) {
            (self.mu, self.round) = (mark.mu, mark.round);
        }
        self.marks.truncate(kept);
        self.bans.retain(|ban| ban.position as usize <= length);
    }

    /// Takes text back for good, from `output` tokens to `length`, and bans the token that stood there.
    pub(crate) fn take_back(&mut self, output: usize, length: usize, token: u32) {
        let round = self.round;
        self.rewind(output, length);
        // The upper 24 bits of the noise's last counter word.
        self.round = (round + 1) & 0x00ff_ffff;
        self.bans.push(Ban { position: length as u32, token });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undo_finds_what_the_token_found() {
        let mut path = Path::new(10.0);
        path.push(9.0);
        path.push(8.0);
        path.take_back(2, 1, 77);
        assert_eq!((path.mu, path.round, &path.bans[..]), (9.0, 1, &[Ban { position: 1, token: 77 }][..]));
        path.push(7.0);
        path.push(6.0);
        let later = path.clone();
        path.rewind(3, 1);
        assert_eq!((path.mu, path.round, path.bans.len()), (9.0, 1, 1), "the ban still stands");
        path.rewind(1, 0);
        assert_eq!(path, Path::new(10.0), "and goes with the token before it");
        path.rewind(0, 5);
        assert_eq!(path, Path::new(10.0));
        // Text that was there before the path began.
        let mut path = later;
        path.rewind(13, 2);
        assert_eq!((path.mu, path.round), (10.0, 0));
    }

    #[test]
    fn a_path_belongs_to_its_output() {
        let mut path = Path::new(10.0);
        path.push(9.0);
        assert!(path.fits(1) && path.fits(7) && !path.fits(0));
        path.mu = f64::INFINITY;
        assert!(!path.fits(1));
    }
}
