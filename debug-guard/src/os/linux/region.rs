//! A reserved run of pages, none of which is accessible until it is provided.
//!
//! ```text
//!   base                         opened                                    base + pages
//!   |  readable, but every page is   |  PROT_NONE: allocates nothing, and where the kernel        |
//!   |  missing, marked or protected  |  counts what is promised, not that either                |
//!      until provided
//! ```

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::lock::STATE;
use super::map_budget;
use super::memory::{self, Advice};
use super::userfault;
use crate::mode::BackEnd;
use crate::os::{Content, OsRefusal, Pages};

/// How many bytes are opened at once.
const SEGMENT: usize = 64 << 20;

/// A reserved run of pages under one back end.
#[derive(Debug)]
pub(crate) struct Region {
    base: usize,
    pages: usize,
    shift: u32,
    back_end: BackEnd,
    /// Pages in front of it can be provided.
    opened: AtomicUsize,
    /// An access landed: pages that are not provided may hold what a program wrote.
    landed: AtomicBool,
    /// Landed pages to close again, plus 1; 0 = none. Without room a page stays open.
    open_guards: [AtomicUsize; OPEN_GUARDS],
}

/// Landed pages that are remembered.
const OPEN_GUARDS: usize = 32;

impl Pages for Region {
    fn reserve(back_end: BackEnd, pages: usize) -> Result<Self, OsRefusal> {
        let page = super::page_size();
        let bytes = pages
            .checked_mul(page)
            .filter(|&bytes| bytes > 0 && bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or(OsRefusal::Call {
            call: "mmap",
            errno: libc::ENOMEM,
        })?;
        if back_end == BackEnd::Cookies {
            return Err(OsRefusal::Unavailable);
        }
        STATE.with(super::fork::watch)?;
        let base = memory::reserve(bytes)?;
        let region = Self {
            base,
            pages,
            shift: page.trailing_zeros(),
            back_end,
            opened: AtomicUsize::new(0),
            landed: AtomicBool::new(false),
            open_guards: [const { AtomicUsize::new(0) }; OPEN_GUARDS],
        };
        plain(base, bytes);
        match back_end {
            BackEnd::UserfaultfdMove | BackEnd::UserfaultfdCopy => {
                userfault::watch(back_end == BackEnd::UserfaultfdMove, region.base, bytes)?;
            }
            BackEnd::Mprotect => region.make_mergeable()?,
            BackEnd::GuardMarkers | BackEnd::Cookies => {}
        }
        Ok(region)
    }

    fn base(&self) -> usize {
        self.base
    }

    fn pages(&self) -> usize {
        self.pages
    }

    fn back_end(&self) -> BackEnd {
        self.back_end
    }

    fn page_bytes() -> usize {
        super::page_size()
    }

    unsafe fn provide(
        &self,
        first: usize,
        count: usize,
        pattern: *const u8,
    ) -> Result<Content, OsRefusal> {
        self.open(first, count)?;
        match self.back_end {
            BackEnd::UserfaultfdMove | BackEnd::UserfaultfdCopy => {
                // SAFETY: the caller's promise.
                unsafe {
                    userfault::provide(self.address_of(first), count, super::page_size(), pattern)
                }
            }
            _ => self.uncover(first, count).map(|()| Content::Zero),
        }
    }

    fn provide_zeroed(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        self.open(first, count)?;
        match self.back_end {
            BackEnd::UserfaultfdMove | BackEnd::UserfaultfdCopy => {
                userfault::zero(self.address_of(first), count * super::page_size())
            }
            _ => self.uncover(first, count),
        }
    }

    unsafe fn revoke(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        let (base, bytes) = (self.address_of(first), count << self.shift);
        match self.back_end {
            BackEnd::UserfaultfdMove | BackEnd::UserfaultfdCopy => {
                // SAFETY: the caller's promise.
                unsafe { memory::advise_locked(base, bytes, Advice::DISCARD) }
            }
            BackEnd::GuardMarkers => {
                // SAFETY: the caller's promise.
                unsafe { memory::advise_locked(base, bytes, Advice::INSTALL_GUARD) }
            }
            BackEnd::Mprotect => {
                // SAFETY: the caller's promise.
                unsafe { memory::protect(base, bytes, libc::PROT_NONE) }?;
                map_budget::release();
                // SAFETY: the caller's promise.
                unsafe { memory::advise_locked(base, bytes, Advice::DISCARD) }
            }
            BackEnd::Cookies => Err(OsRefusal::Unavailable),
        }
    }

    unsafe fn pass_on(&self, from: usize, to: usize) -> Result<bool, OsRefusal> {
        if self.back_end != BackEnd::UserfaultfdMove {
            return Ok(false);
        }
        self.open(to, 1)?;
        // SAFETY: the caller's promise.
        Ok(unsafe {
            userfault::move_page(
                self.address_of(from),
                self.address_of(to),
                super::page_size(),
            )
        })
    }

    fn land(&self, page: usize, to_close: bool) -> bool {
        let (base, bytes) = (self.address_of(page), 1 << self.shift);
        let errno = memory::errno();
        if to_close {
            // Before it is open: if it is closed meanwhile, the access is stopped a second time.
            let free = |place: &AtomicUsize| {
                place
                    .compare_exchange(0, page + 1, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            };
            let _ = self.open_guards.iter().any(free);
        }
        self.landed.store(true, Ordering::Release);
        let open = page < self.opened.load(Ordering::Acquire);
        if self.back_end == BackEnd::Mprotect || !open {
            // SAFETY: pages of ours become accessible; only the guard, which calls this, relies on their being inaccessible.
            let _ = unsafe { memory::protect(base, bytes, libc::PROT_READ | libc::PROT_WRITE) };
        }
        let landed = match self.back_end {
            BackEnd::UserfaultfdMove | BackEnd::UserfaultfdCopy => {
                userfault::fill(base, bytes).is_ok()
            }
            BackEnd::GuardMarkers => {
                // SAFETY: takes markers away, no content.
                unsafe { memory::advise(base, bytes, Advice::REMOVE_GUARD) }.is_ok()
            }
            BackEnd::Mprotect => memory::readable(base),
            BackEnd::Cookies => false,
        };
        memory::set_errno(errno);
        landed
    }

    fn has_landed(&self) -> bool {
        self.landed.load(Ordering::Acquire)
    }

    #[cold]
    unsafe fn close_again(&self, page: usize) {
        let closes = |place: &AtomicUsize| {
            place
                .compare_exchange(page + 1, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if !self.open_guards.iter().any(closes) {
            return;
        }
        let (base, bytes) = (self.address_of(page), 1 << self.shift);
        if self.back_end == BackEnd::GuardMarkers {
            // SAFETY: the caller's promise: the page has no valid content.
            let _ = unsafe { memory::advise_locked(base, bytes, Advice::INSTALL_GUARD) };
            return;
        }
        if self.back_end == BackEnd::Mprotect {
            // SAFETY: as above.
            let _ = unsafe { memory::protect(base, bytes, libc::PROT_NONE) };
        }
        // SAFETY: as above.
        let _ = unsafe { memory::advise_locked(base, bytes, Advice::DISCARD) };
    }
}

impl Region {
    pub(crate) fn address_of(&self, page: usize) -> usize {
        self.base + (page << self.shift)
    }

    /// The page that holds `address`; `None` outside of the region.
    #[cfg(test)]
    pub(crate) fn page_of(&self, address: usize) -> Option<usize> {
        let page = address.wrapping_sub(self.base) >> self.shift;
        (page < self.pages).then_some(page)
    }

    /// For back ends without userfaultfd: makes pages accessible.
    fn uncover(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        let (base, bytes) = (self.address_of(first), count << self.shift);
        if self.has_landed() {
            // What was written to a page that an access landed on stays in it.
            // SAFETY: the caller's pages, not provided: they have no valid content.
            unsafe { memory::advise_locked(base, bytes, Advice::DISCARD) }?;
        }
        if self.back_end == BackEnd::GuardMarkers {
            // SAFETY: takes markers away, no content.
            return unsafe { memory::advise_locked(base, bytes, Advice::REMOVE_GUARD) };
        }
        map_budget::reserve()?;
        // SAFETY: more is allowed than before.
        let provided = unsafe { memory::protect(base, bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if provided.is_err() {
            map_budget::release();
        }
        provided
    }

    /// Opens the pages, so that they can be provided.
    fn open(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        let end = first + count;
        if end <= self.opened.load(Ordering::Acquire) || self.back_end == BackEnd::Mprotect {
            Ok(())
        } else {
            self.open_up_to(end)
        }
    }

    #[cold]
    fn open_up_to(&self, end: usize) -> Result<(), OsRefusal> {
        STATE.with(|_| {
            let opened = self.opened.load(Ordering::Acquire);
            if end <= opened {
                return Ok(());
            }
            let segment = SEGMENT >> self.shift;
            let target = end
                .div_ceil(segment)
                .saturating_mul(segment)
                .min(self.pages);
            let (base, bytes) = (self.address_of(opened), (target - opened) << self.shift);
            if self.back_end == BackEnd::GuardMarkers {
                // SAFETY: nothing was provided in there yet.
                unsafe { memory::advise_locked(base, bytes, Advice::INSTALL_GUARD) }?;
            }
            // SAFETY: every page in there is missing or marked.
            unsafe { memory::protect(base, bytes, libc::PROT_READ | libc::PROT_WRITE) }?;
            self.opened.store(target, Ordering::Release);
            Ok(())
        })
    }

    /// Mappings of anonymous memory merge again only when they share what the kernel keeps of their pages' owners: one page touched now,
    /// while there is one mapping, gives it to all that this one is ever cut into.
    fn make_mergeable(&self) -> Result<(), OsRefusal> {
        let page = super::page_size();
        // SAFETY: the region is not used yet.
        unsafe { memory::protect(self.base, page, libc::PROT_READ | libc::PROT_WRITE) }?;
        // SAFETY: accessible since the line before.
        unsafe { core::ptr::with_exposed_provenance_mut::<u8>(self.base).write_volatile(0) };
        // SAFETY: the region is not used yet.
        unsafe { memory::protect(self.base, page, libc::PROT_NONE) }?;
        // SAFETY: as above.
        unsafe { memory::advise(self.base, page, Advice::DISCARD) }
    }
}

/// What all of a region is: neither locked nor of huge pages. After mlockall(MCL_FUTURE) new addresses are locked, and would be filled
/// when they are opened; a huge page would be one page of memory for 512 of ours. Kernels without huge pages answer EINVAL.
fn plain(base: usize, bytes: usize) {
    memory::unlock(base, bytes);
    // SAFETY: the pages are not used yet.
    let _ = unsafe { memory::advise(base, bytes, Advice::NO_HUGE_PAGES) };
}

impl Drop for Region {
    fn drop(&mut self) {
        if matches!(
            self.back_end,
            BackEnd::UserfaultfdMove | BackEnd::UserfaultfdCopy
        ) {
            userfault::forget(self.base);
        }
        // SAFETY: the region's own addresses; no page of a dropped region is in use.
        unsafe { memory::unmap(self.base, self.pages << self.shift) };
    }
}
