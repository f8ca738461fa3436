//! What a sequence carries beside its tokens, and what of it each position found: so that tokens can be taken
//! back.

use serde::{Deserialize, Serialize};

/// Back to before a banned phrase: the first `length` tokens of the output stay, those after them were never
/// shown and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rewind {
    /// How many tokens stay, those of [`SamplingParams::output_token_ids`] included. It is also the position
    /// of the next draw.
    ///
    /// [`SamplingParams::output_token_ids`]: crate::SamplingParams::output_token_ids
    pub length: usize,
    /// The token that stood at that position: it is banned there now.
    pub token: u32,
    /// The phrase's place in [`SamplingParams::banned_strings`](crate::SamplingParams::banned_strings).
    pub phrase: usize,
}

/// A token that must not be drawn at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ban {
    /// The number of output tokens before it.
    pub position: u32,
    /// The id.
    pub token: u32,
}

/// Where the sequence stands. It counts as history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// From position 0 on, each with the position from which it holds. Never empty; the last holds now.
    states: Vec<State>,
    /// What must not be drawn again, and where.
    pub bans: Vec<Ban>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    position: u32,
    /// Mirostat's, in bits.
    pub mu: f64,
    /// How often text was taken back because of what was drawn: such a position needs fresh noise.
    pub round: u32,
}

impl Path {
    pub(crate) fn new(mu: f64) -> Self {
        Self { states: vec![State { position: 0, mu, round: 0 }], bans: Vec::new() }
    }

    /// What holds now.
    pub(crate) fn state(&self) -> State {
        self.states[self.states.len() - 1]
    }

    /// Whether it can belong to an output of so many tokens.
    pub(crate) fn fits(&self, output: usize) -> bool {
        let is_sound = |state: &State| state.mu.is_finite() && state.round < 1 << 24;
        self.states.first().is_some_and(|first| first.position == 0)
            && self.states.is_sorted_by(|a, b| a.position < b.position)
            && self.state().position as usize <= output
            && self.states.iter().all(is_sound)
    }

    /// Whether anything is banned at this position.
    pub(crate) fn has_bans_at(&self, position: u32) -> bool {
        self.bans.iter().any(|ban| ban.position == position)
    }

    /// Makes room for so many more changes.
    pub(crate) fn reserve(&mut self, changes: usize) {
        self.states.reserve(changes);
    }

    /// A token was appended, which makes `output` of them, and mirostat stands at `mu` now.
    pub(crate) fn push(&mut self, output: usize, mu: f64) {
        let state = self.state();
        if mu != state.mu {
            self.states.push(State { position: output as u32, mu, ..state });
        }
    }

    /// An undo to `length` tokens: what held before the token that goes first was drawn holds again. Bans
    /// after that place were made under tokens that are gone.
    pub(crate) fn rewind(&mut self, length: usize) {
        while self.state().position as usize > length {
            self.states.pop();
        }
        self.bans.retain(|ban| ban.position as usize <= length);
    }

    /// Takes text back for good, to `length` tokens, and bans the token that stood there.
    pub(crate) fn take_back(&mut self, length: usize, token: u32) {
        // The upper 24 bits of the noise's last counter word.
        let round = (self.state().round + 1) & 0x00ff_ffff;
        self.rewind(length);
        let (position, state) = (length as u32, self.state());
        self.states.retain(|state| state.position < position);
        self.states.push(State { position, round, ..state });
        self.bans.push(Ban { position, token });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(path: &Path) -> (f64, u32) {
        (path.state().mu, path.state().round)
    }

    #[test]
    fn an_undo_finds_what_the_token_found() {
        let mut path = Path::new(10.0);
        path.push(1, 9.0);
        path.push(2, 8.0);
        path.take_back(1, 77);
        assert_eq!((held(&path), &path.bans[..]), ((9.0, 1), &[Ban { position: 1, token: 77 }][..]));
        path.push(2, 7.0);
        path.push(3, 6.0);
        path.rewind(5);
        assert_eq!(held(&path), (6.0, 1), "nothing to undo");
        path.rewind(1);
        assert_eq!((held(&path), path.bans.len()), ((9.0, 1), 1), "the ban still stands");
        path.rewind(0);
        assert_eq!(path, Path::new(10.0), "and goes with the token before it");
        path.take_back(0, 5);
        path.take_back(0, 6);
        assert_eq!((held(&path), path.bans.len()), ((10.0, 2), 2));
    }

    /// Text that was there before the path began, as in a sequence that is resumed.
    #[test]
    fn an_undo_below_the_beginning_finds_the_beginning() {
        let mut path = Path::new(10.0);
        path.push(7, 9.0);
        path.take_back(4, 1);
        assert_eq!(held(&path), (10.0, 1));
        path.rewind(2);
        assert_eq!(path, Path::new(10.0));
    }

    #[test]
    fn a_path_belongs_to_its_output() {
        let mut path = Path::new(10.0);
        path.push(1, 9.0);
        assert!(path.fits(1) && path.fits(7) && !path.fits(0));
        path.push(2, f64::INFINITY);
        assert!(!path.fits(2));
        assert!(!Path { states: Vec::new(), bans: Vec::new() }.fits(2));
    }
}
