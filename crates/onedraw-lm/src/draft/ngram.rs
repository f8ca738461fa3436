//! The text itself guesses: where its last tokens stood before, it looks what came then.

use crate::error::ModelError;
use crate::model::LanguageModel;
use crate::speculate::ahead::Ahead;
use crate::speculate::drafter::Drafter;

/// Looks the last tokens up in the prompt and the output.
#[derive(Clone, Copy, Debug)]
pub struct Ngram {
    longest: usize,
}

impl Ngram {
    /// By as many of the last tokens as stood before, up to `longest`.
    pub fn new(longest: usize) -> Result<Self, ModelError> {
        if longest == 0 {
            return Err(ModelError::Request("an n-gram has at least one token".to_owned()));
        }
        Ok(Self { longest })
    }
}

/// Where the longest end of the text, of up to `longest` tokens, ended before; the last such place. And how long it is.
fn earlier(text: &[u32], longest: usize) -> Option<(usize, usize)> {
    let common = |end: usize| {
        let (before, now) = (text[..end].iter().rev(), text.iter().rev());
        before.zip(now).take(longest).take_while(|(a, b)| a == b).count()
    };
    let mut best = None;
    for end in (1..text.len()).rev().filter(|&end| text[end - 1] == text[text.len() - 1]) {
        let length = common(end);
        if best.is_none_or(|(_, longest)| length > longest) {
            best = Some((end, length));
        }
        if length == longest {
            break;
        }
    }
    best
}

impl<'a, M: LanguageModel> Drafter<'a, M> for Ngram {
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        Box::new(*self)
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError> {
        let text = ahead.text();
        if let Some((end, length)) = earlier(text, self.longest) {
            ahead.copy(&text[end..], length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_end_that_stood_before_is_found() {
        assert_eq!(earlier(&[1, 2, 3, 9, 2, 3, 8, 1, 2, 3], 3), Some((3, 3)));
        assert_eq!(earlier(&[1, 2, 3, 9, 2, 3, 8, 1, 2, 3], 2), Some((6, 2)), "the last of equal ones");
        assert_eq!(earlier(&[5, 5, 5], 2), Some((2, 2)));
        assert_eq!((earlier(&[1, 2, 3], 3), earlier(&[7], 3), earlier(&[], 3)), (None, None, None));
    }
}
