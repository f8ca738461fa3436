//! Rows that begin at a cache line.

/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;

/// A copy of a row that begins at a cache line: a load that splits two lines costs twice, which has nothing
/// to do with sampling.
#[derive(Debug)]
pub struct Aligned<T> {
    buffer: Vec<T>,
    start: usize,
    length: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// Copies the row.
    pub fn new(row: &[T]) -> Self {
        let mut buffer = vec![T::default(); row.len() + LINE / size_of::<T>()];
        let start = buffer.as_ptr().align_offset(LINE);
        buffer[start..start + row.len()].copy_from_slice(row);
        Self { buffer, start, length: row.len() }
    }

    /// The row.
    pub fn row(&self) -> &[T] {
        &self.buffer[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn a_copy_begins_at_a_cache_line() {
        for length in [0, 1, 63, 1000] {
            let values: Vec<f32> = (0..length).map(|i| i as f32).collect();
            let rows: Vec<_> = (0..5).map(|_| Aligned::new(&values)).collect();
            for row in &rows {
                assert_eq!(row.row(), values);
                assert_eq!(row.row().as_ptr() as usize % LINE, 0);
            }
            let halves = Aligned::new(&vec![bf16::ONE; length]);
            assert_eq!(halves.row(), vec![bf16::ONE; length]);
            assert_eq!(halves.row().as_ptr() as usize % LINE, 0);
        }
    }
}
