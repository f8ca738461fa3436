//! One strategy on one prompt: its texts, how fast they were written, and how likely the model itself finds
//! them.

use std::time::Instant;

use anyhow::{Result, anyhow};
use onedraw::math::exp;
use onedraw::{Batch, FinishReason, Kernel, SamplingParams};
use onedraw_lm::contrast::Contrasted;
use onedraw_lm::{Beams, GenerateError, Generator, LanguageModel, Llama, Tokenizer};
use serde::Serialize;

use crate::compare::metrics::Variety;
use crate::compare::strategy::{Search, Strategy};
use crate::redrawn::{for_each_chunk, redraw, sampler};

/// A text of a strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Text {
    pub text: String,
    pub tokens: Vec<u32>,
    pub finish_reason: Option<FinishReason>,
}

/// The texts of a strategy, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub strategy: String,
    pub texts: Vec<Text>,
    /// The tokens of all texts, divided by the time they took together with the prompt.
    pub tokens_per_second: f64,
    /// The mean logprob of a token under the model itself, without the parameters of the strategy.
    pub logprob: f64,
    /// `exp(-logprob)`.
    pub perplexity: f64,
    #[serde(flatten)]
    pub variety: Variety,
    /// The entropy of the distribution that a token was drawn from, in bits, as the mean over the tokens.
    /// Beams have none.
    pub entropy: Option<f64>,
    /// How many tokens could be drawn, as the mean over the tokens.
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
    /// Runs a strategy and measures its texts.
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
                let sampler = sampler(params, self.prompt, sample)?.kernel(self.kernel);
                for token in redraw(model, sampler, self.prompt, &text.tokens, None)? {
                    (bits, kept) = (bits + token.entropy, kept + token.kept as f64);
                }
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
        // A strategy names the groups `diverse`.
        let named = |error: GenerateError| {
            anyhow!(
                "--strategy {}: {}",
                strategy.name,
                error.to_string().replace("beam_groups: ", "diverse: ")
            )
        };
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
                let found = beams().search(self.prompt, params.clone(), search.clone()).map_err(named)?;
                let text = |found: onedraw_lm::Found| Text {
                    text: found.text,
                    finish_reason: found.hypothesis.finish.map(|finish| finish.reason()),
                    tokens: found.hypothesis.tokens,
                };
                found.into_iter().map(text).collect()
            }
            Search::Stochastic(width) => {
                let (drawn, _) = beams().draw(self.prompt, params.clone(), *width).map_err(named)?;
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
        for_each_chunk(self.model, &whole, |place, rows| {
            // The tokens of the prompt do not count.
            let reports = batch.prompt_logprobs(id, place + 1, rows);
            for (place, report) in (place + 1..).zip(reports).filter(|(place, _)| *place >= first) {
                debug_assert!(place < whole.len());
                sum += report?.logprob;
            }
            Ok(())
        })?;
        Ok(sum)
    }
}
