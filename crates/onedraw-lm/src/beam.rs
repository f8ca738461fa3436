//! Beam search with a model: all beams in one pass. Beams that have a beginning in common share its memory.

use std::sync::Arc;

use onedraw::beam::{
    BeamParams, BeamSearch, Branch, Continuation, Drawn, Expansion, Hypothesis, StochasticBeams,
};
use onedraw::{Constraint, Finish, Kernel, Row, RowError, SamplingParams, StopConditions, StopMatcher};

use crate::error::ModelError;
use crate::generate::GenerateError;
use crate::model::{CHUNK, LanguageModel, Run, Vocabulary};
use crate::words::to_tokens;

/// Searches for the best texts, or draws texts without replacement.
///
/// ```
/// use onedraw::SamplingParams;
/// use onedraw::beam::BeamParams;
/// use onedraw_lm::{Beams, stories};
///
/// let (model, tokenizer) = (stories::model()?, stories::tokenizer()?);
/// let params = SamplingParams::builder().max_tokens(8u32).n(2u32).build()?;
/// let prompt = tokenizer.encode("Once upon a")?;
/// let found = Beams::new(&model, &tokenizer).search(&prompt, params, BeamParams::default())?;
/// assert!(found[0].text.starts_with(" time") && found[0].hypothesis.score >= found[1].hypothesis.score);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Beams<'a, M> {
    model: &'a M,
    vocabulary: &'a dyn Vocabulary,
    kernel: Kernel,
    constraint: Option<Box<dyn Constraint>>,
    observer: Option<&'a mut dyn FnMut(&Expansion)>,
    goes_on: Option<&'a mut dyn FnMut() -> bool>,
}

/// A text that was found or drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<H = Hypothesis> {
    /// The text, without the prompt and what ended it.
    pub text: String,
    /// Its tokens and scores.
    pub hypothesis: H,
}

/// What a search and a draw without replacement have in common. [`Search`] goes through the steps of either.
pub trait Steps {
    /// Whether nothing is left to do.
    fn is_done(&self) -> bool;
    /// How many beams there are.
    fn count(&self) -> usize;
    /// Takes the logits and the masks after the beams, and says how they go on.
    fn step(
        &mut self,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        continuation: &mut dyn FnMut(usize, u32) -> Continuation,
    ) -> Result<Expansion, RowError>;
}

impl Steps for BeamSearch {
    fn is_done(&self) -> bool {
        BeamSearch::is_done(self)
    }

    fn count(&self) -> usize {
        self.beams().len()
    }

    fn step(
        &mut self,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        continuation: &mut dyn FnMut(usize, u32) -> Continuation,
    ) -> Result<Expansion, RowError> {
        BeamSearch::step(self, rows, masks, continuation)
    }
}

impl Steps for StochasticBeams {
    fn is_done(&self) -> bool {
        StochasticBeams::is_done(self)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn step(
        &mut self,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        continuation: &mut dyn FnMut(usize, u32) -> Continuation,
    ) -> Result<Expansion, RowError> {
        StochasticBeams::step(self, rows, masks, continuation)
    }
}

/// A search under way: whoever has other work goes on with it pass by pass.
pub struct Search<'a, M: LanguageModel, S = BeamSearch> {
    beams: Beams<'a, M>,
    steps: S,
    conditions: Arc<StopConditions>,
    lines: Vec<Line<M::Sequence>>,
    /// The logits after each line.
    rows: Vec<Vec<f32>>,
    /// The tokens of the prompt that the model has not read.
    unread: Vec<u32>,
}

/// One beam.
struct Line<S> {
    memory: S,
    matcher: StopMatcher,
    constraint: Option<Box<dyn Constraint>>,
}

impl<S: Clone> Line<S> {
    fn fork(&self) -> Self {
        Self {
            memory: self.memory.clone(),
            matcher: self.matcher.clone(),
            constraint: self.constraint.as_ref().map(|constraint| constraint.fork()),
        }
    }
}

impl<'a, M: LanguageModel> Beams<'a, M> {
    /// For a model and its tokens.
    pub fn new(model: &'a M, vocabulary: &'a dyn Vocabulary) -> Self {
        Self { model, vocabulary, kernel: Kernel::Auto, constraint: None, observer: None, goes_on: None }
    }

    /// Reads rows with this instruction set. No text depends on it.
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Finds only texts that this constraint allows.
    pub fn constrained(mut self, constraint: &dyn Constraint) -> Self {
        self.constraint = Some(constraint.fork());
        self
    }

    /// Calls `watch` after each step with the continuations that were considered, and what became of them.
    pub fn watched(mut self, watch: &'a mut dyn FnMut(&Expansion)) -> Self {
        self.observer = Some(watch);
        self
    }

    /// Calls `goes_on` before each step. If it says no, the search ends with what there is.
    pub fn while_told(mut self, goes_on: &'a mut dyn FnMut() -> bool) -> Self {
        self.goes_on = Some(goes_on);
        self
    }

    /// The `n` best texts after a prompt, the best first.
    pub fn search(
        mut self,
        prompt: &[u32],
        params: SamplingParams,
        beams: BeamParams,
    ) -> Result<Vec<Found>, GenerateError> {
        let (observer, goes_on) = (self.observer.take(), self.goes_on.take());
        let mut search = self.begin(prompt, params, beams)?;
        search.run(observer, goes_on)?;
        Ok(search.finish())
    }

    /// Begins to search for the `n` best texts after a prompt. Whoever takes the steps sees each of them, so
    /// [`watched`](Self::watched) and [`while_told`](Self::while_told) have no effect here.
    pub fn begin(
        self,
        prompt: &[u32],
        mut params: SamplingParams,
        beams: BeamParams,
    ) -> Result<Search<'a, M>, GenerateError> {
        beams.check_vocabulary(self.model.vocabulary())?;
        let conditions = self.prepare(prompt, &mut params)?;
        let steps = BeamSearch::new(params, beams)?.on(self.kernel, 1);
        Ok(Search::new(self, steps, conditions, prompt))
    }

    /// Draws `width` texts after a prompt without replacement. Returns them, the highest perturbed logprob
    /// first, and the seed.
    pub fn draw(
        mut self,
        prompt: &[u32],
        mut params: SamplingParams,
        width: usize,
    ) -> Result<(Vec<Found<Drawn>>, u64), GenerateError> {
        let (observer, goes_on) = (self.observer.take(), self.goes_on.take());
        let conditions = self.prepare(prompt, &mut params)?;
        let steps = StochasticBeams::new(params, width)?.on(self.kernel, 1);
        let seed = steps.seed();
        let mut search = Search::new(self, steps, conditions, prompt);
        search.run(observer, goes_on)?;
        let Search { beams, steps, conditions, .. } = search;
        let texts = steps.finish().into_iter();
        let texts = texts
            .map(|text| Found { text: beams.text(&conditions, &text.tokens, text.finish), hypothesis: text });
        Ok((texts.collect(), seed))
    }

    /// Checks the prompt, and fits the parameters to the prompt and the model.
    fn prepare(
        &self,
        prompt: &[u32],
        params: &mut SamplingParams,
    ) -> Result<Arc<StopConditions>, GenerateError> {
        let wrong = |message: String| GenerateError::Model(ModelError::Request(message));
        let (context, vocabulary) = (self.model.context(), self.model.vocabulary());
        if prompt.is_empty() {
            return Err(wrong("the prompt has no token".to_owned()));
        }
        if !params.output_token_ids.is_empty() {
            return Err(wrong("a search begins with the prompt: there can be no output yet".to_owned()));
        }
        if prompt.len() > context {
            let length = prompt.len();
            return Err(wrong(format!(
                "the prompt has {length} tokens, more than the model's context of {context}"
            )));
        }
        if let Some(token) = prompt.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(wrong(format!(
                "token {token} of the prompt is outside the vocabulary of {vocabulary}"
            )));
        }
        to_tokens(params, self.vocabulary)?;
        params.prompt_token_ids = prompt.to_vec();
        // The last token is drawn from the last position and does not have to be read.
        let room = u32::try_from(context - prompt.len() + 1).unwrap_or(u32::MAX);
        params.max_tokens = params.max_tokens.min(room);
        Ok(Arc::new(StopConditions::new(params)?))
    }

    /// The beams that go on, each with its token.
    fn follow(
        &self,
        lines: &[Line<M::Sequence>],
        branches: &[Branch],
    ) -> Result<Vec<Line<M::Sequence>>, GenerateError> {
        let grown = branches.iter().map(|&Branch { beam, token }| {
            let mut line = lines[beam].fork();
            line.matcher.push(token, self.vocabulary.bytes(token));
            if let Some(constraint) = &mut line.constraint {
                constraint.accept(token).map_err(|error| GenerateError::Row(error.of_row()))?;
            }
            Ok(line)
        });
        grown.collect()
    }

    /// The logits after the tokens of every beam.
    fn forward(
        &self,
        lines: &mut [Line<M::Sequence>],
        tokens: &[&[u32]],
    ) -> Result<Vec<Vec<f32>>, GenerateError> {
        let runs = lines.iter_mut().zip(tokens).map(|(line, tokens)| Run::line(&mut line.memory, tokens));
        let mut runs: Vec<Run<'_, M::Sequence>> = runs.collect();
        Ok(self.model.forward(&mut runs)?.into_iter().map(|answer| answer.logits).collect())
    }

    /// The text of tokens, without what ended it.
    fn text(&self, conditions: &Arc<StopConditions>, tokens: &[u32], finish: Option<Finish>) -> String {
        let mut matcher = StopMatcher::new(conditions.clone());
        let mut bytes = Vec::new();
        for &token in tokens {
            bytes.extend(matcher.push(token, self.vocabulary.bytes(token)).text);
        }
        if finish.is_none() {
            bytes.extend(matcher.finish());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl<M: LanguageModel> Search<'_, M> {
    /// The texts that were found so far, the best first: `n` of them once the search is over.
    pub fn finish(self) -> Vec<Found> {
        let Self { beams, steps, conditions, .. } = self;
        let texts = steps.finish().into_iter();
        texts
            .map(|text| Found { text: beams.text(&conditions, &text.tokens, text.finish), hypothesis: text })
            .collect()
    }
}

impl<'a, M: LanguageModel, S: Steps> Search<'a, M, S> {
    fn new(beams: Beams<'a, M>, steps: S, conditions: Arc<StopConditions>, prompt: &[u32]) -> Self {
        let first = Line {
            memory: beams.model.start(),
            matcher: StopMatcher::new(conditions.clone()),
            constraint: beams.constraint.as_ref().map(|constraint| constraint.fork()),
        };
        let (lines, rows, unread) = (vec![first], Vec::new(), prompt.to_vec());
        Self { beams, steps, conditions, lines, rows, unread }
    }

    /// Whether the search is over.
    pub fn is_done(&self) -> bool {
        self.unread.is_empty() && self.steps.is_done()
    }

    /// Makes one pass: reads a part of the prompt, or goes on with every beam. Returns the continuations that
    /// were compared, if there were any.
    pub fn step(&mut self) -> Result<Option<Expansion>, GenerateError> {
        if !self.unread.is_empty() {
            self.read()?;
            return Ok(None);
        }
        if self.steps.is_done() {
            return Ok(None);
        }
        let expansion = self.expand()?;
        if !self.steps.is_done() {
            self.lines = self.beams.follow(&self.lines, &expansion.branches)?;
            let tokens: Vec<[u32; 1]> = expansion.branches.iter().map(|branch| [branch.token]).collect();
            let tokens: Vec<&[u32]> = tokens.iter().map(|token| &token[..]).collect();
            self.rows = self.beams.forward(&mut self.lines, &tokens)?;
        }
        Ok(Some(expansion))
    }

    fn run(
        &mut self,
        mut observer: Option<&mut dyn FnMut(&Expansion)>,
        mut goes_on: Option<&mut dyn FnMut() -> bool>,
    ) -> Result<(), GenerateError> {
        while !self.is_done() {
            if self.unread.is_empty() && goes_on.as_mut().is_some_and(|goes_on| !goes_on()) {
                return Ok(());
            }
            if let (Some(expansion), Some(watch)) = (self.step()?, &mut observer) {
                watch(&expansion);
            }
        }
        Ok(())
    }

    /// Reads on in the prompt. After its last token every group has a beam.
    fn read(&mut self) -> Result<(), GenerateError> {
        let part: Vec<u32> = self.unread.drain(..self.unread.len().min(CHUNK)).collect();
        let rows = self.beams.forward(&mut self.lines, &[&part])?;
        if self.unread.is_empty() {
            self.rows = rows;
            for _ in 1..self.steps.count() {
                self.lines.push(self.lines[0].fork());
                self.rows.push(self.rows[0].clone());
            }
        }
        Ok(())
    }

    /// Compares the continuations of all beams.
    fn expand(&mut self) -> Result<Expansion, GenerateError> {
        let masks = self.lines.iter_mut().map(|line| match &mut line.constraint {
            Some(constraint) => constraint.mask().map(|mask| Some(mask.to_vec())),
            None => Ok(None),
        });
        let masks =
            masks.collect::<Result<Vec<_>, _>>().map_err(|error| GenerateError::Row(error.of_row()))?;
        let masks: Vec<Option<&[u32]>> = masks.iter().map(Option::as_deref).collect();
        let views: Vec<Row<'_>> = self.rows.iter().map(Row::from).collect();
        let (lines, vocabulary) = (&self.lines, self.beams.vocabulary);
        let mut continuation = |beam: usize, token: u32| {
            let mut matcher = lines[beam].matcher.clone();
            let progress = matcher.push(token, vocabulary.bytes(token));
            match (progress.rewind, progress.finish) {
                (Some(_), _) => Continuation::Forbidden,
                (None, Some(finish)) => Continuation::Ends(finish),
                (None, None) => Continuation::Goes,
            }
        };
        self.steps.step(&views, &masks, &mut continuation).map_err(GenerateError::Row)
    }
}
