//! The draft of one text as it grows: the guesses so far, and which of them to expand next.

use std::time::Duration;

use onedraw::clock::Instant;

use onedraw::speculate::{Draft, DraftTree, Law, Verify};
use onedraw::{Batch, Constraint, RowError, Runner, SequenceId, Step};

use crate::draft::chance::Class;
use crate::draft::policy::Policy;
use crate::draft::settings::Speculation;
use crate::model::{LanguageModel, Sequence};

/// One text, as its drafter sees it.
///
/// A drafter with logits gives them to [`grow`](Self::grow): first those after the text, then those after the
/// guess that `grow` returned, until it returns none. A drafter with tokens and no logits gives these to
/// [`copy`](Self::copy).
pub struct Ahead<'g, M: LanguageModel> {
    target: &'g M,
    memory: &'g mut M::Sequence,
    text: &'g [u32],
    unread: usize,
    cursor: Cursor<'g>,
    policy: &'g Policy,
    settings: Speculation,
    /// How many guesses may follow each other.
    depth: usize,
    /// How many guesses may follow one place.
    width: usize,
    /// How many positions the pass has without guesses, and with the guesses for other texts.
    plain: usize,
    positions: usize,
    nodes: Vec<Node>,
    /// The law that the guesses after the text, and after each node, were drawn from.
    laws: Vec<Option<Law>>,
    expansions: usize,
    begun: Instant,
    /// When the first expansion was over.
    first_expanded: Option<Instant>,
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
    width: usize,
}

/// What goes into the next pass of the target for one text.
#[derive(Default)]
pub(crate) struct Plan {
    pub draft: Draft,
    /// The class of each guess.
    pub(super) classes: Vec<Class>,
    /// How many layers the first positions went through already, and their states after these.
    pub known: Option<(usize, Vec<f32>)>,
    pub expansions: usize,
    /// How long the first expansion took, and the others together.
    pub(super) times: (Duration, Duration),
    /// How many of the guesses are expected to be accepted.
    pub(super) worth: f64,
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
    /// How many positions the pass has without guesses.
    pub plain: usize,
    /// How many it has with the guesses for other texts.
    pub positions: usize,
}

impl<'g, M: LanguageModel> Ahead<'g, M> {
    pub(super) fn new(
        target: &'g M,
        batch: &'g mut Batch,
        policy: &'g Policy,
        settings: Speculation,
        text: Text<'g, M>,
    ) -> Self {
        let Text { memory, tokens, unread, sampler, constraint, room, plain, positions } = text;
        // The last token of a text needs no guess after it, and every guess needs a position within the
        // context.
        let depth = settings.depth.min(room.saturating_sub(1)).min(target.context() - tokens.len());
        let cursor = Cursor::new(batch, sampler, constraint);
        Self {
            target,
            memory,
            text: tokens,
            unread,
            cursor,
            policy,
            settings,
            depth,
            width: settings.width,
            plain,
            positions,
            nodes: Vec::new(),
            laws: vec![None],
            expansions: 0,
            begun: Instant::now(),
            first_expanded: None,
            exited: None,
        }
    }

    /// The tokens so far.
    pub fn text(&self) -> &'g [u32] {
        self.text
    }

    /// How many of the last tokens the target has not read yet; at least one.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// How many guesses may follow each other.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// After how many tokens that a drafter has not read it is to begin with the last of them, rather than read them
    /// all: its guesses will be about as good, and a drafter that rested for long catches up in the time of a pass or
    /// two. No limit where the distribution of the guesses counts.
    pub fn most_missed(&self) -> usize {
        const MOST_MISSED: usize = 64;
        if self.settings.is_adaptive() { MOST_MISSED } else { usize::MAX }
    }

    /// The target, and what it remembers of the text, without the tokens that it has not read.
    pub fn target(&mut self) -> (&'g M, &mut M::Sequence) {
        (self.target, self.memory)
    }

    /// Makes at most one guess after each place from now on.
    pub fn keep_to_a_line(&mut self) {
        self.width = 1;
    }

    /// The tokens of the guesses up to this one, the earliest first.
    pub fn path(&self, node: usize) -> Vec<u32> {
        let mut path = vec![self.nodes[node].token];
        let mut at = node;
        while let Some(parent) = self.nodes[at].parent {
            path.push(self.nodes[parent].token);
            at = parent;
        }
        path.reverse();
        path
    }

    /// Guesses from the drafter's logits after the text (`None`) or after a guess. Returns the guess to
    /// expand next, if that pays.
    pub fn grow(&mut self, node: Option<usize>, logits: &[f32]) -> Option<usize> {
        self.expansions += 1;
        let (depth, worth) = node.map_or((0, 1.0), |node| {
            self.nodes[node].is_expanded = true;
            (self.nodes[node].depth, self.nodes[node].worth)
        });
        let path = node.map(|node| self.path(node)).unwrap_or_default();
        if depth < self.depth {
            // If nothing can be drawn from the drafter's row, there is no guess, and the target draws for
            // itself.
            match self.settings.verify {
                Verify::Exact => {
                    let runners = self.cursor.runners(&path, logits, self.width.max(2)).unwrap_or_default();
                    for (place, runner) in runners.iter().enumerate().take(self.width) {
                        let class = Class::runner(&runners, place);
                        let worth = worth * self.policy.chances.of(class);
                        self.push(Node {
                            parent: node,
                            token: runner.token,
                            depth: depth + 1,
                            worth,
                            class,
                            is_expanded: false,
                        });
                    }
                }
                _ => {
                    if let Ok((tokens, law)) = self.cursor.guess(&path, logits, self.width) {
                        self.laws[node.map_or(0, |node| node + 1)] = Some(law);
                        for token in tokens {
                            let class = Class::copied(1, depth);
                            self.push(Node {
                                parent: node,
                                token,
                                depth: depth + 1,
                                worth,
                                class,
                                is_expanded: false,
                            });
                        }
                    }
                }
            }
        }
        self.first_expanded.get_or_insert_with(Instant::now);
        self.next()
    }

    /// Guesses these tokens, one after the other. They followed when the last `length` tokens of the text
    /// stood in it before.
    pub fn copy(&mut self, tokens: &[u32], length: usize) {
        let (mut parent, mut worth) = (None, 1.0);
        for (depth, &token) in tokens.iter().enumerate().take(self.depth) {
            let class = Class::copied(length, depth);
            worth *= self.policy.chances.of(class);
            self.push(Node { parent, token, depth: depth + 1, worth, class, is_expanded: true });
            parent = Some(self.nodes.len() - 1);
        }
    }

    /// Says that the unread tokens and the guesses that were expanded, which follow each other, went through
    /// the first layers of the target and are in its memory. `states` are their states, `width` numbers each;
    /// the pass continues from these.
    pub fn take_on(&mut self, layers: usize, states: Vec<f32>, width: usize) {
        self.exited = Some(Exited { layers, states, width });
    }

    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.laws.push(None);
    }

    /// The guess to expand next.
    fn next(&self) -> Option<usize> {
        let mut open =
            self.nodes.iter().enumerate().filter(|(_, node)| !node.is_expanded && node.depth < self.depth);
        if !self.settings.is_adaptive() {
            return open.next().map(|(place, _)| place);
        }
        let (place, node) =
            open.reduce(|best, other| if other.1.worth > best.1.worth { other } else { best })?;
        // One guess per expansion is likely to go into the pass.
        let positions = self.positions + self.expansions;
        let first = self.first_expanded.unwrap_or(self.begun) - self.begun;
        self.policy.is_worth_expanding(node.worth, first, self.plain, positions).then_some(place)
    }

    /// The guesses that are worth a position in the pass.
    pub(super) fn plan(mut self) -> Plan {
        self.cursor.go_back();
        let mut chosen: Vec<usize> = (0..self.nodes.len()).collect();
        if self.settings.is_adaptive() {
            // A guess is worth no more than its parent, so the worthiest ones are a tree.
            chosen.sort_by(|&a, &b| self.nodes[b].worth.total_cmp(&self.nodes[a].worth).then(a.cmp(&b)));
            let worths: Vec<f64> = chosen.iter().map(|&node| self.nodes[node].worth).collect();
            chosen.truncate(self.policy.choose(&worths, self.plain, self.positions));
            chosen.sort_unstable();
        }
        let mut tree = DraftTree::new();
        let mut places = vec![None; self.nodes.len()];
        for &node in &chosen {
            let Node { parent, token, .. } = self.nodes[node];
            places[node] = Some(tree.push(parent.and_then(|parent| places[parent]), token));
        }
        let laws = match self.settings.verify {
            Verify::Exact => Vec::new(),
            // Copied guesses were not drawn from a law.
            _ => self.laws.into_iter().map(|law| law.unwrap_or(Law::Given)).collect(),
        };
        let known = self.exited.map(|Exited { layers, mut states, width }| {
            let read = self.text.len() - self.unread;
            let kept = (states.len() / width.max(1)).min(self.unread + tree.len());
            states.truncate(kept * width);
            self.memory.cut(read + kept);
            (layers, states)
        });
        let expanded = self.first_expanded.unwrap_or(self.begun);
        let times = (expanded - self.begun, expanded.elapsed());
        let classes = chosen.iter().map(|&node| self.nodes[node].class).collect();
        let worth = chosen.iter().map(|&node| self.nodes[node].worth).sum();
        Plan { draft: Draft { tree, laws }, classes, known, expansions: self.expansions, times, worth }
    }
}

/// A sequence of a batch, moved along guesses and back to the end of the text.
struct Cursor<'g> {
    batch: &'g mut Batch,
    id: SequenceId,
    constraint: Option<&'g mut (dyn Constraint + 'static)>,
    /// The length of the output without guesses.
    length: usize,
    /// The guesses that were appended to the sequence and the constraint.
    path: Vec<u32>,
}

impl<'g> Cursor<'g> {
    fn new(
        batch: &'g mut Batch,
        id: SequenceId,
        constraint: Option<&'g mut (dyn Constraint + 'static)>,
    ) -> Self {
        let length = batch.output(id).map_or(0, <[u32]>::len);
        Self { batch, id, constraint, length, path: Vec::new() }
    }

    /// The first runners of the race after these guesses.
    fn runners(&mut self, path: &[u32], logits: &[f32], count: usize) -> Result<Vec<Runner>, RowError> {
        self.go_to(path)?;
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask()).transpose();
        let mask = mask.map_err(|error| error.of_row())?;
        let step = Step { sequence: self.id, row: logits.into(), mask };
        self.batch.runners(&[step], count).pop().unwrap_or(Err(RowError::UnknownSequence))
    }

    /// Draws guesses after these guesses. Returns them, and the law that they were drawn from.
    fn guess(&mut self, path: &[u32], logits: &[f32], count: usize) -> Result<(Vec<u32>, Law), RowError> {
        self.go_to(path)?;
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask()).transpose();
        let mask = mask.map_err(|error| error.of_row())?;
        let step = Step { sequence: self.id, row: logits.into(), mask };
        self.batch.guess(&step, count, self.length)
    }

    /// Moves to the end of these guesses. If the constraint forces what comes next, there is nothing to
    /// guess, which counts as an error.
    fn go_to(&mut self, path: &[u32]) -> Result<(), RowError> {
        let common = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        self.back_to(common)?;
        for &token in &path[common..] {
            if let Some(constraint) = &mut self.constraint {
                constraint.accept(token).map_err(|error| error.of_row())?;
            }
            self.batch.accept(self.id, token);
            self.path.push(token);
        }
        let forced = self.constraint.as_mut().map(|constraint| constraint.forced()).transpose();
        match forced.map_err(|error| error.of_row())? {
            Some(tokens) if !tokens.is_empty() => Err(RowError::NothingLeft { stage: None }),
            _ => Ok(()),
        }
    }

    /// Moves back to the first `length` guesses.
    fn back_to(&mut self, length: usize) -> Result<(), RowError> {
        let back = self.path.len() - length;
        if back > 0 {
            self.batch.rewind(self.id, self.length + length);
            self.path.truncate(length);
            if let Some(constraint) = &mut self.constraint {
                constraint.rollback(back).map_err(|error| error.of_row())?;
            }
        }
        Ok(())
    }

    /// Moves back to the end of the text. If a constraint cannot, the draw that follows asks it again and
    /// reports that.
    fn go_back(&mut self) {
        let _ = self.back_to(0);
    }
}
