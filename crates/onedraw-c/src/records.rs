//! Logits that come with their ids, in any order.

use std::mem::MaybeUninit;

use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::memory::{Memory, Plain, filled};

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
        fill(memory, &records, memory.room(logits, vocabulary, "logits")?)
    })
}

/// Stands in the row, while it is written, for the -inf of a record, because -inf says that there was none yet. It is
/// a NaN that no record leaves there.
const MASKED: u32 = 0x7fff_ffff;

fn fill(memory: Memory<'_>, records: &onedraw_records, row: &mut [MaybeUninit<f32>]) -> Result<()> {
    let &onedraw_records { ids, logits, count, stride } = records;
    let stride = if stride == 0 { size_of::<f32>() } else { stride };
    let logits = memory.strided(logits, count, stride, "logits")?;
    let records = memory.strided(ids, count, stride, "ids")?.zip(logits);
    let vocabulary = row.len();

    // Most programs have all of them in order. Up to the first that is not, nothing need be looked up.
    let mut in_order = 0;
    for ((index, place), (id, logit)) in row.iter_mut().enumerate().zip(records.clone()) {
        if id as usize != index {
            break;
        }
        place.write(logit);
        in_order += 1;
    }

    let rest = filled(&mut row[in_order..], f32::NEG_INFINITY);
    let mut masked = 0;
    for (record, (id, logit)) in records.clone().enumerate().skip(in_order) {
        let bad =
            |what: &str| Err(Failure::argument("ids", format_args!("record {record} has id {id}, {what}")));
        let Some(token) = usize::try_from(id).ok().filter(|&token| token < vocabulary) else {
            return bad(&format!("which is no token of a vocabulary of {vocabulary}"));
        };
        let place = token.checked_sub(in_order).map(|index| &mut rest[index]);
        let Some(place) = place.filter(|place| **place == f32::NEG_INFINITY) else {
            return bad("which an earlier record has");
        };
        *place = match logit {
            f32::NEG_INFINITY => {
                masked += 1;
                f32::from_bits(MASKED)
            }
            _ if logit.to_bits() == MASKED => f32::NAN,
            _ => logit,
        };
    }
    if masked > 0 {
        for (id, _) in records.skip(in_order) {
            let place = &mut rest[id as usize - in_order];
            if place.to_bits() == MASKED {
                *place = f32::NEG_INFINITY;
            }
        }
    }
    Ok(())
}
