//! One pass of several sequences through the layers.

use crate::error::ModelError;
use crate::llama::Llama;
use crate::llama::attention::{Leaf, Look};
use crate::llama::cache::{Layout, Memory, PAGE, Page};
use crate::llama::layer::Heads;
use crate::model::{Answer, Run, Sequence, Wanted};

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
        if through > run.sequence.shallowest() {
            let (whole, fewest) = (run.sequence.whole(), run.sequence.shallowest());
            return wrong(format!(
                "only {whole} of {length} positions went through more than {fewest} layers: cut the others first"
            ));
        }
        let mut longest = run.tokens.len();
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

    /// All runs through the layers. They have been checked.
    pub(super) fn run(&self, runs: &mut [Run<'_, Memory>]) -> Vec<Answer> {
        let width = self.config.width;
        let mut answers = vec![Answer::default(); runs.len()];
        for run in runs.iter_mut() {
            match run.parents {
                Some(parents) => run.sequence.plant(parents),
                None => run.sequence.grow(run.tokens.len()),
            }
        }
        let places = places(runs);
        let turned: Vec<_> = places.iter().map(|place| self.turns.at(place.position)).collect();
        let mut states = vec![0.0; places.len() * width];
        for (place, state) in places.iter().zip(states.chunks_exact_mut(width)) {
            self.embedding.row(runs[place.run].tokens[place.token] as usize, state);
        }
        // A run that leaves early is no longer among the places.
        let (mut places, mut turned) = (places, turned);
        let mut heads = Heads::default();
        for layer in 0..=self.config.layers {
            self.answer(layer, runs, &mut answers, &places, &states);
            let leaves = |place: &Place| runs[place.run].asks.exit.unwrap_or(self.config.layers) == layer;
            if places.iter().any(leaves) {
                let stays: Vec<bool> = places.iter().map(|place| !leaves(place)).collect();
                retain(&mut places, &stays, 1);
                retain(&mut turned, &stays, 1);
                retain(&mut states, &stays, width);
            }
            if places.is_empty() {
                break;
            }
            self.layers[layer].heads(&self.team, &states, &turned, &mut heads);
            self.remember(layer, runs, &places, &heads);
            let mixed = self.attend(layer, runs, &places, &heads.queries);
            self.layers[layer].advance(&self.team, &mixed, &mut states);
        }
        for run in runs.iter_mut().filter(|run| run.parents.is_none()) {
            run.sequence.extend(run.tokens.len(), run.asks.exit.unwrap_or(self.config.layers));
        }
        answers
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
        let mut wanted = Vec::new();
        let mut owners = Vec::new();
        let mut first = 0;
        while first < places.len() {
            let number = places[first].run;
            let run = &runs[number];
            let own = &states[first * width..(first + run.tokens.len()) * width];
            for (i, _) in run.asks.states.iter().enumerate().filter(|&(_, &asked)| asked == layer) {
                answers[number].states.resize(run.asks.states.len(), Vec::new());
                answers[number].states[i] = own.to_vec();
            }
            if run.asks.exit.unwrap_or(self.config.layers) == layer {
                let rows = match run.asks.logits {
                    Wanted::Nothing => 0,
                    Wanted::Last => 1,
                    Wanted::All => run.tokens.len(),
                };
                wanted.extend_from_slice(&own[own.len() - rows * width..]);
                owners.push((number, rows));
            }
            first += run.tokens.len();
        }
        if wanted.is_empty() {
            return;
        }
        let logits = self.logits(&wanted);
        let mut rest = &logits[..];
        for (number, rows) in owners {
            let (own, others) = rest.split_at(rows * self.config.vocabulary);
            answers[number].logits = own.to_vec();
            rest = others;
        }
    }

    /// Puts the keys and values of all places where they belong.
    fn remember(&self, layer: usize, runs: &mut [Run<'_, Memory>], places: &[Place], heads: &Heads) {
        let width = self.config.kv_heads * self.config.head_size;
        let numbers = heads.keys.chunks_exact(width).zip(heads.values.chunks_exact(width));
        for (place, (keys, values)) in places.iter().zip(numbers) {
            let run = &mut runs[place.run];
            match run.parents {
                Some(_) => run.sequence.put_node(place.token, layer, keys, values),
                None => run.sequence.put(place.position, layer, keys, values),
            }
        }
    }

    /// What every place takes from those before it.
    fn attend(&self, layer: usize, runs: &[Run<'_, Memory>], places: &[Place], queries: &[f32]) -> Vec<f32> {
        let (size, kv_heads) = (self.config.head_size, self.config.kv_heads);
        let group = self.config.heads / kv_heads * size;
        let branches: Vec<Vec<Page>> = places
            .iter()
            .map(|place| match runs[place.run].parents {
                Some(_) => runs[place.run].sequence.branch(place.token, layer),
                None => Vec::new(),
            })
            .collect();
        let memories: Vec<&Memory> = runs.iter().map(|run| &*run.sequence).collect();
        let mut mixed = vec![0.0; queries.len()];
        let seen: usize = places.iter().map(|place| place.position + 1).sum();
        let work = 2 * seen * self.config.heads * size;
        self.team.each_part(&mut mixed, group, work, |part, mixed| {
            let (index, head) = (part / kv_heads, part % kv_heads);
            let place = &places[index];
            let memory = memories[place.run];
            let own = match branches[index].is_empty() {
                true => place.position / PAGE + 1,
                false => memory.len() / PAGE,
            };
            let shared = memory.pages()[..own].iter().map(|page| (page.as_ref(), layer));
            let branch = branches[index].iter().map(|page| (page, 0));
            let leaves: Vec<Leaf<'_>> = shared
                .chain(branch)
                .map(|(page, layer)| Leaf { keys: page.keys(layer, head), values: page.values(layer, head) })
                .collect();
            let to = place.position + 1;
            let from = self.config.windows[layer].map_or(0, |window| to.saturating_sub(window));
            let look = Look { leaves: &leaves, from, to, head_size: size };
            look.mix(self.team.level, &queries[part * group..(part + 1) * group], &mut Vec::new(), mixed);
        });
        mixed
    }
}

/// The places of all tokens, run by run.
fn places(runs: &[Run<'_, Memory>]) -> Vec<Place> {
    let mut places = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        for token in 0..run.tokens.len() {
            let ahead = match run.parents {
                Some(_) => run.sequence.depth(token) - 1,
                None => token,
            };
            places.push(Place { run: number, token, position: run.sequence.len() + ahead });
        }
    }
    places
}

/// Keeps the items, each `size` long, that stay.
fn retain<T: Clone>(items: &mut Vec<T>, stays: &[bool], size: usize) {
    let mut number = 0;
    items.retain(|_| {
        number += 1;
        stays[(number - 1) / size]
    });
}
