//! One pass of several sequences through the layers.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::ModelError;
use crate::llama::Llama;
use crate::llama::attention::{Leaf, Look, QUERIES, Scores};
use crate::llama::cache::{Layout, Memory, PAGE, Page};
use crate::llama::layer::Desk;
use crate::model::{Answer, Run, Sequence};

/// Where a position of the pass belongs.
#[derive(Clone, Copy)]
struct Place {
    /// Which run.
    run: usize,
    /// Which of its tokens.
    token: usize,
    /// Its position in the text.
    position: usize,
}

/// States whose logits are wanted.
#[derive(Default)]
struct Questions {
    states: Vec<f32>,
    /// The runs that want them, and how many rows each.
    owners: Vec<(usize, usize)>,
}

impl Questions {
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

impl Llama {
    /// Whether a run can be answered.
    pub(super) fn check(&self, run: &Run<'_, Memory>) -> Result<(), ModelError> {
        let wrong = |message: String| Err(ModelError::Request(message));
        let (vocabulary, context, layers) = (self.config.vocabulary, self.config.context, self.config.layers);
        if run.tokens.is_empty() {
            return wrong("a run has no tokens".to_owned());
        }
        if let Some(token) = run.tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return wrong(format!("token {token} is outside the vocabulary of {vocabulary}"));
        }
        if run.sequence.has_nodes() {
            return wrong("the last run was a tree: say first what to keep of it".to_owned());
        }
        if !run.sequence.is_of(Layout::new(&self.config)) {
            return wrong("the sequence was started by a model of another shape".to_owned());
        }
        if let Some(&layer) = run.asks.exit.iter().chain(run.asks.states).find(|&&layer| layer > layers) {
            return wrong(format!("there is no layer {layer}: the model has {layers}"));
        }
        let length = run.sequence.len();
        let through = run.asks.exit.unwrap_or(layers);
        if let Some(layer) = run.asks.states.iter().find(|&&layer| layer > through) {
            return wrong(format!(
                "states after {layer} layers are asked of a run that leaves after {through}"
            ));
        }
        let mut longest = run.tokens.len();
        if let Some(known) = run.known {
            let shallow = length - run.sequence.whole();
            let is_of_them = known.layers == run.sequence.shallowest()
                && known.layers < layers
                && known.states.len() == shallow * self.config.width
                && shallow <= run.tokens.len();
            if !is_of_them || shallow == 0 || run.parents.is_some() || run.asks.exit.is_some() {
                let fewest = run.sequence.shallowest();
                return wrong(format!(
                    "states are given that are not those of the {shallow} positions that left after {fewest} layers"
                ));
            }
            if run.asks.states.iter().any(|&layer| layer < known.layers) {
                return wrong(format!(
                    "states before layer {} are asked of a run that begins there",
                    known.layers
                ));
            }
            longest -= shallow;
        } else if through > run.sequence.shallowest() {
            let (whole, fewest) = (run.sequence.whole(), run.sequence.shallowest());
            return wrong(format!(
                "only {whole} of {length} positions went through more than {fewest} layers: cut the others first"
            ));
        }
        if let Some(parents) = run.parents {
            if parents.len() != run.tokens.len() || run.asks.exit.is_some() {
                return wrong("a tree has a parent for every token, and goes through all layers".to_owned());
            }
            if let Some(node) =
                (0..parents.len()).find(|&node| parents[node].is_some_and(|parent| parent >= node))
            {
                return wrong(format!("the parent of token {node} of a tree must come before it"));
            }
            let mut depths = vec![1; parents.len()];
            for node in 0..parents.len() {
                depths[node] = parents[node].map_or(1, |parent| depths[parent] + 1);
            }
            longest = depths.into_iter().max().unwrap_or(0);
        }
        if length + longest > context {
            return wrong(format!(
                "{} tokens are more than the model's context of {context}",
                length + longest
            ));
        }
        Ok(())
    }

    /// All runs through the layers. They have been checked. Where `entries` are given, they are what new positions go in with, instead of their embeddings.
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
        let turned: Vec<_> = places.iter().map(|place| self.turns.at(place.position)).collect();
        let mut states = entries.unwrap_or_else(|| {
            let mut states = vec![0.0; places.len() * width];
            for (place, state) in places.iter().zip(states.chunks_exact_mut(width)) {
                self.embedding.row(runs[place.run].tokens[place.token] as usize, state);
            }
            states
        });
        // A run that leaves early is no longer among the places.
        let (mut places, mut turned) = (places, turned);
        let mut desk = Desk::default();
        for layer in 0..=self.config.layers {
            if runs.iter().any(|run| run.known.is_some_and(|known| known.layers == layer)) {
                (places, states) = self.joined(layer, runs, &places, &states);
                turned = places.iter().map(|place| self.turns.at(place.position)).collect();
            }
            self.answer(layer, runs, &mut answers, &places, &states);
            let leaves = |place: &Place| runs[place.run].asks.exit.unwrap_or(self.config.layers) == layer;
            if places.iter().any(leaves) {
                let stays: Vec<bool> = places.iter().map(|place| !leaves(place)).collect();
                retain(&mut places, &stays, 1);
                retain(&mut turned, &stays, 1);
                retain(&mut states, &stays, width);
            }
            if places.is_empty() {
                // Others may be on their way, which join after a later layer.
                if runs.iter().any(|run| run.known.is_some_and(|known| known.layers > layer)) {
                    continue;
                }
                break;
            }
            self.layers[layer].heads(&self.team, &states, &turned, &mut desk);
            self.remember(layer, runs, &places, &desk);
            self.attend(layer, runs, &places, &desk.queries, &mut desk.mixed);
            self.layers[layer].advance(&self.team, &mut desk, &mut states);
        }
        for run in runs.iter_mut().filter(|run| run.parents.is_none()) {
            run.sequence.extend(run.tokens.len() - shallow(run), run.asks.exit.unwrap_or(self.config.layers));
        }
        answers
    }

    /// The places and states with those that have come so far already, each before the others of its run.
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

    /// Gives those runs what they asked of the states after so many layers.
    fn answer(
        &self,
        layer: usize,
        runs: &[Run<'_, Memory>],
        answers: &mut [Answer],
        places: &[Place],
        states: &[f32],
    ) {
        let width = self.config.width;
        // Apart where all tokens matter and where frequent ones do.
        let (mut all, mut frequent) = (Questions::default(), Questions::default());
        let mut first = 0;
        while first < places.len() {
            let number = places[first].run;
            let run = &runs[number];
            // Fewer than its tokens while others of it are still to join.
            let count = places[first..].iter().take_while(|place| place.run == number).count();
            let own = &states[first * width..(first + count) * width];
            for (i, _) in run.asks.states.iter().enumerate().filter(|&(_, &asked)| asked == layer) {
                answers[number].states.resize(run.asks.states.len(), Vec::new());
                answers[number].states[i] = own.to_vec();
            }
            if run.asks.exit.unwrap_or(self.config.layers) == layer {
                let rows = run.asks.logits.rows(count);
                let questions = if run.asks.frequent { &mut frequent } else { &mut all };
                questions.states.extend_from_slice(&own[own.len() - rows * width..]);
                questions.owners.push((number, rows));
            }
            first += count;
        }
        for (questions, frequent) in [(all, false), (frequent, true)] {
            if !questions.states.is_empty() {
                let logits = self.logits_of(&questions.states, frequent);
                questions.hand_out(logits, self.config.vocabulary, answers);
            }
        }
    }

    /// Puts the keys and values of all places where they belong.
    fn remember(&self, layer: usize, runs: &mut [Run<'_, Memory>], places: &[Place], desk: &Desk) {
        let width = self.config.kv_heads * self.config.head_size;
        let numbers = desk.keys.chunks_exact(width).zip(desk.values.chunks_exact(width));
        for (place, (keys, values)) in places.iter().zip(numbers) {
            let run = &mut runs[place.run];
            match run.parents {
                Some(_) => run.sequence.put_node(place.token, layer, keys, values),
                None => run.sequence.put(place.position, layer, keys, values),
            }
        }
    }

    /// What every place takes from those before it.
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
        // Heads of a place together, as long as every thread has something to do.
        let fits = |heads: usize| {
            kv_heads.is_multiple_of(heads)
                && heads * self.config.heads <= QUERIES * kv_heads
                && places.len() * kv_heads >= heads * self.team.threads()
        };
        let heads = (1..=QUERIES).rev().find(|&heads| fits(heads)).unwrap_or(1);
        let room = || (vec![Vec::new(); heads], Scores::default());
        self.team.each_part(mixed, heads * group, work, room, |(leaves, scores), part, mixed| {
            let (index, first) = (part / (kv_heads / heads), part % (kv_heads / heads) * heads);
            let place = &places[index];
            let memory = memories[place.run];
            let to = place.position + 1;
            let branch = branches[place.run].as_ref().map(|branches| branches.of(place.token));
            let own = if branch.is_some() { memory.len() / PAGE } else { place.position / PAGE + 1 };
            // The way to a leaf goes on below the node.
            let branch = &branch.unwrap_or_default()[..to.div_ceil(PAGE) - own];
            for (head, leaves) in (first..).zip(leaves.iter_mut()) {
                let shared = memory.pages()[..own].iter().map(|page| (page.as_ref(), layer));
                let pages = shared.chain(branch.iter().map(|page| (page, 0)));
                leaves.clear();
                leaves.extend(pages.map(|(page, layer)| Leaf {
                    keys: page.keys(layer, head),
                    values: page.values(layer, head),
                }));
            }
            let from = self.config.windows[layer].map_or(0, |window| to.saturating_sub(window));
            let queries = &queries[part * heads * group..(part + 1) * heads * group];
            let look = Look { from, to, head_size: size };
            look.mix(self.team.level, leaves, queries, scores, mixed);
        });
    }
}

/// How many of a run's tokens are in the sequence already.
fn shallow(run: &Run<'_, Memory>) -> usize {
    run.known.map_or(0, |_| run.sequence.len() - run.sequence.whole())
}

/// The places of some tokens of every run, run by run.
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

/// The ways down a tree in one layer: pages that go on where the sequence's full ones end.
struct Branches {
    /// By leaf.
    ways: BTreeMap<usize, Vec<Page>>,
    /// For each node, a leaf below it.
    leaves: Vec<usize>,
}

impl Branches {
    /// The pages of a way through a node.
    fn of(&self, node: usize) -> &[Page] {
        self.ways.get(&self.leaves[node]).map_or(&[], Vec::as_slice)
    }
}

/// Those of every run that is a tree.
fn branches(layer: usize, runs: &[Run<'_, Memory>]) -> Vec<Option<Branches>> {
    let of_run = |run: &Run<'_, Memory>| {
        run.parents?;
        let leaves = run.sequence.leaves();
        let ways = leaves.iter().map(|&leaf| (leaf, ())).collect::<BTreeMap<usize, ()>>();
        let ways = ways.into_keys().map(|leaf| (leaf, run.sequence.branch(leaf, layer))).collect();
        Some(Branches { ways, leaves })
    };
    runs.iter().map(of_run).collect()
}

/// Keeps the items, each `size` long, that stay.
fn retain<T: Clone>(items: &mut Vec<T>, stays: &[bool], size: usize) {
    let mut number = 0;
    items.retain(|_| {
        number += 1;
        stays[(number - 1) / size]
    });
}
