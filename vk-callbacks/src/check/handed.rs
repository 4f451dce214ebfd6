//! A struct handed to a creating command, to be spoilt once that has returned: a driver that kept its address walks into a trap (V6).

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::HostError;

use super::entry::traps;
use crate::placed::{Memory, place, take_back};
use crate::raw::RawCallbacks;

/// A struct of checked callbacks, in the checker's memory: pass [`as_ptr`](HandedOut::as_ptr) to the command that creates, and
/// [`poison`](HandedOut::poison) it when that has returned.
///
/// The specification lets an application free the struct then. A driver that copied it never notices; one that kept its address
/// calls traps, which report and pass the call on.
#[derive(Debug)]
pub struct HandedOut<'c> {
    at: NonNull<Handed>,
    checker: PhantomData<&'c ()>,
}

// SAFETY: the struct is plain data that only `poison` changes, whose caller promises that nobody reads it.
unsafe impl Send for HandedOut<'_> {}
// SAFETY: as above.
unsafe impl Sync for HandedOut<'_> {}

/// Lies in the checker's memory until the checker goes.
pub(super) struct Handed {
    raw: UnsafeCell<RawCallbacks>,
    next: *mut Handed,
}

impl HandedOut<'_> {
    /// What to pass as `pAllocator`. Valid until the checker goes.
    #[must_use]
    pub const fn as_ptr(&self) -> *const RawCallbacks {
        // SAFETY: the address of a field of a placed struct; nothing is read.
        unsafe { (&raw const (*self.at.as_ptr()).raw).cast() }
    }

    /// Overwrites the struct with functions that report whoever calls them (V6) and pass the call on.
    ///
    /// # Safety
    /// No command that was given the struct is running.
    pub unsafe fn poison(&self) {
        // SAFETY: placed, and only shared.
        let cell = unsafe { &(*self.at.as_ptr()).raw };
        // SAFETY: the caller's promise: nobody reads it now.
        let raw = unsafe { &mut *cell.get() };
        *raw = traps(raw);
    }
}

impl Handed {
    pub(super) fn place<'c>(memory: Memory<'_>, list: &AtomicPtr<Self>, raw: RawCallbacks) -> Result<HandedOut<'c>, HostError> {
        let mut next = list.load(Ordering::Acquire);
        let at = place(memory, Self { raw: UnsafeCell::new(raw), next })?;
        while let Err(other) = list.compare_exchange_weak(next, at.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            next = other;
            // SAFETY: nobody else knows the entry yet.
            unsafe { (*at.as_ptr()).next = next };
        }
        Ok(HandedOut { at, checker: PhantomData })
    }

    /// # Safety
    /// The list's entries were placed in this memory, and are used no more.
    pub(super) unsafe fn take_all(memory: Memory<'_>, list: &AtomicPtr<Self>) {
        let mut next = NonNull::new(list.load(Ordering::Acquire));
        while let Some(at) = next {
            // SAFETY: the caller's promise.
            next = NonNull::new(unsafe { take_back(memory, at) }.next);
        }
    }
}
