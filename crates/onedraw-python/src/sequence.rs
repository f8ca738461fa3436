//! Names of sequences. A name knows its batch, because another batch may have a sequence of the same number.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A number that no other batch has.
pub fn next_batch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An error unless there are as many rows as sequences.
pub fn check_rows(sequences: usize, rows: usize) -> Result<()> {
    match sequences == rows {
        true => Ok(()),
        false => Err(Error::Tensor(format!(
            "there are {sequences} sequences and {rows} rows; each sequence has one row"
        ))),
    }
}

/// Defines the class `SequenceId` of a Python module around the name type of a library.
macro_rules! sequence_id {
    ($module:literal, $id:ty) => {
        /// Names a sequence of a `Batch`. The name of a removed sequence is not used again.
        #[pyclass(name = "SequenceId", module = $module, frozen, eq, hash)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct SequenceId {
            id: $id,
            batch: u64,
        }

        impl SequenceId {
            fn new(id: $id, batch: u64) -> Self {
                Self { id, batch }
            }

            /// The library's name. A name of another batch names no sequence here.
            fn of(&self, batch: u64) -> $id {
                if self.batch == batch { self.id } else { <$id>::NOBODY }
            }

            /// One sequence or several, and whether it was one.
            fn all_of(sequences: &Bound<'_, PyAny>, batch: u64) -> PyResult<(Vec<$id>, bool)> {
                if let Ok(id) = sequences.cast::<Self>() {
                    return Ok((vec![id.get().of(batch)], true));
                }
                let of = |id: PyResult<Bound<'_, PyAny>>| Ok(id?.cast::<Self>()?.get().of(batch));
                Ok((sequences.try_iter()?.map(of).collect::<PyResult<_>>()?, false))
            }
        }

        #[pymethods]
        impl SequenceId {
            fn __repr__(&self) -> String {
                crate::display::plain(&self.id)
            }
        }
    };
}

pub(crate) use sequence_id;
