//! Contrastive decoding: an expert against an amateur.

use onedraw::Contrast;

use crate::contrast::rows::{contrast_rows, refuse_known};
use crate::error::ModelError;
use crate::model::{Answer, Asks, LanguageModel, Run, Sequence};

/// An expert, contrasted with an amateur that has the same tokens.
pub struct Contrasted<'a, E, A> {
    expert: &'a E,
    amateur: &'a A,
    contrast: Contrast,
}

/// What two models remember of one text.
#[derive(Clone)]
pub struct Pair<E, A> {
    expert: E,
    amateur: A,
}

impl<E: Sequence, A: Sequence> Sequence for Pair<E, A> {
    fn len(&self) -> usize {
        self.expert.len()
    }

    fn cut(&mut self, length: usize) {
        self.expert.cut(length);
        self.amateur.cut(length);
    }

    fn keep(&mut self, path: &[usize]) -> Result<(), ModelError> {
        self.expert.keep(path)?;
        self.amateur.keep(path)
    }
}

impl<'a, E: LanguageModel, A: LanguageModel> Contrasted<'a, E, A> {
    /// An error if the vocabularies differ in size. Whether they hold the same tokens is for the caller to
    /// know.
    pub fn new(expert: &'a E, amateur: &'a A, contrast: Contrast) -> Result<Self, ModelError> {
        let (tokens, others) = (expert.vocabulary(), amateur.vocabulary());
        if tokens != others {
            let message =
                format!("the expert has {tokens} tokens and the amateur {others}: they must be the same");
            return Err(ModelError::Request(message));
        }
        Ok(Self { expert, amateur, contrast })
    }
}

impl<E: LanguageModel, A: LanguageModel> LanguageModel for Contrasted<'_, E, A> {
    type Sequence = Pair<E::Sequence, A::Sequence>;

    fn vocabulary(&self) -> usize {
        self.expert.vocabulary()
    }

    fn context(&self) -> usize {
        self.expert.context().min(self.amateur.context())
    }

    fn start(&self) -> Self::Sequence {
        Pair { expert: self.expert.start(), amateur: self.amateur.start() }
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.expert.within(work)
    }

    fn forward(&self, runs: &mut [Run<'_, Self::Sequence>]) -> Result<Vec<Answer>, ModelError> {
        refuse_known(runs)?;
        let lengths: Vec<usize> = runs.iter().map(|run| run.sequence.len()).collect();
        let (mut experts, mut amateurs) = (Vec::new(), Vec::new());
        for run in runs.iter_mut() {
            let Pair { expert, amateur } = &mut *run.sequence;
            let &mut Run { tokens, parents, asks, .. } = run;
            experts.push(Run { sequence: expert, tokens, parents, known: None, asks });
            let asks = Asks { logits: asks.logits, ..Asks::default() };
            amateurs.push(Run { sequence: amateur, tokens, parents, known: None, asks });
        }
        let mut answers = self.expert.forward(&mut experts)?;
        let others = match self.amateur.forward(&mut amateurs) {
            Ok(others) => others,
            Err(error) => {
                // After an error no sequence may have changed.
                for (run, length) in experts.iter_mut().zip(lengths) {
                    run.sequence.cut(length);
                }
                return Err(error);
            }
        };
        for (answer, other) in answers.iter_mut().zip(&others) {
            contrast_rows(&self.contrast, &mut answer.logits, &other.logits, self.expert.vocabulary());
        }
        Ok(answers)
    }
}
