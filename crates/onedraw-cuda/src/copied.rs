//! Logits of the host, copied to the device.
#![allow(unsafe_code)]

use cudarc::driver::{CudaSlice, DevicePtr};
use onedraw::Row;

use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::CudaError;
use crate::matrix::Matrix;

/// A copy of logits in device memory, in their own type.
///
/// ```no_run
/// use onedraw_cuda::{Copied, Device};
/// let device = Device::new(0)?;
/// let logits = Copied::new(&device, (&[1.5_f32, 0.2, 3.1, -4.0, 0.0, 0.0, 1.0, 2.0][..]).into())?;
/// let two_rows = logits.matrix(2, 4, 4)?;
/// # Ok::<(), onedraw_cuda::CudaError>(())
/// ```
#[derive(Debug)]
pub struct Copied {
    device: Device,
    bytes: CudaSlice<u8>,
    dtype: Dtype,
}

impl Copied {
    /// Copies the logits of one row, or of several that lie one after the other.
    pub fn new(device: &Device, logits: Row<'_>) -> Result<Self, CudaError> {
        let (bytes, dtype): (&[u8], _) = match logits {
            Row::F32(logits) => (bytemuck::cast_slice(logits), Dtype::F32),
            Row::F16(logits) => (bytemuck::cast_slice(logits), Dtype::F16),
            Row::Bf16(logits) => (bytemuck::cast_slice(logits), Dtype::BF16),
        };
        let bytes = device.context().default_stream().clone_htod(bytes).map_err(CudaError::memory)?;
        Ok(Self { device: device.clone(), bytes, dtype })
    }

    /// Rows of the copy, `stride` logits from one to the next; with a stride of 0 all rows are the same.
    pub fn matrix(&self, rows: usize, vocabulary: usize, stride: usize) -> Result<Matrix<'_>, CudaError> {
        let capacity = self.bytes.len() / self.dtype.size();
        let given = rows.saturating_sub(1).saturating_mul(stride).saturating_add(vocabulary);
        if given > capacity {
            return Err(CudaError::TooMany { what: "logits", given, capacity });
        }
        // This makes the stream that `Batch::sample` draws on wait for the copy.
        let stream = self.device.context().default_stream();
        let (address, _) = self.bytes.device_ptr(&stream);
        // SAFETY: the rows are inside the memory, which is borrowed; a stride is smaller than it.
        unsafe { Matrix::new(&self.device, address, self.dtype, rows, vocabulary, stride as i64) }
    }
}
