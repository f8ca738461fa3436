//! Reads the tensor `logits` of a `.safetensors` file: F32, F16 or BF16, of shape `[V]` or `[B, V]`.
//!
//! The crate `safetensors` checks the header. The data of this tensor is read straight into its place, and
//! the data of all other tensors is skipped.

use std::io::{self, Read};

use ::safetensors::tensor::{Dtype, Metadata};
use anyhow::{Result, anyhow, bail};

use crate::exit::one_line;
use crate::matrix::{Element, Elements, Matrix, Values, fill, read_elements, rows_and_vocabulary};

/// The name of the tensor.
pub const TENSOR: &str = "logits";

/// The longest header the format allows.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// How many names of tensors are listed if `logits` is not among them.
const NAMES_LISTED: usize = 8;

/// Whether a file may begin with these nine bytes: the format has no magic number, but its header is a JSON
/// object.
pub(crate) fn is_start(bytes: &[u8]) -> bool {
    header_length(bytes).is_some_and(|length| length <= MAX_HEADER_BYTES) && bytes.get(8) == Some(&b'{')
}

fn header_length(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.first_chunk::<8>()?))
}

/// Reads the tensor `logits`, and the rest of `reader` up to its end.
pub fn read(mut reader: impl Read) -> Result<Matrix> {
    let metadata = metadata(&mut reader)?;
    let Some(info) = metadata.info(TENSOR) else {
        bail!("has no tensor `{TENSOR}`; {}", names(&metadata));
    };
    let Some((rows, vocabulary)) = rows_and_vocabulary(&info.shape) else {
        let dimensions = info.shape.len();
        bail!("tensor `{TENSOR}` has {dimensions} dimensions; allowed are 1 ([V]) and 2 ([B, V])");
    };
    let (start, end) = info.data_offsets;
    let total = metadata.data_len() as u64;
    let skipped = skip(&mut reader, start as u64)?;
    if skipped < start as u64 {
        return Err(cut(skipped, total));
    }
    // The crate has checked that the offsets are those of the shape, so the product does not overflow.
    let count = rows.saturating_mul(vocabulary);
    let values = match info.dtype {
        Dtype::F32 => Values::F32(data(&mut reader, count, skipped, total)?),
        Dtype::F16 => Values::F16(data(&mut reader, count, skipped, total)?),
        Dtype::BF16 => Values::Bf16(data(&mut reader, count, skipped, total)?),
        other => bail!("tensor `{TENSOR}` is of dtype {other}; allowed are F32, F16 and BF16"),
    };
    let found = end as u64 + skip(&mut reader, total - end as u64)?;
    if found < total {
        return Err(cut(found, total));
    }
    if fill(&mut reader, &mut [0]).map_err(unreadable)? > 0 {
        bail!("bytes follow the data: the tensors need {total}, and the file must end there");
    }
    Matrix::new(rows, vocabulary, values).ok_or_else(|| anyhow!("tensor `{TENSOR}` is too large"))
}

/// The header, checked: offsets without gaps that agree with shapes and dtypes.
fn metadata(reader: &mut impl Read) -> Result<Metadata> {
    let mut start = [0; 8];
    let found = fill(reader, &mut start).map_err(unreadable)?;
    let length = match header_length(&start[..found]) {
        None => bail!("not a .safetensors file: {found} bytes found, at least 8 needed"),
        Some(length) if length > MAX_HEADER_BYTES => {
            bail!(
                "not a .safetensors file: its header claims {length} bytes; \
                 at most {MAX_HEADER_BYTES} are allowed"
            )
        }
        Some(length) => length,
    };
    let mut text = Vec::new();
    reader.take(length).read_to_end(&mut text).map_err(unreadable)?;
    if (text.len() as u64) < length {
        bail!("the .safetensors header is cut short: {} bytes found, {length} needed", text.len());
    }
    serde_json::from_slice(&text).map_err(|error| {
        anyhow!("the .safetensors header cannot be parsed: {}", one_line(&error.to_string()))
    })
}

fn names(metadata: &Metadata) -> String {
    let names = metadata.offset_keys();
    if names.is_empty() {
        return "the file is empty".to_owned();
    }
    let listed: Vec<_> =
        names.iter().take(NAMES_LISTED).map(|name| name.escape_debug().to_string()).collect();
    let rest = if names.len() > NAMES_LISTED { ", …" } else { "" };
    format!("it has {}{rest}", listed.join(", "))
}

fn data<T: Element>(reader: &mut impl Read, count: usize, before: u64, total: u64) -> Result<Vec<T>> {
    match read_elements(reader, count).map_err(unreadable)? {
        Elements::All(values) => Ok(values),
        Elements::Cut(found) => Err(cut(before + found, total)),
    }
}

/// Skips so many bytes, or as many as there are. Returns how many.
fn skip(reader: &mut impl Read, bytes: u64) -> Result<u64> {
    io::copy(&mut reader.take(bytes), &mut io::sink()).map_err(unreadable)
}

fn cut(found: u64, needed: u64) -> anyhow::Error {
    anyhow!("the data is cut short: {found} bytes found, {needed} needed by the tensors")
}

fn unreadable(error: io::Error) -> anyhow::Error {
    anyhow!("cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use onedraw::Row;

    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn message(bytes: &[u8]) -> String {
        read(bytes).expect_err("an error").to_string()
    }

    #[test]
    fn the_tensor_among_others() {
        let header = r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},
            "logits":{"dtype":"BF16","shape":[2,1],"data_offsets":[3,7]},
            "z":{"dtype":"F64","shape":[1],"data_offsets":[7,15]}}"#;
        let mut data = vec![9; 3];
        data.extend(half::bf16::from_f32(1.5).to_le_bytes());
        data.extend(half::bf16::from_f32(-2.0).to_le_bytes());
        data.extend([9; 8]);
        let matrix = read(&file(header, &data)[..]).expect("two rows");
        assert_eq!((matrix.rows(), matrix.vocabulary()), (2, 1));
        let Row::Bf16(row) = matrix.row(1) else { panic!("not bf16") };
        assert_eq!(row, [half::bf16::from_f32(-2.0)]);
        for length in [2, 5, 14] {
            let expected = format!("the data is cut short: {length} bytes found, 15 needed by the tensors");
            assert_eq!(message(&file(header, &data[..length])), expected);
        }
        data.push(0);
        let expected = "bytes follow the data: the tensors need 15, and the file must end there";
        assert_eq!(message(&file(header, &data)), expected);
    }

    #[test]
    fn what_is_not_read() {
        assert_eq!(message(b"abc"), "not a .safetensors file: 3 bytes found, at least 8 needed");
        assert_eq!(
            message(b"\0\0\0\0\x01\0\0\0{"),
            "not a .safetensors file: its header claims 4294967296 bytes; at most 100000000 are allowed"
        );
        assert_eq!(
            message(b"\x10\0\0\0\0\0\0\0{}"),
            "the .safetensors header is cut short: 2 bytes found, 16 needed"
        );
        assert!(message(&file("{]", &[])).starts_with("the .safetensors header cannot be parsed: "));
        assert_eq!(message(&file("{}", &[])), "has no tensor `logits`; the file is empty");
        let other = r#"{"weights":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        assert_eq!(message(&file(other, &[0])), "has no tensor `logits`; it has weights");
        let dtype = r#"{"logits":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#;
        assert_eq!(
            message(&file(dtype, &[0; 8])),
            "tensor `logits` is of dtype F64; allowed are F32, F16 and BF16"
        );
        let rank = r#"{"logits":{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]}}"#;
        assert_eq!(
            message(&file(rank, &[0; 4])),
            "tensor `logits` has 3 dimensions; allowed are 1 ([V]) and 2 ([B, V])"
        );
        let huge = r#"{"logits":{"dtype":"F16","shape":[1073741824],"data_offsets":[0,2147483648]}}"#;
        assert_eq!(
            message(&file(huge, &[0; 4])),
            "the data is cut short: 4 bytes found, 2147483648 needed by the tensors"
        );
    }
}
