//! `write`: a text, token by token, with what the model thought of each.

use std::collections::VecDeque;
use std::rc::Rc;

use onedraw::{RowError, Rows, Sampler, SamplingParams, Saved};
use onedraw_grammar::Grammar;
use onedraw_lm::generate::{Seen, SeenGuesses, SeenRow};
use onedraw_lm::speculate::Speculation;
use onedraw_lm::{Event, Generator, LanguageModel};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::lab::Lab;
use crate::line::{Line, Told};
use crate::rows::Recipe;
use crate::subject::Subject;
use crate::text::Text;

/// Four guesses, one after the other: as many whatever the machine's speed, so that a text is shown in the same way
/// everywhere.
const GUESSES: Speculation =
    Speculation { verify: onedraw::speculate::Verify::Exact, width: 1, depth: 4, adapts: false };

/// A text that is being written.
pub(crate) struct Writing<'a, M: LanguageModel> {
    generator: Generator<'a, M>,
    recipe: Rc<Recipe>,
    /// The first line, until it was told.
    begin: Option<Line>,
    prompt: Vec<u32>,
    /// The tokens that were written.
    output: Vec<u32>,
    text: String,
    sought: Option<Sought>,
}

/// The row that a look wants of a text.
struct Sought {
    /// The tokens before it, with the prompt.
    tokens: Vec<u32>,
    /// The row that was there last: a text that is taken back may come to the same tokens again.
    found: Option<Found>,
}

/// A row, and what its draw depended on beside the tokens.
pub(crate) struct Found {
    pub logits: Vec<f32>,
    pub history: Saved,
}

impl<'a, M: LanguageModel> Writing<'a, M> {
    pub(crate) fn begin(lab: &Lab<'a, M>, text: Text, grammar: Option<&Grammar>) -> Result<Self, Failure> {
        let mut generator = Generator::new(lab.model, &*lab.subject.tokenizer).kernel(lab.kernel).watched();
        if let Some(name) = &text.draft {
            generator = generator.speculate(lab.drafter(name)?.clone(), GUESSES)?;
        }
        let recipe = Rc::new(Recipe::of(&text));
        let Text { prompt, params, chosen, .. } = text;
        let matcher = grammar.map(Grammar::start);
        let constraint = matcher.as_ref().map(|matcher| matcher as &dyn onedraw::Constraint);
        let request = generator.add_chosen(&prompt, params, &chosen, constraint)?;
        let seed = generator.seed(request).unwrap_or_default();
        let pieces: Vec<_> = prompt.iter().map(|&token| lab.subject.piece(token)).collect();
        let begin = Some(json!({"kind": "begin", "seed": seed.to_string(), "prompt": pieces}));
        let (output, text) = (Vec::new(), String::new());
        Ok(Self { generator, recipe, begin, prompt, output, text, sought: None })
    }

    /// Keeps the row after these tokens, for a look.
    pub(crate) fn seeking(self, tokens: Vec<u32>) -> Self {
        Self { sought: Some(Sought { tokens, found: None }), ..self }
    }

    /// Whether the row that is sought was there.
    pub(crate) fn has_found(&self) -> bool {
        self.sought.as_ref().is_some_and(|sought| sought.found.is_some())
    }

    /// The row that was sought, as it was last.
    pub(crate) fn found(&mut self) -> Option<Found> {
        self.sought.as_mut()?.found.take()
    }

    pub(crate) fn step(&mut self, lab: &mut Lab<'a, M>) -> Result<Told, Failure> {
        if let Some(line) = self.begin.take() {
            return Ok(Told { lines: vec![line], has_ended: false });
        }
        let events = self.generator.step()?;
        let mut lines = Vec::new();
        let mut rows = VecDeque::new();
        for seen in self.generator.take_seen() {
            match seen {
                Seen::Guesses(guesses) => lines.push(pass(lab.subject, &guesses)),
                Seen::Row(row) => rows.push_back(*row),
            }
        }
        for event in events {
            self.take(lab, event, &mut rows, &mut lines)?;
        }
        Ok(Told { lines, has_ended: self.generator.is_done() })
    }

    /// Takes an event. `rows` are those of the pass from this token on.
    fn take(
        &mut self,
        lab: &mut Lab<'a, M>,
        event: Event,
        rows: &mut VecDeque<SeenRow>,
        lines: &mut Vec<Line>,
    ) -> Result<(), Failure> {
        self.text += &event.text;
        if let Some(sampled) = &event.sampled {
            let position = sampled.position as usize;
            let row = rows.pop_front_if(|row| row.position == position);
            let mut line = lab.subject.piece(sampled.token);
            line.extend([("kind".to_owned(), "token".into()), ("position".to_owned(), position.into())]);
            line.insert("forced".to_owned(), event.is_forced.into());
            line.extend(numbers(sampled.token, sampled.probability, row.as_ref())?);
            lines.push(line.into());
            if let Some(row) = row {
                let before = [&self.prompt[..], &self.output].concat();
                lab.rows.keep(&before, &row.logits, Some((self.recipe.clone(), row.before.clone())));
                if let Some(sought) = self.sought.as_mut().filter(|sought| sought.tokens == before) {
                    sought.found = Some(Found { logits: row.logits, history: row.before });
                }
            }
            self.output.push(sampled.token);
        }
        if event.taken_back > 0 {
            self.output.truncate(self.output.len().saturating_sub(event.taken_back));
            lines.push(json!({"kind": "back", "to": self.output.len()}));
        }
        if let Some(error) = event.error {
            return Err(error.into());
        }
        if let Some(finish) = event.finish {
            lines.push(json!({"kind": "end", "finish_reason": finish.reason(), "text": self.text}));
        }
        Ok(())
    }
}

/// The guesses of a pass.
fn pass(subject: &Subject, guesses: &SeenGuesses) -> Line {
    let guess = |(node, &token): (usize, &u32)| {
        let mut guess = subject.piece(token);
        guess.insert("accepted".to_owned(), guesses.path.contains(&node).into());
        Value::from(guess)
    };
    let named: Vec<Value> = guesses.tree.tokens().iter().enumerate().map(guess).collect();
    json!({"kind": "pass", "position": guesses.position, "guesses": named})
}

/// What the model thought of a token, and with which probability it was drawn; null where there was no row.
fn numbers(
    token: u32,
    probability: Option<f64>,
    row: Option<&SeenRow>,
) -> Result<Map<String, Value>, RowError> {
    let Some(SeenRow { logits, mask, before, .. }) = row else {
        let names = ["probability", "logprob", "raw_probability", "rank", "entropy"];
        return Ok(names.into_iter().map(|name| (name.to_owned(), Value::Null)).collect());
    };
    let probability = match probability {
        Some(probability) => probability,
        // A token that was given.
        None => {
            let mut sampler = Sampler::load(before).map_err(unexpected)?;
            let distribution = match mask {
                Some(mask) => sampler.distribution_masked(&logits[..], mask),
                None => sampler.distribution(&logits[..]),
            }?;
            let place = distribution.tokens.iter().position(|&other| other == token);
            place.map_or(0.0, |place| distribution.probabilities[place])
        }
    };
    // The logprob of the second token of a prompt is that of the token in the row after the first.
    let params = SamplingParams {
        prompt_token_ids: vec![token, token],
        prompt_logprobs: Some(0),
        seed: Some(0),
        ..SamplingParams::default()
    };
    let mut plain = Sampler::new(params).map_err(unexpected)?;
    let rows = Rows::new(&logits[..], 1, logits.len(), logits.len()).ok_or(RowError::EmptyRow)?;
    let report =
        plain.prompt_logprobs(rows).pop().unwrap_or(Err(RowError::EmptyRow))?.ok_or(RowError::EmptyRow)?;
    let entropy = plain.explain(&logits[..], 0)?.stages.first().map(|row| row.entropy);
    let numbers = json!({
        "probability": probability,
        "logprob": report.logprob,
        "raw_probability": report.probability,
        "rank": report.rank,
        "entropy": entropy,
    });
    Ok(if let Value::Object(numbers) = numbers { numbers } else { Map::new() })
}

/// Parameters that were checked before.
fn unexpected(error: onedraw::ParamError) -> RowError {
    RowError::Constraint { message: error.to_string() }
}
