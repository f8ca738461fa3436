//! Questions and answers as bytes: every number at its width, little-endian, in the order of the fields.
//!
//! The length of everything but a list follows from its type, so that whoever exchanges messages knows how
//! much room they need before they are written. A list is the last field, after the number of its entries:
//! a message that lost some of them is not a shorter list. Something that may be absent takes no more room than what it is: absence is a value that the type
//! never has otherwise.
//!
//! Reading never allocates more than the message is long, and never panics: it returns `None` where the bytes
//! end too early or mean nothing.

use crate::kernels::bend::Bend;
use crate::numeric::key::Key;
use crate::numeric::mass::{Interval, Softmax, Spread};
use crate::numeric::temperature::Temperature;

/// Where fields are written: into bytes, or only counted.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts the bytes.
impl Sink for usize {
    fn put(&mut self, bytes: &[u8]) {
        *self += bytes.len();
    }
}

/// The bytes of a message that were not read yet.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// The last `count` bytes.
    pub(crate) fn take_last(&mut self, count: usize) -> Option<&'a [u8]> {
        let (rest, last) = self.0.split_at_checked(self.0.len().checked_sub(count)?)?;
        self.0 = rest;
        Some(last)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A part of a message.
pub(crate) trait Field: Sized {
    fn write(&self, to: &mut impl Sink);
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

/// A field with a value that stands for "absent".
pub(crate) trait Absent: Field {
    const ABSENT: Self;
    fn is_absent(&self) -> bool;
}

impl<T: Absent> Field for Option<T> {
    fn write(&self, to: &mut impl Sink) {
        self.as_ref().unwrap_or(&T::ABSENT).write(to);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let field = T::read(from)?;
        Some(if field.is_absent() { None } else { Some(field) })
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn write(&self, to: &mut impl Sink) {
                to.put(&self.to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                from.take().map(<$number>::from_le_bytes)
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, u128, i32, f32, f64);

/// Writes and reads a struct field by field.
macro_rules! fields {
    ($($type:ident { $($field:ident),* $(,)? }),* $(,)?) => {$(
        impl $crate::logits::code::Field for $type {
            #[allow(unused_variables)]
            fn write(&self, to: &mut impl $crate::logits::code::Sink) {
                $($crate::logits::code::Field::write(&self.$field, to);)*
            }

            #[allow(unused_variables)]
            fn read(from: &mut $crate::logits::code::Reader<'_>) -> Option<Self> {
                $(let $field = $crate::logits::code::Field::read(from)?;)*
                Some(Self { $($field),* })
            }
        }
    )*};
}
pub(crate) use fields;

fields! {
    Temperature { value, inverse },
    Softmax { x_max, scale },
    Spread { count, total, surprise },
    Interval { least, most },
    Bend { factor, quadratic, cubic },
}

impl Field for Key {
    fn write(&self, to: &mut impl Sink) {
        self.number().write(to);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        u64::read(from).map(Key::from_number)
    }
}

/// No logit has this key: it would be NaN.
impl Absent for Key {
    const ABSENT: Self = Key::from_number(u64::MAX);

    fn is_absent(&self) -> bool {
        *self == Self::ABSENT
    }
}

/// Logits are never NaN.
impl Absent for f32 {
    const ABSENT: Self = f32::NAN;

    fn is_absent(&self) -> bool {
        self.is_nan()
    }
}

/// Weights of NaN mean nothing.
impl Absent for Softmax {
    const ABSENT: Self = Softmax { x_max: f32::NAN, scale: f32::NAN };

    fn is_absent(&self) -> bool {
        self.x_max.is_nan()
    }
}

/// No temperature is 0.
impl Absent for Temperature {
    const ABSENT: Self = Temperature { value: 0.0, inverse: 0.0 };

    fn is_absent(&self) -> bool {
        self.value == 0.0
    }
}

impl Field for bool {
    fn write(&self, to: &mut impl Sink) {
        u8::from(*self).write(to);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match u8::read(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// A list is the last field: its length, then its entries, to the end of the message.
impl<T: Field> Field for Vec<T> {
    fn write(&self, to: &mut impl Sink) {
        (self.len() as u32).write(to);
        self.iter().for_each(|entry| entry.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let count = u32::read(from)?;
        let mut entries = Vec::new();
        while !from.is_empty() {
            entries.push(T::read(from)?);
        }
        (entries.len() == count as usize).then_some(entries)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn write(&self, to: &mut impl Sink) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}
