//! ```text
//!   base                         opened                                    base + pages
//!   |  every page is inaccessible   |  as it was reserved: allocates nothing, and where the kernel |
//!   |  until it is provided         |  counts what is promised, not that either                    |
//! ```

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Content, OsRefusal, system};
use crate::mode::BackEnd;

/// The system calls of one back end, on whole pages of one region that are the caller's. Any thread may call at any
/// time.
pub(crate) trait PageCalls: Sync {
    fn back_end(&self) -> BackEnd;

    /// A power of two.
    fn page_bytes(&self) -> usize {
        system::page_size()
    }

    /// None of the addresses can be accessed; no memory is allocated but page tables.
    fn reserve(&self, bytes: usize) -> Result<usize, OsRefusal>;

    /// # Safety
    /// The region is no longer used.
    unsafe fn release(&self, base: usize, bytes: usize);

    /// Called once for each page before it is provided, by one thread at a time.
    ///
    /// # Safety
    /// None of the pages was provided yet.
    unsafe fn open(&self, _base: usize, _bytes: usize) -> Result<(), OsRefusal> {
        Ok(())
    }

    /// Makes pages accessible, filled with `pattern`, or else with zeros. After an error nothing was provided.
    ///
    /// # Safety
    /// The pages are the caller's, opened, not provided. `pattern` is one readable page, page-aligned.
    unsafe fn provide(&self, base: usize, bytes: usize, pattern: Option<NonNull<u8>>) -> Result<Content, OsRefusal>;

    /// Makes pages inaccessible at once and returns their memory to the system. After an error they may still be
    /// accessible, and are still the caller's.
    ///
    /// # Safety
    /// Pages of the caller's, opened, whose content nobody uses again.
    unsafe fn close(&self, base: usize, bytes: usize) -> Result<(), OsRefusal>;

    /// [`close`](Self::close) of exactly the pages of one call that provided them. After an error nothing has
    /// changed.
    ///
    /// # Safety
    /// Pages of the caller's, opened, whose content nobody uses again.
    unsafe fn revoke(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages of the caller's, opened, whose content nobody uses again.
        unsafe { self.close(base, bytes) }
    }

    /// Moves the content of a provided page to one that is opened and not provided: `from` is inaccessible at once,
    /// `to` accessible. `false`: nothing has changed.
    ///
    /// # Safety
    /// Both pages are the caller's, and no thread may access `from` again.
    unsafe fn pass_on(&self, _from: usize, _to: usize) -> bool {
        false
    }

    /// Makes a page accessible so that a stopped access can continue. Async-signal-safe; acquires no lock.
    fn land(&self, base: usize, bytes: usize, is_opened: bool) -> bool;
}

const SEGMENT: usize = 64 << 20;
const OPEN_GUARDS: usize = 32;

pub(crate) struct Region {
    calls: &'static dyn PageCalls,
    base: usize,
    pages: usize,
    shift: u32,
    opened: AtomicUsize,
    /// An access landed: pages that are not provided may hold what a program wrote.
    landed: AtomicBool,
    /// Landed pages to close again, plus 1; 0 = none. Without room a page stays open.
    open_guards: [AtomicUsize; OPEN_GUARDS],
}

impl Region {
    pub(crate) fn reserve(calls: &'static dyn PageCalls, pages: usize) -> Result<Self, OsRefusal> {
        let page = calls.page_bytes();
        let bytes = pages.checked_mul(page).filter(|bytes| *bytes <= isize::MAX as usize);
        Ok(Self {
            calls,
            // No system has so many bytes.
            base: calls.reserve(bytes.unwrap_or(usize::MAX))?,
            pages,
            shift: page.trailing_zeros(),
            opened: AtomicUsize::new(0),
            landed: AtomicBool::new(false),
            open_guards: [const { AtomicUsize::new(0) }; OPEN_GUARDS],
        })
    }

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

    #[cfg(all(test, not(miri)))]
    pub(crate) fn page_of(&self, address: usize) -> Option<usize> {
        let page = address.wrapping_sub(self.base) >> self.shift;
        (page < self.pages).then_some(page)
    }

    /// As [`PageCalls::provide`]. The pages' former content is gone.
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
            // SAFETY: the caller's pages, not provided: they have no valid content.
            unsafe { self.calls.close(base, bytes) }?;
        }
        // SAFETY: opened above; the caller's, and not provided; `pattern` is a page.
        unsafe { self.calls.provide(base, bytes, pattern) }
    }

    /// As [`PageCalls::revoke`].
    ///
    /// # Safety
    /// Exactly the pages of one call that provided them, and no thread may access them again.
    pub(crate) unsafe fn revoke(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        // SAFETY: provided in one call; nobody uses their content again.
        unsafe { self.calls.revoke(self.address_of(first), count << self.shift) }
    }

    /// As [`PageCalls::pass_on`]. An error: `to` cannot be opened, and nothing has changed.
    ///
    /// # Safety
    /// Both pages are the caller's, `from` is provided and `to` is not, and no thread may access `from` again.
    pub(crate) unsafe fn pass_on(&self, from: usize, to: usize) -> Result<bool, OsRefusal> {
        self.open_up_to(to + 1)?;
        // SAFETY: `to` is opened; no thread accesses `from` again.
        Ok(unsafe { self.calls.pass_on(self.address_of(from), self.address_of(to)) })
    }

    /// As [`PageCalls::land`]; the page holds zeros. It stays accessible until it is provided and revoked or, if
    /// `to_close`, until [`close_again`](Self::close_again).
    pub(crate) fn land(&self, page: usize, to_close: bool) -> bool {
        if to_close {
            // If the page is closed meanwhile, the access is stopped a second time.
            let _ = self.exchange_guard(0, page + 1);
        }
        self.landed.store(true, Ordering::Release);
        let is_opened = page < self.opened.load(Ordering::Acquire);
        self.calls.land(self.address_of(page), 1 << self.shift, is_opened)
    }

    pub(crate) fn has_landed(&self) -> bool {
        self.landed.load(Ordering::Acquire)
    }

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
        self.open_guards
            .iter()
            .any(|place| place.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok())
    }

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
            let target = end.div_ceil(segment).saturating_mul(segment).min(self.pages);
            // SAFETY: nothing was provided in there yet.
            unsafe { self.calls.open(self.address_of(opened), (target - opened) << self.shift) }?;
            self.opened.store(target, Ordering::Release);
            Ok(())
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: no page of a dropped region is in use.
        unsafe { self.calls.release(self.base, self.pages << self.shift) };
    }
}
