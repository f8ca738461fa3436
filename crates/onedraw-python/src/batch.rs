//! Many sequences, each with its own parameters, seed and history.

use std::sync::{Mutex, PoisonError};

use onedraw::{Exchange, Rank, RankMemory, RowError, Saved, Step};
use onedraw_cuda::RankTurn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cuda::ranks::{Message, OnDevice, Parts, send};
use crate::error::{Error, Result};
use crate::explanation::Explanation;
use crate::grammar::Matcher;
use crate::guarded::{Guarded, check_process};
use crate::result::{Distribution, Sampled, token_logprobs};
use crate::rows::{drawn, objects};
use crate::sampler::{check_ahead, check_threads, kernel};
use crate::sequence::{check_rows, next_batch, sequence_id};
use crate::speculate::{Draft, Guess, Runner, Verdict, verify};
use crate::stop::Rewind;
use crate::tensor::Logits;
use crate::{exceptions, mask, params, result};

sequence_id!("onedraw", onedraw::SequenceId);

/// Sequences that come and go between steps, each with its own parameters, seed and history, drawn on
/// `threads` threads (0: one per core). The token of a row depends only on its own sequence.
///
/// >>> import onedraw, numpy as np
/// >>> batch = onedraw.Batch()
/// >>> warm, greedy = batch.add(temperature=1.2, seed=1), batch.add("deterministic")
/// >>> batch.sample([greedy, warm], np.array([[0.5, 2.0, 1.0], [3.0, 0.0, 1.0]], "f4")).tokens
/// array([1, 0])
/// >>> batch.output(greedy)
/// [1]
#[pyclass(module = "onedraw", frozen)]
pub struct Batch {
    batch: Guarded<onedraw::Batch>,
    number: u64,
    /// For draws over ranks.
    ranks: Mutex<RankMemory>,
    /// For draws over ranks from logits on a device.
    parts: Parts,
    /// The process that its threads belong to, if it has any.
    process: Option<u32>,
}

/// The sequences and rows of a call, checked against each other.
struct Steps {
    ids: Vec<onedraw::SequenceId>,
    logits: Logits,
    masks: Vec<Option<Vec<u32>>>,
    is_one: bool,
}

impl Steps {
    fn read(
        batch: &Batch,
        sequences: &Bound<'_, PyAny>,
        logits: &Bound<'_, PyAny>,
        masks: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let (ids, is_one) = SequenceId::all_of(sequences, batch.number)?;
        let logits = if ids.is_empty() { Logits::read_rows(logits)? } else { Logits::read(logits)? };
        check_rows(ids.len(), logits.len())?;
        let masks = match is_one {
            true => vec![mask::read(masks, logits.row()?.len())?],
            false => mask::read_each(masks, &logits.rows())?,
        };
        Ok(Self { ids, logits, masks, is_one })
    }

    /// As [`Steps::read`] for a rank's part of rows of `vocabulary` logits. Masks are those of whole rows.
    fn read_parts(
        (ids, is_one): (Vec<onedraw::SequenceId>, bool),
        logits: &Bound<'_, PyAny>,
        masks: Option<&Bound<'_, PyAny>>,
        vocabulary: usize,
    ) -> Result<Self> {
        let logits = if ids.is_empty() { Logits::read_rows(logits)? } else { Logits::read(logits)? };
        check_rows(ids.len(), logits.len())?;
        let masks = masks_of_whole_rows(ids.len(), is_one, masks, vocabulary)?;
        Ok(Self { ids, logits, masks, is_one })
    }

    fn steps(&self) -> Vec<Step<'_>> {
        let rows = self.logits.rows();
        let step = |(i, (&sequence, row))| Step {
            sequence,
            row,
            mask: self.masks.get(i).and_then(Option::as_deref),
        };
        self.ids.iter().zip(rows).enumerate().map(step).collect()
    }
}

/// The masks of rows of `vocabulary` logits, each of which somebody holds a part of; empty if there are none.
fn masks_of_whole_rows(
    rows: usize,
    is_one: bool,
    masks: Option<&Bound<'_, PyAny>>,
    vocabulary: usize,
) -> Result<Vec<Option<Vec<u32>>>> {
    match is_one {
        true => Ok(vec![mask::read(masks, vocabulary)?]),
        false => mask::list(masks, rows)?.iter().map(|mask| mask::read(Some(mask), vocabulary)).collect(),
    }
}

impl Batch {
    fn own(&self, sequence: &Bound<'_, SequenceId>) -> onedraw::SequenceId {
        sequence.get().of(self.number)
    }

    fn named(&self, id: onedraw::SequenceId) -> SequenceId {
        SequenceId::new(id, self.number)
    }

    /// Draws over ranks from logits on a device, and appends the tokens unless `ahead` is given; `None` if the
    /// device cannot.
    #[allow(clippy::too_many_arguments)] // They are those of `_draw_over`.
    fn draw_there(
        &self,
        py: Python<'_>,
        ids: &[onedraw::SequenceId],
        rows: &OnDevice,
        masks: &[Option<Vec<u32>>],
        rank: &Rank,
        ahead: Option<u32>,
        gather: &Py<PyAny>,
    ) -> Result<Option<Vec<std::result::Result<onedraw::Sampled, RowError>>>> {
        let mask = |row| masks.get(row).and_then(Option::as_deref);
        let turn = |(row, &sequence)| RankTurn { sequence, mask: mask(row) };
        let turns: Vec<_> = ids.iter().enumerate().map(turn).collect();
        self.with(py, |batch| {
            let gather = |message: Message<'_>, room| send(gather, message, room);
            let results = self.parts.peek_over(batch, rows, &turns, rank, ahead.unwrap_or(0), gather)?;
            Ok(results.map(|mut results| {
                if ahead.is_none() {
                    batch.accept_results(ids.iter().copied(), &mut results);
                }
                results
            }))
        })?
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&mut onedraw::Batch) -> R + Send,
    ) -> Result<R> {
        check_process(self.process)?;
        self.batch.with(py, action)
    }

    fn drawn<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
        draw: impl FnOnce(
            &mut onedraw::Batch,
            &[Step<'_>],
        ) -> Vec<std::result::Result<onedraw::Sampled, RowError>>
        + Send,
    ) -> Result<Bound<'py, PyAny>> {
        let py = logits.py();
        let read = Steps::read(self, sequences, logits, masks)?;
        let steps = read.steps();
        let results = self.with(py, |batch| draw(batch, &steps))?;
        drawn(py, results, read.is_one)
    }

    /// Asks about a sequence; an error if there is no such sequence.
    fn of<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&mut onedraw::Batch) -> Option<T> + Send,
    ) -> Result<T> {
        self.with(py, ask)?.ok_or(Error::Row(RowError::UnknownSequence))
    }
}

#[pymethods]
impl Batch {
    #[new]
    #[pyo3(signature = (*, threads=1, kernel="auto", shards=1))]
    fn new(threads: usize, kernel: &str, shards: usize) -> Result<Self> {
        let batch = onedraw::Batch::new().threads(check_threads(threads)?).kernel(self::kernel(kernel)?);
        let batch = Guarded::new(if shards > 1 { batch.shards(shards) } else { batch });
        let process = (threads != 1).then(std::process::id);
        Ok(Self { batch, number: next_batch(), ranks: Mutex::default(), parts: Parts::default(), process })
    }

    /// Adds a sequence: the first of the `n` that the parameters ask for. An error in the parameters changes
    /// nothing.
    #[pyo3(signature = (params=None, **parameters))]
    fn add(
        &self,
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<SequenceId> {
        let params = params::read(py, params, parameters)?;
        Ok(self.named(self.with(py, |batch| batch.add(params))??))
    }

    /// Adds all `n` sequences that the parameters ask for. They share one seed.
    #[pyo3(signature = (params=None, **parameters))]
    fn add_all(
        &self,
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Vec<SequenceId>> {
        let params = params::read(py, params, parameters)?;
        Ok(self.with(py, |batch| batch.add_all(params))??.into_iter().map(|id| self.named(id)).collect())
    }

    /// Removes a sequence. Returns whether it was there.
    fn remove(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<bool> {
        let id = self.own(sequence);
        self.with(py, |batch| batch.remove(id))
    }

    /// Adds a copy of a sequence, with the same parameters, seed and history. From then on the two are
    /// independent.
    fn fork(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<SequenceId> {
        let id = self.own(sequence);
        self.of(py, |batch| batch.fork(id)).map(|id| self.named(id))
    }

    /// Draws a token for each sequence from its row and appends it. `sequences` is a list of ids and `logits`
    /// as many rows, or one id and one row; `masks` is a list with a mask or None for each row.
    /// Returns `Samples`, or for one id a `Sampled`; rows that cannot be sampled raise `RowsError`, which
    /// carries the results of the others.
    #[pyo3(signature = (sequences, logits, *, masks=None))]
    fn sample<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        self.drawn(sequences, logits, masks, |batch, steps| batch.sample(steps))
    }

    /// Like `sample`, but `ahead` positions after the next one, and without changing the histories.
    #[pyo3(signature = (sequences, logits, ahead=0, *, masks=None))]
    fn peek<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        ahead: u32,
        masks: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let (ids, _) = SequenceId::all_of(sequences, self.number)?;
        let furthest = self.with(logits.py(), |batch| {
            ids.iter().filter_map(|&id| batch.output(id)).map(<[u32]>::len).max()
        })?;
        check_ahead(furthest.unwrap_or(0) as u32, ahead)?;
        self.drawn(sequences, logits, masks, |batch, steps| batch.peek(steps, ahead))
    }

    /// For `onedraw.distributed`: `sample`, or with `ahead` `peek`, over `ranks` ranks, of which this one
    /// holds `length` logits of each row from `start` on. `gather(message, room)` returns the messages of
    /// all ranks, each of which is at most `room` bytes long. If the logits are on a device, the first message
    /// is there too, as a `CudaMessage`.
    #[pyo3(signature = (sequences, logits, ahead, *, ranks, vocabulary, start, length, gather, masks=None))]
    #[allow(clippy::too_many_arguments)] // They are named where it is called.
    fn _draw_over<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        ahead: Option<u32>,
        ranks: usize,
        vocabulary: usize,
        start: usize,
        length: usize,
        gather: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let py = logits.py();
        let gather = gather.clone().unbind();
        let (ids, is_one) = SequenceId::all_of(sequences, self.number)?;
        let count = ids.len();
        let rank = Rank { count: ranks, vocabulary, start };
        let refuse = |error: Error| -> Result<_> {
            // The others wait for this rank's message.
            let error = PyErr::from(error);
            let refusal = Exchange::refusal(count, &error.to_string());
            send(&gather, Message::Bytes(&refusal), refusal.len())?;
            Err(error.into())
        };
        let mut logits = logits.clone();
        if count > 0 && length > 0 {
            let read = OnDevice::read(&logits).and_then(|rows| match rows {
                Some(rows) => {
                    check_rows(count, rows.rows())?;
                    Ok(Some((rows, masks_of_whole_rows(count, is_one, masks, vocabulary)?)))
                }
                None => Ok(None),
            });
            match read {
                Ok(None) => {}
                Ok(Some((mut rows, words))) => {
                    rows.length = length;
                    if let Some(results) = self.draw_there(py, &ids, &rows, &words, &rank, ahead, &gather)? {
                        return drawn(py, results, is_one);
                    }
                    // What the device cannot draw is drawn from a copy.
                    logits = match logits.call_method0("cpu") {
                        Ok(logits) => logits,
                        Err(error) => return refuse(error.into()),
                    };
                }
                Err(error) => return refuse(error),
            }
        }
        let read = match Steps::read_parts((ids, is_one), &logits, masks, vocabulary) {
            Ok(read) => read,
            Err(error) => return refuse(error),
        };
        let mut steps = read.steps();
        for step in &mut steps {
            // A vocabulary may be padded.
            step.row = step.row.part(0..length.min(step.row.len()));
        }
        let gather = |message: &[u8], room: usize| send(&gather, Message::Bytes(message), room);
        let results = self.with(py, |batch| {
            let mut memory = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
            match ahead {
                Some(ahead) => batch.peek_over(&steps, &rank, ahead, &mut memory, gather),
                None => batch.sample_over(&steps, &rank, &mut memory, gather),
            }
        })??;
        drawn(py, results, read.is_one)
    }

    /// The whole distribution that each sequence would draw from.
    #[pyo3(signature = (sequences, logits, *, masks=None))]
    fn distributions<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, read) = (logits.py(), Steps::read(self, sequences, logits, masks)?);
        let steps = read.steps();
        let results = self.with(py, |batch| batch.distributions(&steps))?;
        objects(py, results, read.is_one, |inner| Ok(Bound::new(py, Distribution { inner })?.into_any()))
    }

    /// What each sequence's chain does to its row, stage by stage.
    #[pyo3(signature = (sequences, logits, *, listed=10, masks=None))]
    fn explanations<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        listed: usize,
        masks: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, read) = (logits.py(), Steps::read(self, sequences, logits, masks)?);
        let steps = read.steps();
        let results = self.with(py, |batch| batch.explanations(&steps, listed))?;
        objects(py, results, read.is_one, |explained| {
            Ok(Bound::new(py, Explanation::from(explained))?.into_any())
        })
    }

    /// The `count` most likely tokens that the chain of each sequence keeps, as lists of `TokenLogprob`.
    #[pyo3(signature = (sequences, logits, count, *, masks=None))]
    fn best<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        count: usize,
        masks: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, read) = (logits.py(), Steps::read(self, sequences, logits, masks)?);
        let steps = read.steps();
        let results = self.with(py, |batch| batch.best(&steps, count))?;
        objects(py, results, read.is_one, |best| token_logprobs(&best).into_pyobject(py).map(Bound::into_any))
    }

    /// Appends a `Sampled` that `peek` or `verify` drew at the next position, or the id of a token chosen
    /// elsewhere, which does not change mirostat's state. With a list of sequences it appends one of a list of
    /// ids to each; if one of the sequences is not there, to none.
    fn accept(&self, py: Python<'_>, sequence: &Bound<'_, PyAny>, token: &Bound<'_, PyAny>) -> Result<()> {
        let (ids, is_one) = SequenceId::all_of(sequence, self.number)?;
        if is_one && let Ok(sampled) = token.cast::<Sampled>() {
            let sampled = &sampled.get().0;
            return self.of(py, |batch| batch.accept_sampled(ids[0], sampled).then_some(()));
        }
        let tokens = match is_one {
            true => vec![result::token(token)?],
            false => token.try_iter()?.map(|token| result::token(&token?)).collect::<Result<_>>()?,
        };
        if tokens.len() != ids.len() {
            let message = format!("are {} for {} sequences", tokens.len(), ids.len());
            return Err(onedraw::ParamError::new("token", message).into());
        }
        self.of(py, |batch| {
            let is_known = ids.iter().all(|&id| batch.seed(id).is_some());
            is_known.then(|| ids.iter().zip(&tokens).for_each(|(&id, &token)| _ = batch.accept(id, token)))
        })
    }

    /// Takes back the tokens of a sequence after the first `length` of its output. This is an undo.
    fn rewind(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>, length: usize) -> Result<()> {
        let id = self.own(sequence);
        self.of(py, |batch| batch.rewind(id, length).then_some(()))
    }

    /// Takes text back because of what was drawn, as a `StopMatcher` decided.
    fn take_back(
        &self,
        py: Python<'_>,
        sequence: &Bound<'_, SequenceId>,
        rewind: &Bound<'_, Rewind>,
    ) -> Result<()> {
        let (id, rewind) = (self.own(sequence), rewind.get().0);
        self.of(py, |batch| batch.take_back(id, &rewind).then_some(()))
    }

    /// The tokens a sequence has written so far.
    fn output(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<Vec<u32>> {
        let id = self.own(sequence);
        self.of(py, |batch| batch.output(id).map(<[u32]>::to_vec))
    }

    /// The seed of a sequence: the given one, or one drawn from the system.
    fn seed(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<u64> {
        let id = self.own(sequence);
        self.of(py, |batch| batch.seed(id))
    }

    /// Mirostat's state mu, in bits; None if the sequence has mirostat off.
    fn mirostat_mu(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<Option<f64>> {
        let id = self.own(sequence);
        self.of(py, |batch| batch.seed(id).map(|_| batch.mirostat_mu(id)))
    }

    /// Everything the later draws of a sequence depend on, as JSON.
    fn save(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<String> {
        let id = self.own(sequence);
        let saved = self.of(py, |batch| batch.save(id))?;
        serde_json::to_string(&saved)
            .map_err(|error| onedraw::ParamError::new("order", error.to_string()).into())
    }

    /// Adds a sequence that was saved, by this or by `Sampler.save`.
    fn load(&self, py: Python<'_>, saved: &str) -> Result<SequenceId> {
        let saved: Saved = serde_json::from_str(saved).map_err(|error| {
            Error::Python(exceptions::OnedrawError::new_err(format!("not a saved sequence: {error}")))
        })?;
        Ok(self.named(self.with(py, |batch| batch.load(&saved))??))
    }

    /// The first tokens in the race of a sequence's next draw, at most `count`, as `Runner`s: the token that
    /// `sample` would draw, then the one that it would draw without that token, and so on. A drafter guesses
    /// with these for `verify="exact"`. The history does not change.
    #[pyo3(signature = (sequence, logits, count, *, mask=None))]
    fn runners<'py>(
        &self,
        sequence: &Bound<'py, SequenceId>,
        logits: &Bound<'py, PyAny>,
        count: usize,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> Result<Vec<Runner>> {
        let read = Steps::read(self, sequence.as_any(), logits, mask)?;
        let steps = read.steps();
        let mut results = self.with(logits.py(), |batch| batch.runners(&steps, count))?;
        let runners = results.pop().unwrap_or(Err(RowError::EmptyRow))?;
        Ok(runners.into_iter().map(Runner::from).collect())
    }

    /// Draws up to `count` guesses of a sequence's next token from a drafter's row, for `verify="rejection"`
    /// and `"block"`: a `Guess` of tokens and the distribution they were drawn from. `begun` is the length of
    /// the output where the draft begins. The history does not change.
    #[pyo3(signature = (sequence, logits, count, begun, *, mask=None))]
    fn guess<'py>(
        &self,
        sequence: &Bound<'py, SequenceId>,
        logits: &Bound<'py, PyAny>,
        count: usize,
        begun: usize,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> Result<Guess> {
        let read = Steps::read(self, sequence.as_any(), logits, mask)?;
        let steps = read.steps();
        let (tokens, law) = self.with(logits.py(), |batch| batch.guess(&steps[0], count, begun))??;
        Ok(Guess { tokens, law })
    }

    /// Verifies a draft. Row 0 of `logits` is the target model's row after the text so far, row i + 1 the one
    /// after node i. `verify` is `exact` (the text is that of plain decoding), `rejection` or `block`
    /// (another text from the same distribution), or `typical` (another distribution). The sequence and the
    /// matcher do not change: the tokens that are used must be accepted one by one.
    ///
    /// >>> import onedraw, numpy as np
    /// >>> batch = onedraw.Batch()
    /// >>> sequence = batch.add(temperature=0)
    /// >>> rows = np.array([[0, 2, 1], [3, 0, 1], [0, 0, 5]], "f4")
    /// >>> batch.verify(sequence, onedraw.Draft.chain([1, 1]), rows)
    /// Verdict(path=[0], tokens=[1, 0])
    #[pyo3(signature = (sequence, draft, logits, *, verify="exact", matcher=None))]
    fn verify<'py>(
        &self,
        sequence: &Bound<'py, SequenceId>,
        draft: &Bound<'py, Draft>,
        logits: &Bound<'py, PyAny>,
        verify: &str,
        matcher: Option<&Bound<'py, Matcher>>,
    ) -> Result<Verdict> {
        let read = Logits::read(logits)?;
        let (id, draft, rows, mode) =
            (self.own(sequence), draft.get().copy(), read.rows(), self::verify(verify)?);
        let mut constraint = matcher.map(|matcher| matcher.get().fork_inner(logits.py())).transpose()?;
        let verdict = self.with(logits.py(), |batch| {
            let constraint =
                constraint.as_mut().map(|matcher| matcher.as_mut() as &mut dyn onedraw::Constraint);
            batch.verify(id, &draft, &rows, constraint, mode)
        })??;
        Ok(verdict.into())
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        self.with(py, |batch| batch.len())
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        Ok(format!("Batch({} sequences)", self.__len__(py)?))
    }
}
