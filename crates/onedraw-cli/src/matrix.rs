//! Rows of logits in memory, in the dtype of their file.

use std::io::{self, Read};
use std::ops::Range;

use half::{bf16, f16};
use onedraw::Row;

/// The logits of `rows` rows of `vocabulary` tokens, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    vocabulary: usize,
    values: Values,
    /// Whether the numbers were more precise than they are here.
    is_rounded: bool,
}

/// The numbers of a [`Matrix`].
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// IEEE half precision.
    F16(Vec<f16>),
    /// The upper half of a 32-bit float.
    Bf16(Vec<bf16>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F16(values) => values.len(),
            Values::Bf16(values) => values.len(),
        }
    }
}

impl Matrix {
    /// `None` unless there are exactly `rows` times `vocabulary` values. Also `None` for more than 2^20 rows
    /// without any logits, because each of them would be an error of its own.
    pub fn new(rows: usize, vocabulary: usize, values: Values) -> Option<Self> {
        let is_sane = vocabulary > 0 || rows <= 1 << 20;
        (is_sane && rows.checked_mul(vocabulary)? == values.len()).then_some(Self {
            rows,
            vocabulary,
            values,
            is_rounded: false,
        })
    }

    /// The same matrix, of numbers that were rounded when they were read.
    pub(crate) fn rounded(self) -> Self {
        Self { is_rounded: true, ..self }
    }

    /// Whether its numbers were rounded when they were read.
    pub fn is_rounded(&self) -> bool {
        self.is_rounded
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of logits in each row.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The logits of one row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Row<'_> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.rows_of(row..row + 1)
    }

    /// The logits of some rows, one row after the other.
    ///
    /// # Panics
    ///
    /// If there are no such rows.
    pub(crate) fn rows_of(&self, rows: Range<usize>) -> Row<'_> {
        let range = rows.start * self.vocabulary..rows.end * self.vocabulary;
        match &self.values {
            Values::F32(values) => Row::F32(&values[range]),
            Values::F16(values) => Row::F16(&values[range]),
            Values::Bf16(values) => Row::Bf16(&values[range]),
        }
    }
}

/// Rows and vocabulary of an array of that shape: `[V]` is one row, `[B, V]` is B of them.
pub(crate) fn rows_and_vocabulary(shape: &[usize]) -> Option<(usize, usize)> {
    match *shape {
        [vocabulary] => Some((1, vocabulary)),
        [rows, vocabulary] => Some((rows, vocabulary)),
        _ => None,
    }
}

/// A number as files hold it: little-endian, every bit pattern allowed.
pub(crate) trait Element: bytemuck::Pod {
    /// The value whose bytes these are in a file; changes nothing on a little-endian host.
    fn little_endian(self) -> Self;
}

impl Element for f32 {
    fn little_endian(self) -> Self {
        f32::from_bits(u32::from_le(self.to_bits()))
    }
}

impl Element for f64 {
    fn little_endian(self) -> Self {
        f64::from_bits(u64::from_le(self.to_bits()))
    }
}

impl Element for f16 {
    fn little_endian(self) -> Self {
        f16::from_bits(u16::from_le(self.to_bits()))
    }
}

impl Element for bf16 {
    fn little_endian(self) -> Self {
        bf16::from_bits(u16::from_le(self.to_bits()))
    }
}

/// The outcome of reading a number of elements.
pub(crate) enum Elements<T> {
    /// All of them.
    All(Vec<T>),
    /// The data ended after so many bytes.
    Cut(u64),
}

/// The length of the first piece that is read. Each later piece is as long as all before it together.
const FIRST_PIECE_BYTES: usize = 1 << 20;

/// Reads `count` elements straight into their final place.
///
/// The memory grows with the data, to at most twice what was delivered (and the first piece), so a header
/// that claims more than the file holds costs nothing.
pub(crate) fn read_elements<T: Element>(reader: &mut impl Read, count: usize) -> io::Result<Elements<T>> {
    let mut values: Vec<T> = Vec::new();
    while values.len() < count {
        let done = values.len();
        let piece = done.max(FIRST_PIECE_BYTES / size_of::<T>()).min(count - done);
        values.try_reserve_exact(piece)?;
        values.resize(done + piece, T::zeroed());
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values[done..]);
        let found = fill(reader, bytes)?;
        if found < bytes.len() {
            return Ok(Elements::Cut((done * size_of::<T>()) as u64 + found as u64));
        }
    }
    if cfg!(target_endian = "big") {
        values.iter_mut().for_each(|value| *value = value.little_endian());
    }
    Ok(Elements::All(values))
}

/// Reads until `bytes` is full or the data ends. Returns how many bytes were read.
pub(crate) fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut found = 0;
    while found < bytes.len() {
        match reader.read(&mut bytes[found..]) {
            Ok(0) => break,
            Ok(read) => found += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_views_of_the_values() {
        let matrix = Matrix::new(2, 3, Values::F32(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])).expect("2 by 3");
        assert_eq!((matrix.rows(), matrix.vocabulary()), (2, 3));
        let Row::F32(row) = matrix.row(1) else { panic!("not f32") };
        assert_eq!(row, [3.0, 4.0, 5.0]);
        assert_eq!(Matrix::new(2, 3, Values::F32(vec![0.0; 5])), None);
        assert_eq!(Matrix::new(usize::MAX, 2, Values::F32(vec![])), None);
    }

    #[test]
    fn a_matrix_may_be_empty_either_way() {
        let matrix = Matrix::new(4, 0, Values::F16(vec![])).expect("4 by 0");
        let Row::F16(row) = matrix.row(3) else { panic!("not f16") };
        assert!(row.is_empty());
        assert_eq!(Matrix::new(0, 7, Values::Bf16(vec![])).map(|matrix| matrix.rows()), Some(0));
    }

    /// Delivers `left` zero bytes, a few at a time.
    struct Trickle {
        left: usize,
    }

    impl Read for Trickle {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let read = bytes.len().min(self.left).min(70_001);
            self.left -= read;
            Ok(read)
        }
    }

    #[test]
    fn elements_come_in_pieces_and_cuts_are_counted() {
        let count = 3 * FIRST_PIECE_BYTES / 4 + 1;
        let Elements::All(values) =
            read_elements::<f32>(&mut Trickle { left: 4 * count }, count).expect("no error")
        else {
            panic!("cut")
        };
        assert_eq!(values.len(), count);
        assert_eq!(values.capacity(), count);
        for left in [0, 1, 4 * count - 1] {
            let Elements::Cut(found) = read_elements::<f32>(&mut Trickle { left }, count).expect("no error")
            else {
                panic!("not cut")
            };
            assert_eq!(found, left as u64);
        }
    }

    #[test]
    fn a_claim_beyond_all_memory_costs_only_what_is_delivered() {
        let Elements::Cut(found) =
            read_elements::<f32>(&mut Trickle { left: 10 }, 1 << 60).expect("no error")
        else {
            panic!("not cut")
        };
        assert_eq!(found, 10);
    }
}
