//! The interface of a reserved run of pages, so that a test can replace the system's.

use super::{Content, OsRefusal};
use crate::mode::BackEnd;

/// A reserved run of pages, none of which can be accessed until it is provided. Pages are counted from 0; all calls may come from any
/// thread, on pages that are the caller's.
pub(crate) trait Pages: Sized + Send + Sync {
    /// Reserves addresses; allocates no memory but page tables.
    ///
    /// # Errors
    /// The back end is not offered, or the addresses cannot be reserved.
    fn reserve(back_end: BackEnd, pages: usize) -> Result<Self, OsRefusal>;
    /// Address of the first page.
    fn base(&self) -> usize;
    fn pages(&self) -> usize;
    fn back_end(&self) -> BackEnd;
    fn page_bytes() -> usize;

    /// Makes pages accessible: read and write. Their former content is gone.
    ///
    /// # Errors
    /// No memory, or no mapping: nothing was provided.
    ///
    /// # Safety
    /// The pages are the caller's and not provided. `pattern` is one readable page, page-aligned.
    unsafe fn provide(
        &self,
        first: usize,
        count: usize,
        pattern: *const u8,
    ) -> Result<Content, OsRefusal>;

    /// As [`provide`](Self::provide), filled with zeros.
    ///
    /// # Errors
    /// As `provide`.
    fn provide_zeroed(&self, first: usize, count: usize) -> Result<(), OsRefusal>;

    /// Makes pages inaccessible at once and returns their memory to the system.
    ///
    /// # Errors
    /// The kernel refuses: the pages may still be accessible, and are still the caller's.
    ///
    /// # Safety
    /// Exactly the pages of one call that provided them, and no thread may access them again.
    unsafe fn revoke(&self, first: usize, count: usize) -> Result<(), OsRefusal>;

    /// Moves the content of a provided page to one that is not: `from` is inaccessible at once, `to` accessible.
    ///
    /// `false`: not this time (the page is pinned or shared with a fork's child, or the back end cannot): nothing has changed.
    ///
    /// # Errors
    /// `to` cannot be opened: nothing has changed.
    ///
    /// # Safety
    /// Both pages are the caller's, and no thread may access `from` again.
    unsafe fn pass_on(&self, from: usize, to: usize) -> Result<bool, OsRefusal>;

    /// Makes a page accessible, filled with zeros, so that a stopped access can continue. Async-signal-safe; acquires no lock. It stays
    /// accessible until it is provided and revoked or, if `to_close`, until [`close_again`](Self::close_again). False if the kernel
    /// refuses.
    fn land(&self, page: usize, to_close: bool) -> bool;

    /// True once an access landed.
    fn has_landed(&self) -> bool;

    /// Makes a landed page that was `to_close` inaccessible again.
    ///
    /// # Safety
    /// The page is not provided.
    unsafe fn close_again(&self, page: usize);
}
