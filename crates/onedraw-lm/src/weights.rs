//! The weights of a model: one or several safetensors files, mapped into memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use crate::error::ModelError;
use crate::hash::Hasher;
use crate::matrix::{ElementType, Matrix, Storage};

struct Tensor {
    storage: Arc<Storage>,
    range: Range<usize>,
    dtype: Dtype,
    shape: Vec<usize>,
}

/// The tensors of a model, by name.
pub(crate) struct Weights {
    tensors: BTreeMap<String, Tensor>,
}

/// model.safetensors.index.json
#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// The SHA-256 of all tensors, in the order of their names: of each the name, the type, the shape and the
    /// bytes. How they are divided into files does not count.
    pub(crate) fn sha256(&self) -> String {
        let mut hasher = Hasher::default();
        for (name, tensor) in &self.tensors {
            hasher.text(name);
            hasher.text(&tensor.dtype.to_string());
            hasher.number(tensor.shape.len());
            tensor.shape.iter().for_each(|&length| hasher.number(length));
            hasher.bytes(&tensor.storage.bytes()[tensor.range.clone()]);
        }
        hasher.finish()
    }

    /// Opens the weights of a Hugging Face folder: `model.safetensors`, or the parts that an index names.
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
            // A part lies in the folder of its index. A name that leads elsewhere is not followed.
            if Path::new(name).components().count() != 1 || name.contains("..") {
                return Err(ModelError::malformed(&index, format!("`{name}` is not the name of a file")));
            }
            weights.map(&folder.join(name))?;
        }
        Ok(weights)
    }

    /// The weights of a file whose bytes the program has. Errors name `path`.
    pub(crate) fn held(path: &Path, bytes: Cow<'static, [u8]>) -> Result<Self, ModelError> {
        let mut weights = Self { tensors: BTreeMap::new() };
        weights.read(path, Storage::Held(bytes))?;
        Ok(weights)
    }

    fn map(&mut self, path: &Path) -> Result<(), ModelError> {
        let file = File::open(path).map_err(|cause| ModelError::file(path, cause))?;
        // SAFETY: a map is sound only while nobody shortens or writes the file. Nothing in this program
        // writes it. That no other program does while the model lives is asked of the user, as by every
        // program that maps weights.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(|cause| ModelError::file(path, cause))?;
        self.read(path, Storage::Mapped(map))
    }

    fn read(&mut self, path: &Path, storage: Storage) -> Result<(), ModelError> {
        let storage = Arc::new(storage);
        let malformed = |cause| ModelError::malformed(path, cause);
        // This checks that the tensors lie one after the other and fill the file.
        SafeTensors::deserialize(storage.bytes()).map_err(malformed)?;
        let (header, metadata) = SafeTensors::read_metadata(storage.bytes()).map_err(malformed)?;
        for (name, info) in metadata.tensors() {
            // A file begins with the length of its header, in eight bytes, and the header.
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

    /// The matrix of this name. An error if it is missing or of another shape or type.
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        let tensor = self.tensor(name, &[rows, columns])?;
        tensor.matrix(name, rows, columns)
    }

    /// The vector of this name, as f32. An error if it is missing or of another length or type.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        let matrix = self.tensor(name, &[length])?.matrix(name, 1, length)?;
        let mut vector = vec![0.0; length];
        matrix.row(0, &mut vector);
        Ok(vector)
    }
}

impl Tensor {
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        let kind = match self.dtype {
            Dtype::BF16 => ElementType::Bf16,
            Dtype::F16 => ElementType::F16,
            Dtype::F32 => ElementType::F32,
            other => {
                let message = format!("is of type {other:?}; BF16, F16 and F32 can be read");
                return Err(ModelError::tensor(name, message));
            }
        };
        Ok(Matrix::new(self.storage.clone(), self.range.clone(), kind, rows, columns))
    }
}
