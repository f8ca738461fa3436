//! A drafter that copies: where the last tokens of the text stood before, it guesses what followed then.

use crate::draft::ahead::Ahead;
use crate::draft::drafter::Drafter;
use crate::error::ModelError;
use crate::model::LanguageModel;

/// Looks up the last tokens in the prompt and the output.
#[derive(Clone, Copy, Debug)]
pub struct Ngram {
    longest: usize,
}

impl Ngram {
    /// Looks up as many of the last tokens as stood before, up to `longest`, which must be at least 1.
    pub fn new(longest: usize) -> Result<Self, ModelError> {
        if longest == 0 {
            return Err(ModelError::Request("an n-gram has at least one token".to_owned()));
        }
        Ok(Self { longest })
    }
}

/// Finds the longest run of tokens, up to `longest`, that ends the text and stands in it before. Returns the
/// end of its last earlier place, and its length.
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

impl<M: LanguageModel> Drafter<M> for Ngram {
    type Memory = ();

    fn start(&self) {}

    fn guess(&self, _target: &M, texts: &mut [(&mut (), &mut Ahead<'_, M>)]) -> Result<(), ModelError> {
        for (_, ahead) in texts {
            let text = ahead.text();
            if let Some((end, length)) = earlier(text, self.longest) {
                ahead.copy(&text[end..], length);
            }
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
