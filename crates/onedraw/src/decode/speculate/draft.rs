//! A draft: the guesses, and the distributions that they were drawn from.

use super::law::{Law, Probabilities};
use super::tree::DraftTree;
use crate::error::RowError;

/// The guesses of a drafter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The guessed tokens.
    pub tree: DraftTree,
    /// The distributions that they were drawn from: `laws[0]` of the guesses after the text, `laws[i + 1]` of
    /// those after node i. The law of a node without children is ignored. Empty if the drafter does not know
    /// any; then only [`Verify::Exact`](super::Verify::Exact) and [`Verify::Typical`](super::Verify::Typical)
    /// can verify the draft.
    pub laws: Vec<Law>,
}

impl Draft {
    /// A chain of guesses, one after the other, without laws.
    pub fn chain(tokens: &[u32]) -> Self {
        Self { tree: DraftTree::chain(tokens), laws: Vec::new() }
    }

    /// Guesses that were not drawn at random, for example from an n-gram, or the best few tokens after each
    /// node.
    pub fn given(tree: DraftTree) -> Self {
        let laws = vec![Law::Given; tree.len() + 1];
        Self { tree, laws }
    }

    /// Adds all guesses after a node, or after the text if `parent` is `None`, with the law that they were
    /// drawn from, as [`Batch::guess`](crate::Batch::guess) returns them. Returns their nodes in the tree.
    ///
    /// # Panics
    ///
    /// If there is no such parent.
    pub fn grow(&mut self, parent: Option<usize>, tokens: &[u32], law: Law) -> Vec<usize> {
        let nodes = tokens.iter().map(|&token| self.tree.push(parent, token)).collect();
        self.laws.resize(self.tree.len() + 1, Law::Given);
        self.laws[place(parent)] = law;
        nodes
    }

    /// Checks that every guess has a law that it can come from, for rows of `vocabulary` logits.
    /// [`Verify::Rejection`](super::Verify::Rejection) and [`Verify::Block`](super::Verify::Block) need that.
    /// The error says whether laws are missing, a token lies outside the vocabulary, or a guess has
    /// probability 0.
    pub fn check_laws(&self, vocabulary: usize) -> Result<(), RowError> {
        let (laws, needed) = (self.laws.len(), self.tree.len() + 1);
        match laws {
            0 if needed == 1 => return Ok(()),
            0 => return Err(RowError::DraftWithoutLaws),
            _ if laws != needed => return Err(RowError::DraftLaws { laws, needed }),
            _ => {}
        }
        for (node, (&token, &parent)) in self.tree.tokens().iter().zip(self.tree.parents()).enumerate() {
            let law = &self.laws[place(parent)];
            let last = match law {
                Law::Given => token,
                Law::Drawn(law) => law.tokens().last().map_or(token, |&last| last.max(token)),
            };
            if last as usize >= vocabulary {
                return Err(RowError::OutsideVocabulary { field: "draft", token: last, vocabulary });
            }
            if let Law::Drawn(law) = law
                && law.probability(token) <= 0.0
            {
                return Err(RowError::ImpossibleGuess { node, token });
            }
        }
        Ok(())
    }

    /// The guessed tokens after a node, or after the text.
    pub(super) fn guesses(&self, parent: Option<usize>) -> Vec<u32> {
        self.tree.children(parent).map(|child| self.tree.tokens()[child]).collect()
    }

    /// The distribution that the guesses after a node, or after the text, were drawn from; `None` if they
    /// were not drawn.
    pub(super) fn law(&self, parent: Option<usize>) -> Option<&Probabilities> {
        match self.laws.get(place(parent)) {
            Some(Law::Drawn(law)) => Some(law),
            _ => None,
        }
    }
}

/// The index of a node in a list whose first entry belongs to the text.
pub(super) fn place(node: Option<usize>) -> usize {
    node.map_or(0, |node| node + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_grows_with_its_laws() {
        let law = Law::Drawn(Probabilities::certain(4));
        let mut draft = Draft::default();
        assert_eq!(draft.grow(None, &[7, 5], Law::Given), [0, 1]);
        assert_eq!(draft.grow(Some(1), &[4], law.clone()), [2]);
        assert_eq!(draft.laws, [Law::Given, Law::Given, law, Law::Given]);
        assert_eq!((draft.guesses(None), draft.guesses(Some(1))), (vec![7, 5], vec![4]));
        assert_eq!((draft.law(None), draft.law(Some(1))), (None, Some(&Probabilities::certain(4))));
        assert_eq!(draft.check_laws(8), Ok(()));
        assert_eq!(Draft::given(DraftTree::chain(&[1, 2])).laws, [Law::Given, Law::Given, Law::Given]);
    }
}
