//! A reserved run of pages, none of which is accessible until it is provided, and the calls that a back end makes for it.
//!
//! ```text
//!   base                         opened                                    base + pages
//!   |  every page is inaccessible   |  as it was reserved: allocates nothing, and where the kernel |
//!   |  until it is provided         |  counts what is promised, not that either                    |
//! ```

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Content, OsRefusal, system};
use crate::mode::BackEnd;

/// The system calls of one back end. `base` and `bytes` are whole pages of one region. Any thread may call at any time, on pages that are
/// the caller's.
pub(crate) trait PageCalls: Sync {
    fn back_end(&self) -> BackEnd;

    /// Bytes of a page, a power of two.
    fn page_bytes(&self) -> usize {
        system::page_size()
    }

    /// Reserves addresses, none of which can be accessed; allocates no memory but page tables.
    ///
    /// # Errors
    /// The back end is not offered, or the addresses cannot be reserved.
    fn reserve(&self, bytes: usize) -> Result<usize, OsRefusal>;

    /// Returns the addresses of [`reserve`](Self::reserve).
    ///
    /// # Safety
    /// The region is no longer used.
    unsafe fn release(&self, base: usize, bytes: usize);

    /// Prepares pages of a region, in some systems' terms, so that they can be provided. Called once for each page, the first ones first,
    /// by one thread at a time.
    ///
    /// # Errors
    /// The pages cannot be provided.
    ///
    /// # Safety
    /// None of the pages was provided yet.
    unsafe fn open(&self, _base: usize, _bytes: usize) -> Result<(), OsRefusal> {
        Ok(())
    }

    /// Makes pages accessible, filled with `pattern`, one page, or else with zeros.
    ///
    /// # Errors
    /// No memory, or no mapping: nothing was provided.
    ///
    /// # Safety
    /// The pages are the caller's, opened, not provided. `pattern` is one readable page, page-aligned.
    unsafe fn provide(
        &self,
        base: usize,
        bytes: usize,
        pattern: Option<NonNull<u8>>,
    ) -> Result<Content, OsRefusal>;

    /// Makes pages inaccessible at once and returns their memory to the system.
    ///
    /// # Errors
    /// The pages may still be accessible, and are still the caller's.
    ///
    /// # Safety
    /// Pages of the caller's, opened, whose content nobody uses again.
    unsafe fn close(&self, base: usize, bytes: usize) -> Result<(), OsRefusal>;

    /// [`close`](Self::close) of exactly the pages of one call that provided them.
    ///
    /// # Errors
    /// Nothing has changed: the pages are accessible, and still the caller's.
    ///
    /// # Safety
    /// As there.
    unsafe fn revoke(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages of the caller's, opened, whose content nobody uses again.
        unsafe { self.close(base, bytes) }
    }

    /// Moves the content of a provided page to one that is opened and not provided: `from` is inaccessible at once, `to` accessible.
    /// `false`: not this time, or never; nothing has changed.
    ///
    /// # Safety
    /// Both pages are the caller's, and no thread may access `from` again.
    unsafe fn pass_on(&self, _from: usize, _to: usize) -> bool {
        false
    }

    /// Makes a page accessible so that a stopped access can continue. Async-signal-safe; acquires no lock. False if the system refuses.
    fn land(&self, base: usize, bytes: usize, is_opened: bool) -> bool;
}

/// How many bytes are opened at once.
const SEGMENT: usize = 64 << 20;
/// Landed pages that are remembered.
const OPEN_GUARDS: usize = 32;

/// A reserved run of pages under one back end. Pages are counted from 0.
pub(crate) struct Region {
    calls: &'static dyn PageCalls,
    base: usize,
    pages: usize,
    shift: u32,
    /// Pages in front of it can be provided.
    opened: AtomicUsize,
    /// An access landed: pages that are not provided may hold what a program wrote.
    landed: AtomicBool,
    /// Landed pages to close again, plus 1; 0 = none. Without room a page stays open.
    open_guards: [AtomicUsize; OPEN_GUARDS],
}

impl Region {
    /// Reserves `pages` pages.
    ///
    /// # Errors
    /// As [`PageCalls::reserve`].
    pub(crate) fn reserve(calls: &'static dyn PageCalls, pages: usize) -> Result<Self, OsRefusal> {
        let page = calls.page_bytes();
        let bytes = pages
            .checked_mul(page)
            .filter(|bytes| *bytes <= isize::MAX as usize);
        Ok(Self {
            calls,
            // No system has so many that the number of the bytes overflows.
            base: calls.reserve(bytes.unwrap_or(usize::MAX))?,
            pages,
            shift: page.trailing_zeros(),
            opened: AtomicUsize::new(0),
            landed: AtomicBool::new(false),
            open_guards: [const { AtomicUsize::new(0) }; OPEN_GUARDS],
        })
    }

    /// Address of the first page.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    pub(crate) fn back_end(&self) -> BackEnd {
        self.calls.back_end()
    }

    pub(crate) fn page_bytes(&self) -> usize {
        1 << self.shift
    }

    pub(crate) fn address_of(&self, page: usize) -> usize {
        self.base + (page << self.shift)
    }

    /// The page that holds `address`; `None` outside of the region.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn page_of(&self, address: usize) -> Option<usize> {
        let page = address.wrapping_sub(self.base) >> self.shift;
        (page < self.pages).then_some(page)
    }

    /// Makes pages accessible, filled with `pattern`, one page, or else with zeros. Their former content is gone.
    ///
    /// # Errors
    /// No memory, or no mapping: nothing was provided.
    ///
    /// # Safety
    /// The pages are the caller's and not provided. `pattern` is one readable page, page-aligned.
    pub(crate) unsafe fn provide(
        &self,
        first: usize,
        count: usize,
        pattern: Option<NonNull<u8>>,
    ) -> Result<Content, OsRefusal> {
        self.open_up_to(first + count)?;
        let (base, bytes) = (self.address_of(first), count << self.shift);
        if self.has_landed() {
            // What was written to a page that an access landed on stays in it.
            // SAFETY: the caller's pages, not provided: they have no valid content.
            unsafe { self.calls.close(base, bytes) }?;
        }
        // SAFETY: opened above; the pages are the caller's and not provided, and `pattern` is a page.
        unsafe { self.calls.provide(base, bytes, pattern) }
    }

    /// As [`PageCalls::revoke`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// Exactly the pages of one call that provided them, and no thread may access them again.
    pub(crate) unsafe fn revoke(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages that were provided in one call, and that no thread accesses again: their content is used by nobody.
        unsafe {
            self.calls
                .revoke(self.address_of(first), count << self.shift)
        }
    }

    /// As [`PageCalls::pass_on`].
    ///
    /// # Errors
    /// `to` cannot be opened: nothing has changed.
    ///
    /// # Safety
    /// Both pages are the caller's, `from` is provided and `to` is not, and no thread may access `from` again.
    pub(crate) unsafe fn pass_on(&self, from: usize, to: usize) -> Result<bool, OsRefusal> {
        self.open_up_to(to + 1)?;
        // SAFETY: `to` is opened above; both pages are the caller's, and no thread accesses `from` again.
        Ok(unsafe {
            self.calls
                .pass_on(self.address_of(from), self.address_of(to))
        })
    }

    /// Makes a page accessible, filled with zeros, so that a stopped access can continue. Async-signal-safe; acquires no lock. It stays
    /// accessible until it is provided and revoked or, if `to_close`, until [`close_again`](Self::close_again). False if the kernel
    /// refuses.
    pub(crate) fn land(&self, page: usize, to_close: bool) -> bool {
        if to_close {
            // Before it is open: if it is closed meanwhile, the access is stopped a second time.
            let _ = self.exchange_guard(0, page + 1);
        }
        self.landed.store(true, Ordering::Release);
        let is_opened = page < self.opened.load(Ordering::Acquire);
        self.calls
            .land(self.address_of(page), 1 << self.shift, is_opened)
    }

    /// True once an access landed.
    pub(crate) fn has_landed(&self) -> bool {
        self.landed.load(Ordering::Acquire)
    }

    /// Makes a landed page that was `to_close` inaccessible again.
    ///
    /// # Safety
    /// The page is not provided.
    #[cold]
    pub(crate) unsafe fn close_again(&self, page: usize) {
        if self.exchange_guard(page + 1, 0) {
            // SAFETY: the page is not provided, so it has no valid content.
            let _ = unsafe { self.calls.close(self.address_of(page), 1 << self.shift) };
        }
    }

    fn exchange_guard(&self, from: usize, to: usize) -> bool {
        self.open_guards.iter().any(|place| {
            place
                .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// Opens the pages in front of `end`, a segment at a time.
    fn open_up_to(&self, end: usize) -> Result<(), OsRefusal> {
        if end <= self.opened.load(Ordering::Acquire) {
            return Ok(());
        }
        system::without_forks(|| {
            let opened = self.opened.load(Ordering::Acquire);
            if end <= opened {
                return Ok(());
            }
            let segment = (SEGMENT >> self.shift).max(1);
            let target = end
                .div_ceil(segment)
                .saturating_mul(segment)
                .min(self.pages);
            // SAFETY: nothing was provided in there yet.
            unsafe {
                self.calls
                    .open(self.address_of(opened), (target - opened) << self.shift)
            }?;
            self.opened.store(target, Ordering::Release);
            Ok(())
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region's own addresses; no page of a dropped region is in use.
        unsafe { self.calls.release(self.base, self.pages << self.shift) };
    }
}
