//! What each token of a text was drawn from: the draws of a finished text, made again.

use std::collections::VecDeque;

use anyhow::Result;
use onedraw::math::ln;
use onedraw::{Constraint, Rewind, Row, Rows, Sampler, SamplingParams};
use onedraw_lm::{Asks, LanguageModel, Run, Wanted};

/// A token of a text, and the distribution it came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redrawn {
    pub token: u32,
    /// Its probability in what it was drawn from.
    pub probability: f64,
    /// The entropy of what it was drawn from, in bits.
    pub entropy: f64,
    /// How many tokens could be drawn.
    pub kept: usize,
}

/// Draws the tokens of a text again that `sampler` drew after `prompt`. `constraint` is where it was at the
/// beginning of the text.
///
/// The draws are made again rather than computed from the tokens, because mirostat learns from them.
pub fn redraw<M: LanguageModel>(
    model: &M,
    mut sampler: Sampler,
    prompt: &[u32],
    tokens: &[u32],
    mut constraint: Option<Box<dyn Constraint>>,
) -> Result<Vec<Redrawn>> {
    let whole = [prompt, tokens].concat();
    let mut redrawn = Vec::with_capacity(tokens.len());
    // Tokens that a constraint forces are taken without a draw.
    let mut forced: VecDeque<u32> = VecDeque::new();
    for_each_chunk(model, &whole[..whole.len().saturating_sub(1)], |place, rows| {
        for i in (0..rows.len()).filter(|i| place + i + 1 >= prompt.len()) {
            let Some(&token) = whole.get(place + i + 1) else { continue };
            let row = rows.row(i);
            if let Some(constraint) = constraint.as_mut().filter(|_| forced.is_empty()) {
                forced = constraint.forced()?.into();
            }
            if forced.pop_front() == Some(token) {
                redrawn.push(Redrawn { token, probability: 1.0, entropy: 0.0, kept: 1 });
                sampler.accept(token);
            } else {
                let mask = constraint.as_mut().map(|constraint| constraint.mask()).transpose()?;
                redrawn.push(draw_again(&mut sampler, row, mask, token)?);
            }
            if let Some(constraint) = constraint.as_mut().filter(|_| place + i + 2 < whole.len()) {
                constraint.accept(token)?;
            }
        }
        Ok(())
    })?;
    Ok(redrawn)
}

/// Makes one draw whose outcome is known.
fn draw_again(sampler: &mut Sampler, row: Row<'_>, mask: Option<&[u32]>, token: u32) -> Result<Redrawn> {
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
            return Ok(Redrawn {
                token,
                probability: found.map_or(0.0, |place| distribution.probabilities[place]),
                entropy: entropy(&distribution.probabilities, &distribution.logprobs),
                kept: count_possible(&distribution.probabilities),
            });
        }
        // The drawn token began a banned phrase, so it was taken back and banned at this position. Each round
        // bans one more token, so this ends.
        sampler.take_back(&Rewind { length, token: drawn.token, phrase: 0 });
    }
}

/// How many tokens could be drawn: those with a probability above 0.
pub fn count_possible(probabilities: &[f64]) -> usize {
    probabilities.iter().filter(|p| **p > 0.0).count()
}

/// The sampler of one of the texts that `params` ask for after `prompt`.
pub fn sampler(params: &SamplingParams, prompt: &[u32], sample: usize) -> Result<Sampler> {
    let params = SamplingParams { prompt_token_ids: prompt.to_vec(), ..params.clone() };
    Ok(Sampler::sequence(params, sample as u32)?)
}

/// The entropy of a distribution, in bits.
pub fn entropy(probabilities: &[f64], logprobs: &[f64]) -> f64 {
    let nats = probabilities
        .iter()
        .zip(logprobs)
        .fold(0.0, |sum, (p, logprob)| sum - if *p > 0.0 { p * logprob } else { 0.0 });
    nats / ln(2.0)
}

/// Hands the rows after every token of a text to `visit`, a few at a time, with the place of the first of
/// them.
pub fn for_each_chunk<M: LanguageModel>(
    model: &M,
    tokens: &[u32],
    mut visit: impl FnMut(usize, Rows<'_>) -> Result<()>,
) -> Result<()> {
    /// Rows in memory at the same time.
    const ROWS: usize = 32;
    let mut sequence = model.start();
    // The last token of a text may stand just after the end of the context.
    let tokens = &tokens[..tokens.len().min(model.context())];
    for (number, chunk) in tokens.chunks(ROWS).enumerate() {
        let asks = Asks { logits: Wanted::All, ..Asks::default() };
        let run = Run { asks, ..Run::line(&mut sequence, chunk) };
        let logits = model.forward(&mut [run])?.pop().map(|answer| answer.logits).unwrap_or_default();
        if let Some(rows) = Rows::new(&logits, chunk.len(), model.vocabulary(), model.vocabulary()) {
            visit(number * ROWS, rows)?;
        }
    }
    Ok(())
}
