//! Models made of two: what one says is set off against the other. Each is a [`LanguageModel`], so texts, beams and constraints come from it as from any.
//!
//! [`Contrasted`] sets an expert against an amateur, [`Guided`] a prompt against another, [`Dola`] the last layer of a model against its earlier ones.
//! `onedraw::contrast` has the formulas.

mod dola;
mod guided;

use onedraw::{Contrast, RowError};

pub use dola::Dola;
pub use guided::Guided;

use crate::error::ModelError;
use crate::model::{Answer, Asks, LanguageModel, Run, Sequence};

/// An expert against an amateur with the same tokens.
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
    /// The vocabularies must be of one size; that they hold the same tokens is for the caller to know.
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
                // On an error nothing may have changed.
                for (run, length) in experts.iter_mut().zip(lengths) {
                    run.sequence.cut(length);
                }
                return Err(error);
            }
        };
        for (answer, other) in answers.iter_mut().zip(&others) {
            set_off(&self.contrast, &mut answer.logits, &other.logits, self.expert.vocabulary());
        }
        Ok(answers)
    }
}

/// Two models have no layers in common that a position could have gone through.
fn refuse_known<S>(runs: &[Run<'_, S>]) -> Result<(), ModelError> {
    match runs.iter().any(|run| run.known.is_some()) {
        true => Err(ModelError::Request("a model made of two takes no states of early layers".to_owned())),
        false => Ok(()),
    }
}

/// Sets rows off against others, row by row. A row that cannot be has a NaN, so that its draw fails and names the token.
///
/// What the expert finds implausible is not gone but far below the rest, in the expert's own order: a constraint may leave nothing else.
fn set_off(contrast: &Contrast, logits: &mut [f32], others: &[f32], vocabulary: usize) {
    /// Nats between the least plausible token and the likeliest implausible one: no draw comes that far.
    const BELOW: f32 = 1000.0;
    let mut row = Vec::new();
    for (logits, other) in logits.chunks_mut(vocabulary).zip(others.chunks(vocabulary)) {
        match contrast.apply(&*logits, other, &mut row) {
            Ok(()) => {
                let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let plausible = row.iter().copied().filter(|score| *score > f32::NEG_INFINITY);
                let floor = plausible.fold(f32::INFINITY, f32::min) - BELOW;
                for (logit, &score) in logits.iter_mut().zip(&row) {
                    *logit = if score > f32::NEG_INFINITY { score } else { floor + (*logit - highest) };
                }
            }
            Err(RowError::NanLogit { token } | RowError::InfiniteLogit { token }) => {
                logits[token as usize] = f32::NAN;
            }
            // Every logit is −inf, as the draw will find.
            Err(_) => {}
        }
    }
}
