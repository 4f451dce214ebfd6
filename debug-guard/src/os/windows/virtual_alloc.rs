//! A page is committed while it is provided. The system counts the bytes, not the runs of pages.

use core::ptr::NonNull;

use super::memory;
use crate::mode::BackEnd;
use crate::os::{Content, OsRefusal, PageCalls};

pub(super) struct VirtualAlloc;

impl PageCalls for VirtualAlloc {
    fn back_end(&self) -> BackEnd {
        BackEnd::VirtualAlloc
    }

    fn reserve(&self, bytes: usize) -> Result<usize, OsRefusal> {
        memory::reserve(bytes)
    }

    unsafe fn release(&self, base: usize, _: usize) {
        // SAFETY: the region is no longer used.
        unsafe { memory::release(base) };
    }

    unsafe fn provide(&self, base: usize, bytes: usize, _: Option<NonNull<u8>>) -> Result<Content, OsRefusal> {
        // SAFETY: more is allowed than before.
        unsafe { memory::commit(base, bytes) }.map(|()| Content::Zero)
    }

    unsafe fn close(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages of the caller's, whose content nobody uses again.
        unsafe { memory::decommit(base, bytes) }
    }

    fn land(&self, base: usize, bytes: usize, _: bool) -> bool {
        memory::keeping_error(|| {
            // SAFETY: only the guard, which calls this, relies on inaccessible pages.
            unsafe { memory::commit(base, bytes) }.is_ok()
        })
    }
}
