use core::ptr::NonNull;
use core::sync::atomic::{AtomicIsize, Ordering};

use super::maps;
use super::memory::{self, Advice};
use super::process::{number, page_size};
use crate::mode::BackEnd;
use crate::os::{Content, OsRefusal, PageCalls};

pub(super) struct Mprotect;

impl PageCalls for Mprotect {
    fn back_end(&self) -> BackEnd {
        BackEnd::Mprotect
    }

    fn reserve(&self, bytes: usize) -> Result<usize, OsRefusal> {
        let base = memory::reserve_for_blocks(bytes)?;
        let mergeable = make_mergeable(base);
        if mergeable.is_err() {
            // SAFETY: reserved above, not used.
            unsafe { memory::unmap(base, bytes) };
        }
        mergeable.map(|()| base)
    }

    unsafe fn release(&self, base: usize, bytes: usize) {
        // SAFETY: the region is no longer used.
        unsafe { memory::unmap(base, bytes) };
    }

    unsafe fn provide(&self, base: usize, bytes: usize, _: Option<NonNull<u8>>) -> Result<Content, OsRefusal> {
        reserve_run()?;
        // SAFETY: more is allowed than before.
        let provided = unsafe { memory::unprotect(base, bytes) };
        if provided.is_err() {
            release_run();
        }
        provided.map(|()| Content::Zero)
    }

    unsafe fn close(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages of the caller's, whose content nobody uses again.
        unsafe { memory::protect(base, bytes, libc::PROT_NONE) }?;
        // SAFETY: nobody uses their content again.
        unsafe { memory::advise_locked(base, bytes, Advice::DISCARD) }
    }

    unsafe fn revoke(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages of the caller's, opened, whose content nobody uses again.
        let closed = unsafe { self.close(base, bytes) };
        if closed.is_ok() {
            release_run();
        } else {
            // SAFETY: they are still the caller's, who writes to them.
            let _ = unsafe { memory::unprotect(base, bytes) };
        }
        closed
    }

    fn land(&self, base: usize, bytes: usize, _: bool) -> bool {
        memory::keeping_errno(|| {
            // SAFETY: only the guard, which calls this, relies on inaccessible pages.
            unsafe { memory::unprotect(base, bytes) }.is_ok()
        })
    }
}

/// Mappings of anonymous memory merge again only when they share what the kernel keeps of their pages' owners: one
/// page touched now, while there is one mapping, gives it to all that this one is ever cut into.
fn make_mergeable(base: usize) -> Result<(), OsRefusal> {
    let page = page_size();
    // SAFETY: the region is not used yet.
    unsafe { memory::unprotect(base, page) }?;
    // SAFETY: accessible since the line before.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(base).write_volatile(0) };
    // SAFETY: the page has no valid content.
    unsafe { Mprotect.close(base, page) }
}

const RESERVED_MAPPINGS: usize = 8192;

/// Runs of pages that may still be provided.
static REMAINING: AtomicIsize = AtomicIsize::new(UNKNOWN);
const UNKNOWN: isize = isize::MIN;

fn reserve_run() -> Result<(), OsRefusal> {
    if REMAINING.load(Ordering::Relaxed) == UNKNOWN {
        let _ = REMAINING.compare_exchange(UNKNOWN, counted(), Ordering::Relaxed, Ordering::Relaxed);
    }
    match REMAINING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left > 0).then_some(left - 1)) {
        Ok(_) => Ok(()),
        Err(_) => Err(OsRefusal::MapBudget),
    }
}

fn release_run() {
    REMAINING.fetch_add(1, Ordering::Relaxed);
}

/// Two mappings a run: itself, and the rest of the mapping that it splits.
fn counted() -> isize {
    let spare = limit().saturating_sub(maps::count_mappings()).saturating_sub(RESERVED_MAPPINGS);
    isize::try_from(spare / 2).unwrap_or(0)
}

/// The kernel's default if the limit cannot be read.
fn limit() -> usize {
    let limit = number(c"/proc/sys/vm/max_map_count", b"");
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(65_530)
}
