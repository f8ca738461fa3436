//! One strategy on one prompt: its texts, how fast they came, and what the model thinks of them.

use std::time::Instant;

use anyhow::Result;
use onedraw::math::{exp, ln};
use onedraw::{Batch, FinishReason, Kernel, Rows, Sampler, SamplingParams};
use onedraw_lm::contrast::Contrasted;
use onedraw_lm::{Asks, Beams, Generator, LanguageModel, Llama, Run, Tokenizer, Wanted};
use serde::Serialize;

use crate::compare::metrics::Variety;
use crate::compare::strategy::{Search, Strategy};

/// A text of a strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Text {
    pub text: String,
    pub tokens: Vec<u32>,
    pub finish_reason: Option<FinishReason>,
}

/// What a strategy did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub strategy: String,
    pub texts: Vec<Text>,
    /// Tokens of all texts by the time they took, the prompt's included.
    pub tokens_per_second: f64,
    /// The mean logprob of a token under the model itself, whatever the strategy made of it, and exp of its negative.
    pub logprob: f64,
    pub perplexity: f64,
    #[serde(flatten)]
    pub variety: Variety,
    /// Bits, the mean over the steps: of the distribution that was drawn from. Not known of beams.
    pub entropy: Option<f64>,
    /// How many tokens could be drawn, the mean over the steps.
    pub kept: Option<f64>,
}

/// What all strategies share.
pub struct Scene<'a> {
    pub model: &'a Llama,
    pub amateur: Option<&'a Llama>,
    pub tokenizer: &'a Tokenizer,
    pub prompt: &'a [u32],
    pub kernel: Kernel,
}

impl Scene<'_> {
    /// Runs a strategy and looks at what came of it.
    pub fn measure(&self, strategy: &Strategy, params: &SamplingParams) -> Result<Measured> {
        match (&strategy.contrast, self.amateur) {
            (Some(contrast), Some(amateur)) => {
                self.measure_with(&Contrasted::new(self.model, amateur, *contrast)?, strategy, params)
            }
            (Some(_), None) => {
                anyhow::bail!("{}: there is no weaker model: name one with --amateur", strategy.name)
            }
            (None, _) => self.measure_with(self.model, strategy, params),
        }
    }

    fn measure_with<M: LanguageModel>(
        &self,
        model: &M,
        strategy: &Strategy,
        params: &SamplingParams,
    ) -> Result<Measured> {
        let begun = Instant::now();
        let texts = self.texts(model, strategy, params)?;
        let seconds = begun.elapsed().as_secs_f64();
        let count: usize = texts.iter().map(|text| text.tokens.len()).sum();
        let mut sum = 0.0;
        let (mut bits, mut kept) = (0.0, 0.0);
        for (sample, text) in texts.iter().enumerate() {
            sum += self.logprob(&text.tokens)?;
            if strategy.search == Search::Draw {
                let (more_bits, more_kept) = self.steps(model, params, sample, &text.tokens)?;
                (bits, kept) = (bits + more_bits, kept + more_kept);
            }
        }
        let mean = |sum: f64| if count == 0 { 0.0 } else { sum / count as f64 };
        let words: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
        let tokens: Vec<&[u32]> = texts.iter().map(|text| &text.tokens[..]).collect();
        let draws = (strategy.search == Search::Draw).then_some(());
        Ok(Measured {
            strategy: strategy.name.clone(),
            tokens_per_second: count as f64 / seconds.max(1e-9),
            logprob: mean(sum),
            perplexity: exp(-mean(sum)),
            variety: Variety::of(&words, &tokens),
            entropy: draws.map(|()| mean(bits)),
            kept: draws.map(|()| mean(kept)),
            texts,
        })
    }

    fn texts<M: LanguageModel>(
        &self,
        model: &M,
        strategy: &Strategy,
        params: &SamplingParams,
    ) -> Result<Vec<Text>> {
        let beams = || Beams::new(model, self.tokenizer).kernel(self.kernel);
        Ok(match &strategy.search {
            Search::Draw => {
                let mut generator = Generator::new(model, self.tokenizer).kernel(self.kernel);
                generator.add(self.prompt, params.clone())?;
                let texts = generator.finish()?.into_iter().map(|text| match text.error {
                    Some(error) => Err(anyhow::anyhow!("{}: {error}", strategy.name)),
                    None => Ok(Text {
                        text: text.text,
                        tokens: text.tokens.iter().map(|sampled| sampled.token).collect(),
                        finish_reason: text.finish,
                    }),
                });
                texts.collect::<Result<_>>()?
            }
            Search::Beams(search) => {
                let found = beams().search(self.prompt, params.clone(), search.clone())?;
                let text = |found: onedraw_lm::Found| Text {
                    text: found.text,
                    finish_reason: found.hypothesis.finish.map(|finish| finish.reason()),
                    tokens: found.hypothesis.tokens,
                };
                found.into_iter().map(text).collect()
            }
            Search::Stochastic(width) => {
                let (drawn, _) = beams().draw(self.prompt, params.clone(), *width)?;
                let text = |found: onedraw_lm::Found<onedraw::beam::Drawn>| Text {
                    text: found.text,
                    finish_reason: found.hypothesis.finish.map(|finish| finish.reason()),
                    tokens: found.hypothesis.tokens,
                };
                drawn.into_iter().take(params.n as usize).map(text).collect()
            }
        })
    }

    /// The sum of the logprobs of a text under the model itself.
    fn logprob(&self, tokens: &[u32]) -> Result<f64> {
        let whole = [self.prompt, tokens].concat();
        let mut batch = Batch::new();
        let id = batch.add(SamplingParams {
            prompt_token_ids: whole.clone(),
            seed: Some(0),
            ..SamplingParams::default()
        })?;
        let mut sum = 0.0;
        let first = self.prompt.len();
        for_each_part(self.model, &whole, |place, rows| {
            // Rows of the prompt's own tokens are passed over.
            let reports = batch.prompt_logprobs(id, place + 1, rows);
            for (place, report) in (place + 1..).zip(reports).filter(|(place, _)| *place >= first) {
                debug_assert!(place < whole.len());
                sum += report?.logprob;
            }
            Ok(())
        })?;
        Ok(sum)
    }

    /// The sums over the steps of a text: bits of entropy, and tokens that could be drawn. The draws are made again, which mirostat learns from.
    fn steps<M: LanguageModel>(
        &self,
        model: &M,
        params: &SamplingParams,
        sample: usize,
        tokens: &[u32],
    ) -> Result<(f64, f64)> {
        let params = SamplingParams { prompt_token_ids: self.prompt.to_vec(), ..params.clone() };
        let mut samplers = Sampler::sequences(params)?;
        let mut sampler = samplers.swap_remove(sample).kernel(self.kernel);
        let whole = [self.prompt, tokens].concat();
        let first = self.prompt.len();
        let (mut bits, mut kept) = (0.0, 0.0);
        for_each_part(model, &whole[..whole.len().saturating_sub(1)], |place, rows| {
            for i in (0..rows.len()).filter(|i| place + i + 1 >= first) {
                let distribution = sampler.distribution(rows.row(i))?;
                bits += entropy(&distribution.probabilities, &distribution.logprobs);
                kept += distribution.tokens.len() as f64;
                let drawn = sampler.peek(rows.row(i), 0)?;
                match whole.get(place + i + 1) {
                    Some(&token) if token == drawn.token => sampler.accept_sampled(&drawn),
                    // What was taken back and banned is drawn again here; the text is what counts.
                    Some(&token) => sampler.accept(token),
                    None => {}
                }
            }
            Ok(())
        })?;
        Ok((bits, kept))
    }
}

/// In bits.
fn entropy(probabilities: &[f64], logprobs: &[f64]) -> f64 {
    let nats = probabilities
        .iter()
        .zip(logprobs)
        .fold(0.0, |sum, (p, logprob)| sum - if *p > 0.0 { p * logprob } else { 0.0 });
    nats / ln(2.0)
}

/// The rows after every token of a text, a few at a time, with the place of the first.
fn for_each_part<M: LanguageModel>(
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
