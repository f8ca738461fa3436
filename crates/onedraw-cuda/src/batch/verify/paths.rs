//! The tokens on the path to every node of a tree, in one list.

use onedraw::speculate::DraftTree;

/// Paths lie one after the other. A path that continues the last one shares its tokens, so that a chain is
/// stored once.
#[derive(Debug, Default)]
pub(super) struct Paths {
    tokens: Vec<u32>,
}

impl Paths {
    /// Adds a tree. Returns, for the text and then for every node, where its path begins in the list and how
    /// long it is.
    pub(super) fn add(&mut self, tree: &DraftTree) -> Vec<(usize, usize)> {
        let mut paths = vec![(self.tokens.len(), 0)];
        for (&token, &parent) in tree.tokens().iter().zip(tree.parents()) {
            let (mut start, depth) = paths[parent.map_or(0, |parent| parent + 1)];
            if start + depth != self.tokens.len() {
                let before = start..start + depth;
                start = self.tokens.len();
                self.tokens.extend_from_within(before);
            }
            self.tokens.push(token);
            paths.push((start, depth + 1));
        }
        paths
    }

    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(paths: &Paths, (start, depth): (usize, usize)) -> &[u32] {
        &paths.tokens()[start..start + depth]
    }

    #[test]
    fn a_chain_is_stored_once() {
        let mut paths = Paths::default();
        assert_eq!(paths.add(&DraftTree::chain(&[9])), [(0, 0), (0, 1)]);
        assert_eq!(paths.add(&DraftTree::chain(&[3, 3, 4])), [(1, 0), (1, 1), (1, 2), (1, 3)]);
        assert_eq!(paths.add(&DraftTree::new()), [(4, 0)]);
        assert_eq!(paths.tokens(), [9, 3, 3, 4]);
    }

    #[test]
    fn branches_have_ways_of_their_own() {
        let mut tree = DraftTree::new();
        let a = tree.push(None, 5);
        let b = tree.push(None, 7);
        let c = tree.push(Some(a), 8);
        let d = tree.push(Some(b), 9);
        tree.push(Some(c), 1);
        tree.push(Some(d), 2);
        let mut paths = Paths::default();
        paths.add(&DraftTree::chain(&[6, 6]));
        let ways = paths.add(&tree);
        let tokens: Vec<&[u32]> = ways.iter().map(|&each| way(&paths, each)).collect();
        assert_eq!(tokens, [&[][..], &[5], &[7], &[5, 8], &[7, 9], &[5, 8, 1], &[7, 9, 2]]);
    }
}
