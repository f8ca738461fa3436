//! One text under a grammar: which tokens may come next, and which must.

use llguidance::api::StopReason;
use onedraw::{Constraint, ConstraintError};

use crate::error::one_line;
use crate::grammar::Grammar;

/// A text that keeps to a [`Grammar`]. It is a [`Constraint`], and so is what a decode loop asks.
///
/// Any token whose bytes the text can go on with is accepted, also another cut of what is forced: a draft or a prompt may have it. A token that
/// does not fit is an error, and leaves everything as it was. After a token that ends the text only such tokens are allowed.
pub struct Matcher {
    grammar: Grammar,
    /// Never told of a token that ends the text: to it, such tokens may be part of the text.
    state: llguidance::Matcher,
    /// What was accepted, to go back where the state cannot.
    tokens: Vec<u32>,
    /// How many of them are text; the others ended it.
    text: usize,
    mask: Vec<u32>,
    /// Whether the mask is that of this place in the text.
    is_current: bool,
}

impl Matcher {
    pub(crate) fn new(grammar: Grammar) -> Self {
        let state = grammar.fresh();
        Self { grammar, state, tokens: Vec::new(), text: 0, mask: Vec::new(), is_current: false }
    }

    /// The tokens that were accepted.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Whether the text may end here, or has ended.
    pub fn may_end(&mut self) -> Result<bool, ConstraintError> {
        Ok(self.has_ended() || self.is_complete()? || self.state.is_accepting().map_err(said)?)
    }

    fn has_ended(&self) -> bool {
        self.tokens.len() > self.text
    }

    /// Whether nothing but an end can follow.
    fn is_complete(&self) -> Result<bool, ConstraintError> {
        match (self.state.get_error(), self.state.stop_reason()) {
            (Some(message), _) => Err(said(message)),
            (None, reason) => Ok(reason != StopReason::NotStopped),
        }
    }

    /// The mask of this place.
    pub(crate) fn compute(&mut self) -> Result<Vec<u32>, ConstraintError> {
        let vocabulary = self.grammar.vocabulary().clone();
        if self.has_ended() || self.is_complete()? {
            return Ok(vocabulary.end_bits().to_vec());
        }
        let mut mask: Vec<u32> = self.state.compute_mask().map_err(said)?.into();
        // llguidance has room for one token more. What it allows beyond text can only be special tokens that a grammar names by number, and
        // ends within the text.
        mask.truncate(vocabulary.text_bits().len());
        mask.iter_mut().zip(vocabulary.text_bits()).for_each(|(word, text)| *word &= text);
        if self.state.is_accepting().map_err(said)? {
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
        let bytes = String::from_utf8_lossy(self.grammar.vocabulary().bytes(token)).into_owned();
        ConstraintError::new(format!("token {token} ({bytes:?}) cannot come at {}: {why}", self.tokens.len()))
    }

    /// The state after the first so many tokens of the text, made anew.
    fn replay(&self, tokens: usize) -> Result<llguidance::Matcher, ConstraintError> {
        let mut state = self.grammar.fresh();
        // A state that stopped takes no tokens, not even none.
        for &token in self.tokens.iter().take(tokens) {
            state.consume_token(token).map_err(said)?;
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
        let vocabulary = self.grammar.vocabulary().clone();
        if self.is_complete()? {
            return Ok(match vocabulary.eos() {
                &[end] => vec![end],
                _ => Vec::new(),
            });
        }
        let mut tokens = self.state.compute_ff_tokens();
        if let Some(message) = self.state.get_error() {
            return Err(said(message));
        }
        // A grammar can name special tokens by number.
        let text = tokens.iter().take_while(|&&token| vocabulary.is_text(token)).count();
        tokens.truncate(text);
        Ok(tokens)
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        if self.grammar.vocabulary().is_eos(token) {
            if !self.may_end()? {
                return Err(self.refuse(token, "the text is not complete"));
            }
        } else {
            if self.has_ended() {
                return Err(self.refuse(token, "the text has ended"));
            }
            if !self.grammar.vocabulary().is_text(token) {
                return Err(self.refuse(token, "it is not text"));
            }
            // Asked first: a state that is told of a wrong token is lost.
            if self.is_complete()? || self.state.validate_tokens(&[token]).map_err(said)? != 1 {
                return Err(self.refuse(token, "the grammar does not go on with it"));
            }
            self.state.consume_token(token).map_err(said)?;
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
        // A grammar with `stop` or `max_tokens` cannot be rolled back, and neither can a state that failed.
        if self.state.is_error() || self.state.rollback(self.text - text).is_err() {
            self.state = self.replay(text)?;
        }
        // It is found by numbers that another way through the grammar can have, too.
        self.state.invalidate_bias_cache();
        self.tokens.truncate(kept);
        self.text = text;
        self.is_current = false;
        Ok(())
    }

    fn fork(&self) -> Box<dyn Constraint> {
        let Self { grammar, state, tokens, text, mask, is_current } = self;
        Box::new(Self {
            grammar: grammar.clone(),
            state: state.deep_clone(),
            tokens: tokens.clone(),
            text: *text,
            mask: mask.clone(),
            is_current: *is_current,
        })
    }
}

/// What llguidance says, in a line.
fn said(cause: impl std::fmt::Display) -> ConstraintError {
    let message = one_line(&cause.to_string());
    ConstraintError::new(match message.as_str() {
        "NoExtensionBias" => {
            "no token can follow: the vocabulary cannot write what the grammar asks for".to_owned()
        }
        _ => message,
    })
}
