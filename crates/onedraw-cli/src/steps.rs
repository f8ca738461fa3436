//! What each step of a text was drawn from.

use std::collections::VecDeque;

use anyhow::Result;
use onedraw::math::ln;
use onedraw::{Constraint, Rewind, Row, Rows, Sampler, SamplingParams};
use onedraw_lm::{Asks, LanguageModel, Run, Wanted};

/// A token of a text, and the distribution it came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub token: u32,
    /// Its probability in what it was drawn from.
    pub probability: f64,
    /// In bits.
    pub entropy: f64,
    /// How many tokens could be drawn.
    pub kept: usize,
}

/// The steps of a text that `sampler` drew after `prompt`, under a constraint at its beginning. The draws are made again, which
/// mirostat learns from.
pub fn steps<M: LanguageModel>(
    model: &M,
    mut sampler: Sampler,
    prompt: &[u32],
    tokens: &[u32],
    mut constraint: Option<Box<dyn Constraint>>,
) -> Result<Vec<Step>> {
    let whole = [prompt, tokens].concat();
    let mut steps = Vec::with_capacity(tokens.len());
    // What a constraint forces is taken without a draw.
    let mut forced: VecDeque<u32> = VecDeque::new();
    for_each_part(model, &whole[..whole.len().saturating_sub(1)], |place, rows| {
        for i in (0..rows.len()).filter(|i| place + i + 1 >= prompt.len()) {
            let Some(&token) = whole.get(place + i + 1) else { continue };
            let row = rows.row(i);
            if let Some(constraint) = constraint.as_mut().filter(|_| forced.is_empty()) {
                forced = constraint.forced()?.into();
            }
            if forced.pop_front() == Some(token) {
                steps.push(Step { token, probability: 1.0, entropy: 0.0, kept: 1 });
                sampler.accept(token);
            } else {
                let mask = constraint.as_mut().map(|constraint| constraint.mask()).transpose()?;
                steps.push(step(&mut sampler, row, mask, token)?);
            }
            if let Some(constraint) = constraint.as_mut().filter(|_| place + i + 2 < whole.len()) {
                constraint.accept(token)?;
            }
        }
        Ok(())
    })?;
    Ok(steps)
}

/// One draw, whose outcome is known.
fn step(sampler: &mut Sampler, row: Row<'_>, mask: Option<&[u32]>, token: u32) -> Result<Step> {
    let length = sampler.output().len();
    loop {
        let distribution = match mask {
            Some(mask) => sampler.distribution_masked(row, mask)?,
            None => sampler.distribution(row)?,
        };
        let drawn = match mask {
            Some(mask) => sampler.sample_masked(row, mask)?,
            None => sampler.sample(row)?,
        };
        if drawn.token == token {
            let found = distribution.tokens.iter().position(|kept| *kept == token);
            return Ok(Step {
                token,
                probability: found.map_or(0.0, |place| distribution.probabilities[place]),
                entropy: entropy(&distribution.probabilities, &distribution.logprobs),
                kept: possible(&distribution.probabilities),
            });
        }
        // It was the beginning of a banned phrase, was taken back and banned here. Each time there is one token less, so this ends.
        sampler.take_back(&Rewind { length, token: drawn.token, phrase: 0 });
    }
}

/// How many tokens could be drawn: those that have any weight at all.
pub fn possible(probabilities: &[f64]) -> usize {
    probabilities.iter().filter(|p| **p > 0.0).count()
}

/// The sampler of one of the texts that `params` ask for after `prompt`.
pub fn sampler(params: &SamplingParams, prompt: &[u32], sample: usize) -> Result<Sampler> {
    let params = SamplingParams { prompt_token_ids: prompt.to_vec(), ..params.clone() };
    Ok(Sampler::sequences(params)?.swap_remove(sample))
}

/// In bits.
pub fn entropy(probabilities: &[f64], logprobs: &[f64]) -> f64 {
    let nats = probabilities
        .iter()
        .zip(logprobs)
        .fold(0.0, |sum, (p, logprob)| sum - if *p > 0.0 { p * logprob } else { 0.0 });
    nats / ln(2.0)
}

/// The rows after every token of a text, a few at a time, with the place of the first.
pub fn for_each_part<M: LanguageModel>(
    model: &M,
    tokens: &[u32],
    mut look: impl FnMut(usize, Rows<'_>) -> Result<()>,
) -> Result<()> {
    /// Rows in memory at a time.
    const PART: usize = 32;
    let mut sequence = model.start();
    // A text may end one token after the context does.
    let tokens = &tokens[..tokens.len().min(model.context())];
    for (number, part) in tokens.chunks(PART).enumerate() {
        let asks = Asks { logits: Wanted::All, ..Asks::default() };
        let run = Run { asks, ..Run::line(&mut sequence, part) };
        let logits = model.forward(&mut [run])?.pop().map(|answer| answer.logits).unwrap_or_default();
        if let Some(rows) = Rows::new(&logits, part.len(), model.vocabulary(), model.vocabulary()) {
            look(number * PART, rows)?;
        }
    }
    Ok(())
}
