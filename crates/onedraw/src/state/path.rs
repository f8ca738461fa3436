//! The state of a sequence beside its tokens. It is recorded for each position, so that tokens can be taken
//! back.

use serde::{Deserialize, Serialize};

/// The way back to before a banned phrase: the first `length` tokens of the output stay. Those after them
/// were never shown and are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rewind {
    /// How many tokens stay, including those of [`SamplingParams::output_token_ids`]. This is also the
    /// position of the next draw.
    ///
    /// [`SamplingParams::output_token_ids`]: crate::SamplingParams::output_token_ids
    pub length: usize,
    /// The token that stood at that position. It is banned there now.
    pub token: u32,
    /// The index of the phrase in [`SamplingParams::banned_strings`](crate::SamplingParams::banned_strings).
    pub phrase: usize,
}

/// A token that must not be drawn at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ban {
    /// The position: the number of output tokens before it.
    pub position: u32,
    /// The banned id.
    pub token: u32,
}

/// The state of a sequence and its changes. It is part of the history: draws depend on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// The states, each with the position from which it holds. The first holds from position 0 and the last
    /// holds now; the list is never empty.
    states: Vec<State>,
    /// The tokens that must not be drawn again, with their positions.
    pub bans: Vec<Ban>,
}

/// The state from one position on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    position: u32,
    /// Mirostat's mu, in bits.
    pub mu: f64,
    /// How often text was taken back because of what was drawn. A position that is drawn again needs fresh
    /// noise.
    pub round: u32,
}

impl Path {
    /// The path of a new sequence.
    pub(crate) fn new(mu: f64) -> Self {
        Self { states: vec![State { position: 0, mu, round: 0 }], bans: Vec::new() }
    }

    /// The current state.
    pub(crate) fn state(&self) -> State {
        self.states[self.states.len() - 1]
    }

    /// Whether this path can belong to an output of `output` tokens. Used for paths that were read from a
    /// file.
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

    /// The tokens that are banned at this position.
    pub(crate) fn bans_at(&self, position: u32) -> impl Iterator<Item = u32> {
        self.bans.iter().filter(move |ban| ban.position == position).map(|ban| ban.token)
    }

    /// Reserves memory for `changes` more changes.
    pub(crate) fn reserve(&mut self, changes: usize) {
        self.states.reserve(changes);
    }

    /// Records that a token was appended, so that the output now has `output` tokens, and that mirostat's mu
    /// is now `mu`.
    pub(crate) fn push(&mut self, output: usize, mu: f64) {
        let state = self.state();
        if mu != state.mu {
            self.states.push(State { position: output as u32, mu, ..state });
        }
    }

    /// Undoes the path to `length` tokens: the state is again what it was when the next token was drawn. Bans
    /// at later positions are removed, because they were made after tokens that are gone.
    pub(crate) fn rewind(&mut self, length: usize) {
        while self.state().position as usize > length {
            self.states.pop();
        }
        self.bans.retain(|ban| ban.position as usize <= length);
    }

    /// Takes text back because of what was drawn, to `length` tokens, and bans `token` at that position.
    /// Unlike [`Path::rewind`] this counts as a new round, so the positions after it get fresh noise.
    pub(crate) fn take_back(&mut self, length: usize, token: u32) {
        // The round is stored in the upper 24 bits of the last counter word of the noise.
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

    /// A text that existed before the path began, as in a sequence that is resumed.
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
