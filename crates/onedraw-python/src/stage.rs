//! Stages of the chain written in Python.

use numpy::PyArray1;
use onedraw::custom::{self, Change, Custom, Keep};
use onedraw::{Order, ParamError, Stage};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::error::Result;
use crate::guarded::in_stage;
use crate::raised;
use crate::result::ids;
use crate::tensor::Logits;
use crate::value::type_name;

/// What a stage written in Python sees: the logits after the stages before it, and the sequence.
#[pyclass(module = "onedraw", frozen)]
pub struct View {
    /// The logit of every token, a copy as float32; -inf for removed tokens. An `Edit` sees them divided by
    /// the temperatures of the stages before it; a `Truncation` does not.
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
    /// The temperature that applies, but by which the logits are not yet divided.
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

/// A stage of your own that changes logits. An order names it at its place.
///
/// `function` takes a `View` and returns what changes: a dict of tokens and their new logits (-inf masks a
/// token), an array with a logit for every token, or None for no change. The draw stays a function of logits,
/// parameters, history, seed and position if the function depends on nothing else. An exception of the
/// function becomes the cause of the row's error. The garbage collector does not look into a stage: a method
/// of the object that holds the parameters keeps that object alive for ever; a function or a weak reference
/// does not.
///
/// >>> import onedraw
/// >>> no_echo = onedraw.Edit("no_echo", lambda view: {view.output[-1]: float("-inf")} if view.output else None)
/// >>> params = onedraw.SamplingParams(temperature=0).with_stage(no_echo, before="temperature")
/// >>> sampler = onedraw.Sampler(params)
/// >>> [sampler.sample([1.0, 3.0, 2.0]).token for _ in range(3)]
/// [1, 2, 1]
#[pyclass(module = "onedraw", frozen)]
pub struct Edit {
    /// The name that explanations and errors use.
    #[pyo3(get)]
    name: String,
    /// The function.
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

/// A stage of your own that keeps a subset of the tokens. An order names it at its place.
///
/// `function` takes a `View` and returns the tokens that stay: their ids, or an array of bools with an entry
/// for every token.
///
/// >>> import onedraw
/// >>> even = onedraw.Truncation("even", lambda view: range(0, len(view.logits), 2))
/// >>> onedraw.distribution([1.0, 3.0, 2.0], order=[even]).tokens
/// array([2, 0])
#[pyclass(module = "onedraw", frozen)]
pub struct Truncation {
    /// The name that explanations and errors use.
    #[pyo3(get)]
    name: String,
    /// The function.
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

/// Calls the function of a stage, on whichever thread draws.
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
        answer.map_err(|error| raised::keep(py, error))
    })
}

fn change(answer: &Bound<'_, PyAny>, _: usize) -> PyResult<Change> {
    if answer.is_none() {
        return Ok(Change::Sparse(Vec::new()));
    }
    if let Ok(changes) = answer.cast::<PyDict>() {
        // The items are copied, because reading a number may call Python code that changes the dict.
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

/// The stage that a Python object stands for.
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

/// An order, with the Python objects of the user's own stages.
pub struct Staged {
    pub order: Order,
    /// The user's own stages, with the objects that were given.
    own: Vec<(Stage, Py<PyAny>)>,
}

impl Staged {
    /// An order without stages of the user's own.
    pub fn plain(order: Order) -> Self {
        Self { order, own: Vec::new() }
    }

    /// Reads the name of an order, or a list of stages; None is no order.
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

    /// The order with one more stage, before another one.
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

    /// The order as a Python list, with the objects that were given.
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

/// The names of the stages of an order, to make an order of your own from: `vllm`, `huggingface` or
/// `llama.cpp`.
///
/// >>> import onedraw
/// >>> onedraw.order("huggingface")[-3:]
/// ['typical', 'epsilon', 'eta']
#[pyfunction]
pub fn order(name: &str) -> Result<Vec<String>> {
    let order: Order = name.parse().map_err(|error: ParamError| error)?;
    Ok(order.stages().iter().map(|stage| stage.name().to_owned()).collect())
}

/// The parameter whose number stands for a stage in a heading, such as `typical_p` for `typical`; None for a
/// stage that no single number describes.
#[pyfunction]
pub fn headline_field(stage: &str) -> Option<&'static str> {
    stage.parse::<Stage>().ok().and_then(|stage| stage.headline_field())
}
