//! One string, looked for in a text that comes byte by byte.

/// A stop string or a banned phrase as the automaton of Knuth, Morris and Pratt.
///
/// The state is the number of bytes of the phrase that the text ends with. If the next byte does not go on
/// with them, the next shorter suffix of the text that is a prefix of the phrase is tried, and so on: the
/// phrase's own shape says which that is, so the text is never read again. A step costs O(1) on average over
/// the text.
///
/// One automaton a phrase rather than one for all: the state is just what has to be known to hold back no
/// byte too many.
#[derive(Clone, Debug)]
pub(super) struct Phrase {
    /// Its place in the parameters.
    pub(super) index: usize,
    bytes: Vec<u8>,
    /// `shorter[k]`: the longest proper suffix of the first k bytes that is a prefix of them.
    shorter: Vec<usize>,
}

impl Phrase {
    /// All of a list, in its order. None is empty;
    /// [`SamplingParams::validate`](crate::SamplingParams::validate) sees to it.
    pub(super) fn list(strings: &[String]) -> Vec<Self> {
        strings.iter().enumerate().map(|(index, string)| Self::new(index, string.as_bytes())).collect()
    }

    fn new(index: usize, bytes: &[u8]) -> Self {
        let mut phrase = Self { index, bytes: bytes.to_vec(), shorter: vec![0, 0] };
        // Run over itself, one byte late, the automaton finds the suffixes: it only looks at those found
        // before.
        let mut state = 0;
        for &byte in &bytes[1..] {
            state = phrase.step(state, byte);
            phrase.shorter.push(state);
        }
        phrase
    }

    /// In bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Every phrase takes the byte; the first in the list that it completes.
    pub(super) fn first_completed<'a>(list: &'a [Self], states: &mut [usize], byte: u8) -> Option<&'a Self> {
        let mut first = None;
        for (phrase, state) in list.iter().zip(states) {
            if phrase.advance(state, byte) && first.is_none() {
                first = Some(phrase);
            }
        }
        first
    }

    /// Takes a byte and says whether it completes the phrase. The state is then that of a proper prefix
    /// again.
    fn advance(&self, state: &mut usize, byte: u8) -> bool {
        *state = self.step(*state, byte);
        let complete = *state == self.bytes.len();
        if complete {
            *state = self.shorter[*state];
        }
        complete
    }

    /// The state after a byte; `state` is less than the length.
    fn step(&self, mut state: usize, byte: u8) -> usize {
        while state > 0 && self.bytes[state] != byte {
            state = self.shorter[state];
        }
        state + usize::from(self.bytes[state] == byte)
    }
}
