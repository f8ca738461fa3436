//! One step of the decode loop: a pass of the model, and the draws that follow it.

use onedraw::clock::Instant;

use onedraw::{RowError, Sampled, Step};

use crate::draft::{Drafts, Plan, Speculator};
use crate::error::ModelError;
use crate::generate::error::GenerateError;
use crate::generate::event::{Event, RequestId};
use crate::generate::generator::Generator;
use crate::generate::seen::{Seen, SeenRow};
use crate::generate::speculation::Line;
use crate::generate::writer::{PassShare, Writer};
use crate::model::{Answer, Asks, Known, LanguageModel, Run, Sequence, Wanted};

/// How many tokens of a prompt a pass takes before another prompt has its turn: a multiple of the four positions that a
/// tile of a matrix product takes, and few enough that four prompts share a pass.
const TURN: usize = 32;

/// What a pass has done, and the texts that the model could not go on with.
#[derive(Default)]
struct Passed {
    events: Vec<Event>,
    failed: Vec<(RequestId, usize, ModelError)>,
}

/// What happened, and the texts that go on.
type Drawn<M> = (Vec<Event>, Vec<Writer<M>>);

impl<'a, M: LanguageModel> Generator<'a, M> {
    /// Makes one pass: every text that has read its prompt gets a token, or several if guesses are accepted;
    /// the others read on. After an error of the pass nothing has changed. If the model cannot take over guesses that
    /// were accepted, that text is gone and the others have gone on; after an error of the trace all of them have. Then
    /// the events are lost.
    pub fn step(&mut self) -> Result<Vec<Event>, GenerateError> {
        let model = self.model;
        let Passed { events, failed } = model.within(|| self.step_here())?;
        if let Some(tracer) = &mut self.tracer {
            for (request, sample, error) in &failed {
                tracer.fail(*request, *sample, &error.to_string());
            }
            tracer.take(&events).map_err(GenerateError::Trace)?;
        }
        match failed.into_iter().next() {
            Some((_, _, error)) => Err(error.into()),
            None => Ok(events),
        }
    }

    fn step_here(&mut self) -> Result<Passed, GenerateError> {
        let begun = Instant::now();
        let shares = self.shares();
        let Drafts { plans, planned } = self.drafts(&shares)?;
        let drafted = begun.elapsed();
        let Some(mut answers) = self.pass(&shares, &plans)?.map(Vec::into_iter) else {
            return Ok(Passed::default());
        };
        self.count(&shares, &plans, &planned, (drafted, begun.elapsed().saturating_sub(drafted)));
        let draws = self.timings.sampling_time;
        let vocabulary = self.model.vocabulary();
        let (mut rows, mut ready, mut verifying, mut still) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((mut writer, &share), plan) in
            std::mem::take(&mut self.writers).into_iter().zip(&shares).zip(plans)
        {
            if share.tokens == 0 {
                still.push(writer);
                continue;
            }
            let answer = answers.next().unwrap_or_default();
            if !plan.draft.tree.is_empty() {
                verifying.push((writer, plan, answer));
                continue;
            }
            if let (Some(speculator), Some(memory)) = (&self.speculator, &mut writer.draft_memory) {
                speculator.see(memory, writer.tokens.len() - writer.pending.len(), &answer.states);
            }
            let logits = writer.collect_prompt_logprobs(answer.logits, vocabulary, &mut self.batch);
            writer.read(share.tokens);
            match writer.pending.is_empty() {
                true => {
                    rows.push(logits);
                    ready.push(writer);
                }
                false => still.push(writer),
            }
        }
        let ready = ready
            .into_iter()
            .enumerate()
            .flat_map(|(row, writer)| writer.split().into_iter().map(move |writer| (row, writer)));
        let (full, ready): (Vec<_>, Vec<_>) = ready.partition(|(_, writer)| writer.may_write_nothing());
        let (mut events, mut going) = self.draw(ready, &rows);
        for (_, mut writer) in full {
            events.push(writer.end_by_length());
            self.batch.remove(writer.sampler());
        }
        let mut failed = Vec::new();
        for (writer, plan, answer) in verifying {
            let (request, sample) =
                (writer.request, writer.branches.first().map_or(0, |branch| branch.sample));
            match self.verify(writer, &plan, answer) {
                Ok((verified, writer)) => {
                    events.extend(verified);
                    going.extend(writer);
                }
                Err(error) => failed.push((request, sample, error)),
            }
        }
        self.writers = going.into_iter().chain(still).collect();
        // In the order of the requests, whichever was ready first: prompts are read in that order.
        self.writers.sort_by_key(|writer| {
            (writer.request, writer.branches.first().map_or(0, |branch| branch.sample))
        });
        self.learn(&shares, planned, &events, begun.elapsed(), draws);
        Ok(Passed { events, failed })
    }

    /// What each text contributes to the next pass: those that are being written all their pending tokens, the others
    /// as much of their prompts as one pass takes. Each prompt gets [`TURN`] tokens as long as there is room, and the
    /// first ones get the rest, so that a long prompt does not keep a short one behind it waiting.
    fn shares(&self) -> Vec<PassShare> {
        let mut room = self.chunk;
        let mut take = |tokens: usize| {
            let taken = tokens.min(room);
            room -= taken;
            taken
        };
        let turn = |writer: &Writer<M>| {
            // More than one token where a constraint forced some.
            let (is_writing, pending) = (writer.is_writing(), writer.pending.len());
            let tokens = if is_writing { pending } else { take(pending.min(TURN)) };
            PassShare { tokens, is_writing }
        };
        let mut shares: Vec<PassShare> = self.writers.iter().map(turn).collect();
        for (share, writer) in shares.iter_mut().zip(&self.writers).filter(|(share, _)| !share.is_writing) {
            share.tokens += take(writer.pending.len() - share.tokens);
        }
        shares
    }

    /// Runs the model over the next tokens of all texts and over their guesses; `None` if there are no
    /// tokens.
    fn pass(&mut self, shares: &[PassShare], plans: &[Plan]) -> Result<Option<Vec<Answer>>, GenerateError> {
        let lines: Vec<Line> = self
            .writers
            .iter()
            .zip(shares)
            .zip(plans)
            .map(|((writer, share), plan)| Line::new(&writer.pending[..share.tokens], &plan.draft.tree))
            .collect();
        let states = self.speculator.as_ref().map_or(&[][..], Speculator::states);
        let mut runs = Vec::new();
        for ((writer, line), (share, plan)) in
            self.writers.iter_mut().zip(&lines).zip(shares.iter().zip(plans))
        {
            if share.tokens == 0 {
                continue;
            }
            let logits = match share.tokens == writer.pending.len() {
                _ if writer.wants_prompt_logprobs() => Wanted::All,
                true if plan.draft.tree.is_empty() => Wanted::Last,
                true => Wanted::Tail(1 + plan.draft.tree.len()),
                false => Wanted::Nothing,
            };
            runs.push(Run {
                sequence: &mut writer.memory,
                tokens: &line.tokens,
                parents: line.parents.as_deref(),
                known: plan.known.as_ref().map(|(layers, states)| Known { layers: *layers, states }),
                asks: Asks {
                    logits,
                    exit: None,
                    states: if writer.draft_memory.is_some() { states } else { &[] },
                    ..Asks::default()
                },
            });
        }
        if runs.is_empty() {
            return Ok(None);
        }
        let answers = self.model.forward(&mut runs);
        drop(runs);
        if answers.is_err() {
            // A drafter may have put positions into the memory that are not part of the text.
            for writer in &mut self.writers {
                let read = writer.tokens.len() - writer.pending.len();
                writer.memory.cut(read);
            }
        }
        Ok(Some(answers?))
    }

    /// Takes a token for each text, drawn or given, and appends what a constraint forces before or after it. `ready`
    /// has the writers, each with the number of its row.
    fn draw(&mut self, ready: Vec<(usize, Writer<M>)>, rows: &[Vec<f32>]) -> Drawn<M> {
        let begun = Instant::now();
        let (vocabulary, context) = (self.vocabulary, self.model.context());
        let (mut events, mut going) = (Vec::new(), Vec::new());
        let (mut drawing, mut given) = (Vec::with_capacity(ready.len()), Vec::new());
        for (row, mut writer) in ready {
            let forced = match writer.begins() {
                true => writer.take_forced(vocabulary, &mut self.batch, context),
                false => Vec::new(),
            };
            match forced.last().map(Event::is_last) {
                None => match writer.chosen(&self.batch) {
                    Some(token) => given.push((row, writer, token)),
                    None => drawing.push((row, writer)),
                },
                Some(true) => _ = self.batch.remove(writer.sampler()),
                Some(false) => going.push(writer),
            }
            events.extend(forced);
        }
        for (row, mut writer, token) in given {
            self.see_row(&mut writer, &rows[row]);
            let event = writer.take_undrawn(token, vocabulary, &mut self.batch, context);
            let (taken, writer) = writer.go_on(event, vocabulary, &mut self.batch, context);
            events.extend(taken);
            going.extend(writer);
        }
        for (row, writer) in &mut drawing {
            self.see_row(writer, &rows[*row]);
        }
        let steps = drawing.iter_mut().map(|(row, writer)| {
            let sequence = writer.sampler();
            Ok(Step { sequence, row: (&rows[*row]).into(), mask: writer.mask()? })
        });
        let steps: Vec<Result<Step<'_>, RowError>> = steps.collect();
        let allowed: Vec<Step<'_>> = steps.iter().filter_map(|step| step.as_ref().ok().copied()).collect();
        let mut sampled = self.batch.sample(&allowed).into_iter();
        let drawn = steps
            .into_iter()
            .map(|step| step.and_then(|_| sampled.next().unwrap_or(Err(RowError::UnknownSequence))));
        let drawn: Vec<Result<Sampled, RowError>> = drawn.collect();
        self.timings.sampling_time += begun.elapsed();
        for ((_, mut writer), drawn) in drawing.into_iter().zip(drawn) {
            let event = writer.take(drawn, vocabulary, &mut self.batch, context);
            let (taken, writer) = writer.go_on(event, vocabulary, &mut self.batch, context);
            events.extend(taken);
            going.extend(writer);
        }
        (events, going)
    }

    /// Notes the row that the next token of a text is taken from, if somebody watches.
    pub(super) fn see_row(&mut self, writer: &mut Writer<M>, logits: &[f32]) {
        let Some(seen) = &mut self.seen else { return };
        let Some(before) = self.batch.save(writer.sampler()) else { return };
        let row = SeenRow {
            request: writer.request,
            sample: writer.branches.first().map_or(0, |branch| branch.sample),
            position: self.batch.output(writer.sampler()).map_or(0, <[u32]>::len),
            logits: logits.to_vec(),
            // An error of the mask is one of the draw, which asks for it too.
            mask: writer.mask().ok().flatten().map(<[u32]>::to_vec),
            before,
        };
        seen.push(Seen::Row(Box::new(row)));
    }
}
