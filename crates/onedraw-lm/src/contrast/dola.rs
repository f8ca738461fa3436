//! DoLa: the last layer, contrasted with the earlier one that differs most from it.

use onedraw::contrast::contrasting_layer;
use onedraw::{Contrast, Row};

use crate::contrast::rows::{contrast_rows, refuse_known};
use crate::error::ModelError;
use crate::llama::{Llama, Memory};
use crate::model::{Answer, Asks, LanguageModel, Run};

/// How many rows are contrasted at a time.
const ROWS: usize = 16;

/// A model whose last layer is contrasted with its earlier ones.
pub struct Dola<'a> {
    model: &'a Llama,
    contrast: Contrast,
    layers: Vec<usize>,
}

impl<'a> Dola<'a> {
    /// Each position takes, of the given layers (1: after the first layer), the one that differs most from
    /// the last. If none are given: every second layer of the lower half, or every layer where there are at
    /// most 8, from the first on, which is what the paper calls the lower bucket. An error if a layer is not
    /// an earlier one.
    pub fn new(model: &'a Llama, layers: &[usize], contrast: Contrast) -> Result<Self, ModelError> {
        let last = model.config().layers;
        if last < 2 {
            return Err(ModelError::Request("a model of one layer has no earlier one".to_owned()));
        }
        let layers = match layers {
            [] => (1..=last / 2).step_by(if last > 8 { 2 } else { 1 }).collect(),
            layers => layers.to_vec(),
        };
        if let Some(layer) = layers.iter().find(|&&layer| layer == 0 || layer >= last) {
            let message = format!("layer {layer} is no earlier layer: the model has {last}");
            return Err(ModelError::Request(message));
        }
        Ok(Self { model, contrast, layers })
    }
}

impl LanguageModel for Dola<'_> {
    type Sequence = Memory;

    fn vocabulary(&self) -> usize {
        self.model.vocabulary()
    }

    fn context(&self) -> usize {
        self.model.context()
    }

    fn start(&self) -> Memory {
        self.model.start()
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.model.within(work)
    }

    fn forward(&self, runs: &mut [Run<'_, Memory>]) -> Result<Vec<Answer>, ModelError> {
        refuse_known(runs)?;
        if runs.iter().any(|run| run.asks.exit.is_some() || !run.asks.states.is_empty()) {
            return Err(ModelError::Request("DoLa's layers cannot be asked for beside others".to_owned()));
        }
        let asked = runs.iter_mut().map(|run| {
            let &mut Run { tokens, parents, asks: Asks { logits, .. }, .. } = run;
            Run {
                sequence: &mut *run.sequence,
                tokens,
                parents,
                known: None,
                asks: Asks { logits, states: &self.layers, ..Asks::default() },
            }
        });
        let mut asked: Vec<Run<'_, Memory>> = asked.collect();
        let mut answers = self.model.forward(&mut asked)?;
        let (width, vocabulary) = (self.model.config().width, self.model.vocabulary());
        for (answer, run) in answers.iter_mut().zip(runs.iter()) {
            let states = std::mem::take(&mut answer.states);
            let first = run.tokens.len() - run.asks.logits.rows(run.tokens.len());
            // A few rows at a time, because every layer has as many logits as the last one.
            for (block, rows) in answer.logits.chunks_mut(ROWS * vocabulary).enumerate() {
                let start = (first + block * ROWS) * width;
                let part = start..start + rows.len() / vocabulary * width;
                let early: Vec<Vec<f32>> =
                    states.iter().map(|states| self.model.logits(&states[part.clone()])).collect();
                self.contrast_each(rows, &early);
            }
        }
        Ok(answers)
    }
}

impl Dola<'_> {
    /// Contrasts each row with the layer that differs most from it.
    fn contrast_each(&self, logits: &mut [f32], early: &[Vec<f32>]) {
        let vocabulary = self.model.vocabulary();
        for (place, row) in logits.chunks_mut(vocabulary).enumerate() {
            let part = place * vocabulary..(place + 1) * vocabulary;
            let layers: Vec<Row<'_>> = early.iter().map(|layer| Row::from(&layer[part.clone()])).collect();
            // The draw will find a bad row.
            if let Ok(Some(layer)) = contrasting_layer(Row::from(&*row), &layers) {
                contrast_rows(&self.contrast, row, &early[layer][part], vocabulary);
            }
        }
    }
}
