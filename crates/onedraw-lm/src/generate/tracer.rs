//! Writes a [trace](crate::trace) of each text.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use onedraw::speculate::Verify;
use onedraw::{Constraint, Order, STREAM_VERSION, SamplingParams, Stage};

use crate::generate::event::{Event, RequestId};
use crate::trace::{Counterpart, LONGEST, NotReplayable, TRACE_VERSION, TakenBack, Trace, TracedLogprob};

/// Where a [`Generator`](crate::Generator) writes a line of JSON for each text that has ended.
pub struct Tracer<'a> {
    out: Box<dyn Write + Send + 'a>,
    model: String,
    tokenizer: String,
    contrast: Option<Counterpart>,
    /// The texts that have not ended.
    texts: BTreeMap<(RequestId, usize), Trace>,
    /// Why a line could not be written, until it is told.
    failed: Option<io::Error>,
}

impl<'a> Tracer<'a> {
    /// Writes to `out`. `model` and `tokenizer` are the hashes of what is used
    /// ([`Llama::sha256`](crate::Llama::sha256), [`Tokenizer::sha256`](crate::Tokenizer::sha256)).
    pub fn new(out: impl Write + Send + 'a, model: &str, tokenizer: &str) -> Self {
        Self {
            out: Box::new(out),
            model: model.to_owned(),
            tokenizer: tokenizer.to_owned(),
            contrast: None,
            texts: BTreeMap::new(),
            failed: None,
        }
    }

    /// Appends to a file, which is made if it is not there. A line that was cut in the middle is ended first.
    pub fn append(path: &Path, model: &str, tokenizer: &str) -> io::Result<Tracer<'static>> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut last = [b'\n'];
        // A pipe has no end to look at.
        if file.metadata()?.is_file() && file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
        Ok(Tracer::new(file, model, tokenizer))
    }

    /// Says in each line what the model's logits are contrasted with.
    pub fn contrasted(mut self, contrast: Option<Counterpart>) -> Self {
        self.contrast = contrast;
        self
    }

    /// The trace of a text that has no tokens yet. `params` have the seed and the prompt.
    pub fn opened(&self, params: SamplingParams, sequence: u32) -> Trace {
        let mut params = params;
        let prompt_token_ids = std::mem::take(&mut params.prompt_token_ids);
        let own = |stage: &Stage| matches!(stage, Stage::Custom(_));
        let has_own = params.order.as_ref().is_some_and(|order| order.stages().iter().any(own));
        if has_own {
            let stages = params.order.take().map(|order| order.stages().to_vec()).unwrap_or_default();
            params.order =
                Some(Order::of(stages.into_iter().filter(|stage| !own(stage)).collect::<Vec<_>>()));
        }
        // Without an order, parameters leave it out.
        params.order.get_or_insert_default();
        Trace {
            version: TRACE_VERSION,
            stream_version: STREAM_VERSION,
            model: self.model.clone(),
            tokenizer: self.tokenizer.clone(),
            sequence,
            prompt_token_ids,
            output_token_ids: Vec::new(),
            finish_reason: None,
            forced: Vec::new(),
            taken_back: Vec::new(),
            constraint: None,
            contrast: self.contrast.clone(),
            not_replayable: has_own.then_some(NotReplayable::Stages),
            error: None,
            logprobs: params.logprobs.map(|_| Vec::new()),
            kept: (params.kept != onedraw::KeptMode::None).then(Vec::new),
            params,
        }
    }

    /// Writes a line. An error if it is longer than [a line may be](crate::trace::Lines).
    pub fn write(&mut self, trace: &Trace) -> io::Result<()> {
        let mut line = serde_json::to_vec(trace)?;
        line.push(b'\n');
        if line.len() as u64 > LONGEST {
            let message = format!("a line has {} bytes, and may have {LONGEST}", line.len());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        self.out.write_all(&line)
    }

    /// Begins the texts of a request.
    pub(super) fn begin(
        &mut self,
        request: RequestId,
        params: SamplingParams,
        constraint: Option<&dyn Constraint>,
        has_given: bool,
        verify: Option<Verify>,
    ) {
        let mut trace = self.opened(params, 0);
        if let Some(constraint) = constraint {
            trace.constraint = constraint.source();
            if trace.constraint.is_none() {
                trace.not_replayable.get_or_insert(NotReplayable::Constraint);
            }
        }
        if has_given {
            trace.not_replayable.get_or_insert(NotReplayable::Given);
        }
        trace.not_replayable = trace.not_replayable.or(verify.and_then(NotReplayable::verified));
        for sequence in 0..trace.params.n {
            self.texts.insert((request, sequence as usize), Trace { sequence, ..trace.clone() });
        }
    }

    /// Takes the events of a pass, and writes the texts that have ended.
    pub(super) fn take(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            let name = (event.request, event.sample);
            let Some(trace) = self.texts.get_mut(&name) else { continue };
            append(trace, event);
            if event.is_last() {
                self.close(name);
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes a text that an error of the model has ended.
    pub(super) fn fail(&mut self, request: RequestId, sample: usize, error: &str) {
        if let Some(trace) = self.texts.get_mut(&(request, sample)) {
            trace.error = Some(error.to_owned());
        }
        self.close((request, sample));
    }

    /// Writes a text that was cancelled.
    pub(super) fn end(&mut self, event: &Event) {
        self.close((event.request, event.sample));
    }

    /// Writes a text, and remembers an error until it is told.
    fn close(&mut self, name: (RequestId, usize)) {
        if let Some(trace) = self.texts.remove(&name)
            && let Err(error) = self.write(&trace)
        {
            self.failed = Some(error);
        }
    }

    /// Flushes. An error if a line could not be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)?;
        self.out.flush()
    }
}

/// Appends what an event says.
fn append(trace: &mut Trace, event: &Event) {
    if let Some(sampled) = &event.sampled {
        let place = trace.output_token_ids.len();
        trace.output_token_ids.push(sampled.token);
        if event.is_forced {
            trace.forced.push(place);
        }
        if let Some(logprobs) = &mut trace.logprobs {
            logprobs.push(sampled.logprob.zip(sampled.rank).map(|(logprob, rank)| TracedLogprob {
                logprob,
                rank,
                logprobs: sampled.logprobs.clone(),
            }));
        }
        if let Some(kept) = &mut trace.kept {
            kept.push(sampled.kept.clone());
        }
    }
    if event.taken_back > 0 {
        let place = trace.output_token_ids.len().saturating_sub(event.taken_back);
        let token_ids = trace.output_token_ids.split_off(place);
        let forced = trace.forced.extract_if(.., |forced| *forced >= place).collect();
        trace.logprobs.iter_mut().for_each(|logprobs| logprobs.truncate(place));
        trace.kept.iter_mut().for_each(|kept| kept.truncate(place));
        trace.taken_back.push(TakenBack { place, token_ids, forced });
    }
    trace.finish_reason = event.finish.map(|finish| finish.reason());
    trace.error = event.error.as_ref().map(|error| error.to_string());
}
