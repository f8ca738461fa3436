//! Handles: what C holds instead of our values.
//!
//! A handle looks like a pointer and is a number, which no other value ever gets. So a handle that was freed, freed
//! twice, made up or of another kind is an error and not undefined behaviour. Each handle stands for a slot of one of
//! `PARTS` tables. There are several, so that threads that look up their own handles rarely meet.
//!
//! A value is used by one thread at a time. A second one gets an error at once instead of waiting, because two
//! threads that draw from one sequence are a mistake of the program: its tokens would depend on who is first.
//! Values that are only read, or only for a moment, let it wait.
//!
//! The bits of a handle:
//!
//! ```text
//!  63 … 47   46   45 … 26     25 … 10   9 … 4   3 … 0
//!    0        1   generation   slot      part     0
//! ```
//!
//! Other languages are told that it is a pointer, and some look at its bits: Go's collector ends a program with a pointer
//! below 4,096 or one into its heap, which begins at 0xc000000000; JavaScript and LuaJIT keep 53 or 47 bits; some mark
//! their own values by odd bits. A number with bit 46, of 47 bits and a multiple of 16, is none of these.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use library::slots::{SequenceId, Slots};

use crate::error::{Failure, ONEDRAW_BAD_HANDLE, ONEDRAW_IN_USE, Result};
use crate::memory::Memory;

const _: () = assert!(size_of::<usize>() == 8, "onedraw for C needs pointers of 64 bits");

const MARK: usize = 1 << 46;
const GENERATION_BITS: u32 = 20;
const SLOT_BITS: u32 = 16;
const PART_BITS: u32 = 6;
const ZERO_BITS: u32 = 4;
const _: () = assert!(1 << (GENERATION_BITS + SLOT_BITS + PART_BITS + ZERO_BITS) == MARK);

/// A value that C has handles of.
pub(crate) trait Handle: Send + 'static {
    /// What a handle seems to point to.
    type Pointee;

    /// What the errors call it.
    const NAME: &'static str;

    /// Whether a second thread waits instead of getting an error.
    const WAITS: bool = false;
}

const PARTS: usize = 1 << PART_BITS;

type Members = Slots<Arc<dyn Any + Send + Sync>, { (1 << GENERATION_BITS) - 1 }>;

/// Some of the values, each a `Mutex<T>` of some [`Handle`] `T`. It fills cache lines that no other part is in.
#[repr(align(128))]
struct Part(RwLock<Members>);

/// Every value.
static TABLE: [Part; PARTS] = [const { Part(RwLock::new(Members::empty())) }; PARTS];

impl Part {
    fn read(&self) -> RwLockReadGuard<'_, Members> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Members> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a value, and returns its handle.
fn keep<T: Handle>(value: T) -> Result<*mut T::Pointee> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let part = NEXT.fetch_add(1, Ordering::Relaxed) % PARTS;
    let mut members = TABLE[part].write();
    if members.next_slot() >> SLOT_BITS != 0 {
        let message = format!("{}: there are four million handles already", T::NAME);
        return Err(Failure::new(ONEDRAW_BAD_HANDLE, T::NAME, message));
    }
    let id = members.insert(Arc::new(Mutex::new(value)));
    let (slot, generation) = (id.slot() as usize, (id.to_bits() >> 32) as usize);
    let number = (generation << SLOT_BITS | slot) << PART_BITS | part;
    Ok(std::ptr::without_provenance_mut(MARK | number << ZERO_BITS))
}

/// What a handle stands for: a part of the table, and an id in it.
fn place_of<T: Handle>(handle: *const T::Pointee) -> Result<(&'static Part, SequenceId)> {
    if handle.is_null() {
        let message = format!("{}: the handle is NULL", T::NAME);
        return Err(Failure::new(ONEDRAW_BAD_HANDLE, T::NAME, message));
    }
    let number = handle.addr().checked_sub(MARK).filter(|number| *number < MARK);
    let number = number.filter(|number| number % (1 << ZERO_BITS) == 0).ok_or_else(bad::<T>)? >> ZERO_BITS;
    let (part, slot) = (number % PARTS, number >> PART_BITS & ((1 << SLOT_BITS) - 1));
    let generation = number >> (PART_BITS + SLOT_BITS);
    Ok((&TABLE[part], SequenceId::from_bits((generation << 32 | slot) as u64)))
}

/// Makes a value and writes its handle to where the caller wants it; NULL if there is none.
pub(crate) fn give<T: Handle>(
    memory: Memory<'_>,
    place: *mut *mut T::Pointee,
    make: impl FnOnce() -> Result<T>,
) -> Result<()> {
    let place = memory.place(place, T::NAME)?;
    let handle = place.write(std::ptr::null_mut());
    *handle = keep(make()?)?;
    Ok(())
}

/// Uses the value of a handle.
pub(crate) fn with<T: Handle, R>(
    handle: *const T::Pointee,
    action: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    let (part, id) = place_of::<T>(handle)?;
    let found = part.read().get(id).cloned().ok_or_else(bad::<T>)?;
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
    let (part, id) = place_of::<T>(handle)?;
    let removed = {
        let mut members = part.write();
        let is_one = members.get(id).is_some_and(|value| value.is::<Mutex<T>>());
        is_one.then(|| members.remove(id)).flatten()
    };
    // It is dropped here, after the table is free again.
    removed.map(drop).ok_or_else(bad::<T>)
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
