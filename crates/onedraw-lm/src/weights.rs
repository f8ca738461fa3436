//! The weights of a model: safetensors files, one or several, mapped into memory and never copied.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use crate::error::ModelError;
use crate::matrix::{Elements, Matrix};

/// Bytes of weights, wherever they lie.
pub(crate) enum Storage {
    Mapped(Mmap),
    Static(&'static [u8]),
    /// Copied, because they did not lie as their type must, or because only some of their rows are wanted.
    Copied(Vec<u64>),
}

impl Storage {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Static(bytes) => bytes,
            Self::Copied(words) => bytemuck::cast_slice(words),
        }
    }
}

struct Tensor {
    storage: Arc<Storage>,
    range: Range<usize>,
    dtype: Dtype,
    shape: Vec<usize>,
}

/// Tensors by name.
pub(crate) struct Weights {
    tensors: BTreeMap<String, Tensor>,
}

/// model.safetensors.index.json
#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Those of a Hugging Face folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, ModelError> {
        let mut weights = Self { tensors: BTreeMap::new() };
        let index = folder.join("model.safetensors.index.json");
        if !index.exists() {
            weights.map(&folder.join("model.safetensors"))?;
            return Ok(weights);
        }
        let text = std::fs::read_to_string(&index).map_err(|cause| ModelError::file(&index, cause))?;
        let map: Index = serde_json::from_str(&text).map_err(|cause| ModelError::malformed(&index, cause))?;
        let mut names: Vec<&String> = map.weight_map.values().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            // A part lies beside its index: a name that leads elsewhere is not followed.
            if Path::new(name).components().count() != 1 || name.contains("..") {
                return Err(ModelError::malformed(&index, format!("`{name}` is not the name of a file")));
            }
            weights.map(&folder.join(name))?;
        }
        Ok(weights)
    }

    /// Those of a file that is part of the program.
    pub(crate) fn embedded(path: &Path, bytes: &'static [u8]) -> Result<Self, ModelError> {
        let mut weights = Self { tensors: BTreeMap::new() };
        weights.read(path, Storage::Static(bytes))?;
        Ok(weights)
    }

    fn map(&mut self, path: &Path) -> Result<(), ModelError> {
        let file = File::open(path).map_err(|cause| ModelError::file(path, cause))?;
        // SAFETY: a map is only sound while nobody else shortens or writes the file. Weights are read for as long as the model lives, and nothing here writes them;
        // that nobody else does is asked of the caller, as every program asks that maps weights.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(|cause| ModelError::file(path, cause))?;
        self.read(path, Storage::Mapped(map))
    }

    fn read(&mut self, path: &Path, storage: Storage) -> Result<(), ModelError> {
        let storage = Arc::new(storage);
        let malformed = |cause| ModelError::malformed(path, cause);
        // Checks that the parts lie one after the other and fill the file.
        SafeTensors::deserialize(storage.bytes()).map_err(malformed)?;
        let (header, metadata) = SafeTensors::read_metadata(storage.bytes()).map_err(malformed)?;
        for (name, info) in metadata.tensors() {
            // The header follows its own length, which takes eight bytes.
            let (from, to) = info.data_offsets;
            let range = header + 8 + from..header + 8 + to;
            let tensor =
                Tensor { storage: storage.clone(), range, dtype: info.dtype, shape: info.shape.clone() };
            self.tensors.insert(name, tensor);
        }
        Ok(())
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<&Tensor, ModelError> {
        let tensor = self.tensors.get(name).ok_or_else(|| ModelError::tensor(name, "is missing"))?;
        if tensor.shape != shape {
            let message = format!("has the shape {:?}; the configuration asks for {shape:?}", tensor.shape);
            return Err(ModelError::tensor(name, message));
        }
        Ok(tensor)
    }

    /// A matrix of the given shape.
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        let tensor = self.tensor(name, &[rows, columns])?;
        tensor.matrix(name, rows, columns)
    }

    /// A vector of the given length, widened.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        let matrix = self.tensor(name, &[length])?.matrix(name, 1, length)?;
        let mut vector = vec![0.0; length];
        matrix.row(0, &mut vector);
        Ok(vector)
    }
}

impl Tensor {
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        let elements = match self.dtype {
            Dtype::BF16 => Elements::Bf16,
            Dtype::F16 => Elements::F16,
            Dtype::F32 => Elements::F32,
            other => {
                return Err(ModelError::tensor(
                    name,
                    format!("is of type {other:?}; BF16, F16 and F32 can be read"),
                ));
            }
        };
        let bytes = &self.storage.bytes()[self.range.clone()];
        let lies_well = match elements {
            Elements::F32 => bytemuck::try_cast_slice::<u8, f32>(bytes).is_ok(),
            Elements::Bf16 => bytemuck::try_cast_slice::<u8, bf16>(bytes).is_ok(),
            Elements::F16 => bytemuck::try_cast_slice::<u8, f16>(bytes).is_ok(),
        };
        if lies_well {
            return Ok(Matrix::new(self.storage.clone(), self.range.clone(), elements, rows, columns));
        }
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Ok(Matrix::new(Arc::new(Storage::Copied(words)), 0..bytes.len(), elements, rows, columns))
    }
}
