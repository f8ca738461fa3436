//! The memory of the caller: the only place that follows pointers.
//!
//! What can be told is checked: NULL, alignment, sizes. What cannot be told is what the header asks of every
//! caller: a pointer leads to memory that holds as many values as its size says, it is not freed or changed by
//! other threads during the call, and what is written does not overlap with anything else that is given. A
//! [`Memory`] stands for that promise. It lives as long as the call, and so does everything that it gives out.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use half::{bf16, f16};

use crate::error::{Failure, ONEDRAW_OK, ONEDRAW_TOO_SMALL, Result, c_text, onedraw_error};

/// A type of which any bits are a value, so that what a caller wrote can be read.
pub(crate) trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => { $(impl Plain for $type {})* };
}
plain!(u8, u32, i32, i64, u64, usize, f32, f64, f16, bf16);
impl<T> Plain for *const T {}

/// The pointers of one call.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a>(PhantomData<fn(&'a ()) -> &'a ()>);

/// Runs a call with the memory of its caller.
pub(crate) fn with_memory<T>(body: impl for<'a> FnOnce(Memory<'a>) -> T) -> T {
    body(Memory(PhantomData))
}

/// Whether the caller wants the error, and it can be told.
fn takes_error(error: *mut onedraw_error) -> bool {
    !error.is_null() && error.is_aligned()
}

/// Says that nothing went wrong. Only the beginning of the texts is written, because this is done in every call.
pub(crate) fn clear_error(error: *mut onedraw_error) {
    if takes_error(error) {
        // SAFETY: not NULL, aligned, and by the caller's promise room for an error. It need not be one yet, so
        // that its fields are written without a reference to them.
        unsafe {
            (&raw mut (*error).status).write(ONEDRAW_OK);
            (&raw mut (*error).length).write(0);
            (&raw mut (*error).kind).cast::<c_char>().write(0);
            (&raw mut (*error).message).cast::<c_char>().write(0);
        }
    }
}

pub(crate) fn write_error(error: *mut onedraw_error, value: onedraw_error) {
    if takes_error(error) {
        // SAFETY: not NULL, aligned, and by the caller's promise room for an error.
        unsafe { error.write(value) };
    }
}

fn check<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(Failure::argument(name, "is NULL"));
    }
    if !pointer.is_aligned() {
        let needed = align_of::<T>();
        return Err(Failure::argument(name, format_args!("is not aligned to {needed} bytes")));
    }
    Ok(())
}

fn check_array<T>(pointer: *const T, length: usize, name: &str) -> Result<()> {
    check(pointer, name)?;
    match length.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(Failure::argument(name, format_args!("has {length} values, more than memory can hold"))),
    }
}

impl<'a> Memory<'a> {
    /// A value that the caller gives.
    pub(crate) fn value<T: Plain>(self, pointer: *const T, name: &str) -> Result<T> {
        check(pointer, name)?;
        // SAFETY: not NULL, aligned, by the caller's promise a value, and any bits are one.
        Ok(unsafe { *pointer })
    }

    /// `length` values that the caller gives. NULL is the same as none if the length is 0.
    pub(crate) fn array<T: Plain>(self, pointer: *const T, length: usize, name: &str) -> Result<&'a [T]> {
        if length == 0 {
            return Ok(&[]);
        }
        check_array(pointer, length, name)?;
        // SAFETY: not NULL, aligned, not larger than memory, and by the caller's promise so many values, which
        // nobody changes during the call. Any bits are one.
        Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
    }

    /// `count` values whose beginnings are `stride` bytes apart, a multiple of their alignment.
    pub(crate) fn strided<T: Plain>(
        self,
        pointer: *const T,
        count: usize,
        stride: usize,
        name: &str,
    ) -> Result<impl ExactSizeIterator<Item = T> + Clone + use<'a, T>> {
        if !stride.is_multiple_of(align_of::<T>()) {
            let message = format!("must be a multiple of {}, not {stride}", align_of::<T>());
            return Err(Failure::argument("stride", message));
        }
        if count > 0 {
            check(pointer, name)?;
            let bytes = stride.checked_mul(count - 1).and_then(|bytes| bytes.checked_add(size_of::<T>()));
            if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
                return Err(Failure::argument(
                    name,
                    format_args!("has {count} values, more than memory can hold"),
                ));
            }
        }
        // SAFETY: not NULL, aligned, not larger than memory, and by the caller's promise so many values, which
        // nobody changes during the call. Any bits are one.
        let value = move |index| unsafe { *pointer.byte_add(index * stride) };
        Ok((0..count).map(value))
    }

    /// Text that ends with a zero.
    pub(crate) fn text(self, pointer: *const c_char, name: &str) -> Result<&'a str> {
        check(pointer, name)?;
        // SAFETY: not NULL, and by the caller's promise bytes up to a zero that nobody changes during the call.
        let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
        str::from_utf8(bytes).map_err(|error| {
            Failure::argument(name, format_args!("is not UTF-8 at byte {}", error.valid_up_to()))
        })
    }

    /// Where one value is returned.
    pub(crate) fn place<T: Copy>(self, pointer: *mut T, name: &str) -> Result<&'a mut MaybeUninit<T>> {
        check(pointer, name)?;
        // SAFETY: not NULL, aligned, and by the caller's promise room for a value that nothing else uses during
        // the call. It need not be one yet.
        Ok(unsafe { &mut *pointer.cast::<MaybeUninit<T>>() })
    }

    /// Where up to `capacity` values are returned, and how many there are.
    pub(crate) fn buffer<T: Copy>(
        self,
        pointer: *mut T,
        capacity: usize,
        count: *mut usize,
        name: &'static str,
    ) -> Result<Buffer<'a, T>> {
        let count = self.place(count, "the place for the length")?;
        // What a call that fails returns.
        count.write(0);
        Ok(Buffer { room: self.room(pointer, capacity, name)?, count, name })
    }

    /// Where up to `capacity` values are returned.
    pub(crate) fn room<T: Copy>(
        self,
        pointer: *mut T,
        capacity: usize,
        name: &str,
    ) -> Result<&'a mut [MaybeUninit<T>]> {
        if capacity == 0 {
            return Ok(&mut []);
        }
        check_array(pointer, capacity, name)?;
        // SAFETY: not NULL, aligned, not larger than memory, and by the caller's promise room for so many
        // values that nothing else uses during the call. They need not be values yet.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), capacity) })
    }
}

/// Room of the caller, all of which is `value` now.
pub(crate) fn filled<T: Copy>(room: &mut [MaybeUninit<T>], value: T) -> &mut [T] {
    room.fill(MaybeUninit::new(value));
    // SAFETY: every value was written just now.
    unsafe { room.assume_init_mut() }
}

/// Room of the caller for some number of values.
pub(crate) struct Buffer<'a, T> {
    room: &'a mut [MaybeUninit<T>],
    count: &'a mut MaybeUninit<usize>,
    name: &'static str,
}

impl<T: Copy> Buffer<'_, T> {
    /// Checks that so many values will fit; otherwise says how many there are.
    pub(crate) fn check(&mut self, count: usize) -> Result<()> {
        let capacity = self.room.len();
        if count <= capacity {
            return Ok(());
        }
        self.count.write(count);
        let message = format!("{}: has room for {capacity}, and {count} are needed", self.name);
        Err(Failure::new(ONEDRAW_TOO_SMALL, self.name, message))
    }

    /// Returns the values and their number. Where they do not fit, only the number.
    pub(crate) fn fill(&mut self, values: impl ExactSizeIterator<Item = T>) -> Result<()> {
        self.check(values.len())?;
        self.count.write(values.len());
        self.room.iter_mut().zip(values).for_each(|(place, value)| _ = place.write(value));
        Ok(())
    }
}

impl Buffer<'_, c_char> {
    /// Returns a text with a zero after it, and its length without the zero.
    pub(crate) fn fill_text(&mut self, text: &str) -> Result<()> {
        self.check(text.len() + 1)?;
        let bytes = c_text(text).chain([0]);
        self.room.iter_mut().zip(bytes).for_each(|(place, byte)| _ = place.write(byte));
        self.count.write(text.len());
        Ok(())
    }
}
