//! The exceptions that Python sees, by their names there.
#![allow(missing_docs)] // The macro takes their documentation as text.

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};

create_exception!(onedraw, OnedrawError, PyValueError, "What onedraw cannot do, and why.");
create_exception!(
    onedraw,
    ParamError,
    OnedrawError,
    "A parameter that cannot be used. `field` is its name, `message` what is wrong with it and what is allowed."
);
create_exception!(
    onedraw,
    TensorError,
    OnedrawError,
    "Logits that cannot be read in place: they have another dtype, shape, layout or device. The message says what to do."
);
create_exception!(
    onedraw,
    RowError,
    OnedrawError,
    "A row that cannot be sampled. `kind` is a short name of what is wrong, such as `nan_logit`."
);
create_exception!(
    onedraw,
    RowsError,
    RowError,
    "Rows of a batch that cannot be sampled. `results` has an entry for each row, the result or the `RowError`; `errors` has the bad rows \
     alone, by their number."
);
create_exception!(
    onedraw,
    GrammarError,
    OnedrawError,
    "A vocabulary or a grammar that cannot be used. `line` and `column` say where, if that is known; else they are None."
);
create_exception!(
    onedraw,
    ConstraintError,
    OnedrawError,
    "A token that the grammar does not allow after a text."
);
create_exception!(
    onedraw,
    ModelError,
    OnedrawError,
    "A model that cannot be read, or that cannot do what is asked."
);
create_exception!(
    onedraw,
    CudaError,
    PyRuntimeError,
    "What cannot be drawn on a CUDA device, and why: no driver, no room, or a stage of your own."
);
