//! Handles: what C holds instead of our values.
//!
//! A handle looks like a pointer and is a number: the id of a slot of one table, plus 1, so that no handle is NULL.
//! Ids are not used again. So a handle that was freed, freed twice, made up or of another kind is an error and
//! not undefined behaviour.
//!
//! A value is used by one thread at a time. A second one gets an error at once instead of waiting, because two
//! threads that draw from one sequence are a mistake of the program: its tokens would depend on who is first.
//! Values that are only read, or only for a moment, let it wait.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use library::slots::{SequenceId, Slots};

use crate::error::{Failure, ONEDRAW_BAD_HANDLE, ONEDRAW_IN_USE, Result};
use crate::memory::Memory;

// A handle has the 64 bits of an id.
const _: () = assert!(size_of::<usize>() == 8, "onedraw for C needs pointers of 64 bits");

/// A value that C has handles of.
pub(crate) trait Handle: Send + 'static {
    /// What a handle seems to point to.
    type Pointee;

    /// What the errors call it.
    const NAME: &'static str;

    /// Whether a second thread waits instead of getting an error.
    const WAITS: bool = false;
}

/// Every value, a `Mutex<T>` of some [`Handle`] `T`.
static TABLE: RwLock<Slots<Arc<dyn Any + Send + Sync>>> = RwLock::new(Slots::new());

/// Keeps a value, and returns its handle.
fn keep<T: Handle>(value: T) -> *mut T::Pointee {
    let value = Arc::new(Mutex::new(value));
    let id = TABLE.write().unwrap_or_else(PoisonError::into_inner).insert(value);
    std::ptr::without_provenance_mut(id.to_bits() as usize + 1)
}

/// Makes a value and writes its handle to where the caller wants it; NULL if there is none.
pub(crate) fn give<T: Handle>(
    memory: Memory<'_>,
    place: *mut *mut T::Pointee,
    make: impl FnOnce() -> Result<T>,
) -> Result<()> {
    let place = memory.place(place, T::NAME)?;
    let handle = place.write(std::ptr::null_mut());
    *handle = keep(make()?);
    Ok(())
}

/// Uses the value of a handle.
pub(crate) fn with<T: Handle, R>(
    handle: *const T::Pointee,
    action: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    let found = id_of::<T>(handle).and_then(|id| {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        table.get(id).cloned().ok_or_else(bad::<T>)
    })?;
    // The table is free again, so that others go on while this call works.
    let value = found.downcast::<Mutex<T>>().map_err(|_| bad::<T>())?;
    let mut value = lock(&value)?;
    action(&mut value)
}

/// Removes the value of a handle. A call that still works with it comes to its end. NULL is no error, as for
/// `free`.
pub(crate) fn free<T: Handle>(handle: *mut T::Pointee) -> Result<()> {
    if handle.is_null() {
        return Ok(());
    }
    let id = id_of::<T>(handle)?;
    let removed = {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        let is_one = table.get(id).is_some_and(|value| value.is::<Mutex<T>>());
        is_one.then(|| table.remove(id)).flatten()
    };
    // It is dropped here, after the table is free again.
    removed.map(drop).ok_or_else(bad::<T>)
}

fn id_of<T: Handle>(handle: *const T::Pointee) -> Result<SequenceId> {
    let bits = handle.addr().checked_sub(1);
    let bits = bits.ok_or_else(|| {
        Failure::new(ONEDRAW_BAD_HANDLE, T::NAME, format_args!("{}: the handle is NULL", T::NAME))
    })?;
    Ok(SequenceId::from_bits(bits as u64))
}

fn bad<T: Handle>() -> Failure {
    let message = format!("{}: the handle is of another kind, or was freed", T::NAME);
    Failure::new(ONEDRAW_BAD_HANDLE, T::NAME, message)
}

fn lock<T: Handle>(value: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    let poisoned =
        || Failure::internal(format_args!("{}: an earlier call failed inside of it; free it", T::NAME));
    if T::WAITS {
        return value.lock().map_err(|_| poisoned());
    }
    value.try_lock().map_err(|error| match error {
        TryLockError::Poisoned(_) => poisoned(),
        TryLockError::WouldBlock => {
            let message = format!("{}: in use by another call", T::NAME);
            Failure::new(ONEDRAW_IN_USE, T::NAME, message)
        }
    })
}
