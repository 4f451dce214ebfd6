//! A temporary struct for a create command, poisoned afterwards. A driver that kept its address is found (V6).

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::HostError;

use super::entry::traps;
use crate::pinned::{Memory, allocate_pinned, push_front};
use crate::raw::RawCallbacks;

/// A struct of checked callbacks, in the checker's memory: pass [`as_ptr`](HandedOut::as_ptr) to the creating command, and
/// [`poison`](HandedOut::poison) it when the command returned.
///
/// The specification lets an application free the struct then. A driver that copied it never notices. A driver that kept its address
/// calls functions that report and pass the call on. It may read while the struct is overwritten: each word is the old or the new
/// one, and every mixture works.
#[derive(Debug)]
pub struct HandedOut<'c> {
    at: NonNull<Handed>,
    checker: PhantomData<&'c ()>,
}

// SAFETY: the struct is changed by atomic stores alone.
unsafe impl Send for HandedOut<'_> {}
// SAFETY: as above.
unsafe impl Sync for HandedOut<'_> {}

/// A node in the checker's memory.
pub(super) struct Handed {
    raw: Words,
    /// The original struct.
    passed: RawCallbacks,
    pub(super) next: AtomicPtr<Handed>,
}

/// The struct, word by word.
///
/// ```text
///   0           8               16                24        32                      40                48 (on 64 bits)
///   | pUserData | pfnAllocation | pfnReallocation | pfnFree | pfnInternalAllocation | pfnInternalFree |
/// ```
#[repr(C)]
pub(super) struct Words([AtomicPtr<c_void>; 6]);

const _: () = assert!(
    size_of::<Words>() == size_of::<RawCallbacks>()
        && align_of::<Words>() == align_of::<RawCallbacks>()
);

impl Words {
    fn new(raw: &RawCallbacks) -> Self {
        Self(Self::of(raw).map(AtomicPtr::new))
    }

    pub(super) fn of(raw: &RawCallbacks) -> [*mut c_void; 6] {
        let null = ptr::null_mut();
        [
            raw.p_user_data,
            raw.pfn_allocation.map_or(null, |call| call as _),
            raw.pfn_reallocation.map_or(null, |call| call as _),
            raw.pfn_free.map_or(null, |call| call as _),
            raw.pfn_internal_allocation.map_or(null, |call| call as _),
            raw.pfn_internal_free.map_or(null, |call| call as _),
        ]
    }
}

impl HandedOut<'_> {
    /// The `pAllocator` to pass. Valid until the checker ends.
    #[must_use]
    pub const fn as_ptr(&self) -> *const RawCallbacks {
        // SAFETY: the address of a field of a placed struct; nothing is read.
        unsafe { (&raw const (*self.at.as_ptr()).raw).cast() }
    }

    /// Overwrites the struct with functions that report each call (V6) and pass it on.
    ///
    /// # Safety
    /// No command that got the struct is running: a correct driver does not read it now.
    pub unsafe fn poison(&self) {
        // SAFETY: placed, and only shared.
        let handed = unsafe { self.at.as_ref() };
        // The user data stays, and each function still does its work: a driver that reads meanwhile has callbacks that work.
        for (word, trap) in handed.raw.0.iter().zip(Words::of(&traps(&handed.passed))) {
            word.store(trap, Ordering::Relaxed);
        }
    }
}

impl Handed {
    pub(super) fn place<'c>(
        memory: Memory<'_>,
        list: &AtomicPtr<Self>,
        raw: RawCallbacks,
    ) -> Result<HandedOut<'c>, HostError> {
        let handed = Self {
            raw: Words::new(&raw),
            passed: raw,
            next: AtomicPtr::new(ptr::null_mut()),
        };
        let at = allocate_pinned(memory, handed)?;
        // SAFETY: just placed; it stays until the checker ends, and is only shared.
        let next = unsafe { &at.as_ref().next };
        // SAFETY: in no list yet, with its own link; it stays until the checker ends.
        unsafe { push_front(list, at, next) };
        Ok(HandedOut {
            at,
            checker: PhantomData,
        })
    }
}
