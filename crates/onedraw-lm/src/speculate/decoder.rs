//! Decoders with a drafter of their own: a target with a second model, and a target that guesses with its
//! first layers.

use onedraw::SamplingParams;

use crate::draft::{Companion, Drafter, EarlyExit, Guessed, Speculation};
use crate::error::ModelError;
use crate::generate::{GenerateError, Generated, Generator, Stream};
use crate::model::{LanguageModel, Vocabulary};

/// A target with a drafter.
pub struct SpeculativeDecoder<'a, M: LanguageModel> {
    generator: Generator<'a, M>,
    params: SamplingParams,
}

impl<'a, M: LanguageModel> SpeculativeDecoder<'a, M> {
    /// With a smaller model as the drafter. An error if the two do not have the same number of tokens.
    pub fn new<D: LanguageModel<Sequence: Send> + Sync>(
        target: &'a M,
        drafter: &'a D,
        vocabulary: &'a dyn Vocabulary,
    ) -> Result<Self, ModelError> {
        Self::with(target, Companion::new(drafter, target)?, vocabulary)
    }

    /// With any drafter.
    pub fn with(
        target: &'a M,
        drafter: impl Drafter<M> + 'a,
        vocabulary: &'a dyn Vocabulary,
    ) -> Result<Self, ModelError> {
        let generator = Generator::new(target, vocabulary).speculate(drafter, Speculation::default())?;
        Ok(Self { generator, params: SamplingParams::default() })
    }

    /// Sets the sampling parameters. The number of tokens comes with each request.
    pub fn params(mut self, params: SamplingParams) -> Self {
        self.params = params;
        self
    }

    /// Sets how guesses are made and verified.
    pub fn speculation(mut self, speculation: Speculation) -> Result<Self, ModelError> {
        self.generator.set_speculation(speculation)?;
        Ok(self)
    }

    /// Writes the text after a prompt; the first one, if the parameters ask for several.
    pub fn generate(&mut self, prompt: &[u32], max_new_tokens: u32) -> Result<Generated, GenerateError> {
        Ok(self.generate_all(&[prompt], max_new_tokens)?.remove(0))
    }

    /// Writes the texts after several prompts side by side.
    pub fn generate_all(
        &mut self,
        prompts: &[&[u32]],
        max_new_tokens: u32,
    ) -> Result<Vec<Generated>, GenerateError> {
        let added = prompts
            .iter()
            .try_for_each(|prompt| self.generator.add(prompt, self.request(max_new_tokens)).map(|_| ()));
        if let Err(error) = added {
            self.generator.cancel_all();
            return Err(error);
        }
        self.generator.finish()
    }

    /// Writes the text after a prompt, event by event.
    pub fn stream(self, prompt: &[u32], max_new_tokens: u32) -> Result<Stream<'a, M>, GenerateError> {
        let params = self.request(max_new_tokens);
        self.generator.stream(prompt, params)
    }

    /// What became of the guesses so far.
    pub fn guessed(&self) -> Guessed {
        self.generator.guessed().cloned().unwrap_or_default()
    }

    fn request(&self, max_new_tokens: u32) -> SamplingParams {
        SamplingParams { max_tokens: max_new_tokens, ..self.params.clone() }
    }
}

/// A target that guesses with its own first layers.
pub struct SelfSpeculativeDecoder<'a, M: LanguageModel> {
    decoder: SpeculativeDecoder<'a, M>,
}

impl<'a, M: LanguageModel> SelfSpeculativeDecoder<'a, M> {
    /// Guesses after this many layers.
    pub fn new(target: &'a M, layers: usize, vocabulary: &'a dyn Vocabulary) -> Result<Self, ModelError> {
        let exit = EarlyExit::new(layers, target)?;
        Ok(Self { decoder: SpeculativeDecoder::with(target, exit, vocabulary)? })
    }

    /// As [`SpeculativeDecoder::params`].
    pub fn params(self, params: SamplingParams) -> Self {
        Self { decoder: self.decoder.params(params) }
    }

    /// As [`SpeculativeDecoder::speculation`].
    pub fn speculation(self, speculation: Speculation) -> Result<Self, ModelError> {
        Ok(Self { decoder: self.decoder.speculation(speculation)? })
    }

    /// As [`SpeculativeDecoder::generate`].
    pub fn generate(&mut self, prompt: &[u32], max_new_tokens: u32) -> Result<Generated, GenerateError> {
        self.decoder.generate(prompt, max_new_tokens)
    }

    /// As [`SpeculativeDecoder::generate_all`].
    pub fn generate_all(
        &mut self,
        prompts: &[&[u32]],
        max_new_tokens: u32,
    ) -> Result<Vec<Generated>, GenerateError> {
        self.decoder.generate_all(prompts, max_new_tokens)
    }

    /// As [`SpeculativeDecoder::stream`].
    pub fn stream(self, prompt: &[u32], max_new_tokens: u32) -> Result<Stream<'a, M>, GenerateError> {
        self.decoder.stream(prompt, max_new_tokens)
    }

    /// As [`SpeculativeDecoder::guessed`].
    pub fn guessed(&self) -> Guessed {
        self.decoder.guessed()
    }
}
