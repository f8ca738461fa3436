//! Parameters: those of the library, as a Python class and as keyword arguments.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use onedraw::import::Source;
use onedraw::{
    KeptMode, LogprobsMode, Order, PARAMETERS, ParamError, PenaltyScope, Plan, RowError,
    SamplingParams as Params,
};
use onedraw_lm::settings::{Layer, Origin};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::error::Result;
use crate::stage::Staged;
use crate::value::{Fields, type_name};

/// Every parameter of a sequence. Names and defaults are those of the library. An unknown name is an error,
/// and so is a value that is not allowed.
///
/// It never changes: `replace` makes another one. The page "Parameters" of the book says what each one does.
///
/// >>> import onedraw
/// >>> params = onedraw.SamplingParams(temperature=0.7, top_p=0.9, seed=42)
/// >>> params
/// SamplingParams(temperature=0.7, top_p=0.9, seed=42)
/// >>> params.replace(top_k=50).top_k
/// 50
/// >>> onedraw.SamplingParams(top_p=1.5)
/// Traceback (most recent call last):
/// onedraw.ParamError: top_p: must be in [0, 1], not 1.5
#[pyclass(module = "onedraw", frozen)]
pub struct SamplingParams {
    params: Params,
    order: Option<Staged>,
}

/// Makes a getter for each parameter.
macro_rules! getters {
    ($($(#[$attribute:meta])* $name:ident: $type:ty = $default:expr, $group:ident, $help:literal $(, $details:literal)?;)*) => {
        #[pymethods]
        impl SamplingParams {
            $(
                #[doc = $help]
                $(#[doc = ""] #[doc = $details])?
                #[getter]
                fn $name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                    self.params.$name.shown(self, py)
                }
            )*
        }

        /// Whether a parameter differs from its default.
        fn is_set(params: &Params, default: &Params, name: &str) -> bool {
            match name {
                $(stringify!($name) => params.$name != default.$name,)*
                _ => false,
            }
        }
    };
}
onedraw::__parameters!(getters);

/// The value of a parameter as a Python object.
trait Shown {
    fn shown<'py>(&self, of: &SamplingParams, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
}

macro_rules! shown {
    ($($type:ty: |$value:ident| $shown:expr;)*) => {
        $(impl Shown for $type {
            fn shown<'py>(&self, _: &SamplingParams, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                let $value = self;
                $shown.into_bound_py_any(py)
            }
        })*
    };
}
shown! {
    bool: |value| *value;
    u8: |value| *value;
    u32: |value| *value;
    i64: |value| *value;
    f64: |value| *value;
    Option<u64>: |value| *value;
    Option<i64>: |value| *value;
    Option<f64>: |value| *value;
    Option<Vec<u32>>: |value| value.clone();
    Vec<u32>: |value| value.clone();
    Vec<Vec<u32>>: |value| value.clone();
    Vec<String>: |value| value.clone();
    BTreeMap<u32, f64>: |value| value.clone();
    LogprobsMode: |mode| mode.name();
    KeptMode: |mode| mode.name();
    PenaltyScope: |scope| match scope { PenaltyScope::Output => "output", PenaltyScope::All => "all" };
}

impl Shown for Option<Order> {
    /// A list of names and of stages written in Python, which the library's type does not hold.
    fn shown<'py>(&self, of: &SamplingParams, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        of.order.as_ref().map(|order| order.to_list(py)).transpose()?.into_bound_py_any(py)
    }
}

/// The names of all parameters.
fn names() -> impl Iterator<Item = &'static str> {
    PARAMETERS.iter().map(|parameter| parameter.name)
}

impl SamplingParams {
    pub fn new(params: Params) -> Self {
        let order = params.order.clone().map(Staged::plain);
        Self { params, order }
    }

    /// The parameters in the library's type.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Keyword arguments over a base, or over the defaults.
    fn over(base: Option<&Self>, arguments: Option<&Bound<'_, PyDict>>, py: Python<'_>) -> Result<Self> {
        let order_of =
            |base: Option<&Self>| base.and_then(|base| base.order.as_ref().map(|order| order.copy(py)));
        let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) else {
            let params = base.map_or_else(Params::default, |base| base.params.clone());
            return Ok(Self { params, order: order_of(base) });
        };
        let (layer, order) = read_layer(arguments)?;
        let mut params = base.map_or_else(Params::default, |base| base.params.clone());
        layer.lay_over(&mut params);
        params.validate()?;
        let order = if layer.sets("order") { order } else { order_of(base) };
        Ok(Self { params, order })
    }

    /// The value of a field as a Python object.
    fn field<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr(name)
    }
}

#[pymethods]
impl SamplingParams {
    #[new]
    #[pyo3(signature = (**parameters))]
    fn make(py: Python<'_>, parameters: Option<&Bound<'_, PyDict>>) -> Result<Self> {
        Self::over(None, parameters, py)
    }

    /// A copy with other values.
    #[pyo3(signature = (**parameters))]
    fn replace(&self, py: Python<'_>, parameters: Option<&Bound<'_, PyDict>>) -> Result<Self> {
        Self::over(Some(self), parameters, py)
    }

    /// A copy with a stage (an `Edit`, a `Truncation` or a name) inserted before another one.
    fn with_stage(&self, stage: &Bound<'_, PyAny>, before: &Bound<'_, PyAny>) -> Result<Self> {
        let py = stage.py();
        let order = match &self.order {
            Some(order) => order.with(py, stage, before)?,
            None => Staged::plain(Order::default()).with(py, stage, before)?,
        };
        let params = Params { order: Some(order.order.clone()), ..self.params.clone() };
        params.validate()?;
        Ok(Self { params, order: Some(order) })
    }

    /// Raises a `ParamError` if an id of the parameters is not a token of a vocabulary of this size. Draws check
    /// it, too; this finds it before there are logits.
    ///
    /// >>> import onedraw
    /// >>> onedraw.SamplingParams(logit_bias={500: 1.0}).check_vocabulary(100)
    /// Traceback (most recent call last):
    /// onedraw.ParamError: logit_bias: token 500 is outside the vocabulary; ids are 0 to 99
    fn check_vocabulary(&self, vocabulary: usize) -> Result<()> {
        let checked = Plan::new(&self.params)?.check_vocabulary(vocabulary);
        Ok(checked.map_err(|error| match error {
            RowError::OutsideVocabulary { field, token, vocabulary } => {
                let ids = format!("ids are 0 to {}", vocabulary.saturating_sub(1));
                ParamError::new(field, format!("token {token} is outside the vocabulary; {ids}"))
            }
            other => ParamError::new("vocabulary", other.to_string()),
        })?)
    }

    /// All parameters by name.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(slf.py());
        for name in names() {
            fields.set_item(name, Self::field(slf, name)?)?;
        }
        Ok(fields)
    }

    /// All parameters as JSON. An error if the order has a stage of your own, which cannot be written.
    fn to_json(&self) -> Result<String> {
        serde_json::to_string(&self.params)
            .map_err(|error| ParamError::new("order", error.to_string()).into())
    }

    /// Reads one JSON object, as the program does.
    ///
    /// >>> import onedraw
    /// >>> onedraw.SamplingParams.from_json('{"temperature": 0.7, "logit_bias": {"3": 1.5}}')
    /// SamplingParams(temperature=0.7, logit_bias={3: 1.5})
    #[staticmethod]
    fn from_json(text: &str) -> Result<Self> {
        Ok(Self::new(Params::from_json(text)?))
    }

    /// Reads the settings of another system, one JSON object. Returns parameters, and a line for each setting
    /// that was lost or changed. `source` is `openai`, `vllm`, `llama.cpp` or `huggingface`; None: it is
    /// recognised by the fields.
    ///
    /// >>> import onedraw
    /// >>> params, notes = onedraw.SamplingParams.import_settings('{"temperature": 0.6, "top_k": 40}', "llama.cpp")
    /// >>> params.temperature, params.top_k
    /// (0.6, 40)
    #[staticmethod]
    #[pyo3(signature = (json, source=None))]
    fn import_settings(json: &str, source: Option<&str>) -> Result<(Self, Vec<String>)> {
        let source = source.map(str::parse::<Source>).transpose()?;
        let imported = onedraw::import::import(json, source)?;
        Ok((Self::new(imported.params.clone()), imported.notes.iter().map(ToString::to_string).collect()))
    }

    /// A preset: `creative`, `precise`, `balanced` or `deterministic`.
    ///
    /// >>> import onedraw
    /// >>> onedraw.SamplingParams.preset("balanced")
    /// SamplingParams(temperature=0.7, top_k=50, top_p=0.9)
    #[staticmethod]
    fn preset(name: &str) -> Result<Self> {
        match onedraw::presets::by_name(name) {
            Some(params) => Ok(Self::new(params)),
            None => {
                let names = onedraw::presets::NAMES.join(", ");
                Err(ParamError::new("preset", format!("{name:?} is not a preset; the presets are {names}"))
                    .into())
            }
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().params == self.params)
    }

    // Equal parameters have the same debug text.
    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.params).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let set = Self::changed(slf)?;
        let fields = set.iter().map(|(name, value)| Ok(format!("{name}={}", value.repr()?)));
        Ok(format!("SamplingParams({})", fields.collect::<PyResult<Vec<_>>>()?.join(", ")))
    }

    fn __getnewargs_ex__<'py>(slf: &Bound<'py, Self>) -> PyResult<((), Bound<'py, PyDict>)> {
        Ok(((), Self::changed(slf)?))
    }

    /// The parameters that differ from their defaults.
    fn changed<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let (fields, default) = (PyDict::new(slf.py()), Params::default());
        for name in names().filter(|name| is_set(&slf.get().params, &default, name)) {
            fields.set_item(name, Self::field(slf, name)?)?;
        }
        Ok(fields)
    }
}

/// Keyword arguments as a layer of settings, not yet checked, and the order among them with its Python
/// objects.
fn read_layer(arguments: &Bound<'_, PyDict>) -> Result<(Layer, Option<Staged>)> {
    // Stages written in Python may stand in an order, which serde cannot read.
    let mut values = Params::from_deserializer(Fields { arguments, without: "order" })?;
    let order = match arguments.get_item("order")? {
        Some(order) => Staged::read(&order)?,
        None => None,
    };
    values.order = order.as_ref().map(|order| order.order.clone());
    let names = arguments.keys().iter().map(|name| name.extract::<String>()).collect::<PyResult<Vec<_>>>()?;
    Ok((Layer::new(Origin::Argument, values, names.iter().map(String::as_str)), order))
}

/// Keyword arguments as a layer of settings.
pub fn layer(arguments: Option<&Bound<'_, PyDict>>) -> Result<Layer> {
    match arguments {
        Some(arguments) => Ok(read_layer(arguments)?.0),
        None => Ok(Layer::new(Origin::Argument, Params::default(), [])),
    }
}

/// Reads the parameters of a function: an object, a dict, the name of a preset or nothing, with keyword
/// arguments that go before it.
pub fn read(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
    arguments: Option<&Bound<'_, PyDict>>,
) -> Result<Params> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return Ok(SamplingParams::over(None, arguments, py)?.params);
    };
    if let Ok(params) = given.cast::<SamplingParams>() {
        return match arguments {
            None => Ok(params.get().params.clone()),
            Some(_) => Ok(SamplingParams::over(Some(params.get()), arguments, py)?.params),
        };
    }
    let base = if let Ok(fields) = given.cast::<PyDict>() {
        SamplingParams::over(None, Some(fields), py)?
    } else if given.hasattr("keys")? && !given.is_instance_of::<PyType>() {
        let fields = PyDict::new(py);
        fields.call_method1("update", (given,))?;
        SamplingParams::over(None, Some(&fields), py)?
    } else if let Ok(name) = given.cast::<PyString>() {
        SamplingParams::preset(name.to_str()?)?
    } else {
        let message = format!(
            "params are SamplingParams, a dict, a preset's name or None, not an object of the type {}",
            type_name(given)
        );
        return Err(PyTypeError::new_err(message).into());
    };
    Ok(SamplingParams::over(Some(&base), arguments, py)?.params)
}

/// Like [`read`], for several rows: one for all rows, or a list with one for each row.
pub fn read_each(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
    arguments: Option<&Bound<'_, PyDict>>,
    rows: usize,
) -> Result<Vec<Params>> {
    let list = given.filter(|given| {
        given.is_instance_of::<pyo3::types::PyList>() || given.is_instance_of::<pyo3::types::PyTuple>()
    });
    let Some(list) = list else {
        return Ok(vec![read(py, given, arguments)?; rows]);
    };
    let each = list.try_iter()?.map(|item| read(py, Some(&item?), arguments)).collect::<Result<Vec<_>>>()?;
    match each.len() == rows {
        true => Ok(each),
        false => {
            let message = format!("are {} for {rows} rows; give one for all, or one a row", each.len());
            Err(ParamError::new("params", message).into())
        }
    }
}
