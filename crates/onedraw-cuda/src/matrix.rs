//! Logits in device memory, and a grammar's mask beside them.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use cudarc::driver::{CudaSlice, DevicePtr};
use onedraw::RowError;
use onedraw::row::MAX_VOCABULARY;

use crate::device::Device;
use crate::dtype::{Dtype, Logit};
use crate::error::CudaError;

/// Rows of logits on a device, read where they lie.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(crate) ordinal: usize,
    pub(crate) address: u64,
    pub(crate) dtype: Dtype,
    pub(crate) rows: usize,
    pub(crate) vocabulary: usize,
    pub(crate) stride: i64,
    owner: PhantomData<&'a ()>,
}

impl<'a> Matrix<'a> {
    /// `rows` rows of `vocabulary` logits each, the first at `address`. Row i begins `i * stride` logits
    /// later; a stride may be larger than a row, 0 or negative. Rows whose address and stride are multiples
    /// of 16 bytes are read fastest.
    ///
    /// # Safety
    ///
    /// All rows are memory of the device, or managed memory, and stay so until every draw from the matrix has
    /// ended. Only the first address is checked.
    pub unsafe fn new(
        device: &Device,
        address: u64,
        dtype: Dtype,
        rows: usize,
        vocabulary: usize,
        stride: i64,
    ) -> Result<Self, CudaError> {
        check_shape(vocabulary)?;
        // Without rows there may be no memory.
        if rows > 0 {
            device.check(address, dtype.size())?;
        }
        Ok(Self { ordinal: device.ordinal(), address, dtype, rows, vocabulary, stride, owner: PhantomData })
    }

    /// Rows of a slice, `stride` logits from one to the next. [`Batch::sample`](crate::Batch::sample) waits
    /// until they are written.
    pub fn of<T: Logit>(
        device: &Device,
        logits: &'a CudaSlice<T>,
        rows: usize,
        vocabulary: usize,
        stride: usize,
    ) -> Result<Self, CudaError> {
        check_shape(vocabulary)?;
        let needed = rows.saturating_sub(1).saturating_mul(stride).saturating_add(vocabulary);
        let too_many = CudaError::TooMany { what: "logits", given: needed, capacity: logits.len() };
        let stride = i64::try_from(stride).map_err(|_| too_many.clone())?;
        if needed > logits.len() {
            return Err(too_many);
        }
        // This makes the stream that `sample` draws on wait for whoever writes the slice.
        let stream = device.context().default_stream();
        let (address, _) = logits.device_ptr(&stream);
        // SAFETY: the rows are inside the slice, which is borrowed.
        unsafe { Self::new(device, address, T::DTYPE, rows, vocabulary, stride) }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of logits of a row.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Row number `i` alone; the rows of a matrix are addressed as its maker promised.
    pub(crate) fn row(&self, i: usize) -> Self {
        let offset = (i as i64).wrapping_mul(self.stride).wrapping_mul(self.dtype.size() as i64);
        Self { address: self.address.wrapping_add_signed(offset), rows: 1, ..*self }
    }

    /// `rows` rows from number `first` on.
    pub(crate) fn some_rows(&self, first: usize, rows: usize) -> Self {
        Self { rows, ..self.row(first) }
    }

    /// Whether each row begins at a multiple of 16 bytes.
    pub(crate) fn is_aligned(&self) -> bool {
        let stride = self.stride.unsigned_abs().wrapping_mul(self.dtype.size() as u64);
        self.address.is_multiple_of(16) && (stride.is_multiple_of(16) || self.rows < 2)
    }
}

fn check_shape(vocabulary: usize) -> Result<(), CudaError> {
    match vocabulary {
        0 => Err(RowError::EmptyRow.into()),
        1..=MAX_VOCABULARY => Ok(()),
        _ => Err(RowError::VocabularyTooLarge { vocabulary }.into()),
    }
}

/// The tokens that a grammar allows in one row, in device memory: 32 tokens per word, lowest bit first.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    pub(crate) ordinal: usize,
    pub(crate) address: u64,
    pub(crate) words: usize,
}

impl Mask {
    /// A mask of `words` words.
    ///
    /// # Safety
    ///
    /// All words are memory of the device, or managed memory, and stay so until the draw that takes the mask
    /// has ended. Only the first address is checked.
    pub unsafe fn new(device: &Device, address: u64, words: usize) -> Result<Self, CudaError> {
        // Without words it is too short for any row: whoever takes it returns that error.
        if words > 0 {
            device.check(address, size_of::<u32>())?;
        }
        Ok(Self { ordinal: device.ordinal(), address, words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_if_each_is() {
        let is_aligned = |address, dtype, rows, stride| {
            let owner = PhantomData;
            Matrix { ordinal: 0, address, dtype, rows, vocabulary: 5, stride, owner }.is_aligned()
        };
        assert!(is_aligned(256, Dtype::F32, 9, 8));
        assert!(is_aligned(256, Dtype::F32, 9, -4));
        assert!(is_aligned(256, Dtype::F16, 9, 0));
        assert!(!is_aligned(256, Dtype::F16, 9, 4));
        assert!(is_aligned(256, Dtype::BF16, 1, 3));
        assert!(!is_aligned(260, Dtype::F32, 1, 8));
    }

    #[test]
    fn shapes_are_those_of_rows() {
        assert_eq!(check_shape(0), Err(CudaError::Row(RowError::EmptyRow)));
        assert_eq!(check_shape(1 << 20), Ok(()));
        let vocabulary = (1 << 20) + 1;
        assert_eq!(check_shape(vocabulary), Err(RowError::VocabularyTooLarge { vocabulary }.into()));
    }
}
