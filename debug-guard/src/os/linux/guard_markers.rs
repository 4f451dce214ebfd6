use core::ptr::NonNull;

use super::memory::{self, Advice};
use crate::mode::BackEnd;
use crate::os::{Content, OsRefusal, PageCalls};

pub(super) struct GuardMarkers;

impl PageCalls for GuardMarkers {
    fn back_end(&self) -> BackEnd {
        BackEnd::GuardMarkers
    }

    fn reserve(&self, bytes: usize) -> Result<usize, OsRefusal> {
        memory::reserve_for_blocks(bytes)
    }

    unsafe fn release(&self, base: usize, bytes: usize) {
        // SAFETY: the region is no longer used.
        unsafe { memory::unmap(base, bytes) };
    }

    unsafe fn open(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: none of the pages was provided.
        unsafe { self.close(base, bytes) }?;
        // SAFETY: every page in there is marked.
        unsafe { memory::unprotect(base, bytes) }
    }

    unsafe fn provide(&self, base: usize, bytes: usize, _: Option<NonNull<u8>>) -> Result<Content, OsRefusal> {
        // SAFETY: takes markers away, no content.
        unsafe { memory::advise_locked(base, bytes, Advice::REMOVE_GUARD) }.map(|()| Content::Zero)
    }

    unsafe fn close(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages of the caller's, whose content nobody uses again.
        unsafe { memory::advise_locked(base, bytes, Advice::INSTALL_GUARD) }
    }

    fn land(&self, base: usize, bytes: usize, is_opened: bool) -> bool {
        memory::keeping_errno(|| {
            if !is_opened {
                // SAFETY: only the guard, which calls this, relies on inaccessible pages.
                let _ = unsafe { memory::unprotect(base, bytes) };
            }
            // SAFETY: takes a marker away, no content.
            unsafe { memory::advise(base, bytes, Advice::REMOVE_GUARD) }.is_ok()
        })
    }
}
