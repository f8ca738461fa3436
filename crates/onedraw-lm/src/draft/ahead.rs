//! The draft of one text as it grows: the guesses so far, and which of them to expand next.

use std::cell::RefCell;

use onedraw::speculate::{Draft, DraftTree, Law, Verify};
use onedraw::{Batch, Constraint, SequenceId};

use crate::draft::chance::{Chances, Class};
use crate::draft::cursor::Cursor;
use crate::draft::settings::Speculation;
use crate::model::{LanguageModel, Sequence};

/// One text, as its drafter sees it, at the place where guesses are wanted: first after the text, then after
/// [guesses](Self::path) that were made before.
///
/// A drafter with logits gives those that follow this place to [`grow`](Self::grow). A drafter with tokens and no
/// logits gives these to [`copy`](Self::copy). One that has nothing to say here leaves it.
pub struct Ahead<'g, M: LanguageModel> {
    memory: &'g mut M::Sequence,
    text: &'g [u32],
    unread: usize,
    cursor: Cursor<'g>,
    chances: &'g Chances,
    settings: Speculation,
    /// How many guesses may follow each other.
    depth: usize,
    /// How many guesses may follow one place.
    width: usize,
    nodes: Vec<Node>,
    /// The law that the guesses after the text, and after each node, were drawn from.
    laws: Vec<Option<Law>>,
    /// The place where guesses are wanted: after this node, or after the text.
    place: Option<usize>,
    /// The tokens of the guesses up to there.
    path: Vec<u32>,
    expansions: usize,
    exited: Option<Exited>,
}

/// A guess.
struct Node {
    parent: Option<usize>,
    token: u32,
    depth: usize,
    /// The chance that the text comes here: the tokens that this guess is expected to gain.
    worth: f64,
    class: Class,
    is_expanded: bool,
}

/// Positions that went through the first layers of the target: the unread tokens and the first guesses.
struct Exited {
    layers: usize,
    states: Vec<f32>,
    positions: usize,
}

/// What goes into the next pass of the target for one text.
#[derive(Default)]
pub(crate) struct Plan {
    pub draft: Draft,
    /// The class of each guess.
    pub(super) classes: Vec<Class>,
    /// How many layers the first positions went through already, and their states after these.
    pub known: Option<(usize, Vec<f32>)>,
}

/// A text that is to be guessed, as the generator gives it.
pub(crate) struct Text<'g, M: LanguageModel> {
    pub memory: &'g mut M::Sequence,
    pub tokens: &'g [u32],
    /// How many of the last tokens the target has not read.
    pub unread: usize,
    pub sampler: SequenceId,
    pub constraint: Option<&'g mut (dyn Constraint + 'static)>,
    /// How many tokens it may still get.
    pub room: usize,
}

impl<'g, M: LanguageModel> Ahead<'g, M> {
    /// `None` if no guess can be verified.
    pub(super) fn new(
        target: &M,
        batch: &'g RefCell<&'g mut Batch>,
        chances: &'g Chances,
        settings: Speculation,
        text: Text<'g, M>,
    ) -> Option<Self> {
        let Text { memory, tokens, unread, sampler, constraint, room } = text;
        // The last token of a text needs no guess after it, and every guess needs a position within the
        // context.
        let depth = settings.depth.min(room.saturating_sub(1)).min(target.context() - tokens.len());
        (depth > 0).then(|| Self {
            memory,
            text: tokens,
            unread,
            cursor: Cursor::new(batch, sampler, constraint),
            chances,
            settings,
            depth,
            width: settings.width,
            nodes: Vec::new(),
            laws: vec![None],
            place: None,
            path: Vec::new(),
            expansions: 0,
            exited: None,
        })
    }

    /// The tokens so far.
    pub fn text(&self) -> &'g [u32] {
        self.text
    }

    /// How many of the last tokens of the text the target has not read yet; at least one.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// The guesses between the text and the place where guesses are wanted.
    pub fn path(&self) -> &[u32] {
        &self.path
    }

    /// How many guesses may follow each other.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// After how many tokens that a drafter has not read it is to begin with the last of them, rather than read them
    /// all: its guesses will be about as good, and a drafter that rested for long catches up in the time of a pass.
    /// Reading 64 tokens took an EAGLE head as long as four passes of the story model. No limit where the distribution
    /// of the guesses counts.
    pub fn most_missed(&self) -> usize {
        const MOST_MISSED: usize = 16;
        if self.settings.is_adaptive() { MOST_MISSED } else { usize::MAX }
    }

    /// What the target remembers of the text, without the tokens that it has not read.
    pub fn memory(&mut self) -> &mut M::Sequence {
        self.memory
    }

    /// Makes at most one guess after each place from now on.
    pub fn keep_to_a_line(&mut self) {
        self.width = 1;
    }

    /// Guesses from the drafter's logits after this place.
    pub fn grow(&mut self, logits: &[f32]) {
        self.expansions += 1;
        let parent = self.place;
        let (depth, worth) = parent.map_or((0, 1.0), |node| (self.nodes[node].depth, self.nodes[node].worth));
        if depth >= self.depth {
            return;
        }
        let node =
            |token, class, worth| Node { parent, token, depth: depth + 1, worth, class, is_expanded: false };
        // If nothing can be drawn from the drafter's row, there is no guess, and the target draws for itself.
        match self.settings.verify {
            Verify::Exact => {
                let count = self.width.max(2);
                let runners = self.cursor.runners(&self.path, logits, count).unwrap_or_default();
                for (place, runner) in runners.iter().enumerate().take(self.width) {
                    let class = Class::runner(&runners, place);
                    self.push(node(runner.token, class, worth * self.chances.of(class)));
                }
            }
            _ => {
                if let Ok((tokens, law)) = self.cursor.guess(&self.path, logits, self.width) {
                    self.laws[parent.map_or(0, |node| node + 1)] = Some(law);
                    for token in tokens {
                        self.push(node(token, Class::copied(1, depth), worth));
                    }
                }
            }
        }
    }

    /// Guesses these tokens, one after the other. They followed when the last `length` tokens of the text
    /// stood in it before.
    pub fn copy(&mut self, tokens: &[u32], length: usize) {
        let (mut parent, mut worth) = (None, 1.0);
        for (depth, &token) in tokens.iter().enumerate().take(self.depth) {
            let class = Class::copied(length, depth);
            worth *= self.chances.of(class);
            self.push(Node { parent, token, depth: depth + 1, worth, class, is_expanded: true });
            parent = Some(self.nodes.len() - 1);
        }
    }

    /// Says that more positions went through the first layers of the target and are in its memory: the unread tokens,
    /// then the guesses up to this place, which follow each other. `states` are the states of those that were not said
    /// before; the pass continues from these.
    pub fn take_on(&mut self, layers: usize, states: Vec<f32>, positions: usize) {
        let exited = self.exited.get_or_insert(Exited { layers, states: Vec::new(), positions: 0 });
        exited.states.extend(states);
        exited.positions += positions;
    }

    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.laws.push(None);
    }

    /// The guesses that may be expanded, in their order.
    fn open(&self) -> impl Iterator<Item = (usize, f64)> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(_, node)| !node.is_expanded && node.depth < self.depth)
            .map(|(place, node)| (place, node.worth))
    }

    /// The guess to expand next, and its worth: the worthiest, or the first where all are to be expanded.
    pub(super) fn next(&self) -> Option<(usize, f64)> {
        match self.settings.is_adaptive() {
            true => self.open().reduce(|best, other| if other.1 > best.1 { other } else { best }),
            false => self.open().next(),
        }
    }

    /// Wants guesses after this one.
    pub(super) fn go_to(&mut self, node: usize) {
        self.nodes[node].is_expanded = true;
        self.path.clear();
        let mut at = Some(node);
        while let Some(node) = at {
            self.path.push(self.nodes[node].token);
            at = self.nodes[node].parent;
        }
        self.path.reverse();
        self.place = Some(node);
    }

    /// At how many places the drafter gave logits.
    pub(super) fn expansions(&self) -> usize {
        self.expansions
    }

    /// The worth of each guess, in their order. A guess is worth no more than its parent, which comes before it.
    pub(super) fn worths(&self) -> impl Iterator<Item = f64> {
        self.nodes.iter().map(|node| node.worth)
    }

    /// These of the guesses, a tree in their order, go into the pass.
    pub(super) fn plan(mut self, chosen: &[usize]) -> Plan {
        self.cursor.go_back();
        let mut tree = DraftTree::new();
        let mut places = vec![None; self.nodes.len()];
        for &node in chosen {
            let Node { parent, token, .. } = self.nodes[node];
            places[node] = Some(tree.push(parent.and_then(|parent| places[parent]), token));
        }
        let laws = match self.settings.verify {
            Verify::Exact => Vec::new(),
            // Copied guesses were not drawn from a law.
            _ => self.laws.into_iter().map(|law| law.unwrap_or(Law::Given)).collect(),
        };
        let read = self.text.len() - self.unread;
        let known = self.exited.map(|Exited { layers, mut states, positions }| {
            let kept = positions.min(self.unread + tree.len());
            states.truncate(states.len() / positions.max(1) * kept);
            self.memory.cut(read + kept);
            (layers, states)
        });
        let classes = chosen.iter().map(|&node| self.nodes[node].class).collect();
        Plan { draft: Draft { tree, laws }, classes, known }
    }

    /// Leaves the text as it was.
    pub(super) fn give_up(mut self) {
        self.cursor.go_back();
        self.memory.cut(self.text.len() - self.unread);
    }
}
