//! Guesses in the decode loop: made before a pass, verified after it.

use std::time::Duration;

use onedraw::clock::Instant;

use onedraw::Row;
use onedraw::speculate::DraftTree;

use crate::draft::{Drafts, PassResult, Plan, Planned};
use crate::error::ModelError;
use crate::generate::error::GenerateError;
use crate::generate::event::Event;
use crate::generate::generator::Generator;
use crate::generate::seen::{Seen, SeenGuesses};
use crate::generate::writer::{PassShare, Writer};
use crate::model::{Answer, LanguageModel, Sequence};

/// The tokens of a text in a pass: those that are certain, then the guesses.
pub(super) struct Line {
    pub tokens: Vec<u32>,
    /// The parent of each token, if the guesses branch.
    pub parents: Option<Vec<Option<usize>>>,
}

impl Line {
    pub(super) fn new(pending: &[u32], guesses: &DraftTree) -> Self {
        let certain = pending.len();
        let tokens = [pending, guesses.tokens()].concat();
        let before = |place: usize| place.checked_sub(1);
        let parents = (!guesses.is_chain()).then(|| {
            let guesses = guesses.parents().iter().map(|parent| match parent {
                Some(parent) => Some(certain + parent),
                None => before(certain),
            });
            (0..certain).map(before).chain(guesses).collect()
        });
        Self { tokens, parents }
    }
}

impl<'a, M: LanguageModel> Generator<'a, M> {
    /// Lets the drafter guess for every text that is being written.
    pub(super) fn drafts(&mut self, shares: &[PassShare]) -> Result<Drafts, GenerateError> {
        let mut plans: Vec<Plan> = shares.iter().map(|_| Plan::default()).collect();
        let nobody = |plans| Ok(Drafts { plans, planned: Planned::default() });
        let Some(speculator) = &mut self.speculator else { return nobody(plans) };
        let writers = self.writers.iter_mut().enumerate().filter(|(_, writer)| writer.is_writing());
        let (numbers, texts): (Vec<usize>, Vec<_>) =
            writers.filter_map(|(number, writer)| Some((number, writer.text_to_guess()?))).unzip();
        if texts.is_empty() || !speculator.is_drafting() {
            return nobody(plans);
        }
        let plain = shares.iter().filter(|share| share.is_writing).map(|share| share.tokens).sum();
        let drafts = speculator.draft(self.model, &mut self.batch, plain, texts)?;
        for (number, plan) in numbers.into_iter().zip(drafts.plans) {
            plans[number] = plan;
        }
        Ok(Drafts { plans, planned: drafts.planned })
    }

    /// Counts a pass, which took so long after its guesses, and lets the policy learn its time.
    pub(super) fn count(
        &mut self,
        shares: &[PassShare],
        plans: &[Plan],
        planned: &Planned,
        (drafted, passed): (Duration, Duration),
    ) {
        let tokens = |is_writing: bool| {
            shares
                .iter()
                .filter(|share| share.is_writing == is_writing)
                .map(|share| share.tokens)
                .sum::<usize>()
        };
        let (read, written) = (tokens(false), tokens(true));
        self.timings.add_pass(passed, read, written, planned.guesses);
        self.timings.draft_time += drafted;
        // Positions that exited early have a part of the pass behind them. If there are no guesses besides,
        // the time says nothing about a plain pass.
        let is_partial = planned.guesses == 0 && plans.iter().any(|plan| plan.known.is_some());
        if let Some(speculator) = self.speculator.as_mut().filter(|_| read == 0 && !is_partial) {
            speculator.learn_pass_time(written + planned.guesses, !planned.is_plain(), passed);
        }
    }

    /// Appends the guesses that the target accepts and the token after them. Returns the events, and the
    /// writer unless the text has ended. An error comes from a model that could not keep the accepted path.
    pub(super) fn verify(
        &mut self,
        mut writer: Writer<M>,
        plan: &Plan,
        answer: Answer,
    ) -> Result<(Vec<Event>, Option<Writer<M>>), ModelError> {
        let begun = Instant::now();
        let (vocabulary, context) = (self.vocabulary, self.model.context());
        let Some(speculator) = &mut self.speculator else { return Ok((Vec::new(), Some(writer))) };
        let sampler = writer.sampler();
        let rows: Vec<Row<'_>> = answer.logits.chunks_exact(self.model.vocabulary()).map(Row::from).collect();
        let verify = speculator.settings.verify;
        let verdict = self.batch.verify(sampler, &plan.draft, &rows, writer.constraint(), verify);
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(error) => {
                let event = writer.take(Err(error), vocabulary, &mut self.batch, context);
                return Ok(writer.go_on(event, vocabulary, &mut self.batch, context));
            }
        };
        speculator.learn_verdict(plan, &verdict);
        if let Some(seen) = &mut self.seen {
            seen.push(Seen::Guesses(SeenGuesses {
                request: writer.request,
                sample: writer.branches.first().map_or(0, |branch| branch.sample),
                position: self.batch.output(sampler).map_or(0, <[u32]>::len),
                tree: plan.draft.tree.clone(),
                path: verdict.path.clone(),
            }));
        }
        self.timings.sampling_time += begun.elapsed();
        let (read, certain) = (writer.tokens.len() - writer.pending.len(), writer.pending.len());
        keep_accepted(&mut writer.memory, read, certain, plan, &verdict.path)?;
        if let Some(memory) = &mut writer.draft_memory {
            let states = accepted_states(&answer.states, certain, plan.draft.tree.len(), &verdict.path);
            speculator.see(memory, read, &states);
        }
        writer.read(certain);
        let mut events = Vec::new();
        let last = verdict.sampled.len().saturating_sub(1);
        for (place, sampled) in verdict.sampled.into_iter().enumerate() {
            let row = place.checked_sub(1).map_or(0, |before| 1 + verdict.path[before]);
            self.see_row(&mut writer, answer_row(&answer, row, self.model.vocabulary())?);
            self.batch.accept_sampled(sampler, &sampled);
            let event = writer.take(Ok(sampled), vocabulary, &mut self.batch, context);
            if event.is_last() || event.taken_back > 0 || (place == last && verdict.error.is_none()) {
                let (taken, writer) = writer.go_on(event, vocabulary, &mut self.batch, context);
                events.extend(taken);
                return Ok((events, writer));
            }
            // The model has read it already, as a guess.
            writer.read(1);
            self.timings.output_tokens += 1;
            events.push(event);
        }
        let error = verdict.error.unwrap_or(onedraw::RowError::UnknownSequence);
        let event = writer.take(Err(error), vocabulary, &mut self.batch, context);
        let (taken, writer) = writer.go_on(event, vocabulary, &mut self.batch, context);
        events.extend(taken);
        Ok((events, writer))
    }

    /// Lets the policy learn what a pass gained. `draws` is the time of all draws before it.
    pub(super) fn learn(
        &mut self,
        shares: &[PassShare],
        planned: Planned,
        events: &[Event],
        time: Duration,
        draws: Duration,
    ) {
        let Some(speculator) = &mut self.speculator else { return };
        let writing = || shares.iter().filter(|share| share.is_writing);
        let (texts, plain) = (writing().count(), writing().map(|share| share.tokens).sum::<usize>());
        let has_read = shares.iter().any(|share| !share.is_writing && share.tokens > 0);
        if texts == 0 || has_read {
            return;
        }
        speculator.guessed.plain_passes += usize::from(planned.guesses == 0);
        speculator.learn_pass(&PassResult {
            tokens: events.iter().filter(|event| event.sampled.is_some()).count(),
            texts,
            time,
            draws: self.timings.sampling_time.saturating_sub(draws),
            plain,
            planned,
        });
    }
}

/// One of the rows of an answer. An error where the model gave fewer than were asked for.
fn answer_row(answer: &Answer, row: usize, vocabulary: usize) -> Result<&[f32], ModelError> {
    answer.logits.get(row * vocabulary..(row + 1) * vocabulary).ok_or_else(|| {
        ModelError::Request(format!("the model gave no row {row} of {vocabulary} logits for a guess"))
    })
}

/// Keeps of the last pass the tokens that were certain and the accepted guesses.
fn keep_accepted<S: Sequence>(
    memory: &mut S,
    read: usize,
    certain: usize,
    plan: &Plan,
    path: &[usize],
) -> Result<(), ModelError> {
    if plan.draft.tree.is_chain() {
        memory.cut(read + certain + path.len());
        return Ok(());
    }
    let places: Vec<usize> = (0..certain).chain(path.iter().map(|node| certain + node)).collect();
    memory.keep(&places)
}

/// Of the states of a pass, those of the tokens that are part of the text now.
fn accepted_states(states: &[Vec<f32>], certain: usize, guesses: usize, path: &[usize]) -> Vec<Vec<f32>> {
    let of_layer = |states: &Vec<f32>| {
        let width = states.len() / (certain + guesses);
        let places = (0..certain).chain(path.iter().map(|node| certain + node));
        places.flat_map(|place| &states[place * width..(place + 1) * width]).copied().collect()
    };
    states.iter().map(of_layer).collect()
}

#[cfg(test)]
mod tests {
    use onedraw::{SamplingParams, presets};

    use super::*;
    use crate::draft::{Companion, EarlyExit, Speculation};
    use crate::llama::{Llama, Memory};
    use crate::stories;

    #[test]
    fn guesses_follow_what_is_certain() {
        let mut tree = DraftTree::new();
        let first = tree.push(None, 7);
        tree.push(None, 8);
        tree.push(Some(first), 9);
        let Line { tokens, parents } = Line::new(&[4, 5], &tree);
        assert_eq!(tokens, [4, 5, 7, 8, 9]);
        assert_eq!(parents, Some(vec![None, Some(0), Some(1), Some(1), Some(2)]));
        assert_eq!(Line::new(&[4], &DraftTree::chain(&[5, 6])).parents, None);
    }

    /// What the model remembers of the first text once that has this many tokens.
    fn memory(mut generator: Generator<'_, Llama>, prompt: &[u32], tokens: usize) -> Memory {
        let params = SamplingParams { seed: Some(4), max_tokens: 100, ..presets::creative() };
        generator.add(prompt, params).expect("a request");
        while generator.writers[0].tokens.len() < tokens {
            generator.step().expect("a step");
        }
        generator.writers[0].memory.clone()
    }

    /// Rejected guesses leave nothing behind, and accepted ones are stored where plain decoding stores them.
    #[test]
    fn a_memory_after_guesses_is_that_of_plain_decoding() {
        let (model, drafter, tokenizer) = (
            stories::model().expect("a model"),
            stories::drafter().expect("a model"),
            stories::tokenizer().expect("a tokenizer"),
        );
        let prompt = tokenizer.encode("Once upon a time").expect("tokens");
        let plain = memory(Generator::new(&model, &tokenizer), &prompt, 60);
        for (width, depth) in [(1, 3), (2, 3), (3, 2)] {
            let speculation = Speculation { width, depth, adapts: false, ..Speculation::default() };
            let companion = Companion::new(&drafter, &model).expect("a drafter");
            let exit = EarlyExit::new(2, &model).expect("an exit");
            let generators = [
                Generator::new(&model, &tokenizer).speculate(companion, speculation),
                Generator::new(&model, &tokenizer).speculate(exit, speculation),
            ];
            for generator in generators {
                let guessing = memory(generator.expect("a generator"), &prompt, 60);
                let length = plain.len().min(guessing.len());
                assert!(length > 50);
                for position in 0..length {
                    assert_eq!(
                        guessing.numbers(position),
                        plain.numbers(position),
                        "{width}x{depth}, {position}"
                    );
                }
            }
        }
    }
}
