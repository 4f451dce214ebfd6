//! A thread's cache: ready pages, claimed cells, recently freed blocks.
//!
//! A few caches serve all threads: a thread uses the one of its number, or another one if that is locked. So a thread that ends leaves
//! nothing that others cannot use.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator};

use super::free_lists::{Chain, PrefetchRing, SmallStack};
use super::table::{SCOPE, SideTable};
use crate::lock::{Abandoned, ForkSafeMutex, ForkSafeMutexGuard, relax};

/// Number of caches; the state word of a block has 4 bits for it.
const COUNT: usize = 16;

#[derive(Debug)]
pub(super) struct PageCache {
    /// Provided and filled with the pattern.
    pub(super) ready: SmallStack,
    /// Claimed, inaccessible.
    pub(super) fresh: SmallStack,
    /// Recently freed, poisoned.
    pub(super) staged: Chain,
    /// Freed long ago, poisoned; to be verified.
    pub(super) expired: Chain,
    /// The next expired cells.
    pub(super) prefetch: PrefetchRing,
}

impl PageCache {
    const EMPTY: Self = Self {
        ready: SmallStack::EMPTY,
        fresh: SmallStack::EMPTY,
        staged: Chain::EMPTY,
        expired: Chain::EMPTY,
        prefetch: PrefetchRing::EMPTY,
    };
}

impl PageCache {
    /// Any expired cell.
    pub(super) fn any_expired(&mut self, table: &SideTable) -> Option<u32> {
        self.prefetch
            .clear_one()
            .or_else(|| self.expired.pop(table))
    }
}

impl Abandoned for PageCache {
    fn abandoned(&mut self) {
        *self = Self::EMPTY;
    }
}

/// A cache on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct CachePadded(ForkSafeMutex<PageCache>);

#[derive(Debug)]
pub(super) struct PageCaches(NonNull<[CachePadded; COUNT]>);

impl PageCaches {
    pub(super) fn new(memory: &dyn HostAllocator) -> Result<Self, AllocError> {
        let place = memory
            .allocate(Layout::new::<[CachePadded; COUNT]>(), SCOPE)?
            .cast::<[CachePadded; COUNT]>();
        // SAFETY: allocated above with room for it.
        unsafe {
            place.write([const { CachePadded(ForkSafeMutex::new(PageCache::EMPTY)) }; COUNT])
        };
        Ok(Self(place))
    }

    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = &ForkSafeMutex<PageCache>> {
        // SAFETY: written in `new`, there until `close`.
        unsafe { self.0.as_ref() }.iter().map(|padded| &padded.0)
    }

    /// Locks all caches: no cell is staged or expires meanwhile.
    pub(super) fn hold_all(&self) -> [ForkSafeMutexGuard<'_, PageCache>; COUNT] {
        // SAFETY: written in `new`, there until `close`.
        unsafe { self.0.as_ref() }
            .each_ref()
            .map(|padded| padded.0.lock())
    }

    /// The calling thread's cache and its number, or another one if that is locked.
    #[inline]
    pub(super) fn own(&self) -> (ForkSafeMutexGuard<'_, PageCache>, usize) {
        // SAFETY: written in `new`, there until `close`.
        let caches = unsafe { self.0.as_ref() };
        let own = Self::number();
        match caches.get(own).and_then(|padded| padded.0.try_lock()) {
            Some(held) => (held, own),
            None => Self::another(caches, own),
        }
    }

    /// The number of the calling thread's cache.
    #[inline]
    pub(super) fn number() -> usize {
        crate::os::thread_id() as usize % COUNT
    }

    /// The cache with that number. Waits for its lock.
    #[inline]
    pub(super) fn at(&self, number: usize) -> ForkSafeMutexGuard<'_, PageCache> {
        // SAFETY: written in `new`, there until `close`.
        let [first, ..] = unsafe { self.0.as_ref() };
        // SAFETY: as above.
        unsafe { self.0.as_ref() }
            .get(number % COUNT)
            .unwrap_or(first)
            .0
            .lock()
    }

    #[cold]
    fn another(
        caches: &[CachePadded; COUNT],
        own: usize,
    ) -> (ForkSafeMutexGuard<'_, PageCache>, usize) {
        let mut tries = 0_u32;
        loop {
            for step in 1..=COUNT {
                let other = (own + step) % COUNT;
                if let Some(held) = caches.get(other).and_then(|padded| padded.0.try_lock()) {
                    return (held, other);
                }
            }
            tries = tries.wrapping_add(1);
            relax(tries);
        }
    }

    /// # Safety
    /// `memory` is what it was made with, and it is no longer used.
    pub(super) unsafe fn close(self, memory: &dyn HostAllocator) {
        // SAFETY: allocated in `new` with this layout and scope; nothing in it needs to be dropped.
        unsafe { memory.deallocate(self.0.cast(), Layout::new::<[CachePadded; COUNT]>(), SCOPE) };
    }
}
