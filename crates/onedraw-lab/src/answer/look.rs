//! `look`: one draw, stage by stage.
//!
//! ```text
//! if the row after these tokens is kept, and what the draw depended on besides is known: explain it
//! if the draw depends on how the text was written (text taken back, mirostat): write the text again, then look
//! otherwise read the tokens, keep the row, and explain it
//! ```

use std::rc::Rc;

use onedraw::explain::{Candidate, StageEffect};
use onedraw::{Constraint, Explanation, RowError, Sampler, SamplingParams, Saved};
use onedraw_grammar::Grammar;
use onedraw_lm::{Asks, CHUNK, LanguageModel, Run, Wanted};
use serde_json::{Value, json};

use super::write::{Found, Writing};
use crate::failure::Failure;
use crate::lab::Lab;
use crate::line::{Line, Told};
use crate::question::Look;
use crate::rows::Recipe;
use crate::subject::Subject;
use crate::text::Text;

/// A draw that is being looked at.
pub(crate) struct Looking<'a, M: LanguageModel> {
    text: Text,
    grammar: Option<Grammar>,
    recipe: Rc<Recipe>,
    /// The tokens before the draw: those of the prompt, and those of the text.
    tokens: Vec<u32>,
    listed: usize,
    work: Work<'a, M>,
}

/// What is being done for it.
enum Work<'a, M: LanguageModel> {
    /// Nothing yet.
    None,
    /// The text is being written again.
    Writing(Box<Writing<'a, M>>),
    /// The tokens are being read.
    Reading(M::Sequence),
}

impl<'a, M: LanguageModel> Looking<'a, M> {
    pub(crate) fn begin(look: Look, grammar: Option<Grammar>) -> Self {
        let Look { text, before, listed } = look;
        // No draw depends on guesses, so nobody has to make them.
        let text = Text { draft: None, ..text };
        let tokens = [&text.prompt[..], &before].concat();
        Self { recipe: Rc::new(Recipe::of(&text)), text, grammar, tokens, listed, work: Work::None }
    }

    pub(crate) fn step(&mut self, lab: &mut Lab<'a, M>) -> Result<Told, Failure> {
        match &mut self.work {
            Work::None => {
                if let Some(line) = self.known(lab)? {
                    return Ok(Told { lines: vec![line], has_ended: true });
                }
                self.work = match self.has_history() {
                    true => {
                        let text = self.text.clone();
                        let writing = Writing::begin(lab, text, self.grammar.as_ref())?;
                        Work::Writing(Box::new(writing.seeking(self.tokens.clone())))
                    }
                    false => Work::Reading(lab.model.start()),
                };
            }
            Work::Writing(writing) => {
                // A text that cannot be written to its end has a beginning, too.
                let goes_on = writing.step(lab).is_ok_and(|told| !told.has_ended);
                // Without bans, nothing is taken back, so no later row takes the place of the one that was found.
                let is_found = writing.has_found() && self.text.params.banned_strings.is_empty();
                if goes_on && !is_found {
                    return Ok(Told { lines: Vec::new(), has_ended: false });
                }
                match writing.found() {
                    Some(Found { logits, history }) => {
                        let line = self.explained(lab, &logits, Some(&history))?;
                        return Ok(Told { lines: vec![line], has_ended: true });
                    }
                    // The text does not come to these tokens.
                    None => self.work = Work::Reading(lab.model.start()),
                }
            }
            Work::Reading(memory) => {
                let read = onedraw_lm::Sequence::len(memory);
                let end = self.tokens.len().min(read + CHUNK);
                let is_last = end == self.tokens.len();
                let logits = if is_last { Wanted::Last } else { Wanted::Nothing };
                let asks = Asks { logits, ..Asks::default() };
                let run = Run { asks, ..Run::line(memory, &self.tokens[read..end]) };
                let answers = lab.model.forward(&mut [run])?;
                if is_last {
                    let answer = answers.into_iter().next().filter(|answer| !answer.logits.is_empty());
                    let answer = answer.ok_or(RowError::EmptyRow)?;
                    lab.rows.keep(&self.tokens, &answer.logits, None);
                    let line = self.explained(lab, &answer.logits, None)?;
                    return Ok(Told { lines: vec![line], has_ended: true });
                }
            }
        }
        Ok(Told { lines: Vec::new(), has_ended: false })
    }

    /// Whether a draw depends on more of the text before it than its tokens.
    fn has_history(&self) -> bool {
        !self.text.params.banned_strings.is_empty() || self.text.params.mirostat > 0
    }

    /// The answer, if the row is kept, with all that its draw depended on.
    fn known(&self, lab: &mut Lab<'a, M>) -> Result<Option<Line>, Failure> {
        let Some(row) = lab.rows.find(&self.tokens) else { return Ok(None) };
        let (logits, history) = (row.logits.clone(), row.history(&self.recipe).cloned());
        if history.is_none() && self.has_history() {
            return Ok(None);
        }
        self.explained(lab, &logits, history.as_ref()).map(Some)
    }

    /// The answer for this row. Where no history is known, the tokens alone are one.
    fn explained(&self, lab: &Lab<'a, M>, logits: &[f32], history: Option<&Saved>) -> Result<Line, Failure> {
        let output = &self.tokens[self.text.prompt.len()..];
        let sampler = match history {
            Some(saved) => Sampler::load(saved)?,
            None => {
                let (prompt_token_ids, output_token_ids) = (self.text.prompt.clone(), output.to_vec());
                let params = self.text.params.clone();
                Sampler::new(SamplingParams { prompt_token_ids, output_token_ids, ..params })?
            }
        };
        let (mut sampler, subject) = (sampler.kernel(lab.kernel), lab.subject);
        let Some(mut matcher) = self.grammar.as_ref().map(Grammar::start) else {
            return Ok(told(subject, &sampler.explain(logits, self.listed)?, 0));
        };
        let refused = |error| Failure::field("schema", "schema", error);
        output.iter().try_for_each(|&token| matcher.accept(token)).map_err(refused)?;
        let mask = matcher.mask().map_err(refused)?;
        let allowed = |token: usize| mask[token / 32] >> (token % 32) & 1 == 1;
        let masked = (0..logits.len()).filter(|&token| !allowed(token)).count();
        Ok(told(subject, &sampler.explain_masked(logits, mask, self.listed)?, masked))
    }
}

/// An explanation, with the texts of its tokens.
fn told(subject: &Subject, explanation: &Explanation, masked: usize) -> Line {
    let Explanation { stages, token, probability, position, seed } = explanation;
    let stages: Vec<Value> = stages.iter().map(|effect| stage(subject, effect)).collect();
    json!({
        "position": position,
        "seed": seed.to_string(),
        "token": subject.piece(*token),
        "probability": probability,
        "masked": masked,
        "stages": stages,
    })
}

fn stage(subject: &Subject, effect: &StageEffect) -> Value {
    let named = |candidate: &Candidate| {
        let mut named = subject.piece(candidate.token);
        named.insert("probability".to_owned(), candidate.probability.into());
        named
    };
    let removed = |candidate: &Candidate| {
        let mut named = named(candidate);
        let short = effect.border.map(|border| border.probability - candidate.probability);
        named.insert("short".to_owned(), short.into());
        named
    };
    json!({
        "stage": effect.stage,
        "tokens": effect.tokens,
        "mass": effect.mass,
        "gone": effect.gone,
        "removed": effect.removed.iter().map(removed).collect::<Vec<_>>(),
        "leading": effect.leading.iter().map(named).collect::<Vec<_>>(),
        "entropy": effect.entropy,
        "temperature": effect.temperature,
        "decision": effect.decision,
    })
}
