//! The application's allocator, with planted defects.
//!
//! It passes every call on, except for requests of a planted defect, which it recognises by their size or alignment.

use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use crate::defect::Defect;
use vk_callbacks::CallbackSink;
use vk_callbacks::raw::{RawCallbacks, RawNotice, RawRequest};

/// An alignment that the allocator ignores.
pub(crate) const MISALIGNED: usize = 256;
/// A size that it refuses, as any allocator would.
pub(crate) const REFUSED: usize = isize::MAX as usize / 2;
/// A size for which it returns the same block twice.
pub(crate) const ADDRESS_REUSED: usize = 2001;
/// The size of a block that it keeps at a reallocation to 0.
pub(crate) const KEPT_AT_ZERO: usize = 2002;
/// A size for which it returns the block whose reallocation it refused.
pub(crate) const ALSO_FREED_BEHIND: usize = 33;
/// A size for which it calls a command.
pub(crate) const CALLS_BACK: usize = 2003;
/// A size for which it waits until another thread has freed the block.
pub(crate) const IN_TRANSIT: usize = 2004;

/// The actions of the allocator during a reallocation.
pub trait Interruption: Sync {
    /// Calls a Vulkan command, which no callback may (V25).
    fn call_a_command(&self);

    /// Lets another thread continue, and waits until it has freed the block.
    fn run_concurrent_free(&self);
}

/// Callbacks with the defects of an application's allocator, around correct callbacks. Does not move while they are
/// used.
pub struct FaultyAllocator<'a> {
    inner: RawCallbacks,
    defect: Option<Defect>,
    interruption: &'a dyn Interruption,
    /// The block to return again, or whose reallocation was refused.
    remembered: AtomicPtr<c_void>,
    _pinned: PhantomPinned,
}

impl fmt::Debug for FaultyAllocator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyAllocator").field("defect", &self.defect).finish_non_exhaustive()
    }
}

impl<'a> FaultyAllocator<'a> {
    /// Around `inner`, with the defect if it is one of these; else it only passes calls on.
    ///
    /// # Safety
    /// The functions of `inner` may be called from any thread as long as those of [`raw`](Self::raw) are.
    #[must_use]
    pub const unsafe fn new(inner: RawCallbacks, defect: Option<Defect>, interruption: &'a dyn Interruption) -> Self {
        Self { inner, defect, interruption, remembered: AtomicPtr::new(ptr::null_mut()), _pinned: PhantomPinned }
    }

    /// The C struct, without the function that a defect omits.
    #[must_use]
    pub fn raw(self: Pin<&Self>) -> RawCallbacks {
        let here = ptr::from_ref(self.get_ref()).cast_mut().cast();
        let whole = RawCallbacks::of_sink::<Self>(here);
        match self.defect {
            Some(Defect::MissingAllocation) => RawCallbacks { pfn_allocation: None, ..whole },
            Some(Defect::MissingReallocation) => RawCallbacks { pfn_reallocation: None, ..whole },
            Some(Defect::MissingFree) => RawCallbacks { pfn_free: None, ..whole },
            Some(Defect::HalfInternal) => RawCallbacks { pfn_internal_free: None, ..whole },
            _ => whole,
        }
    }

    fn pass_on(&self, request: RawRequest) -> *mut c_void {
        // SAFETY: `new` demands functions that may be called; the arguments are the caller's.
        unsafe { self.inner.allocation(request) }
    }
}

impl CallbackSink for FaultyAllocator<'_> {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        match (self.defect, request.size, request.align) {
            (Some(Defect::MisalignedAnswer), _, MISALIGNED) => {
                let block = self.pass_on(RawRequest { size: request.size + 2 * MISALIGNED, ..request });
                self.remembered.store(block, SeqCst);
                if block.is_null() { block } else { block.wrapping_byte_add(MISALIGNED / 2) }
            }
            (Some(Defect::LiveBlockGivenAgain), ADDRESS_REUSED, _) => {
                let before = self.remembered.swap(ptr::null_mut(), SeqCst);
                if !before.is_null() {
                    return before;
                }
                let block = self.pass_on(request);
                self.remembered.store(block, SeqCst);
                block
            }
            (Some(Defect::OldBlockGivenAway), ALSO_FREED_BEHIND, _) => self.remembered.swap(ptr::null_mut(), SeqCst),
            (Some(Defect::OtherErrorAfterNull), REFUSED, _) => ptr::null_mut(),
            _ => self.pass_on(request),
        }
    }

    unsafe fn reallocation(&self, old: *mut c_void, request: RawRequest) -> *mut c_void {
        match (self.defect, request.size) {
            (Some(Defect::OldBlockGivenAway), REFUSED) => {
                self.remembered.store(old, SeqCst);
                return ptr::null_mut();
            }
            (Some(Defect::ZeroAnswered), 0) => return old,
            (Some(Defect::CommandInCallback), CALLS_BACK) => self.interruption.call_a_command(),
            (Some(Defect::FreedInTransit), IN_TRANSIT) => self.interruption.run_concurrent_free(),
            _ => {}
        }
        // SAFETY: `new` demands functions that may be called; the arguments are the caller's.
        unsafe { self.inner.reallocation(old, request) }
    }

    unsafe fn free(&self, mut block: *mut c_void) {
        if self.defect == Some(Defect::MisalignedAnswer) {
            let whole = self.remembered.load(SeqCst);
            if !whole.is_null() && block == whole.wrapping_byte_add(MISALIGNED / 2) {
                self.remembered.store(ptr::null_mut(), SeqCst);
                block = whole;
            }
        }
        // SAFETY: `new` demands functions that may be called; the arguments are the caller's.
        unsafe { self.inner.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        // SAFETY: `new` demands functions that may be called; the arguments are the caller's.
        unsafe { self.inner.notification(notice) }
    }
}
