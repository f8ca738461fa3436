//! The tree of a beam search: what was kept, what was dropped, what ended, what was cut.

use onedraw::beam::{Expansion, Fate};

/// A token that continues a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub parent: Option<usize>,
    pub token: u32,
    /// What candidates were compared by: the sum of logprobs, or the perturbed sum for stochastic beams.
    pub score: f64,
    pub fate: Fate,
    /// Whether the best text goes through it.
    pub is_best: bool,
    /// Its continuations, the best first.
    pub children: Vec<usize>,
}

/// What the marks after the score of a node mean.
pub const ENDS: &str = "■ ended   … cut by max_tokens";

impl Node {
    /// The mark after the score of a node: `■` if its text ended there, `…` if max_tokens cut it there.
    pub fn end(&self) -> &'static str {
        match self.fate {
            Fate::Ended => " ■",
            Fate::Cut => " …",
            Fate::Kept | Fate::Dropped => "",
        }
    }
}

/// The tree, parents before their children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    pub title: String,
    pub nodes: Vec<Node>,
    /// The first tokens, the best first.
    pub roots: Vec<usize>,
    /// The last node of each beam of the next step; `None`: the beam is still at the prompt.
    beams: Vec<Option<usize>>,
}

impl Tree {
    /// Adds one step of the search.
    pub fn grow(&mut self, expansion: &Expansion) {
        let first = self.nodes.len();
        for candidate in &expansion.candidates {
            // In the first step all beams are at the prompt.
            let parent = self.beams.get(candidate.beam).copied().flatten();
            let (token, score, fate) = (candidate.token, candidate.score, candidate.fate);
            let node = self.nodes.len();
            self.nodes.push(Node { parent, token, score, fate, is_best: false, children: Vec::new() });
            match parent {
                Some(parent) => self.nodes[parent].children.push(node),
                None => self.roots.push(node),
            }
        }
        let new = first..self.nodes.len();
        let of = |beam: usize, token: u32| {
            let is = |node: &usize| {
                let candidate = &expansion.candidates[node - first];
                candidate.beam == beam && candidate.token == token && candidate.fate == Fate::Kept
            };
            new.clone().find(is)
        };
        self.beams = expansion.branches.iter().map(|branch| of(branch.beam, branch.token)).collect();
    }

    /// Marks the nodes of the best text.
    pub fn mark(&mut self, tokens: &[u32]) {
        // Several groups may have written the same beginning; only one of them wrote the whole text.
        let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
        for token in tokens {
            let longer = |way: &Vec<usize>| {
                let after = way.last().map_or(&self.roots, |&node| &self.nodes[node].children);
                let went = |node: &&usize| {
                    self.nodes[**node].token == *token && self.nodes[**node].fate != Fate::Dropped
                };
                let ways = after.iter().filter(went).map(|&node| [&way[..], &[node]].concat());
                ways.collect::<Vec<_>>()
            };
            ways = ways.iter().flat_map(longer).collect();
        }
        for node in ways.into_iter().next().unwrap_or_default() {
            self.nodes[node].is_best = true;
        }
    }

    /// Nodes from top to bottom as they are shown, with their depth.
    pub fn walk(&self) -> Vec<(usize, usize)> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut waiting: Vec<(usize, usize)> = self.roots.iter().rev().map(|&root| (root, 0)).collect();
        while let Some((node, depth)) = waiting.pop() {
            order.push((node, depth));
            waiting.extend(self.nodes[node].children.iter().rev().map(|&child| (child, depth + 1)));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use onedraw::beam::{Branch, Candidate};

    use super::*;

    fn candidate(beam: usize, token: u32, score: f64, fate: Fate) -> Candidate {
        Candidate { beam, token, logprob: score, score, fate }
    }

    #[test]
    fn branches_hang_where_they_grew() {
        let mut tree = Tree::default();
        tree.grow(&Expansion {
            branches: vec![Branch { beam: 0, token: 5 }, Branch { beam: 0, token: 3 }],
            candidates: vec![
                candidate(0, 5, -0.5, Fate::Kept),
                candidate(0, 3, -1.0, Fate::Kept),
                candidate(0, 9, -2.0, Fate::Dropped),
            ],
        });
        // The second beam gets ahead, and the other ends.
        tree.grow(&Expansion {
            branches: vec![Branch { beam: 1, token: 7 }],
            candidates: vec![candidate(1, 7, -1.1, Fate::Kept), candidate(0, 2, -1.5, Fate::Ended)],
        });
        tree.grow(&Expansion { branches: vec![], candidates: vec![candidate(0, 4, -1.2, Fate::Cut)] });
        let parents: Vec<Option<usize>> = tree.nodes.iter().map(|node| node.parent).collect();
        assert_eq!(parents, [None, None, None, Some(1), Some(0), Some(3)]);
        assert_eq!(tree.walk(), [(0, 0), (4, 1), (1, 0), (3, 1), (5, 2), (2, 0)]);
        tree.mark(&[3, 7, 4]);
        let best: Vec<usize> = (0..6).filter(|&node| tree.nodes[node].is_best).collect();
        assert_eq!(best, [1, 3, 5]);
        let ends: Vec<&str> = tree.nodes.iter().map(Node::end).collect();
        assert_eq!(ends, ["", "", "", "", " ■", " …"]);
    }

    #[test]
    fn of_two_groups_with_one_beginning_the_one_that_went_on_is_marked() {
        let mut tree = Tree::default();
        tree.grow(&Expansion {
            branches: vec![Branch { beam: 0, token: 5 }, Branch { beam: 1, token: 5 }],
            candidates: vec![candidate(0, 5, -0.5, Fate::Kept), candidate(1, 5, -0.6, Fate::Kept)],
        });
        tree.grow(&Expansion {
            branches: vec![],
            candidates: vec![candidate(0, 2, -1.0, Fate::Ended), candidate(1, 3, -0.9, Fate::Ended)],
        });
        tree.mark(&[5, 3]);
        let best: Vec<usize> = (0..4).filter(|&node| tree.nodes[node].is_best).collect();
        assert_eq!(best, [1, 3]);
    }
}
