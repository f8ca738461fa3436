//! The decode loop of an open model, and the events of one request.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use onedraw::{Constraint, Kernel, SamplingParams as Params};
use onedraw_lm::speculate::{Guesser, Speculation};
use onedraw_lm::{GenerationConfig, Llama, ModelError, Tracer};
use pyo3::prelude::*;
use self_cell::self_cell;

use crate::error::{Error, Result};
use crate::guarded::Guarded;
use crate::text::Event;

/// An open model, with its tokenizer, settings and drafter.
pub struct Opened {
    pub llama: Llama,
    pub tokenizer: Arc<onedraw_lm::Tokenizer>,
    pub generation: GenerationConfig,
    pub guesser: Guesser,
    pub speculation: Speculation,
    pub kernel: Kernel,
    /// Where a line is appended for each text.
    pub trace: Option<PathBuf>,
}

impl Opened {
    /// The generator's tracer, if there is a file for it.
    fn tracer(&self) -> Result<Option<Tracer<'static>>> {
        let Some(path) = &self.trace else { return Ok(None) };
        let tracer = Tracer::append(path, self.llama.sha256(), self.tokenizer.sha256());
        let wrong = |error| ModelError::Request(format!("trace {}: {error}", path.display()));
        Ok(Some(tracer.map_err(wrong)?))
    }
}

self_cell!(
    /// A generator, together with the model that it borrows.
    pub struct Loop {
        owner: Arc<Opened>,
        #[not_covariant]
        dependent: Decoder,
    }
);

type Decoder<'a> = onedraw_lm::Generator<'a, Llama>;

impl Loop {
    /// A loop without requests.
    pub fn begin(opened: Arc<Opened>) -> Result<Self> {
        Self::try_new(opened, |opened| {
            let mut generator =
                onedraw_lm::Generator::new(&opened.llama, &*opened.tokenizer).kernel(opened.kernel);
            if let Some(tracer) = opened.tracer()? {
                generator = generator.trace(tracer);
            }
            Ok(opened.guesser.beside(generator, &opened.llama, opened.speculation)?)
        })
    }

    /// Adds a request.
    pub fn add(
        &mut self,
        prompt: &[u32],
        params: Params,
        constraint: Option<&dyn Constraint>,
    ) -> Result<onedraw_lm::RequestId> {
        let request = self.with_dependent_mut(|_, generator| match constraint {
            None => generator.add(prompt, params),
            Some(constraint) => generator.add_constrained(prompt, params, constraint),
        });
        Ok(request?)
    }

    /// Whether no request is running.
    pub fn is_done(&self) -> bool {
        self.with_dependent(|_, generator| generator.is_done())
    }

    /// Makes at most so many passes.
    pub fn steps(&mut self, passes: usize, mut event: impl FnMut(onedraw_lm::Event)) -> Result<()> {
        self.with_dependent_mut(|_, generator| {
            for _ in 0..passes {
                if generator.is_done() {
                    break;
                }
                generator.step()?.into_iter().for_each(&mut event);
            }
            Ok(())
        })
    }
}

/// The events of one request, while they happen.
#[pyclass(module = "onedraw", frozen)]
pub struct Stream(Guarded<(Loop, VecDeque<onedraw_lm::Event>)>);

impl Stream {
    /// The events of the only request of a loop.
    pub fn new(decoder: Loop) -> Self {
        Self(Guarded::new((decoder, VecDeque::new())))
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Event>> {
        loop {
            py.check_signals()?;
            let (event, is_done) = self.0.with(py, |(decoder, waiting)| {
                if waiting.is_empty() {
                    decoder.steps(1, |event| waiting.push_back(event))?;
                }
                Ok::<_, Error>((waiting.pop_front(), decoder.is_done()))
            })??;
            match event {
                Some(event) => return Ok(Some(Event(event))),
                None if is_done => return Ok(None),
                // The pass only read a part of the prompt.
                None => {}
            }
        }
    }
}
