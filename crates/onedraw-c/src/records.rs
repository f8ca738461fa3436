//! Logits that come with their ids, in any order.

use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::memory::{Memory, Plain};

/// Tokens with their logits: an array of structs that have both, or two arrays. Each token comes once at most; the
/// order does not matter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_records {
    /// The id of the first record.
    pub ids: *const i32,
    /// The logit of the first record.
    pub logits: *const f32,
    /// How many records there are.
    pub count: usize,
    /// How many bytes the beginnings of two records are apart, a multiple of 4; zero is 4, for two arrays.
    pub stride: usize,
}

impl Plain for onedraw_records {}

/// Writes records as a row of `vocabulary` logits, for `onedraw_row.logits`. A token without a record has -inf there,
/// and is not drawn. It allocates no memory. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_row_from_records(
    records: *const onedraw_records,
    logits: *mut f32,
    vocabulary: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let records = memory.value(records, "records")?;
        let row = memory.filled(logits, vocabulary, f32::from_bits(MISSING), "logits")?;
        fill(memory, &records, row)
    })
}

/// Stands in the row where no record was yet. It is a NaN that no record leaves there.
const MISSING: u32 = 0x7fff_ffff;

/// Writes records over a row of `MISSING`.
fn fill(memory: Memory<'_>, records: &onedraw_records, row: &mut [f32]) -> Result<()> {
    let &onedraw_records { ids, logits, count, stride } = records;
    let stride = if stride == 0 { size_of::<f32>() } else { stride };
    let ids = memory.strided(ids, count, stride, "ids")?;
    let logits = memory.strided(logits, count, stride, "logits")?;
    let vocabulary = row.len();
    for (record, (id, logit)) in ids.zip(logits).enumerate() {
        let bad =
            |what: &str| Err(Failure::argument("ids", format_args!("record {record} has id {id}, {what}")));
        let Some(place) = usize::try_from(id).ok().and_then(|id| row.get_mut(id)) else {
            return bad(&format!("which is no token of a vocabulary of {vocabulary}"));
        };
        if place.to_bits() != MISSING {
            return bad("which an earlier record has");
        }
        *place = if logit.to_bits() == MISSING { f32::NAN } else { logit };
    }
    if count < vocabulary {
        for logit in row.iter_mut().filter(|logit| logit.to_bits() == MISSING) {
            *logit = f32::NEG_INFINITY;
        }
    }
    Ok(())
}
