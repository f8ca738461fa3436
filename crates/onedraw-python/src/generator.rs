//! Texts of a model: the embedded one, or one in a folder.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use onedraw::{Constraint, ParamError, SamplingParams as Params};
use onedraw_lm::generate::Texts;
use onedraw_lm::settings::{MAX_TOKENS, Settings};
use onedraw_lm::speculate::{EarlyExit, Guesser, Ngram, Speculation};
use onedraw_lm::{Asks, Beams, GenerationConfig, LanguageModel, Llama, ModelError, Run, Wanted, stories};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple, PyType};

use crate::beam::{Hypothesis, settings};
use crate::decoder::{Loop, Opened, Stream};
use crate::error::{Error, Result};
use crate::grammar::{Grammar, Matcher, Vocabulary, vocabulary};
use crate::guarded::{Guarded, check_process, released};
use crate::params;
use crate::result::ids;
use crate::sampler::{check_threads, kernel};
use crate::speculate::verify;
use crate::text::{Event, Generated, RequestId};
use crate::tokenizer::Tokenizer;
use crate::value::type_name;

/// Passes between two checks for signals such as Ctrl-C.
const PASSES: usize = 8;

/// Writes texts with a model: the small model of stories that is part of the package, or one in a Hugging
/// Face folder (llama, mistral, qwen2, qwen3).
///
/// `threads` are those of the model, 0: one per core. `draft` names the drafter that guesses ahead: `"model"`
/// (the embedded model's drafter), the folder of a smaller model, `"eagle"`, `"ngram"`, or a number of layers
/// after which the model guesses. `verify` says how guesses are verified, `depth` and `width` how many there
/// are at most. With `verify="exact"`, the default, guesses do not change any token. `trace` is a file that gets a
/// line of JSON for each text, with everything its tokens depend on: `onedraw audit` draws them again.
///
/// Keyword arguments, or a dict of them, go before the model's own settings, and a text has up to 256 tokens.
/// `SamplingParams` and presets are complete: of the model's own settings only the tokens that end a text are
/// used beside them (a preset by name has up to 256 tokens, too).
///
/// >>> import onedraw
/// >>> generator = onedraw.Generator()
/// >>> generator.generate("Once upon a time", temperature=0, max_tokens=8).text
/// ', there was a little girl named Lily'
#[pyclass(module = "onedraw", frozen)]
pub struct Generator {
    opened: Arc<Opened>,
    /// The object that `tokenizer` returns.
    tokenizer: Py<Tokenizer>,
    /// The requests of `add`.
    running: Guarded<Loop>,
    /// The process that the threads of the model belong to, if it has any.
    process: Option<u32>,
    is_embedded: bool,
}

impl Generator {
    /// The parameters of a text: those that are given, or else keyword arguments before the model's own
    /// settings.
    fn params_of(
        &self,
        py: Python<'_>,
        given: Option<&Bound<'_, PyAny>>,
        arguments: Option<&Bound<'_, PyDict>>,
        prompt: usize,
    ) -> Result<Params> {
        let generation = &self.opened.generation;
        // A dict is another way to give keyword arguments.
        let merged = match given {
            Some(given) if given.hasattr("keys")? && !given.is_instance_of::<PyType>() => {
                let merged = PyDict::new(py);
                merged.call_method1("update", (given,))?;
                if let Some(arguments) = arguments {
                    merged.update(arguments.as_mapping())?;
                }
                Some(merged)
            }
            _ => None,
        };
        let (given, arguments) = match &merged {
            Some(merged) => (None, Some(merged)),
            None => (given, arguments),
        };
        let says_length =
            arguments.is_some_and(|arguments| arguments.contains("max_tokens").unwrap_or(false));
        let mut params = match given.filter(|given| !given.is_none()) {
            Some(given) => {
                let mut params = params::read(py, Some(given), arguments)?;
                if given.is_instance_of::<PyString>() && !says_length {
                    params.max_tokens = MAX_TOKENS;
                }
                params
            }
            None => {
                let settings = Settings::default().layer(params::layer(arguments)?).layer(generation.layer());
                let mut params = settings.resolve()?.params;
                if !says_length {
                    generation.limit(&mut params, prompt);
                }
                params
            }
        };
        generation.end_texts(&mut params);
        Ok(params)
    }

    /// Reads a prompt, which is a text or its tokens.
    fn prompt(&self, prompt: &Bound<'_, PyAny>) -> Result<Vec<u32>> {
        check_process(self.process)?;
        let tokens = match prompt.cast::<PyString>() {
            Ok(text) => {
                let text = text.to_str()?;
                prompt.py().detach(|| self.opened.tokenizer.encode(text))?
            }
            Err(_) => ids(prompt)?,
        };
        match tokens.is_empty() {
            true => Err(ModelError::Request(
                "the prompt is empty, and the model has no token that begins a text".into(),
            )
            .into()),
            false => Ok(tokens),
        }
    }

    fn begin(&self, prompts: &[(Vec<u32>, Params)], constraint: Option<&dyn Constraint>) -> Result<Loop> {
        let mut decoder = Loop::begin(self.opened.clone())?;
        for (prompt, params) in prompts {
            decoder.add(prompt, params.clone(), constraint)?;
        }
        Ok(decoder)
    }
}

fn wrong_draft() -> Error {
    ParamError::new("draft", "must be \"model\", \"eagle\", \"ngram\", a folder or a number of layers").into()
}

/// What a text must match: a grammar, or a matcher in the middle of a text.
fn constraint(grammar: Option<&Bound<'_, PyAny>>) -> Result<Option<Box<dyn Constraint>>> {
    let Some(grammar) = grammar.filter(|grammar| !grammar.is_none()) else { return Ok(None) };
    if let Ok(grammar) = grammar.cast::<Grammar>() {
        return Ok(Some(Box::new(grammar.get().0.start())));
    }
    let matcher = grammar.cast::<Matcher>().map_err(|_| {
        PyTypeError::new_err(format!(
            "grammar is a Grammar or a Matcher, not an object of the type {}",
            type_name(grammar)
        ))
    })?;
    Ok(Some(matcher.get().fork_inner(grammar.py())?))
}

fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}

/// Whether an argument has several prompts: a list of texts, or of lists of tokens.
fn is_several(prompt: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !is_list(prompt) {
        return Ok(false);
    }
    match prompt.try_iter()?.next() {
        Some(first) => first?.hasattr("__len__"),
        None => Ok(false),
    }
}

#[pymethods]
impl Generator {
    #[new]
    #[pyo3(signature = (folder=None, *, threads=0, kernel="auto", draft=None, verify="exact", depth=None, width=None, trace=None))]
    #[allow(clippy::too_many_arguments)] // They are keyword arguments.
    fn new(
        py: Python<'_>,
        folder: Option<PathBuf>,
        threads: usize,
        kernel: &str,
        draft: Option<&Bound<'_, PyAny>>,
        verify: &str,
        depth: Option<usize>,
        width: Option<usize>,
        trace: Option<PathBuf>,
    ) -> Result<Self> {
        let (kernel, threads) = (self::kernel(kernel)?, check_threads(threads)?);
        let (llama, tokens, generation) = py.detach(|| match &folder {
            Some(folder) => Ok::<_, ModelError>((
                Llama::open(folder)?,
                onedraw_lm::Tokenizer::open(folder)?,
                GenerationConfig::open(folder)?,
            )),
            None => Ok((stories::model()?, stories::tokenizer()?, stories::generation_config()?)),
        })?;
        let llama = llama.on(kernel, threads)?;
        if tokens.len() > llama.vocabulary() {
            let message =
                format!("the tokenizer has {} tokens, the model {}", tokens.len(), llama.vocabulary());
            return Err(ModelError::Request(message).into());
        }
        let tokenizer = Arc::new(tokens);
        let guesser = match draft.filter(|draft| !draft.is_none()) {
            None => Guesser::Nobody,
            Some(draft) if draft.is_instance_of::<PyBool>() => return Err(wrong_draft()),
            Some(draft) => match (draft.extract::<usize>(), draft.extract::<PathBuf>()) {
                (Ok(layers), _) => Guesser::Exit(EarlyExit::new(layers, &llama)?),
                (_, Ok(name)) if name.as_os_str() == "eagle" => {
                    py.detach(|| Guesser::eagle(folder.as_deref(), &llama))?
                }
                (_, Ok(name)) if name.as_os_str() == "ngram" => Guesser::Text(Ngram::new(3)?),
                (_, Ok(name)) if name.as_os_str() == "model" => {
                    py.detach(|| Guesser::own(folder.as_deref(), &llama, &tokenizer, kernel, threads))?
                }
                (_, Ok(name)) => py.detach(|| Guesser::draft(&name, &llama, &tokenizer, kernel, threads))?,
                _ => return Err(wrong_draft()),
            },
        };
        let mut speculation = Speculation::new(self::verify(verify)?);
        speculation.depth = depth.unwrap_or(speculation.depth);
        speculation.width = width.unwrap_or(speculation.width);
        let is_embedded = folder.is_none();
        let tokens = tokenizer.clone();
        let opened = Opened { llama, tokenizer: tokens, generation, guesser, speculation, kernel, trace };
        let opened = Arc::new(opened);
        let running = Guarded::new(Loop::begin(opened.clone())?);
        let process = (threads != 1).then(std::process::id);
        Ok(Self { opened, tokenizer: Py::new(py, Tokenizer(tokenizer))?, running, process, is_embedded })
    }

    /// The model's tokens.
    #[getter]
    fn tokenizer(&self, py: Python<'_>) -> Py<Tokenizer> {
        self.tokenizer.clone_ref(py)
    }

    /// The number of logits in a row.
    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.opened.llama.vocabulary()
    }

    /// The most tokens of prompt and text together.
    #[getter]
    fn context(&self) -> usize {
        self.opened.llama.context()
    }

    /// The tokens that end a text.
    #[getter]
    fn eos_token_ids(&self) -> Vec<u32> {
        self.opened.generation.eos_token_ids.clone()
    }

    /// The model's tokens in the form that grammars take.
    fn vocabulary(&self, py: Python<'_>) -> Result<Vocabulary> {
        let Opened { llama, tokenizer, generation, .. } = &*self.opened;
        py.detach(|| vocabulary(tokenizer, llama.vocabulary(), &generation.eos_token_ids))
    }

    /// The parameters that a text with these arguments is written with. What they do not set comes from the
    /// model's own settings.
    #[pyo3(signature = (params=None, **parameters))]
    fn params(
        &self,
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<params::SamplingParams> {
        Ok(params::SamplingParams::new(self.params_of(py, params, parameters, 0)?))
    }

    /// Writes what follows a prompt, which is a text or its tokens. Returns a `Generated`, or a list of them
    /// for several prompts or if `n` is above 1. Several prompts may have a list of parameters; `grammar` is
    /// a `Grammar` or a `Matcher` that the texts must match.
    #[pyo3(signature = (prompt, params=None, *, grammar=None, **parameters))]
    fn generate<'py>(
        &self,
        prompt: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        grammar: Option<&Bound<'py, PyAny>>,
        parameters: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let py = prompt.py();
        let is_several = is_several(prompt)?;
        let prompts =
            if is_several { prompt.try_iter()?.collect::<PyResult<Vec<_>>>()? } else { vec![prompt.clone()] };
        let lists = params
            .filter(|params| is_list(params))
            .map(|list| list.try_iter()?.collect::<PyResult<Vec<_>>>());
        let lists = lists.transpose()?;
        if let Some(list) = lists.as_ref().filter(|list| list.len() != prompts.len()) {
            let message = format!(
                "are {} for {} prompts; give one for all, or one a prompt",
                list.len(),
                prompts.len()
            );
            return Err(ParamError::new("params", message).into());
        }
        let mut requests = Vec::with_capacity(prompts.len());
        for (i, prompt) in prompts.iter().enumerate() {
            let own = lists.as_ref().map(|list| &list[i]);
            let tokens = self.prompt(prompt)?;
            let params = self.params_of(py, own.or(params), parameters, tokens.len())?;
            requests.push((tokens, params));
        }
        let is_one = !is_several && requests.iter().all(|(_, params)| params.n == 1);
        let constraint = constraint(grammar)?;
        let mut decoder = self.begin(&requests, constraint.as_deref())?;
        let mut texts = Texts::default();
        while !decoder.is_done() {
            // Checks for Ctrl-C between passes.
            py.check_signals()?;
            released(py, || decoder.steps(PASSES, |event| texts.push(event)))??;
        }
        let texts = texts.into_generated();
        let mut generated = texts.into_iter().map(Generated).collect::<Vec<_>>();
        match (is_one, generated.len()) {
            (true, 1) => Ok(Bound::new(py, generated.remove(0))?.into_any()),
            _ => Ok(generated.into_pyobject(py)?.into_any()),
        }
    }

    /// Writes what follows a prompt, one `Event` per token, while it is written. Arguments are those of
    /// `generate`, for one prompt.
    ///
    /// >>> import onedraw
    /// >>> for event in onedraw.Generator().stream("Once upon a time", seed=7, max_tokens=4):
    /// ...     print(event.text, end="|")
    /// ,| there| was| a|
    #[pyo3(signature = (prompt, params=None, *, grammar=None, **parameters))]
    fn stream(
        &self,
        prompt: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
        grammar: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Stream> {
        let tokens = self.prompt(prompt)?;
        let params = self.params_of(prompt.py(), params, parameters, tokens.len())?;
        let constraint = constraint(grammar)?;
        let decoder = self.begin(&[(tokens, params)], constraint.as_deref())?;
        Ok(Stream::new(decoder))
    }

    /// Adds a request beside those that are running; `step` continues all of them. Requests may join and
    /// leave between two passes, and no text depends on another.
    ///
    /// >>> import onedraw
    /// >>> generator = onedraw.Generator()
    /// >>> first = generator.add("Once upon a time", seed=1, max_tokens=3)
    /// >>> second = generator.add("The dog", seed=2, max_tokens=2)
    /// >>> ended = []
    /// >>> while not generator.is_done:
    /// ...     ended += [event.request for event in generator.step() if event.is_last]
    /// >>> ended == [second, first]
    /// True
    #[pyo3(signature = (prompt, params=None, *, grammar=None, **parameters))]
    fn add(
        &self,
        prompt: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
        grammar: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<RequestId> {
        let py = prompt.py();
        let tokens = self.prompt(prompt)?;
        let params = self.params_of(py, params, parameters, tokens.len())?;
        let constraint = constraint(grammar)?;
        Ok(RequestId(
            self.running.with(py, move |running| running.add(&tokens, params, constraint.as_deref()))??,
        ))
    }

    /// Makes one pass for the requests of `add`. Every text whose prompt was read gets one more token, or
    /// several if guesses were right; the others read more of their prompts.
    fn step(&self, py: Python<'_>) -> Result<Vec<Event>> {
        check_process(self.process)?;
        let mut events = Vec::new();
        self.running.with(py, |running| running.steps(1, |event| events.push(Event(event))))??;
        Ok(events)
    }

    /// Ends a request of `add`. Returns the last events of its texts, with the text that was held back.
    fn cancel(&self, py: Python<'_>, request: &Bound<'_, RequestId>) -> Result<Vec<Event>> {
        let request = request.get().0;
        let events = self
            .running
            .with(py, |running| running.with_dependent_mut(|_, generator| generator.cancel(request)))?;
        Ok(events.into_iter().map(Event).collect())
    }

    /// Whether no request of `add` is running.
    #[getter]
    fn is_done(&self, py: Python<'_>) -> Result<bool> {
        self.running.with(py, |running| running.is_done())
    }

    /// The `n` best texts after a prompt, found by beam search, as `Hypothesis` with their text. The settings
    /// are those of `BeamSearch`.
    ///
    /// >>> import onedraw
    /// >>> onedraw.Generator().beams("Once upon a", width=3, max_tokens=4)[0].text
    /// ' time, there was'
    #[pyo3(signature = (prompt, params=None, *, width=4, style="hf", length_penalty=1.0, early_stopping=None, groups=1, diversity_penalty=0.0, stochastic=false, grammar=None, **parameters))]
    #[allow(clippy::too_many_arguments)] // They are keyword arguments.
    fn beams(
        &self,
        prompt: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
        width: usize,
        style: &str,
        length_penalty: f64,
        early_stopping: Option<&Bound<'_, PyAny>>,
        groups: usize,
        diversity_penalty: f64,
        stochastic: bool,
        grammar: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Vec<Hypothesis>> {
        let py = prompt.py();
        let tokens = self.prompt(prompt)?;
        let params = self.params_of(py, params, parameters, tokens.len())?;
        let settings = settings(width, style, length_penalty, early_stopping, groups, diversity_penalty)?;
        let constraint = constraint(grammar)?;
        let opened = &self.opened;
        let mut interruption = None;
        let interrupted = &mut interruption;
        let found = released(py, move || {
            // Checks for Ctrl-C between steps.
            let mut goes_on = || {
                Python::attach(|py| py.check_signals()).map_err(|error| *interrupted = Some(error)).is_ok()
            };
            let mut beams =
                Beams::new(&opened.llama, &*opened.tokenizer).kernel(opened.kernel).while_told(&mut goes_on);
            if let Some(constraint) = constraint.as_deref() {
                beams = beams.constrained(constraint);
            }
            if stochastic {
                let (drawn, _) = beams.draw(&tokens, params, width)?;
                return Ok(drawn
                    .into_iter()
                    .map(|found| Hypothesis::drawn(found.hypothesis, Some(found.text)))
                    .collect());
            }
            let found = beams.search(&tokens, params, settings)?;
            Ok(found.into_iter().map(|found| Hypothesis::found(found.hypothesis, Some(found.text))).collect())
        })?;
        match interruption {
            Some(error) => Err(error.into()),
            None => found,
        }
    }

    /// The logits after every token of a prompt, [positions, V], float32: row i predicts token i + 1, and the
    /// last row predicts what follows.
    ///
    /// >>> import onedraw
    /// >>> generator = onedraw.Generator()
    /// >>> rows = generator.logits("Once upon a")
    /// >>> generator.tokenizer.piece(onedraw.sample(rows[-1], temperature=0).token)
    /// ' time'
    fn logits<'py>(&self, prompt: &Bound<'py, PyAny>) -> Result<Bound<'py, PyArray2<f32>>> {
        let py = prompt.py();
        let tokens = self.prompt(prompt)?;
        let (llama, count) = (&self.opened.llama, tokens.len());
        if count > llama.context() {
            let message = format!(
                "the prompt has {count} tokens, more than the model's context of {}",
                llama.context()
            );
            return Err(ModelError::Request(message).into());
        }
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= llama.vocabulary()) {
            let message =
                format!("token {token} of the prompt is outside the vocabulary of {}", llama.vocabulary());
            return Err(ModelError::Request(message).into());
        }
        let mut answers = py.detach(|| {
            let mut memory = llama.start();
            let asks = Asks { logits: Wanted::All, ..Asks::default() };
            llama.forward(&mut [Run { asks, ..Run::line(&mut memory, &tokens) }])
        })?;
        let logits = answers.pop().map(|answer| answer.logits).unwrap_or_default();
        Ok(logits.into_pyarray(py).reshape([count, llama.vocabulary()])?)
    }

    fn __repr__(&self) -> String {
        let name = if self.is_embedded { "the model of stories" } else { "a model" };
        format!(
            "Generator({name}, {} tokens, context {})",
            self.opened.llama.vocabulary(),
            self.opened.llama.context()
        )
    }
}
