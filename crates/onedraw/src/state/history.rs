//! The tokens of a sequence, and how often each was seen. The cost of a step depends on the number of
//! distinct tokens, not on the length of the text.

use std::collections::HashMap;

use crate::numeric::digest::mixed;

/// Prompt and output, with counts over the last `window` tokens. The counts are updated as tokens come and
/// go.
#[derive(Clone, Debug, Default)]
pub struct History {
    tokens: Vec<u32>,
    prompt: usize,
    /// Counts cover the last `window` tokens; 0 means all of them.
    window: usize,
    seen: Vec<Seen>,
    /// A number that stands for all tokens and their places.
    digest: u64,
    /// The index of each token in `seen`. It is only looked up, never iterated, so the order of the map does
    /// not matter.
    places: HashMap<u32, u32>,
}

/// How often one token occurs in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The id.
    pub token: u32,
    /// Its occurrences in the prompt's part of the window.
    pub in_prompt: u32,
    /// Its occurrences in the output's part of the window.
    pub in_output: u32,
}

impl History {
    /// A sequence that begins with `prompt` and `output`.
    pub fn new(prompt: &[u32], output: &[u32], window: u32) -> Self {
        let mut history = Self { prompt: prompt.len(), window: window as usize, ..Self::default() };
        history.reserve(prompt.len() + output.len());
        for &token in prompt.iter().chain(output) {
            history.push(token);
        }
        history
    }

    /// Reserves memory for `tokens` more tokens, so that pushing them allocates nothing.
    pub fn reserve(&mut self, tokens: usize) {
        self.tokens.reserve(tokens);
        self.seen.reserve(tokens);
        self.places.reserve(tokens);
    }

    /// The prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt]
    }

    /// The tokens written so far.
    pub fn output(&self) -> &[u32] {
        &self.tokens[self.prompt..]
    }

    /// How many tokens fit without another allocation. Others that grow with the history reserve the same.
    pub(crate) fn room(&self) -> usize {
        self.tokens.capacity()
    }

    /// Prompt and output.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// A number that stands for prompt and output: histories with different numbers are different. It is
    /// kept up to date as tokens come and go, so it costs nothing to ask for.
    pub(crate) fn digest(&self) -> u64 {
        mixed(self.digest ^ self.prompt as u64)
    }

    /// The distinct tokens of the window, in no particular order.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Appends a token to the output.
    pub fn push(&mut self, token: u32) {
        let index = self.tokens.len();
        self.tokens.push(token);
        self.digest = self.digest.wrapping_add(placed(index, token));
        self.count(index);
        if self.window > 0 && index >= self.window {
            self.uncount(index - self.window);
        }
    }

    /// Removes the last tokens until the output has `length` tokens. A longer length changes nothing.
    pub fn truncate_output(&mut self, length: usize) {
        while self.output().len() > length {
            let last = self.tokens.len() - 1;
            self.uncount(last);
            if self.window > 0 && last >= self.window {
                self.count(last - self.window);
            }
            self.digest = self.digest.wrapping_sub(placed(last, self.tokens[last]));
            self.tokens.pop();
        }
    }

    /// Counts the token at `index`.
    fn count(&mut self, index: usize) {
        let token = self.tokens[index];
        let place = *self.places.entry(token).or_insert_with(|| {
            self.seen.push(Seen { token, in_prompt: 0, in_output: 0 });
            self.seen.len() as u32 - 1
        });
        let seen = &mut self.seen[place as usize];
        if index < self.prompt { seen.in_prompt += 1 } else { seen.in_output += 1 }
    }

    /// Undoes the counting of the token at `index`.
    fn uncount(&mut self, index: usize) {
        let token = self.tokens[index];
        let Some(&place) = self.places.get(&token) else { return };
        let seen = &mut self.seen[place as usize];
        if index < self.prompt {
            seen.in_prompt -= 1
        } else {
            seen.in_output -= 1
        }
        if seen.in_prompt + seen.in_output == 0 {
            self.places.remove(&token);
            self.seen.swap_remove(place as usize);
            if let Some(moved) = self.seen.get(place as usize) {
                self.places.insert(moved.token, place);
            }
        }
    }
}

/// A token at its place, as a number that looks random. The sum of such numbers stands for a list of tokens.
fn placed(index: usize, token: u32) -> u64 {
    mixed((index as u64) << 32 ^ u64::from(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(history: &History) -> Vec<(u32, u32, u32)> {
        let mut seen: Vec<_> = history.seen().iter().map(|s| (s.token, s.in_prompt, s.in_output)).collect();
        seen.sort_unstable();
        seen
    }

    #[test]
    fn counts_prompt_and_output_apart() {
        let history = History::new(&[5, 5, 7], &[7, 9, 9], 0);
        assert_eq!(sorted(&history), [(5, 2, 0), (7, 1, 1), (9, 0, 2)]);
        assert_eq!((history.prompt(), history.output()), (&[5, 5, 7][..], &[7, 9, 9][..]));
    }

    #[test]
    fn other_histories_have_another_digest() {
        let histories: [(&[u32], &[u32]); 6] =
            [(&[], &[]), (&[1], &[2]), (&[1, 2], &[]), (&[2, 1], &[]), (&[], &[1, 2]), (&[0], &[1, 2])];
        let digests = histories.map(|(prompt, output)| History::new(prompt, output, 0).digest());
        for (i, digest) in digests.iter().enumerate() {
            assert!(!digests[..i].contains(digest), "{:?}", histories[i]);
        }
    }

    #[test]
    fn a_window_slides_over_the_border_of_prompt_and_output() {
        let mut history = History::new(&[5, 5, 7], &[7], 3);
        assert_eq!(sorted(&history), [(5, 1, 0), (7, 1, 1)]);
        history.push(9);
        assert_eq!(sorted(&history), [(7, 1, 1), (9, 0, 1)]);
        history.truncate_output(1);
        assert_eq!(sorted(&history), [(5, 1, 0), (7, 1, 1)]);
        history.truncate_output(0);
        assert_eq!(sorted(&history), [(5, 2, 0), (7, 1, 0)]);
        history.truncate_output(usize::MAX);
        assert_eq!((history.prompt(), history.output()), (&[5, 5, 7][..], &[][..]));
    }

    /// After any sequence of pushes and removals, the counts are those of counting from the beginning.
    #[test]
    fn incremental_counts_equal_fresh_ones() {
        for window in [0, 1, 2, 5, 40] {
            let mut history = History::new(&[1, 2, 3, 1], &[], window);
            let mut state = 1u64;
            for step in 0..500 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if state >> 61 == 0 {
                    history.truncate_output(history.output().len() / 2);
                } else {
                    history.push((state >> 40) as u32 % 11);
                }
                let fresh = History::new(history.prompt(), history.output(), window);
                assert_eq!(sorted(&history), sorted(&fresh), "window {window}, step {step}");
                assert_eq!(history.digest(), fresh.digest(), "window {window}, step {step}");
            }
        }
    }
}
