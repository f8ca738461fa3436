//! Rows of logits of any number type, read without a copy.

use half::{bf16, f16};

pub use crate::numeric::mass::MAX_VOCABULARY;

/// One row of logits, borrowed from the caller. A logit is finite, or −inf for a token that is masked. NaN
/// and +inf are errors when the row is drawn from.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// IEEE half precision, widened exactly.
    F16(&'a [f16]),
    /// bfloat16, widened exactly.
    Bf16(&'a [bf16]),
}

impl<'a> Row<'a> {
    /// The number of logits.
    pub fn len(&self) -> usize {
        match self {
            Row::F32(values) => values.len(),
            Row::F16(values) => values.len(),
            Row::Bf16(values) => values.len(),
        }
    }

    /// Whether the row has no logits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The logit of token `index`, widened to f32.
    ///
    /// # Panics
    /// If `index` is not below [`Row::len`].
    #[inline(always)]
    pub fn get(&self, index: usize) -> f32 {
        match self {
            Row::F32(values) => values[index],
            Row::F16(values) => values[index].to_f32(),
            Row::Bf16(values) => values[index].to_f32(),
        }
    }

    /// The logits of the tokens in `range`, as a row.
    ///
    /// # Panics
    /// If the range does not lie within the row.
    pub fn part(&self, range: std::ops::Range<usize>) -> Row<'a> {
        match self {
            Row::F32(values) => Row::F32(&values[range]),
            Row::F16(values) => Row::F16(&values[range]),
            Row::Bf16(values) => Row::Bf16(&values[range]),
        }
    }

    /// Copies the `out.len()` logits from index `start` on into `out`, widened to f32.
    #[inline]
    pub(crate) fn widen(&self, start: usize, out: &mut [f32]) {
        let end = start + out.len();
        match self {
            Row::F32(values) => out.copy_from_slice(&values[start..end]),
            Row::F16(values) => {
                out.iter_mut().zip(&values[start..end]).for_each(|(to, from)| *to = from.to_f32())
            }
            Row::Bf16(values) => {
                out.iter_mut().zip(&values[start..end]).for_each(|(to, from)| *to = from.to_f32())
            }
        }
    }
}

macro_rules! row_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl<'a> From<&'a [$type]> for Row<'a> {
            fn from(values: &'a [$type]) -> Self {
                Row::$variant(values)
            }
        }
        impl<'a> From<&'a Vec<$type>> for Row<'a> {
            fn from(values: &'a Vec<$type>) -> Self {
                Row::$variant(values)
            }
        }
        impl<'a, const N: usize> From<&'a [$type; N]> for Row<'a> {
            fn from(values: &'a [$type; N]) -> Self {
                Row::$variant(values)
            }
        }
    )*};
}
row_from!(f32 => F32, f16 => F16, bf16 => Bf16);

/// Several rows of one number type in one buffer, the beginnings of which are `stride` logits apart.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: Row<'a>,
    vocabulary: usize,
    stride: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// `count` rows of `vocabulary` logits, whose beginnings are `stride` logits apart. `None` if `data` is
    /// too short for that, or if the rows would overlap.
    pub fn new(data: impl Into<Row<'a>>, count: usize, vocabulary: usize, stride: usize) -> Option<Self> {
        let data = data.into();
        let needed = match count {
            0 => 0,
            _ => stride.checked_mul(count - 1)?.checked_add(vocabulary)?,
        };
        (stride >= vocabulary && needed <= data.len()).then_some(Self { data, vocabulary, stride, count })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of logits in a row.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Row `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Rows::len`].
    pub fn row(&self, index: usize) -> Row<'a> {
        assert!(index < self.count, "row {index} of {}", self.count);
        let start = index * self.stride;
        self.data.part(start..start + self.vocabulary)
    }

    /// The rows, first to last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row<'a>> + '_ {
        (0..self.count).map(|index| self.row(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_a_stride_apart() {
        let data: Vec<f32> = (0..10).map(|i| i as f32).collect();
        let rows = Rows::new(&data, 3, 2, 4).expect("2 + 2·4 = 10 logits");
        assert_eq!((0..3).map(|i| rows.row(i).get(1)).collect::<Vec<_>>(), [1.0, 5.0, 9.0]);
        assert!(Rows::new(&data, 3, 3, 4).is_none(), "needs 11");
        assert!(Rows::new(&data, 2, 4, 3).is_none(), "would overlap");
        assert!(Rows::new(&data, usize::MAX, 4, 4).is_none());
    }
}
