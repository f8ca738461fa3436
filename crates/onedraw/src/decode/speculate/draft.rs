//! What a drafter guesses, and from which laws.

use super::law::{Law, Probabilities};
use super::tree::DraftTree;
use crate::error::RowError;

/// What a drafter guesses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The guesses.
    pub tree: DraftTree,
    /// What they were drawn from: `laws[0]` those after the text, `laws[i + 1]` those after node i. The law
    /// of a node without children is not looked at. None at all, if the drafter knows none: then only
    /// [`Verify::Exact`](super::Verify::Exact) and [`Verify::Typical`](super::Verify::Typical) can judge the
    /// draft.
    pub laws: Vec<Law>,
}

impl Draft {
    /// Guesses that come one after the other, without laws.
    pub fn chain(tokens: &[u32]) -> Self {
        Self { tree: DraftTree::chain(tokens), laws: Vec::new() }
    }

    /// Guesses that were not drawn: an n-gram's, or the best few after each node.
    pub fn given(tree: DraftTree) -> Self {
        let laws = vec![Law::Given; tree.len() + 1];
        Self { tree, laws }
    }

    /// Adds all guesses after a node, or after the text, with the law they come from: what
    /// [`Batch::guess`](crate::Batch::guess) returns. Their places in the tree.
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

    /// Whether every guess has a law that it can come from, for rows of that many logits, as
    /// [`Verify::Rejection`](super::Verify::Rejection) and [`Verify::Block`](super::Verify::Block) need it.
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

    /// The guesses after a node, or after the text, as tokens.
    pub(super) fn guesses(&self, parent: Option<usize>) -> Vec<u32> {
        self.tree.children(parent).map(|child| self.tree.tokens()[child]).collect()
    }

    /// What the guesses after a node, or after the text, were drawn from; `None`: they were given.
    pub(super) fn law(&self, parent: Option<usize>) -> Option<&Probabilities> {
        match self.laws.get(place(parent)) {
            Some(Law::Drawn(law)) => Some(law),
            _ => None,
        }
    }
}

/// Where in a list that begins with the text a node stands.
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
