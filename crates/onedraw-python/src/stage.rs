//! A stage of the chain written in Python.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::PyArray1;
use onedraw::custom::{self, Change, Custom, Keep};
use onedraw::{Order, ParamError, Stage};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::error::Result;
use crate::guarded::in_stage;
use crate::result::ids;
use crate::tensor::Logits;
use crate::value::type_name;

/// What a stage written in Python sees: the logits as the stages before it left them, and the sequence.
#[pyclass(module = "onedraw", frozen)]
pub struct View {
    /// The logit of every token, a copy as float32; -inf where a token is gone. An `Edit` sees them divided by the temperatures before it, a
    /// `Truncation` does not.
    #[pyo3(get)]
    logits: Py<PyArray1<f32>>,
    /// The tokens of the prompt.
    #[pyo3(get)]
    prompt: Vec<u32>,
    /// The tokens written so far.
    #[pyo3(get)]
    output: Vec<u32>,
    /// The position that is drawn.
    #[pyo3(get)]
    position: u32,
    /// The temperature in force that the logits are not yet divided by.
    #[pyo3(get)]
    temperature: f64,
}

#[pymethods]
impl View {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let tokens = self.logits.bind(py).len()?;
        Ok(format!("View({tokens} logits, position={}, temperature={})", self.position, self.temperature))
    }
}

impl View {
    fn new<'py>(py: Python<'py>, view: &custom::View<'_>) -> PyResult<Bound<'py, Self>> {
        let view = Self {
            logits: PyArray1::from_slice(py, view.logits()).unbind(),
            prompt: view.prompt().to_vec(),
            output: view.output().to_vec(),
            position: view.position(),
            temperature: view.temperature(),
        };
        Bound::new(py, view)
    }
}

/// A stage of your own that changes logits, to be set into an order by its place.
///
/// `function` takes a `View` and returns what changes: a dict of tokens and their new logits (-inf masks a token), an array with a logit for every
/// token, or None for no change. The draw is still a function of logits, parameters, history, seed and position as long as the function is.
/// What the function raises is the cause of the row's error. The garbage collector does not look into a stage: a method of the object that holds the parameters keeps that
/// object alive for good, a function or a weak reference does not.
///
/// >>> import onedraw
/// >>> no_echo = onedraw.Edit("no_echo", lambda view: {view.output[-1]: float("-inf")} if view.output else None)
/// >>> params = onedraw.SamplingParams(temperature=0).with_stage(no_echo, before="temperature")
/// >>> sampler = onedraw.Sampler(params)
/// >>> [sampler.sample([1.0, 3.0, 2.0]).token for _ in range(3)]
/// [1, 2, 1]
#[pyclass(module = "onedraw", frozen)]
pub struct Edit {
    /// The name, as explanations and errors have it.
    #[pyo3(get)]
    name: String,
    /// What is called.
    #[pyo3(get)]
    function: Py<PyAny>,
    stage: Custom,
}

#[pymethods]
impl Edit {
    #[new]
    fn new(py: Python<'_>, name: String, function: Py<PyAny>) -> Result<Self> {
        check_callable(function.bind(py))?;
        let called = function.clone_ref(py);
        let stage = Custom::edit(&name, move |view: &custom::View<'_>| call(&called, view, change))?;
        Ok(Self { name, function, stage })
    }

    fn __repr__(&self) -> String {
        format!("Edit({:?})", self.name)
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (String, Py<PyAny>) {
        (self.name.clone(), self.function.clone_ref(py))
    }
}

/// A stage of your own that keeps a subset of the tokens, to be set into an order by its place.
///
/// `function` takes a `View` and returns the tokens that stay: their ids, or an array of bools with an entry for every token.
///
/// >>> import onedraw
/// >>> even = onedraw.Truncation("even", lambda view: range(0, len(view.logits), 2))
/// >>> onedraw.distribution([1.0, 3.0, 2.0], order=[even]).tokens
/// array([2, 0])
#[pyclass(module = "onedraw", frozen)]
pub struct Truncation {
    /// The name, as explanations and errors have it.
    #[pyo3(get)]
    name: String,
    /// What is called.
    #[pyo3(get)]
    function: Py<PyAny>,
    stage: Custom,
}

#[pymethods]
impl Truncation {
    #[new]
    fn new(py: Python<'_>, name: String, function: Py<PyAny>) -> Result<Self> {
        check_callable(function.bind(py))?;
        let called = function.clone_ref(py);
        let stage = Custom::truncation(&name, move |view: &custom::View<'_>| call(&called, view, keep))?;
        Ok(Self { name, function, stage })
    }

    fn __repr__(&self) -> String {
        format!("Truncation({:?})", self.name)
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (String, Py<PyAny>) {
        (self.name.clone(), self.function.clone_ref(py))
    }
}

fn check_callable(function: &Bound<'_, PyAny>) -> PyResult<()> {
    match function.is_callable() {
        true => Ok(()),
        false => Err(PyTypeError::new_err(format!(
            "a stage is a function of a View, not an object of the type {}",
            type_name(function)
        ))),
    }
}

/// Exceptions that stages raised, by number, until somebody tells them: an error of a row can only hold a text.
static RAISED: Mutex<VecDeque<(u64, PyErr)>> = Mutex::new(VecDeque::new());
/// The number of the next.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Whether one of them is an interruption, such as Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// More than rows that anybody still looks at: the oldest are forgotten.
const KEPT: usize = 1024;
/// What stands before and after the number in an error's text.
const MARK: char = '\u{1}';

fn raised() -> MutexGuard<'static, VecDeque<(u64, PyErr)>> {
    RAISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the function of a stage, from whatever thread draws.
fn call<T>(
    function: &Py<PyAny>,
    view: &custom::View<'_>,
    read: fn(&Bound<'_, PyAny>, usize) -> PyResult<T>,
) -> std::result::Result<T, String> {
    Python::attach(|py| {
        let answer = in_stage(|| {
            let answer = function.bind(py).call1((View::new(py, view)?,))?;
            read(&answer, view.logits().len())
        });
        answer.map_err(|error| {
            let (number, text) = (NEXT.fetch_add(1, Ordering::Relaxed), told(py, &error));
            let mut raised = raised();
            if !error.is_instance_of::<PyException>(py) {
                INTERRUPTED.store(true, Ordering::Release);
            }
            if raised.len() == KEPT {
                raised.pop_front();
            }
            raised.push_back((number, error));
            format!("{MARK}{number}{MARK}{text}")
        })
    })
}

/// What stages were interrupted by, once: several rows may have been.
pub fn interruption() -> Option<PyErr> {
    if !INTERRUPTED.load(Ordering::Acquire) {
        return None;
    }
    Python::attach(|py| {
        let mut raised = raised();
        INTERRUPTED.store(false, Ordering::Release);
        let (errors, interruptions): (VecDeque<_>, VecDeque<_>) =
            raised.drain(..).partition(|(_, error): &(u64, PyErr)| error.is_instance_of::<PyException>(py));
        *raised = errors;
        interruptions.into_iter().next().map(|(_, error)| error)
    })
}

/// An error's text as it is read, and the exception that a stage raised, if it still is there.
pub fn cause(text: &str) -> (String, Option<PyErr>) {
    let mut parts = text.splitn(3, MARK);
    let (Some(before), Some(number), Some(after)) = (parts.next(), parts.next(), parts.next()) else {
        return (text.to_owned(), None);
    };
    let number: Option<u64> = number.parse().ok();
    let raised = raised();
    let place = raised.iter().position(|(other, _)| Some(*other) == number);
    let error = place.map(|place| Python::attach(|py| raised[place].1.clone_ref(py)));
    (format!("{before}{after}"), error)
}

/// An exception in a line, with the place where it was raised.
fn told(py: Python<'_>, error: &PyErr) -> String {
    let mut place = String::new();
    let mut traceback = error.traceback(py).map(Bound::into_any);
    while let Some(frame) = traceback {
        if let (Ok(line), Ok(file)) = (
            frame.getattr("tb_lineno"),
            frame.getattr("tb_frame").and_then(|frame| frame.getattr("f_code")?.getattr("co_filename")),
        ) {
            place = format!(" ({file}, line {line})");
        }
        traceback = frame.getattr("tb_next").ok().filter(|next| !next.is_none());
    }
    format!("{error}{place}")
}

fn change(answer: &Bound<'_, PyAny>, _: usize) -> PyResult<Change> {
    if answer.is_none() {
        return Ok(Change::Sparse(Vec::new()));
    }
    if let Ok(changes) = answer.cast::<PyDict>() {
        // A copy: what reads a number may be a function, too.
        let changes = changes.items().iter().map(|entry| entry.extract()).collect::<PyResult<_>>()?;
        return Ok(Change::Sparse(changes));
    }
    let logits = Logits::read(answer)?;
    let row = logits.row()?;
    Ok(Change::Dense((0..row.len()).map(|token| row.get(token)).collect()))
}

fn keep(answer: &Bound<'_, PyAny>, vocabulary: usize) -> PyResult<Keep> {
    let numpy = answer.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (answer,))?;
    if array.getattr("dtype")?.getattr("kind")?.extract::<char>()? != 'b' {
        return Ok(Keep::Only(ids(answer)?));
    }
    if array.len()? != vocabulary {
        return Err(PyTypeError::new_err(format!(
            "there are {} bools; this row has {vocabulary} tokens",
            array.len()?
        )));
    }
    Ok(Keep::Only(ids(&numpy.call_method1("flatnonzero", (array,))?)?))
}

/// The stage that a Python object is.
fn stage(object: &Bound<'_, PyAny>) -> Result<Stage> {
    if let Ok(edit) = object.cast::<Edit>() {
        return Ok(Stage::Custom(edit.get().stage.clone()));
    }
    if let Ok(truncation) = object.cast::<Truncation>() {
        return Ok(Stage::Custom(truncation.get().stage.clone()));
    }
    if let Ok(name) = object.cast::<PyString>() {
        return Ok(name.to_str()?.parse::<Stage>()?);
    }
    let message = format!(
        "a stage is a name, an Edit or a Truncation, not an object of the type {}",
        type_name(object)
    );
    Err(ParamError::new("order", message).into())
}

/// An order with the Python objects that stand in it.
pub struct Staged {
    pub order: Order,
    /// The users' own, as they were given.
    own: Vec<(Stage, Py<PyAny>)>,
}

impl Staged {
    /// Without stages of a user's own.
    pub fn plain(order: Order) -> Self {
        Self { order, own: Vec::new() }
    }

    /// An order's name, or a list of stages; None is no order.
    pub fn read(object: &Bound<'_, PyAny>) -> Result<Option<Self>> {
        if object.is_none() {
            return Ok(None);
        }
        if let Ok(name) = object.cast::<PyString>() {
            return Ok(Some(Self::plain(name.to_str()?.parse::<Order>()?)));
        }
        let (mut stages, mut own) = (Vec::new(), Vec::new());
        let items = object.try_iter().map_err(|_| {
            let given = type_name(object);
            ParamError::new(
                "order",
                format!("expected an order's name or a list of stages, not an object of the type {given}"),
            )
        })?;
        for item in items {
            let item = item?;
            let stage = stage(&item)?;
            if let Stage::Custom(_) = stage {
                own.push((stage.clone(), item.unbind()));
            }
            stages.push(stage);
        }
        Ok(Some(Self { order: Order::of(stages), own }))
    }

    /// With one more, before another.
    pub fn with(&self, py: Python<'_>, added: &Bound<'_, PyAny>, before: &Bound<'_, PyAny>) -> Result<Self> {
        let (added_stage, next) = (stage(added)?, stage(before)?);
        let mut own = self.own(py);
        if let Stage::Custom(_) = added_stage {
            own.push((added_stage.clone(), added.clone().unbind()));
        }
        Ok(Self { order: self.order.clone().with(added_stage, next)?, own })
    }

    fn own(&self, py: Python<'_>) -> Vec<(Stage, Py<PyAny>)> {
        self.own.iter().map(|(stage, object)| (stage.clone(), object.clone_ref(py))).collect()
    }

    /// The same.
    pub fn copy(&self, py: Python<'_>) -> Self {
        Self { order: self.order.clone(), own: self.own(py) }
    }

    /// As Python gave it.
    pub fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for stage in self.order.stages() {
            match self.own.iter().find(|(own, _)| own == stage) {
                Some((_, object)) => list.append(object)?,
                None => list.append(stage.name())?,
            }
        }
        Ok(list)
    }
}

/// The names of an order's stages, to be put together anew: `vllm`, `huggingface` or `llama.cpp`.
///
/// >>> import onedraw
/// >>> onedraw.order("huggingface")[-3:]
/// ['typical', 'epsilon', 'eta']
#[pyfunction]
pub fn order(name: &str) -> Result<Vec<String>> {
    let order: Order = name.parse().map_err(|error: ParamError| error)?;
    Ok(order.stages().iter().map(|stage| stage.name().to_owned()).collect())
}
