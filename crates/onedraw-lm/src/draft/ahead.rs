//! A text that a drafter looks ahead of: the guesses so far, and which of them to look behind next.

use std::time::{Duration, Instant};

use onedraw::speculate::{Draft, DraftTree, Law, Verify};
use onedraw::{Batch, Constraint, RowError, Runner, SequenceId, Step};

use crate::model::{LanguageModel, Sequence};
use crate::speculate::policy::{Class, Policy};
use crate::speculate::settings::Speculation;

/// One text, for its drafter.
///
/// A drafter that has logits gives them to [`grow`](Self::grow), first those after the text and then those after the guess that it is told, until it is told
/// none. One that has tokens and no logits gives these to [`copy`](Self::copy).
pub struct Ahead<'g, M: LanguageModel> {
    target: &'g M,
    memory: &'g mut M::Sequence,
    text: &'g [u32],
    unread: usize,
    pen: Pen<'g>,
    policy: &'g Policy,
    settings: Speculation,
    /// Guesses that may follow each other, at most.
    depth: usize,
    /// Guesses after one place, at most.
    width: usize,
    /// Positions that the pass has without guesses, and with those of other texts.
    plain: usize,
    positions: usize,
    nodes: Vec<Node>,
    /// Of the text and of each node, where guesses were drawn.
    laws: Vec<Option<Law>>,
    looks: usize,
    /// When it began, and when the first look was over.
    begun: Instant,
    looked: Option<Instant>,
    taken: Option<Taken>,
}

/// A guess.
struct Node {
    parent: Option<usize>,
    token: u32,
    depth: usize,
    /// The chance that the text comes here.
    worth: f64,
    class: Class,
    is_looked_behind: bool,
}

/// Positions of the target that went through its first layers: the unread tokens and the first guesses.
struct Taken {
    layers: usize,
    states: Vec<f32>,
    width: usize,
}

/// What goes into the target's next pass.
#[derive(Default)]
pub(crate) struct Plan {
    pub draft: Draft,
    /// Of every guess, what its chance is learned by.
    pub(super) classes: Vec<Class>,
    /// Layers that positions went through already, and their states.
    pub known: Option<(usize, Vec<f32>)>,
    pub looks: usize,
    /// What the first look took, and the others together.
    pub(super) times: (Duration, Duration),
}

/// What a text that is looked ahead of is to the generator.
pub(crate) struct Text<'g, M: LanguageModel> {
    pub memory: &'g mut M::Sequence,
    pub tokens: &'g [u32],
    /// How many of the last tokens the target has not read.
    pub unread: usize,
    pub sampler: SequenceId,
    pub constraint: Option<&'g mut (dyn Constraint + 'static)>,
    /// Tokens that it may still have.
    pub room: usize,
    /// Positions that the pass has without guesses.
    pub plain: usize,
    /// And with those of other texts.
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
        // The last token of a text needs no guess after it, and a guess needs a place in the target's memory.
        let depth = settings.depth.min(room.saturating_sub(1)).min(target.context() - tokens.len());
        let pen = Pen::new(batch, sampler, constraint);
        Self {
            target,
            memory,
            text: tokens,
            unread,
            pen,
            policy,
            settings,
            depth,
            width: settings.width,
            plain,
            positions,
            nodes: Vec::new(),
            laws: vec![None],
            looks: 0,
            begun: Instant::now(),
            looked: None,
            taken: None,
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

    /// The target, and what it remembers of the text but for the tokens that it has not read.
    pub fn target(&mut self) -> (&'g M, &mut M::Sequence) {
        (self.target, self.memory)
    }

    /// From now on at most one guess is made after a place.
    pub fn keep_to_a_line(&mut self) {
        self.width = 1;
    }

    /// The tokens of a guess and of those before it, the earliest first.
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

    /// Takes the drafter's logits after the text (`None`) or after a guess, and guesses from them. The guess to look behind next, if it is worth it.
    pub fn grow(&mut self, node: Option<usize>, logits: &[f32]) -> Option<usize> {
        self.looks += 1;
        let (depth, worth) = node.map_or((0, 1.0), |node| {
            self.nodes[node].is_looked_behind = true;
            (self.nodes[node].depth, self.nodes[node].worth)
        });
        let path = node.map(|node| self.path(node)).unwrap_or_default();
        if depth < self.depth {
            // Where nothing can be drawn from the drafter's row, there is no guess; the target decides for itself.
            match self.settings.verify {
                Verify::Exact => {
                    let runners = self.pen.runners(&path, logits, self.width.max(2)).unwrap_or_default();
                    for (rank, runner) in runners.iter().enumerate().take(self.width) {
                        let class = Class::runner(&runners, rank);
                        let worth = worth * self.policy.chance(class);
                        self.push(Node {
                            parent: node,
                            token: runner.token,
                            depth: depth + 1,
                            worth,
                            class,
                            is_looked_behind: false,
                        });
                    }
                }
                _ => {
                    if let Ok((tokens, law)) = self.pen.guess(&path, logits, self.width) {
                        self.laws[node.map_or(0, |node| node + 1)] = Some(law);
                        for token in tokens {
                            let class = Class::copied(1, depth);
                            self.push(Node {
                                parent: node,
                                token,
                                depth: depth + 1,
                                worth,
                                class,
                                is_looked_behind: false,
                            });
                        }
                    }
                }
            }
        }
        self.looked.get_or_insert_with(Instant::now);
        self.next()
    }

    /// Guesses tokens one after the other: those that followed the last `length` tokens of the text before.
    pub fn copy(&mut self, tokens: &[u32], length: usize) {
        let (mut parent, mut worth) = (None, 1.0);
        for (depth, &token) in tokens.iter().enumerate().take(self.depth) {
            let class = Class::copied(length, depth);
            worth *= self.policy.chance(class);
            self.push(Node { parent, token, depth: depth + 1, worth, class, is_looked_behind: true });
            parent = Some(self.nodes.len() - 1);
        }
    }

    /// The unread tokens and the guesses that were looked behind, which are a line, went through the first layers of the target, and are in its memory: these
    /// are their states, each so wide.
    pub fn take_on(&mut self, layers: usize, states: Vec<f32>, width: usize) {
        self.taken = Some(Taken { layers, states, width });
    }

    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.laws.push(None);
    }

    /// Which guess to look behind next.
    fn next(&self) -> Option<usize> {
        let mut open = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| !node.is_looked_behind && node.depth < self.depth);
        if !self.settings.is_adaptive() {
            return open.next().map(|(place, _)| place);
        }
        let (place, node) =
            open.reduce(|best, other| if other.1.worth > best.1.worth { other } else { best })?;
        let guesses = self.looks;
        self.policy.is_worth_a_look(node.worth, self.plain, self.positions + guesses).then_some(place)
    }

    /// The guesses that are worth a place in the pass.
    pub(super) fn plan(mut self) -> Plan {
        self.pen.go_back();
        let mut chosen: Vec<usize> = (0..self.nodes.len()).collect();
        if self.settings.is_adaptive() {
            // A guess is worth no more than the one before it, so the best ones are a tree.
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
            // What was copied was not drawn.
            _ => self.laws.into_iter().map(|law| law.unwrap_or(Law::Given)).collect(),
        };
        let known = self.taken.map(|Taken { layers, mut states, width }| {
            let read = self.text.len() - self.unread;
            let kept = (states.len() / width.max(1)).min(self.unread + tree.len());
            states.truncate(kept * width);
            self.memory.cut(read + kept);
            (layers, states)
        });
        let looked = self.looked.unwrap_or(self.begun);
        let times = (looked - self.begun, looked.elapsed());
        let classes = chosen.iter().map(|&node| self.nodes[node].class).collect();
        Plan { draft: Draft { tree, laws }, classes, known, looks: self.looks, times }
    }
}

/// A sequence of a batch that follows guesses and comes back.
struct Pen<'g> {
    batch: &'g mut Batch,
    id: SequenceId,
    constraint: Option<&'g mut (dyn Constraint + 'static)>,
    /// Of the output, before any guess.
    length: usize,
    /// The guesses that the sequence and the constraint have taken.
    path: Vec<u32>,
}

impl<'g> Pen<'g> {
    fn new(
        batch: &'g mut Batch,
        id: SequenceId,
        constraint: Option<&'g mut (dyn Constraint + 'static)>,
    ) -> Self {
        let length = batch.output(id).map_or(0, <[u32]>::len);
        Self { batch, id, constraint, length, path: Vec::new() }
    }

    /// What comes in first after these guesses.
    fn runners(&mut self, path: &[u32], logits: &[f32], count: usize) -> Result<Vec<Runner>, RowError> {
        self.go(path)?;
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask()).transpose();
        let mask = mask.map_err(|error| error.of_row())?;
        let step = Step { sequence: self.id, row: logits.into(), mask };
        self.batch.runners(&[step], count).pop().unwrap_or(Err(RowError::UnknownSequence))
    }

    /// Draws guesses after these.
    fn guess(&mut self, path: &[u32], logits: &[f32], count: usize) -> Result<(Vec<u32>, Law), RowError> {
        self.go(path)?;
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask()).transpose();
        let mask = mask.map_err(|error| error.of_row())?;
        let step = Step { sequence: self.id, row: logits.into(), mask };
        self.batch.guess(&step, count, self.length)
    }

    /// Takes exactly these guesses. Where the constraint forces what comes next, nothing is to be guessed, which counts as an error.
    fn go(&mut self, path: &[u32]) -> Result<(), RowError> {
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

    /// Takes everything back. A constraint that cannot is asked again by the draw that follows, which says so.
    fn go_back(&mut self) {
        let _ = self.back_to(0);
    }
}
