//! Masks on a device: those that are there already, and those of the CPU, which are copied there.
#![allow(unsafe_code)] // Copies and addresses.

use dlpark::ffi::DLDataType;
use dlpark::python::ImportedDlpack;
use onedraw_cuda::cudarc::driver::{CudaSlice, DevicePtr, result};
use onedraw_cuda::{Capacity, CudaError, Device, Mask};
use pyo3::prelude::*;

use super::stream::Handle;
use crate::error::{Error, Result};
use crate::mask;
use crate::tensor::{on_cuda, unreadable};

/// The mask of a row as it was given.
pub enum Given {
    None,
    /// On the CPU: 32 tokens per word, lowest bit first.
    Words(Vec<u32>),
    /// The same words on the device.
    There {
        address: u64,
        words: usize,
        _owner: ImportedDlpack,
    },
}

impl Given {
    /// Reads the mask of one row. A tensor on a device must have 32-bit words.
    pub fn read(
        mask: Option<&Bound<'_, PyAny>>,
        vocabulary: usize,
        ordinal: usize,
        stream: Handle,
    ) -> Result<Self> {
        let Some(mask) = mask.filter(|mask| !mask.is_none()) else { return Ok(Self::None) };
        let Some((request, there)) = on_cuda(mask)? else {
            return Ok(mask::read(Some(mask), vocabulary)?.map_or(Self::None, Self::Words));
        };
        if there != ordinal {
            return Err(Error::Tensor(format!(
                "the mask is on the CUDA device {there}, the logits are on the device {ordinal}"
            )));
        }
        let tensor = request.import(Some(&stream), None).map_err(unreadable)?;
        let invalid = |error: dlpark::tensor::Error| {
            Error::Tensor(format!("the mask cannot be read through DLPack: {error}"))
        };
        let described = tensor.validate().map_err(invalid)?;
        let is_words = matches!(described.dtype(), DLDataType::I32 | DLDataType::U32);
        let is_dense = described.is_compact().map_err(invalid)?;
        let &[words] = described.shape() else { return Err(not_words()) };
        if !is_words || !is_dense {
            return Err(not_words());
        }
        // SAFETY: the tensor was validated, so its offset stays within its memory.
        let address = unsafe { described.offset_bytes_ptr() }.map_err(invalid)?.addr() as u64;
        Ok(Self::There { address, words: words as usize, _owner: tensor })
    }

    /// Reads the masks of several rows: None, or a list with one entry per row. A matrix of words is such a
    /// list, too.
    pub fn read_each(
        masks: Option<&Bound<'_, PyAny>>,
        rows: usize,
        vocabulary: usize,
        ordinal: usize,
        stream: Handle,
    ) -> Result<Vec<Self>> {
        let masks = mask::list(masks, rows)?;
        masks.iter().map(|mask| Self::read(Some(mask), vocabulary, ordinal, stream)).collect()
    }
}

fn not_words() -> Error {
    Error::Tensor(
        "a mask on a device is one row of 32-bit words (int32), 32 tokens each, one after the other".into(),
    )
}

/// Memory for the masks of a step.
pub struct Masks {
    memory: CudaSlice<u32>,
    address: u64,
    /// Words per row, enough for whole blocks of 64 tokens.
    words: usize,
}

impl Masks {
    /// Memory for one mask per row.
    pub fn new(device: &Device, capacity: &Capacity) -> std::result::Result<Self, CudaError> {
        let words = capacity.vocabulary.next_multiple_of(64) / 32;
        let stream = device.context().default_stream();
        let memory = stream.alloc_zeros::<u32>(words * capacity.rows.max(1)).map_err(failed)?;
        let (address, _) = memory.device_ptr(&stream);
        stream.synchronize().map_err(failed)?;
        Ok(Self { memory, address, words })
    }

    /// Copies the mask of a row to the device, in the order of the stream. There must be room for the row.
    pub fn copy(
        &mut self,
        device: &Device,
        stream: Handle,
        row: usize,
        mask: &[u32],
    ) -> std::result::Result<Mask, CudaError> {
        let (start, given) = (row * self.words, mask.len().min(self.words));
        if start + self.words > self.memory.len() {
            return Err(CudaError::TooMany { what: "rows", given: row + 1, capacity: row });
        }
        let address = self.address + 4 * start as u64;
        device.context().bind_to_thread().map_err(failed)?;
        // SAFETY: inside the memory. The driver has read words that are in pageable memory when it returns;
        // what the stream did before has read the last ones.
        unsafe { result::memcpy_htod_async(address, &mask[..given], stream.raw()) }.map_err(failed)?;
        // SAFETY: so many words are there as long as this is.
        unsafe { Mask::new(device, address, given) }
    }
}

/// A mask that is on the device already.
pub fn there(device: &Device, address: u64, words: usize) -> std::result::Result<Mask, CudaError> {
    // SAFETY: its owner says that so many words are there. The owner is kept until the draw has ended, or the
    // caller promises it.
    unsafe { Mask::new(device, address, words) }
}

fn failed(error: onedraw_cuda::cudarc::driver::DriverError) -> CudaError {
    CudaError::Memory(error.to_string())
}
