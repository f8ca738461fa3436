//! Classifier-free guidance: away from what would follow a negative prompt.

use onedraw::Contrast;

use crate::contrast::rows::{contrast_rows, refuse_known};
use crate::error::ModelError;
use crate::model::{Answer, Asks, LanguageModel, Run, Sequence, Wanted};

/// A model that is guided away from a negative prompt: the text after the prompt is also read after the
/// negative prompt, and the logits of the two are contrasted.
///
/// It is made for prompts of one length: tokens after that many belong to the text.
pub struct Guided<'a, M: LanguageModel> {
    model: &'a M,
    contrast: Contrast,
    /// How many tokens the prompt has.
    prompt: usize,
    /// What the model remembers of the negative prompt, and the logits after it.
    negative: M::Sequence,
    logits: Vec<f32>,
}

/// What a model remembers of a text after its prompt, and after the negative one.
#[derive(Clone)]
pub struct TwoLines<S> {
    line: S,
    negative: S,
    /// How many tokens the prompt has, and the negative prompt.
    prompt: usize,
    other_prompt: usize,
}

impl<S: Sequence> Sequence for TwoLines<S> {
    fn len(&self) -> usize {
        self.line.len()
    }

    fn cut(&mut self, length: usize) {
        self.line.cut(length);
        self.negative.cut(self.other_prompt + length.saturating_sub(self.prompt));
    }

    fn keep(&mut self, path: &[usize]) -> Result<(), ModelError> {
        self.line.keep(path)?;
        self.negative.keep(path)
    }
}

impl<'a, M: LanguageModel> Guided<'a, M> {
    /// For prompts of `prompt` tokens. Reads the negative prompt, which must have at least one token.
    pub fn new(
        model: &'a M,
        prompt: usize,
        negative: &[u32],
        contrast: Contrast,
    ) -> Result<Self, ModelError> {
        if negative.is_empty() {
            return Err(ModelError::Request("the negative prompt has no token".to_owned()));
        }
        let mut sequence = model.start();
        let mut answers = model.forward(&mut [Run::line(&mut sequence, negative)])?;
        let logits = answers.pop().map(|answer| answer.logits).unwrap_or_default();
        Ok(Self { model, contrast, prompt, negative: sequence, logits })
    }
}

impl<M: LanguageModel> LanguageModel for Guided<'_, M> {
    type Sequence = TwoLines<M::Sequence>;

    fn vocabulary(&self) -> usize {
        self.model.vocabulary()
    }

    fn context(&self) -> usize {
        // Both texts must fit.
        let longer = self.negative.len().saturating_sub(self.prompt);
        self.model.context().saturating_sub(longer)
    }

    fn start(&self) -> Self::Sequence {
        TwoLines {
            line: self.model.start(),
            negative: self.negative.clone(),
            prompt: self.prompt,
            other_prompt: self.negative.len(),
        }
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.model.within(work)
    }

    fn forward(&self, runs: &mut [Run<'_, Self::Sequence>]) -> Result<Vec<Answer>, ModelError> {
        refuse_known(runs)?;
        if runs.iter().any(|run| run.parents.is_some() && run.sequence.len() < self.prompt) {
            return Err(ModelError::Request(
                "a guided prompt is read in a line, not along a tree".to_owned(),
            ));
        }
        let vocabulary = self.vocabulary();
        let lengths: Vec<usize> = runs.iter().map(|run| run.sequence.len()).collect();
        // How many tokens of each run belong to the prompt.
        let before: Vec<usize> = runs
            .iter()
            .map(|run| self.prompt.saturating_sub(run.sequence.len()).min(run.tokens.len()))
            .collect();
        let mut lines = Vec::new();
        let mut negatives = Vec::new();
        for (run, &before) in runs.iter_mut().zip(&before) {
            let TwoLines { line, negative, .. } = &mut *run.sequence;
            let &mut Run { tokens, parents, asks, .. } = run;
            lines.push(Run { sequence: line, tokens, parents, known: None, asks });
            let asks = Asks { logits: Wanted::All, ..Asks::default() };
            if before < tokens.len() {
                negatives.push(Run {
                    sequence: negative,
                    tokens: &tokens[before..],
                    parents,
                    known: None,
                    asks,
                });
            }
        }
        let mut answers = self.model.forward(&mut lines)?;
        let others = match self.model.forward(&mut negatives) {
            Ok(others) => others,
            Err(error) => {
                for (run, length) in lines.iter_mut().zip(lengths) {
                    run.sequence.cut(length);
                }
                return Err(error);
            }
        };
        let mut others = others.into_iter();
        for ((answer, run), before) in answers.iter_mut().zip(runs.iter()).zip(before) {
            let read =
                if before < run.tokens.len() { others.next().unwrap_or_default().logits } else { Vec::new() };
            // The rows after the negative prompt, from the end of the prompt on.
            let ends_prompt = before > 0 && reads_the_last_of(self.prompt, run, before);
            let rows: Vec<f32> = if ends_prompt { [&self.logits[..], &read].concat() } else { read };
            let wanted = answer.logits.len().min(rows.len());
            // Positions before the end of the prompt are not contrasted.
            let (start, other) = (answer.logits.len() - wanted, rows.len() - wanted);
            contrast_rows(&self.contrast, &mut answer.logits[start..], &rows[other..], vocabulary);
        }
        Ok(answers)
    }
}

/// Whether a run, whose first `before` tokens belong to the prompt, has read the prompt's last token.
fn reads_the_last_of<S: Sequence>(prompt: usize, run: &Run<'_, TwoLines<S>>, before: usize) -> bool {
    // The tokens of the run are part of the sequence by now.
    run.sequence.len() - run.tokens.len() + before == prompt
}
