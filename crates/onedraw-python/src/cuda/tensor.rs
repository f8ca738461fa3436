//! Logits on a device, read in place: any DLPack tensor.
#![allow(unsafe_code)] // A tensor of another library is an address, a type and strides.

use dlpark::python::{ImportRequest, ImportedDlpack};
use onedraw_cuda::{CudaError, Device, Dtype, Matrix};
use pyo3::prelude::*;

use super::stream::Handle;
use crate::error::Result;
use crate::tensor::{Element, View, described, unreadable};

/// A row, or rows of one length and type, on a device.
pub struct Tensor {
    view: View,
    /// Whether it is a vector (one row) and not a matrix of one row.
    pub is_row: bool,
    /// Keeps the memory alive and in place.
    _owner: ImportedDlpack,
}

impl Tensor {
    /// Imports a tensor, which is ready on the stream afterwards.
    pub fn read(request: ImportRequest<'_>, object: &Bound<'_, PyAny>, stream: Handle) -> Result<Self> {
        let tensor = request.import(Some(&stream), None).map_err(unreadable)?;
        let (view, is_row) = described(object, &tensor)?;
        Ok(Self { view, is_row, _owner: tensor })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.view.rows
    }

    /// Logits of a row.
    pub fn vocabulary(&self) -> usize {
        self.view.vocabulary
    }

    /// So many rows of the tensor, from `first` on.
    pub fn matrix(
        &self,
        device: &Device,
        first: usize,
        rows: usize,
    ) -> std::result::Result<Matrix<'_>, CudaError> {
        self.view(device, first, rows, self.view.stride, self.view.vocabulary)
    }

    /// All rows, as far as their first `length` logits.
    pub fn first_columns(
        &self,
        device: &Device,
        length: usize,
    ) -> std::result::Result<Matrix<'_>, CudaError> {
        self.view(device, 0, self.view.rows, self.view.stride, length.min(self.view.vocabulary))
    }

    /// A matrix that repeats one row.
    pub fn repeated(
        &self,
        device: &Device,
        row: usize,
        times: usize,
    ) -> std::result::Result<Matrix<'_>, CudaError> {
        self.view(device, row, times, 0, self.view.vocabulary)
    }

    fn view(
        &self,
        device: &Device,
        first: usize,
        rows: usize,
        stride: isize,
        vocabulary: usize,
    ) -> std::result::Result<Matrix<'_>, CudaError> {
        let View { first: start, element, stride: own, .. } = self.view;
        let address = start.wrapping_offset(own.wrapping_mul(first as isize)).addr() as u64;
        let dtype = match element {
            Element::F32 => Dtype::F32,
            Element::F16 => Dtype::F16,
            Element::Bf16 => Dtype::BF16,
        };
        let stride = (stride / element.size()) as i64;
        // SAFETY: shape and strides are those of the owner, which says that such rows are there and keeps
        // them as long as this is borrowed.
        unsafe { Matrix::new(device, address, dtype, rows, vocabulary, stride) }
    }
}
