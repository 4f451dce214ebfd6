//! What slots ask of a region of the system, so that a test's can stand in for it.

use crate::mode::BackEnd;
use crate::os::{Content, OsRefusal, Region};

/// A run of pages, none of which can be touched until it is provided. See [`Region`], which is the real one.
pub(crate) trait Pages: Sized + Send + Sync {
    fn reserve(back_end: BackEnd, pages: usize) -> Result<Self, OsRefusal>;
    fn base(&self) -> usize;
    fn pages(&self) -> usize;
    fn back_end(&self) -> BackEnd;
    fn page_bytes() -> usize;

    /// # Safety
    /// The pages are the caller's and not provided; `pattern` is a page.
    unsafe fn provide(
        &self,
        first: usize,
        count: usize,
        pattern: *const u8,
    ) -> Result<Content, OsRefusal>;
    fn provide_zeroed(&self, first: usize, count: usize) -> Result<(), OsRefusal>;

    /// # Safety
    /// Exactly what was provided in one call, and nobody uses it any more.
    unsafe fn revoke(&self, first: usize, count: usize) -> Result<(), OsRefusal>;

    /// # Safety
    /// `from` is provided and nobody's, `to` is the caller's and is not provided.
    unsafe fn pass_on(&self, from: usize, to: usize) -> Result<bool, OsRefusal>;

    /// What the system keeps of these pages may go.
    ///
    /// # Safety
    /// Nothing of them is provided, and nothing will be before this returns.
    unsafe fn retire(&self, first: usize, count: usize);
    fn land(&self, page: usize, to_close: bool) -> bool;
    fn has_landed(&self) -> bool;

    /// # Safety
    /// The page is not provided.
    unsafe fn close_again(&self, page: usize);
}

impl Pages for Region {
    fn reserve(back_end: BackEnd, pages: usize) -> Result<Self, OsRefusal> {
        Self::reserve(back_end, pages)
    }
    #[inline]
    fn base(&self) -> usize {
        self.base()
    }
    fn pages(&self) -> usize {
        self.pages()
    }
    fn back_end(&self) -> BackEnd {
        self.back_end()
    }
    fn page_bytes() -> usize {
        crate::os::page_size()
    }
    unsafe fn provide(
        &self,
        first: usize,
        count: usize,
        pattern: *const u8,
    ) -> Result<Content, OsRefusal> {
        // SAFETY: the caller's promise.
        unsafe { self.provide(first, count, pattern) }
    }
    fn provide_zeroed(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        self.provide_zeroed(first, count)
    }
    unsafe fn revoke(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        // SAFETY: the caller's promise.
        unsafe { self.revoke(first, count) }
    }
    unsafe fn pass_on(&self, from: usize, to: usize) -> Result<bool, OsRefusal> {
        // SAFETY: the caller's promise.
        unsafe { self.pass_on(from, to) }
    }
    unsafe fn retire(&self, first: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.retire(first, count) };
    }
    fn land(&self, page: usize, to_close: bool) -> bool {
        self.land(page, to_close)
    }
    #[inline]
    fn has_landed(&self) -> bool {
        self.has_landed()
    }
    unsafe fn close_again(&self, page: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.close_again(page) };
    }
}
