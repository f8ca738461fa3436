//! One pass of several sequences through the layers: `impl LanguageModel for Llama`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use onedraw::float_mode::Standard;

use crate::error::ModelError;
use crate::llama::attention::{HeadPage, QUERIES, Scores, Span};
use crate::llama::cache::{Layout, Memory, PAGE, Page};
use crate::llama::layer::Scratch;
use crate::llama::model::Llama;
use crate::model::{Answer, LanguageModel, Run, Sequence};

/// The origin of one row of the pass.
#[derive(Clone, Copy)]
struct Place {
    /// The run.
    run: usize,
    /// The token of the run.
    token: usize,
    /// The position of that token in its text.
    position: usize,
}

/// States whose logits are wanted, of all runs together.
#[derive(Default)]
struct WantedLogits {
    states: Vec<f32>,
    /// The runs that want them, and how many rows each.
    owners: Vec<(usize, usize)>,
}

impl WantedLogits {
    /// Gives each run its rows.
    fn hand_out(self, logits: Vec<f32>, vocabulary: usize, answers: &mut [Answer]) {
        if let [(number, _)] = self.owners[..] {
            answers[number].logits = logits;
            return;
        }
        let mut rest = &logits[..];
        for (number, rows) in self.owners {
            let (own, others) = rest.split_at(rows * vocabulary);
            answers[number].logits = own.to_vec();
            rest = others;
        }
    }
}

impl LanguageModel for Llama {
    type Sequence = Memory;

    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn context(&self) -> usize {
        self.config.context
    }

    fn layers(&self) -> usize {
        self.config.layers
    }

    fn start(&self) -> Memory {
        Memory::new(Layout::new(&self.config))
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.team.within(work)
    }

    fn forward(&self, runs: &mut [Run<'_, Memory>]) -> Result<Vec<Answer>, ModelError> {
        let _mode = Standard::enter();
        for run in runs.iter() {
            self.check(run)?;
        }
        Ok(self.team.within(|| self.run(runs, None)))
    }
}

impl Llama {
    /// Takes all runs through the layers. They must have been checked. `entries`, if given, are the states
    /// that new positions enter the first layer with, instead of their embeddings.
    pub(super) fn run(&self, runs: &mut [Run<'_, Memory>], entries: Option<Vec<f32>>) -> Vec<Answer> {
        let width = self.config.width;
        let mut answers = vec![Answer::default(); runs.len()];
        for run in runs.iter_mut() {
            match run.parents {
                Some(parents) => run.sequence.plant(parents),
                None => run.sequence.grow(run.tokens.len() - shallow(run)),
            }
        }
        let places = places(runs, |run| shallow(run)..run.tokens.len());
        let rotations: Vec<_> = places.iter().map(|place| self.rotations.at(place.position)).collect();
        let mut states = entries.unwrap_or_else(|| {
            let mut states = vec![0.0; places.len() * width];
            for (place, state) in places.iter().zip(states.chunks_exact_mut(width)) {
                self.embedding.row(runs[place.run].tokens[place.token] as usize, state);
            }
            states
        });
        // A run that exits early is no longer among the places from then on.
        let (mut places, mut rotations) = (places, rotations);
        let mut scratch = Scratch::default();
        for layer in 0..=self.config.layers {
            if runs.iter().any(|run| run.known.is_some_and(|known| known.layers == layer)) {
                (places, states) = self.joined(layer, runs, &places, &states);
                rotations = places.iter().map(|place| self.rotations.at(place.position)).collect();
            }
            self.answer(layer, runs, &mut answers, &places, &states);
            let exits = |place: &Place| runs[place.run].asks.exit.unwrap_or(self.config.layers) == layer;
            if places.iter().any(exits) {
                let stays: Vec<bool> = places.iter().map(|place| !exits(place)).collect();
                retain(&mut places, &stays, 1);
                retain(&mut rotations, &stays, 1);
                retain(&mut states, &stays, width);
            }
            if places.is_empty() {
                // Other runs may join after a later layer.
                if runs.iter().any(|run| run.known.is_some_and(|known| known.layers > layer)) {
                    continue;
                }
                break;
            }
            self.layers[layer].heads(&self.team, &states, &rotations, &mut scratch);
            self.remember(layer, runs, &places, &scratch);
            self.attend(layer, runs, &places, &scratch.queries, &mut scratch.mixed);
            self.layers[layer].advance(&self.team, &mut scratch, &mut states);
        }
        for run in runs.iter_mut().filter(|run| run.parents.is_none()) {
            run.sequence.extend(run.tokens.len() - shallow(run), run.asks.exit.unwrap_or(self.config.layers));
        }
        answers
    }

    /// The places and states, with those added that begin after this layer because their states are known.
    /// They come before the others of their run.
    fn joined(
        &self,
        layer: usize,
        runs: &[Run<'_, Memory>],
        places: &[Place],
        states: &[f32],
    ) -> (Vec<Place>, Vec<f32>) {
        let joins = |run: &Run<'_, Memory>| run.known.is_some_and(|known| known.layers == layer);
        let new = self::places(runs, |run| 0..if joins(run) { shallow(run) } else { 0 });
        let (mut all, mut all_states) = (Vec::new(), Vec::new());
        for (number, run) in runs.iter().enumerate() {
            all.extend(new.iter().filter(|place| place.run == number));
            all_states.extend_from_slice(run.known.filter(|_| joins(run)).map_or(&[], |known| known.states));
            let own = places.iter().zip(states.chunks_exact(self.config.width));
            for (place, state) in own.filter(|(place, _)| place.run == number) {
                all.push(*place);
                all_states.extend_from_slice(state);
            }
        }
        (all, all_states)
    }

    /// Answers what the runs ask of the states after this many layers.
    fn answer(
        &self,
        layer: usize,
        runs: &[Run<'_, Memory>],
        answers: &mut [Answer],
        places: &[Place],
        states: &[f32],
    ) {
        let width = self.config.width;
        let (mut all_tokens, mut frequent_tokens) = (WantedLogits::default(), WantedLogits::default());
        let mut first = 0;
        while first < places.len() {
            let number = places[first].run;
            let run = &runs[number];
            // Fewer than the run has tokens, while others of it are still to join.
            let count = places[first..].iter().take_while(|place| place.run == number).count();
            let own = &states[first * width..(first + count) * width];
            for (i, _) in run.asks.states.iter().enumerate().filter(|&(_, &asked)| asked == layer) {
                answers[number].states.resize(run.asks.states.len(), Vec::new());
                answers[number].states[i] = own.to_vec();
            }
            if run.asks.exit.unwrap_or(self.config.layers) == layer {
                let rows = run.asks.logits.rows(count);
                let wanted = if run.asks.frequent { &mut frequent_tokens } else { &mut all_tokens };
                wanted.states.extend_from_slice(&own[own.len() - rows * width..]);
                wanted.owners.push((number, rows));
            }
            first += count;
        }
        for (wanted, frequent) in [(all_tokens, false), (frequent_tokens, true)] {
            if !wanted.states.is_empty() {
                let logits = self.logits_of(&wanted.states, frequent);
                wanted.hand_out(logits, self.config.vocabulary, answers);
            }
        }
    }

    /// Stores the keys and values of all places.
    fn remember(&self, layer: usize, runs: &mut [Run<'_, Memory>], places: &[Place], scratch: &Scratch) {
        let width = self.config.kv_heads * self.config.head_size;
        let numbers = scratch.keys.chunks_exact(width).zip(scratch.values.chunks_exact(width));
        for (place, (keys, values)) in places.iter().zip(numbers) {
            let run = &mut runs[place.run];
            match run.parents {
                Some(_) => run.sequence.put_node(place.token, layer, keys, values),
                None => run.sequence.put(place.position, layer, keys, values),
            }
        }
    }

    /// The attention of every place over the positions before it and itself.
    fn attend(
        &self,
        layer: usize,
        runs: &[Run<'_, Memory>],
        places: &[Place],
        queries: &[f32],
        mixed: &mut Vec<f32>,
    ) {
        let (size, kv_heads) = (self.config.head_size, self.config.kv_heads);
        let group = self.config.heads / kv_heads * size;
        let branches = branches(layer, runs);
        let memories: Vec<&Memory> = runs.iter().map(|run| &*run.sequence).collect();
        mixed.clear();
        mixed.resize(queries.len(), 0.0);
        let seen: usize = places.iter().map(|place| place.position + 1).sum();
        let work = 2 * seen * self.config.heads * size;
        // Several heads of a place go together, as long as every thread has something to do.
        let fits = |heads: usize| {
            kv_heads.is_multiple_of(heads)
                && heads * self.config.heads <= QUERIES * kv_heads
                && places.len() * kv_heads >= heads * self.team.threads()
        };
        let heads = (1..=QUERIES).rev().find(|&heads| fits(heads)).unwrap_or(1);
        let scratch = || (vec![Vec::new(); heads], Scores::default());
        self.team.each_part(mixed, heads * group, work, scratch, |(pages, scores), part, mixed| {
            let (index, first) = (part / (kv_heads / heads), part % (kv_heads / heads) * heads);
            let place = &places[index];
            let memory = memories[place.run];
            let to = place.position + 1;
            let branch = branches[place.run].as_ref().map(|branches| branches.of(place.token));
            let own = if branch.is_some() { memory.len() / PAGE } else { place.position / PAGE + 1 };
            // The branch to a leaf goes on below the node.
            let branch = &branch.unwrap_or_default()[..to.div_ceil(PAGE) - own];
            for (head, pages) in (first..).zip(pages.iter_mut()) {
                let shared = memory.pages()[..own].iter().map(|page| (page.as_ref(), layer));
                let all = shared.chain(branch.iter().map(|page| (page, 0)));
                pages.clear();
                pages.extend(all.map(|(page, layer)| HeadPage {
                    keys: page.keys(layer, head),
                    values: page.values(layer, head),
                }));
            }
            let from = self.config.windows[layer].map_or(0, |window| to.saturating_sub(window));
            let queries = &queries[part * heads * group..(part + 1) * heads * group];
            let span = Span { from, to, head_size: size };
            span.attend(self.team.instructions, pages, queries, scores, mixed);
        });
    }
}

/// How many tokens of a run are in its sequence already, because they went through the first layers.
fn shallow(run: &Run<'_, Memory>) -> usize {
    run.known.map_or(0, |_| run.sequence.len() - run.sequence.whole())
}

/// The places of the given tokens of every run, run by run.
fn places(runs: &[Run<'_, Memory>], tokens: impl Fn(&Run<'_, Memory>) -> Range<usize>) -> Vec<Place> {
    let mut places = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let start = run.sequence.len() - shallow(run);
        for token in tokens(run) {
            let ahead = match run.parents {
                Some(_) => run.sequence.depth(token) - 1,
                None => token,
            };
            places.push(Place { run: number, token, position: start + ahead });
        }
    }
    places
}

/// The branches of a tree in one layer: pages that continue where the full pages of the sequence end.
struct Branches {
    /// By leaf.
    pages: BTreeMap<usize, Vec<Page>>,
    /// For each node, a leaf below it.
    leaves: Vec<usize>,
}

impl Branches {
    /// The pages of a branch through a node.
    fn of(&self, node: usize) -> &[Page] {
        self.pages.get(&self.leaves[node]).map_or(&[], Vec::as_slice)
    }
}

/// The branches of every run that is a tree.
fn branches(layer: usize, runs: &[Run<'_, Memory>]) -> Vec<Option<Branches>> {
    let of_run = |run: &Run<'_, Memory>| {
        run.parents?;
        let leaves = run.sequence.leaves();
        let distinct: BTreeSet<usize> = leaves.iter().copied().collect();
        let pages = distinct.into_iter().map(|leaf| (leaf, run.sequence.branch(leaf, layer))).collect();
        Some(Branches { pages, leaves })
    };
    runs.iter().map(of_run).collect()
}

/// Removes the items that do not stay. An item is `size` elements long.
fn retain<T: Clone>(items: &mut Vec<T>, stays: &[bool], size: usize) {
    let mut number = 0;
    items.retain(|_| {
        number += 1;
        stays[(number - 1) / size]
    });
}
