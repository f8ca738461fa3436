//! What a run may ask of a model.

use crate::error::ModelError;
use crate::llama::cache::{Layout, Memory};
use crate::llama::model::Llama;
use crate::model::{Run, Sequence};

impl Llama {
    /// Whether a run can be answered; the error says why not.
    pub(super) fn check(&self, run: &Run<'_, Memory>) -> Result<(), ModelError> {
        let wrong = |message: String| Err(ModelError::Request(message));
        let (vocabulary, context, layers) = (self.config.vocabulary, self.config.context, self.config.layers);
        if run.tokens.is_empty() {
            return wrong("a run has no tokens".to_owned());
        }
        if let Some(token) = run.tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return wrong(format!("token {token} is outside the vocabulary of {vocabulary}"));
        }
        if run.sequence.has_nodes() {
            return wrong("the last run was a tree: say first what to keep of it".to_owned());
        }
        if !run.sequence.is_of(Layout::new(&self.config)) {
            return wrong("the sequence was started by a model of another shape".to_owned());
        }
        if let Some(&layer) = run.asks.exit.iter().chain(run.asks.states).find(|&&layer| layer > layers) {
            return wrong(format!("there is no layer {layer}: the model has {layers}"));
        }
        let length = run.sequence.len();
        let through = run.asks.exit.unwrap_or(layers);
        if let Some(layer) = run.asks.states.iter().find(|&&layer| layer > through) {
            return wrong(format!(
                "states after {layer} layers are asked of a run that leaves after {through}"
            ));
        }
        let mut longest = run.tokens.len();
        if let Some(known) = run.known {
            let shallow = length - run.sequence.whole();
            let is_of_them = known.layers == run.sequence.shallowest()
                && known.layers < layers
                && known.states.len() == shallow * self.config.width
                && shallow <= run.tokens.len();
            if !is_of_them || shallow == 0 || run.parents.is_some() || run.asks.exit.is_some() {
                let fewest = run.sequence.shallowest();
                return wrong(format!(
                    "states are given that are not those of the {shallow} positions that left after {fewest} \
                     layers"
                ));
            }
            if run.asks.states.iter().any(|&layer| layer < known.layers) {
                return wrong(format!(
                    "states before layer {} are asked of a run that begins there",
                    known.layers
                ));
            }
            longest -= shallow;
        } else if through > run.sequence.shallowest() {
            let (whole, fewest) = (run.sequence.whole(), run.sequence.shallowest());
            return wrong(format!(
                "only {whole} of {length} positions went through more than {fewest} layers: cut the others \
                 first"
            ));
        }
        if let Some(parents) = run.parents {
            if parents.len() != run.tokens.len() || run.asks.exit.is_some() {
                return wrong("a tree has a parent for every token, and goes through all layers".to_owned());
            }
            if let Some(node) =
                (0..parents.len()).find(|&node| parents[node].is_some_and(|parent| parent >= node))
            {
                return wrong(format!("the parent of token {node} of a tree must come before it"));
            }
            let mut depths = vec![1; parents.len()];
            for node in 0..parents.len() {
                depths[node] = parents[node].map_or(1, |parent| depths[parent] + 1);
            }
            longest = depths.into_iter().max().unwrap_or(0);
        }
        if length + longest > context {
            return wrong(format!(
                "{} tokens are more than the model's context of {context}",
                length + longest
            ));
        }
        Ok(())
    }
}
