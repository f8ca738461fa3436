//! The rows that tokens were taken from, kept for looks: while logits are frozen, a change of the parameters costs a
//! draw and no pass.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use onedraw::{SamplingParams, Saved};

use crate::text::Text;

/// The memory for rows, unless set otherwise: those of a text of 500 tokens of a vocabulary of 32,768, or of 128 tokens
/// of one of 131,072.
const BYTES: usize = 64 << 20;

/// Rows by the tokens before them. The logits of a row depend on these alone.
pub(crate) struct Rows {
    /// The row that was used last is the last one.
    rows: VecDeque<Row>,
    bytes: usize,
    most: usize,
}

/// A row.
pub(crate) struct Row {
    /// All tokens before it, with the prompt.
    tokens: Rc<[u32]>,
    pub logits: Rc<[f32]>,
    /// What the draw of a text depended on beside its tokens.
    history: Option<(Rc<Recipe>, Saved)>,
}

/// What a text was written with, beside the model. Two texts with the same recipe are the same.
#[derive(PartialEq)]
pub(crate) struct Recipe {
    prompt: Vec<u32>,
    params: SamplingParams,
    chosen: BTreeMap<usize, u32>,
    schema: Option<String>,
    /// About the memory of the parameters, of which each row's history has a copy: a number of a list has at least two
    /// bytes as JSON, and four or eight in memory.
    bytes: usize,
}

impl Recipe {
    pub(crate) fn of(text: &Text) -> Self {
        let Text { prompt, params, chosen, schema, .. } = text.clone();
        let bytes = 4 * serde_json::to_string(&params).map_or(0, |json| json.len());
        Self { prompt, params, chosen, schema, bytes }
    }
}

impl Row {
    fn bytes(&self) -> usize {
        let history = self.history.as_ref().map_or(0, |(recipe, _)| recipe.bytes);
        4 * (self.logits.len() + 2 * self.tokens.len()) + history
    }

    /// What a draw of this recipe depended on here.
    pub(crate) fn history(&self, recipe: &Recipe) -> Option<&Saved> {
        self.history.as_ref().filter(|(made, _)| **made == *recipe).map(|(_, saved)| saved)
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::within(BYTES)
    }
}

impl Rows {
    /// Keeps rows of so many bytes, and the last one in any case.
    pub(crate) fn within(most: usize) -> Self {
        Self { rows: VecDeque::new(), bytes: 0, most }
    }

    /// Keeps a row, and forgets those that nobody has used for the longest time.
    pub(crate) fn keep(&mut self, tokens: &[u32], logits: &[f32], history: Option<(Rc<Recipe>, Saved)>) {
        match self.find(tokens) {
            Some(row) => {
                let before = row.bytes();
                row.history = history.or(row.history.take());
                let after = row.bytes();
                self.bytes = self.bytes + after - before;
            }
            None => {
                let row = Row { tokens: tokens.into(), logits: logits.into(), history };
                self.bytes += row.bytes();
                self.rows.push_back(row);
            }
        }
        while self.bytes > self.most && self.rows.len() > 1 {
            let oldest = self.rows.pop_front();
            self.bytes -= oldest.map_or(0, |row| row.bytes());
        }
    }

    /// The row after these tokens.
    pub(crate) fn find(&mut self, tokens: &[u32]) -> Option<&mut Row> {
        let place = self.rows.iter().rposition(|row| *row.tokens == *tokens)?;
        let row = self.rows.remove(place)?;
        self.rows.push_back(row);
        self.rows.back_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_within_their_memory_and_the_last_used_stay() {
        let mut rows = Rows::default();
        let logits = vec![0.5_f32; 1 << 20];
        for token in 0..20 {
            rows.keep(&[token], &logits, None);
            assert!(rows.find(&[0]).is_some() || token > 15, "{token}");
        }
        // Each row has 4 MiB and a little; 15 of them fit.
        assert_eq!(rows.rows.len(), 15);
        assert!(rows.bytes <= BYTES);
        assert!(rows.find(&[0]).is_some(), "it was used all the time");
        assert!(rows.find(&[1]).is_none());
        assert_eq!(rows.find(&[19]).map(|row| row.logits.len()), Some(1 << 20));
        // A row that is kept twice is there once.
        rows.keep(&[19], &logits, None);
        assert_eq!(rows.rows.len(), 15);
    }

    #[test]
    fn a_row_counts_the_memory_of_its_parameters() {
        let ids: Vec<u32> = (0..1 << 20).collect();
        let params = SamplingParams { allowed_token_ids: Some(ids), ..SamplingParams::default() };
        let text = Text {
            words: "a".to_owned(),
            prompt: vec![1],
            given: serde_json::Map::new(),
            chosen: BTreeMap::new(),
            draft: None,
            schema: None,
            params: params.clone(),
        };
        let recipe = Rc::new(Recipe::of(&text));
        let saved = onedraw::Sampler::new(params).expect("a sampler").save();
        let mut rows = Rows::default();
        for token in 0..20 {
            rows.keep(&[token], &[0.5], Some((recipe.clone(), saved.clone())));
        }
        // Each row has a copy of the ids, of 4 MiB.
        assert!(recipe.bytes >= 4 << 20, "{}", recipe.bytes);
        assert!(rows.rows.len() < 16 && rows.bytes <= BYTES, "{} {}", rows.rows.len(), rows.bytes);
        assert!(rows.find(&[19]).is_some_and(|row| row.history(&recipe).is_some()));
    }

    #[test]
    fn the_last_row_is_kept_in_any_case() {
        let mut rows = Rows::within(0);
        rows.keep(&[1], &[0.5], None);
        rows.keep(&[2], &[0.5], None);
        assert!(rows.find(&[1]).is_none() && rows.find(&[2]).is_some());
    }
}
