//! A tree of guessed tokens.

/// A tree of tokens that may follow a text. Each token follows the text itself or an earlier node. A parent
/// has at most one child for each token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftTree {
    tokens: Vec<u32>,
    parents: Vec<Option<usize>>,
}

impl DraftTree {
    /// A tree without guesses.
    pub fn new() -> Self {
        Self::default()
    }

    /// A chain: one guess after the other.
    pub fn chain(tokens: &[u32]) -> Self {
        let parents = (0..tokens.len()).map(|node| node.checked_sub(1)).collect();
        Self { tokens: tokens.to_vec(), parents }
    }

    /// Adds a guess after a node, or after the text if `parent` is `None`. Returns its node, which is an
    /// existing one if the parent already has this child.
    ///
    /// # Panics
    ///
    /// If there is no such parent.
    pub fn push(&mut self, parent: Option<usize>, token: u32) -> usize {
        assert!(parent.is_none_or(|parent| parent < self.len()), "there is no node {parent:?}");
        self.child(parent, token).unwrap_or_else(|| {
            self.tokens.push(token);
            self.parents.push(parent);
            self.len() - 1
        })
    }

    /// The number of guesses.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are no guesses.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The token of each node. Parents come before their children.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The parent of each node; `None` means the text.
    pub fn parents(&self) -> &[Option<usize>] {
        &self.parents
    }

    /// The nodes after a node, or after the text, in the order in which they were added.
    pub fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> {
        (parent.map_or(0, |parent| parent + 1)..self.len()).filter(move |&node| self.parents[node] == parent)
    }

    /// The node that guesses `token` after a node, or after the text.
    pub fn child(&self, parent: Option<usize>, token: u32) -> Option<usize> {
        self.children(parent).find(|&node| self.tokens[node] == token)
    }

    /// Whether every node follows the one before it.
    pub fn is_chain(&self) -> bool {
        self.parents.iter().enumerate().all(|(node, parent)| *parent == node.checked_sub(1))
    }

    /// The nodes on the way from the text to this one, which is the last.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let mut path = vec![node];
        while let Some(parent) = self.parents[path[path.len() - 1]] {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// The number of nodes on the longest way down.
    pub fn depth(&self) -> usize {
        let mut depths = Vec::with_capacity(self.len());
        for parent in &self.parents {
            let above: usize = parent.map_or(0, |parent: usize| depths[parent]);
            depths.push(above + 1);
        }
        depths.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_knows_its_ways() {
        let mut tree = DraftTree::new();
        let a = tree.push(None, 5);
        let b = tree.push(None, 7);
        let c = tree.push(Some(a), 7);
        assert_eq!(tree.push(Some(a), 7), c);
        let d = tree.push(Some(c), 1);
        assert_eq!((tree.len(), tree.depth(), tree.is_chain()), (4, 3, false));
        assert_eq!(tree.children(None).collect::<Vec<_>>(), [a, b]);
        assert_eq!(
            (tree.child(Some(a), 7), tree.child(None, 7), tree.child(Some(b), 7)),
            (Some(c), Some(b), None)
        );
        assert_eq!(tree.path(d), [a, c, d]);
    }

    #[test]
    fn a_chain_is_one_way() {
        let chain = DraftTree::chain(&[3, 3, 4]);
        assert_eq!(chain.parents(), [None, Some(0), Some(1)]);
        assert!(chain.is_chain() && DraftTree::new().is_chain());
        assert_eq!((chain.depth(), DraftTree::new().depth()), (3, 0));
    }
}
