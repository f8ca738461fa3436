//! One text under a grammar: which tokens may come next, and which must.

use std::sync::Arc;

use llguidance::api::StopReason;
use onedraw::{Constraint, ConstraintError, ConstraintText};

use crate::compiled::Compiled;
use crate::error::one_line;

/// A text that keeps to a [`Grammar`](crate::Grammar). Decode loops use it as a [`Constraint`].
///
/// Any token whose bytes can continue the text is accepted, even where other tokens for the same bytes are
/// forced: a draft or a prompt may have it. A token that does not fit is an error and changes nothing. After
/// a token that ends the text only such tokens are allowed.
pub struct Matcher {
    grammar: Arc<Compiled>,
    /// Never gets a token that ends the text, because to llguidance such tokens may be part of the text.
    state: llguidance::Matcher,
    /// The accepted tokens, for going back where the state cannot.
    tokens: Vec<u32>,
    /// How many of them are text; those after them ended it.
    text: usize,
    mask: Vec<u32>,
    /// Whether the mask belongs to this place in the text.
    is_current: bool,
}

impl Matcher {
    pub(crate) fn new(grammar: Arc<Compiled>) -> Self {
        let state = grammar.start();
        Self { grammar, state, tokens: Vec::new(), text: 0, mask: Vec::new(), is_current: false }
    }

    /// The tokens that were accepted.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Whether the text may end here, or has ended.
    pub fn may_end(&mut self) -> Result<bool, ConstraintError> {
        Ok(self.has_ended() || self.is_complete()? || self.state.is_accepting().map_err(error_of)?)
    }

    fn has_ended(&self) -> bool {
        self.tokens.len() > self.text
    }

    /// Whether only the end of the text can follow.
    fn is_complete(&self) -> Result<bool, ConstraintError> {
        match (self.state.get_error(), self.state.stop_reason()) {
            (Some(message), _) => Err(error_of(message)),
            (None, reason) => Ok(reason != StopReason::NotStopped),
        }
    }

    /// Computes the mask of this place.
    pub(crate) fn compute(&mut self) -> Result<Vec<u32>, ConstraintError> {
        let vocabulary = self.grammar.vocabulary.clone();
        if self.has_ended() || self.is_complete()? {
            return Ok(vocabulary.end_bits().to_vec());
        }
        let mut mask: Vec<u32> = self.state.compute_mask().map_err(error_of)?.into();
        // The mask of llguidance has one token more. What it allows besides text can only be special tokens
        // that a grammar names by number, and ends within the text.
        mask.truncate(vocabulary.text_bits().len());
        mask.iter_mut().zip(vocabulary.text_bits()).for_each(|(word, text)| *word &= text);
        if self.state.is_accepting().map_err(error_of)? {
            mask.iter_mut().zip(vocabulary.end_bits()).for_each(|(word, ends)| *word |= ends);
        }
        if mask.iter().all(|&word| word == 0) {
            return Err(ConstraintError::new(
                "no token can follow: the grammar goes on with special tokens only",
            ));
        }
        Ok(mask)
    }

    fn refuse(&self, token: u32, why: &str) -> ConstraintError {
        let bytes = String::from_utf8_lossy(self.grammar.vocabulary.bytes(token)).into_owned();
        ConstraintError::new(format!("token {token} ({bytes:?}) cannot come at {}: {why}", self.tokens.len()))
    }

    /// A new state after this many tokens of the text.
    fn replay(&self, tokens: usize) -> Result<llguidance::Matcher, ConstraintError> {
        let mut state = self.grammar.start();
        // One by one: a state that has stopped refuses every list of tokens, even an empty one.
        for &token in self.tokens.iter().take(tokens) {
            state.consume_token(token).map_err(error_of)?;
        }
        Ok(state)
    }
}

impl Constraint for Matcher {
    fn mask(&mut self) -> Result<&[u32], ConstraintError> {
        if !self.is_current {
            self.mask = self.compute()?;
            self.is_current = true;
        }
        Ok(&self.mask)
    }

    fn forced(&mut self) -> Result<Vec<u32>, ConstraintError> {
        if self.has_ended() {
            return Ok(Vec::new());
        }
        let vocabulary = self.grammar.vocabulary.clone();
        if self.is_complete()? {
            return Ok(match vocabulary.eos() {
                &[end] => vec![end],
                _ => Vec::new(),
            });
        }
        let mut tokens = self.state.compute_ff_tokens();
        if let Some(message) = self.state.get_error() {
            return Err(error_of(message));
        }
        // A grammar can name special tokens by number.
        let text = tokens.iter().take_while(|&&token| vocabulary.is_text(token)).count();
        tokens.truncate(text);
        Ok(tokens)
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        if self.grammar.vocabulary.is_eos(token) {
            if !self.may_end()? {
                return Err(self.refuse(token, "the text is not complete"));
            }
        } else {
            if self.has_ended() {
                return Err(self.refuse(token, "the text has ended"));
            }
            if !self.grammar.vocabulary.is_text(token) {
                return Err(self.refuse(token, "it is not text"));
            }
            // Validated first, because a state that consumes a wrong token cannot be used any more.
            if self.is_complete()? || self.state.validate_tokens(&[token]).map_err(error_of)? != 1 {
                return Err(self.refuse(token, "the grammar does not go on with it"));
            }
            self.state.consume_token(token).map_err(error_of)?;
            self.text += 1;
        }
        self.tokens.push(token);
        self.is_current = false;
        Ok(())
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), ConstraintError> {
        let Some(kept) = self.tokens.len().checked_sub(tokens) else {
            let accepted = self.tokens.len();
            return Err(ConstraintError::new(format!(
                "{tokens} tokens cannot be taken back: there are {accepted}"
            )));
        };
        let text = self.text.min(kept);
        // A grammar with `stop` or `max_tokens` cannot be rolled back, and neither can a state that has
        // failed.
        if self.state.is_error() || self.state.rollback(self.text - text).is_err() {
            self.state = self.replay(text)?;
        }
        // The cache is indexed by numbers that another path through the grammar can have too.
        self.state.invalidate_bias_cache();
        self.tokens.truncate(kept);
        self.text = text;
        self.is_current = false;
        Ok(())
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }

    fn source(&self) -> Option<ConstraintText> {
        self.tokens.is_empty().then(|| self.grammar.source.clone())
    }
}

impl Clone for Matcher {
    /// An independent copy: that of llguidance's state alone would share what both go through.
    fn clone(&self) -> Self {
        let Self { grammar, state, tokens, text, mask, is_current } = self;
        Self {
            grammar: grammar.clone(),
            state: state.deep_clone(),
            tokens: tokens.clone(),
            text: *text,
            mask: mask.clone(),
            is_current: *is_current,
        }
    }
}

/// An error of llguidance in one line.
fn error_of(cause: impl std::fmt::Display) -> ConstraintError {
    let message = one_line(&cause.to_string());
    ConstraintError::new(match message.as_str() {
        "NoExtensionBias" => {
            "no token can follow: the vocabulary cannot write what the grammar asks for".to_owned()
        }
        _ => message,
    })
}
