//! Searches for one string in a text that arrives byte by byte.

/// A stop string or a banned phrase as the automaton of Knuth, Morris and Pratt.
///
/// The state is the number of bytes of the phrase that the text ends with. If the next byte does not continue
/// them, the next shorter suffix of the text that is a prefix of the phrase is tried, and so on. That suffix
/// depends only on the phrase, so the text is never read again. A step costs O(1) on average over the text.
///
/// There is one automaton per phrase instead of one for all, because the state is exactly what must be known
/// to hold back no byte too many.
#[derive(Clone, Debug)]
pub(super) struct Phrase {
    /// The index of the string in the parameters.
    pub(super) index: usize,
    bytes: Vec<u8>,
    /// `shorter[k]` is the length of the longest proper suffix of the first k bytes that is also a prefix of
    /// the phrase.
    shorter: Vec<usize>,
}

impl Phrase {
    /// The phrases of a list, in its order. No string may be empty;
    /// [`SamplingParams::validate`](crate::SamplingParams::validate) checks that.
    pub(super) fn list(strings: &[String]) -> Vec<Self> {
        strings.iter().enumerate().map(|(index, string)| Self::new(index, string.as_bytes())).collect()
    }

    fn new(index: usize, bytes: &[u8]) -> Self {
        let mut phrase = Self { index, bytes: bytes.to_vec(), shorter: vec![0, 0] };
        // Running the automaton over the phrase itself, one byte late, finds the suffixes. It needs only
        // those that it has already found.
        let mut state = 0;
        for &byte in &bytes[1..] {
            state = phrase.step(state, byte);
            phrase.shorter.push(state);
        }
        phrase
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Advances every phrase by one byte. Returns the first phrase of the list that the byte completes.
    pub(super) fn first_completed<'a>(list: &'a [Self], states: &mut [usize], byte: u8) -> Option<&'a Self> {
        let mut first = None;
        for (phrase, state) in list.iter().zip(states) {
            if phrase.advance(state, byte) && first.is_none() {
                first = Some(phrase);
            }
        }
        first
    }

    /// Advances by one byte and returns whether it completes the phrase. In that case the state is afterwards
    /// that of a proper prefix again.
    fn advance(&self, state: &mut usize, byte: u8) -> bool {
        *state = self.step(*state, byte);
        let complete = *state == self.bytes.len();
        if complete {
            *state = self.shorter[*state];
        }
        complete
    }

    /// The state after one more byte. `state` is less than the length of the phrase.
    fn step(&self, mut state: usize, byte: u8) -> usize {
        while state > 0 && self.bytes[state] != byte {
            state = self.shorter[state];
        }
        state + usize::from(self.bytes[state] == byte)
    }
}
