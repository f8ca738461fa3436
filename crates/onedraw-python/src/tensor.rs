//! Logits from Python, read in place: a NumPy array, any DLPack tensor on the CPU, or a list. Those of float64
//! are copied, rounded to float32.
//!
//! The rows are read while the interpreter is released. Other threads must not write to them, resize them or
//! free them in the meantime, as with every library that releases the interpreter.
#![allow(unsafe_code)] // A tensor of another library is an address, a type and strides: there is no safe way to read it.

use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDeviceType};
use dlpark::python::{ImportRequest, ImportedDlpack};
use half::{bf16, f16};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use onedraw::{Row, Rows};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::{Error, Result};
use crate::value::type_name;

/// The most rows of one call. Each row has a result, which takes memory.
const MOST_ROWS: usize = 1 << 20;

/// A row, or rows of one length and type.
pub struct Tensor {
    view: View,
    /// Whether it is a vector (one row) and not a matrix of one row.
    is_row: bool,
    /// Keeps the memory alive and in place.
    _owner: Owner,
}

/// What keeps the memory alive.
enum Owner {
    Array { _array: Py<PyAny> },
    Dlpack { _tensor: ImportedDlpack },
    Numbers { _numbers: Arc<Vec<f32>> },
}

/// Where rows are in memory, on the CPU or on a device.
#[derive(Clone, Copy)]
pub struct View {
    pub first: *const u8,
    pub element: Element,
    pub rows: usize,
    pub vocabulary: usize,
    /// Bytes from one row to the next; may be negative or 0.
    pub stride: isize,
}

// SAFETY: a view only reads, and its owner, which outlives it, keeps the memory.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// The types of logits.
#[derive(Clone, Copy)]
pub enum Element {
    F32,
    F16,
    Bf16,
}

impl Element {
    /// Bytes of a logit.
    pub fn size(self) -> isize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// All rows of an argument: one tensor, or a list of them.
pub struct Logits {
    tensors: Vec<Tensor>,
    /// Whether it was a single row.
    pub is_row: bool,
}

impl Logits {
    /// Reads an argument. A list of numbers is one row; a list of anything else is several rows.
    pub fn read(object: &Bound<'_, PyAny>) -> Result<Self> {
        let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        if is_list {
            // Asks for a length, because an array of one number could also be read as a number.
            let is_rows = match object.try_iter()?.next() {
                Some(first) => first?.hasattr("__len__")?,
                None => false,
            };
            if !is_rows {
                let numbers = object.extract().map_err(|_| not_logits(object))?;
                return Ok(Self { tensors: vec![Tensor::of_numbers(numbers)], is_row: true });
            }
            let tensors = object.try_iter()?.map(|item| Tensor::read(&item?)).collect::<Result<Vec<_>>>()?;
            return Ok(Self { tensors, is_row: false });
        }
        let tensor = Tensor::read(object)?;
        let is_row = tensor.is_row;
        Ok(Self { tensors: vec![tensor], is_row })
    }

    /// Like [`Logits::read`], but an empty list has no rows, instead of one row without logits.
    pub fn read_rows(object: &Bound<'_, PyAny>) -> Result<Self> {
        let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        match is_list && object.len()? == 0 {
            true => Ok(Self { tensors: Vec::new(), is_row: false }),
            false => Self::read(object),
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.view.rows).sum()
    }

    /// The rows, first to last.
    pub fn rows(&self) -> Vec<Row<'_>> {
        self.tensors.iter().flat_map(|tensor| (0..tensor.view.rows).map(|row| tensor.row(row))).collect()
    }

    /// The rows as a matrix. They must be in one tensor, one after the other.
    pub fn matrix(&self) -> Result<Rows<'_>> {
        let matrix = match self.tensors.as_slice() {
            [tensor] => tensor.matrix(),
            _ => None,
        };
        matrix.ok_or_else(|| {
            Error::Tensor("these rows must be one matrix, first to last; stack or copy them".into())
        })
    }

    /// The only row; an error if there are several.
    pub fn row(&self) -> Result<Row<'_>> {
        match self.rows().as_slice() {
            &[row] => Ok(row),
            rows => Err(Error::Tensor(format!("one row of logits is needed, not {}", rows.len()))),
        }
    }
}

impl Tensor {
    fn read(object: &Bound<'_, PyAny>) -> Result<Self> {
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            return Self::of_array(array);
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            let numbers = object.extract().map_err(|_| not_logits(object))?;
            return Ok(Self::of_numbers(numbers));
        }
        if object.hasattr("__dlpack__")? { Self::of_dlpack(object) } else { Err(not_logits(object)) }
    }

    fn of_numbers(numbers: Vec<f32>) -> Self {
        let numbers = Arc::new(numbers);
        let first = numbers.as_ptr().cast();
        let view = View { first, element: Element::F32, rows: 1, vocabulary: numbers.len(), stride: 0 };
        Self { view, is_row: true, _owner: Owner::Numbers { _numbers: numbers } }
    }

    fn of_array(array: &Bound<'_, PyUntypedArray>) -> Result<Self> {
        if array.hasattr("filled")? {
            return Err(Error::Tensor(
                "a masked array's mask would not be seen; fill it with .filled(-numpy.inf)".into(),
            ));
        }
        const FLOAT: i32 = 11;
        const DOUBLE: i32 = 12;
        const HALF: i32 = 23;
        let dtype = array.dtype();
        let name = || dtype.getattr("name").and_then(|name| name.extract::<String>());
        let element = match dtype.num() {
            FLOAT => Element::F32,
            HALF => Element::F16,
            DOUBLE => {
                // Before the copy, which a broadcast array could make very large.
                rows_and_vocabulary(array.shape())?;
                let rounded = array.call_method1("astype", ("float32",))?;
                return Self::of_array(rounded.cast::<PyUntypedArray>().map_err(PyErr::from)?);
            }
            // The bfloat16 of ml_dtypes, which JAX uses. NumPy has no number for it.
            _ if dtype.itemsize() == 2 && name()? == "bfloat16" => Element::Bf16,
            _ => return Err(wrong_dtype(&name()?)),
        };
        // `=` is the byte order of this machine; `|` means that there is none.
        if !matches!(dtype.byteorder(), b'=' | b'|') {
            return Err(Error::Tensor(
                "the logits' bytes are in the order of other machines; convert them with .astype(logits.dtype.newbyteorder('='))".into(),
            ));
        }
        if !array.is_aligned() {
            return Err(Error::Tensor(
                "the logits do not lie at addresses that can be read; copy them with .copy()".into(),
            ));
        }
        // SAFETY: an array object is valid as long as it is referred to.
        let first = unsafe { (*array.as_array_ptr()).fields.data }.cast_const().cast();
        let shape: Vec<usize> = array.shape().to_vec();
        let view = View::new(first, element, &shape, array.strides(), "numpy.ascontiguousarray(logits)")?;
        let is_row = shape.len() == 1;
        Ok(Self { view, is_row, _owner: Owner::Array { _array: array.clone().into_any().unbind() } })
    }

    fn of_dlpack(object: &Bound<'_, PyAny>) -> Result<Self> {
        let request = ImportRequest::new(object.as_borrowed()).map_err(unreadable)?;
        if let Ok(device) = request.device() {
            on_cpu(device.device_type, device.device_id)?;
        }
        let tensor = request.import(None, None).map_err(unreadable)?;
        let described_as = tensor.validate().map_err(invalid)?;
        on_cpu(described_as.device().device_type, described_as.device().device_id)?;
        if described_as.dtype() == DLDataType::F64 {
            let array = object.py().import("numpy")?.call_method1("from_dlpack", (object,))?;
            return Self::of_array(array.cast::<PyUntypedArray>().map_err(PyErr::from)?);
        }
        let (view, is_row) = described(object, &tensor)?;
        Ok(Self { view, is_row, _owner: Owner::Dlpack { _tensor: tensor } })
    }

    /// `None` if the rows are not one after the other.
    fn matrix(&self) -> Option<Rows<'_>> {
        let View { rows, vocabulary, stride, element, .. } = self.view;
        let stride = if rows > 1 { usize::try_from(stride / element.size()).ok()? } else { vocabulary };
        if stride < vocabulary {
            return None;
        }
        let length = stride * rows.saturating_sub(1) + vocabulary;
        Rows::new(self.slice(0, if rows == 0 { 0 } else { length }), rows, vocabulary, stride)
    }

    fn row(&self, row: usize) -> Row<'_> {
        self.slice(self.view.stride * row as isize, self.view.vocabulary)
    }

    /// So many elements from an offset in bytes on.
    fn slice(&self, offset: isize, length: usize) -> Row<'_> {
        let View { first, element, .. } = self.view;
        if length == 0 {
            return Row::F32(&[]);
        }
        // SAFETY: callers take offset and length from shape and strides, which are those of the owner: it
        // says that elements of this type lie there, aligned, in memory that it keeps. Between two rows of a
        // matrix lies what the owner has between them. Whoever writes there at the same time breaks the
        // contract of NumPy and of DLPack. The lifetime is that of the borrow of the owner.
        unsafe {
            let start = first.offset(offset);
            match element {
                Element::F32 => Row::F32(std::slice::from_raw_parts(start.cast::<f32>(), length)),
                Element::F16 => Row::F16(std::slice::from_raw_parts(start.cast::<f16>(), length)),
                Element::Bf16 => Row::Bf16(std::slice::from_raw_parts(start.cast::<bf16>(), length)),
            }
        }
    }
}

impl View {
    /// Strides are in bytes.
    fn new(
        first: *const u8,
        element: Element,
        shape: &[usize],
        strides: &[isize],
        remedy: &str,
    ) -> Result<Self> {
        let size = element.size();
        let (rows, vocabulary) = rows_and_vocabulary(shape)?;
        let (stride, step) = match *strides {
            [step] => (0, step),
            [stride, step] => (stride, step),
            _ => return Err(Error::Tensor("the tensor has other strides than dimensions".into())),
        };
        if step != size && vocabulary > 1 && rows > 0 {
            return Err(Error::Tensor(format!(
                "the logits of a row do not lie one after the other ({step} bytes apart, not {size}); make them so with {remedy}"
            )));
        }
        if stride % size != 0 && rows > 1 {
            return Err(Error::Tensor(format!(
                "the rows lie {stride} bytes apart, which is no multiple of {size}; make them contiguous with {remedy}"
            )));
        }
        Ok(Self { first, element, rows, vocabulary, stride })
    }
}

/// Rows and vocabulary of a tensor of that shape, if a call takes it.
fn rows_and_vocabulary(shape: &[usize]) -> Result<(usize, usize)> {
    let (rows, vocabulary) = match *shape {
        [vocabulary] => (1, vocabulary),
        [rows, vocabulary] => (rows, vocabulary),
        _ => {
            return Err(Error::Tensor(format!(
                "logits are a row [V] or rows [B, V], not a tensor of {} dimensions",
                shape.len()
            )));
        }
    };
    if rows > MOST_ROWS {
        return Err(Error::Tensor(format!("there are {rows} rows; a call takes at most {MOST_ROWS}")));
    }
    Ok((rows, vocabulary))
}

/// The view that a tensor on any device describes, and whether it is one row.
pub fn described(object: &Bound<'_, PyAny>, tensor: &ImportedDlpack) -> Result<(View, bool)> {
    let described = tensor.validate().map_err(invalid)?;
    let element = match described.dtype() {
        DLDataType::F32 => Element::F32,
        DLDataType::F16 => Element::F16,
        DLDataType::BF16 => Element::Bf16,
        _ => {
            let name =
                object.getattr("dtype").map_or_else(|_| "another type".to_owned(), |dtype| dtype.to_string());
            return Err(wrong_dtype(name.trim_start_matches("torch.")));
        }
    };
    let size = element.size();
    let shape: Vec<usize> =
        described.shape().iter().map(|&length| usize::try_from(length).unwrap_or(0)).collect();
    let strides = described.strides_or_compact().map_err(invalid)?;
    let strides: Vec<isize> =
        strides.iter().map(|&stride| isize::try_from(stride).unwrap_or(0) * size).collect();
    // SAFETY: the tensor was validated, so its offset stays within its memory.
    let first = unsafe { described.offset_bytes_ptr() }.map_err(invalid)?;
    // An empty tensor may have no address.
    let is_empty = shape.contains(&0);
    if !is_empty && first.align_offset(size as usize) != 0 {
        return Err(Error::Tensor(
            "the logits do not lie at addresses that can be read; copy the tensor".into(),
        ));
    }
    let view = View::new(first, element, &shape, &strides, "logits.contiguous()")?;
    Ok((view, shape.len() == 1))
}

/// How to import a tensor that is on a CUDA device, and the number of the device; `None` for anything else.
pub fn on_cuda<'py>(object: &Bound<'py, PyAny>) -> Result<Option<(ImportRequest<'py>, usize)>> {
    if object.is_instance_of::<PyUntypedArray>() || !object.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let request = ImportRequest::new(object.as_borrowed()).map_err(unreadable)?;
    let Ok(device) = request.device() else { return Ok(None) };
    let is_cuda = matches!(device.device_type, DLDeviceType::CUDA | DLDeviceType::CUDAMANAGED);
    Ok(usize::try_from(device.device_id).ok().filter(|_| is_cuda).map(|ordinal| (request, ordinal)))
}

/// An error of DLPack. Some libraries add a stack trace after the first line, which is left out.
pub fn unreadable(error: PyErr) -> Error {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    Error::Tensor(format!(
        "the tensor cannot be read through DLPack: {line}; a dense tensor on the CPU can: .detach(), .to_dense(), .cpu()"
    ))
}

fn invalid(error: dlpark::tensor::Error) -> Error {
    Error::Tensor(format!("the tensor cannot be read through DLPack: {error}"))
}

fn on_cpu(kind: DLDeviceType, id: i32) -> Result<()> {
    match kind {
        DLDeviceType::CPU | DLDeviceType::CUDAHOST => Ok(()),
        DLDeviceType::CUDA => Err(Error::Tensor(format!(
            "the logits are on the CUDA device {id}: onedraw.cuda.Batch draws there, and onedraw.sample from one tensor; for anything else move them with .cpu()"
        ))),
        other => Err(Error::Tensor(format!(
            "the logits are on a device (DLPack's type {}) that onedraw does not read; move them to the CPU",
            other.0
        ))),
    }
}

fn wrong_dtype(name: &str) -> Error {
    Error::Tensor(format!(
        "logits are float32, float16 or bfloat16, not {name}; convert them with .astype('float32'), or .float() in PyTorch"
    ))
}

fn not_logits(object: &Bound<'_, PyAny>) -> Error {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return Error::Tensor("logits in a list are numbers, or rows; something else is among them".into());
    }
    Error::Tensor(format!(
        "logits are a NumPy array, a tensor with __dlpack__ or a list of numbers, not an object of the type {}",
        type_name(object)
    ))
}
