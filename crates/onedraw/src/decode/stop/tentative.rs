//! The last tokens, for as long as a banned phrase may take them back.

/// The tokens since the text last ended in no beginning of a banned phrase, each with what is needed to go
/// back to before it.
#[derive(Clone, Debug, Default)]
pub(super) struct TentativeTokens {
    tokens: Vec<TentativeToken>,
    /// The states of all automata before each token, one token after the other.
    states: Vec<usize>,
}

/// A token that may be taken back.
#[derive(Clone, Copy, Debug)]
struct TentativeToken {
    id: u32,
    /// Where its bytes begin in the text held back. This index stays valid: while there is a tentative token,
    /// nothing is shown.
    start: usize,
}

/// A token that was taken back, and where it stood.
pub(super) struct TakenBack {
    pub(super) id: u32,
    /// Where its bytes began.
    pub(super) start: usize,
    /// How many tokens were taken back: this one and those after it.
    pub(super) tokens: usize,
}

impl TentativeTokens {
    /// Adds a token whose bytes begin at `start`; `states` are the states before it.
    pub(super) fn push(&mut self, id: u32, start: usize, states: &[usize]) {
        self.tokens.push(TentativeToken { id, start });
        self.states.extend_from_slice(states);
    }

    /// Goes back to before the token that holds the byte with index `byte`, and restores the states of that
    /// moment. There must be such a token.
    pub(super) fn take_back(&mut self, byte: usize, states: &mut [usize]) -> TakenBack {
        // The last token that begins at the byte or before it. Of tokens that begin at the same byte, all but
        // the last are empty.
        let place = self.tokens.partition_point(|token| token.start <= byte) - 1;
        let TentativeToken { id, start } = self.tokens[place];
        let tokens = self.tokens.len() - place;
        states.copy_from_slice(&self.states[place * states.len()..][..states.len()]);
        self.states.truncate(place * states.len());
        self.tokens.truncate(place);
        TakenBack { id, start, tokens }
    }

    /// Forgets all tokens, because none can be taken back any more.
    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.states.clear();
    }
}
