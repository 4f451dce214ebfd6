//! What a thread has at hand: ready pages, claimed cells, blocks it freed just now.
//!
//! A few stashes serve all threads, each a thread's by its number, and another one where that is taken at the moment: a thread that ends
//! leaves nothing behind that the next does not find.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator};

use super::free_lists::{Chain, PrefetchRing, SmallStack};
use super::table::{SCOPE, SideTable};
use crate::lock::{Abandoned, ForkSafeMutex, ForkSafeMutexGuard, relax};

/// How many stashes there are; a block's word has room for a number below it.
const COUNT: usize = 16;

#[derive(Debug)]
pub(super) struct PageCache {
    /// Provided and full of the pattern.
    pub(super) ready: SmallStack,
    /// Claimed, out of reach.
    pub(super) fresh: SmallStack,
    /// Freed just now, poisoned.
    pub(super) staged: Chain,
    /// Freed long ago, poisoned; to be looked at.
    pub(super) expired: Chain,
    /// Those of them that are next.
    pub(super) belt: PrefetchRing,
}

impl PageCache {
    const EMPTY: Self = Self {
        ready: SmallStack::EMPTY,
        fresh: SmallStack::EMPTY,
        staged: Chain::EMPTY,
        expired: Chain::EMPTY,
        belt: PrefetchRing::EMPTY,
    };
}

impl PageCache {
    /// Any that was freed long ago.
    pub(super) fn any_expired(&mut self, table: &SideTable) -> Option<u32> {
        self.belt.clear_one().or_else(|| self.expired.pop(table))
    }
}

impl Abandoned for PageCache {
    fn abandoned(&mut self) {
        *self = Self::EMPTY;
    }
}

/// A stash on cache lines of its own.
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
        // SAFETY: taken above with room for it.
        unsafe {
            place.write([const { CachePadded(ForkSafeMutex::new(PageCache::EMPTY)) }; COUNT])
        };
        Ok(Self(place))
    }

    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = &ForkSafeMutex<PageCache>> {
        // SAFETY: written in `new`, there until `close`.
        unsafe { self.0.as_ref() }.iter().map(|shelf| &shelf.0)
    }

    /// All of them at once: nothing is kept or expires meanwhile.
    pub(super) fn hold_all(&self) -> [ForkSafeMutexGuard<'_, PageCache>; COUNT] {
        // SAFETY: written in `new`, there until `close`.
        unsafe { self.0.as_ref() }
            .each_ref()
            .map(|shelf| shelf.0.lock())
    }

    /// The calling thread's and its number, or where somebody else has it just now, another one.
    #[inline]
    pub(super) fn own(&self) -> (ForkSafeMutexGuard<'_, PageCache>, usize) {
        // SAFETY: written in `new`, there until `close`.
        let shelves = unsafe { self.0.as_ref() };
        let own = Self::number();
        match shelves.get(own).and_then(|shelf| shelf.0.try_lock()) {
            Some(held) => (held, own),
            None => Self::another(shelves, own),
        }
    }

    /// Which is the calling thread's.
    #[inline]
    pub(super) fn number() -> usize {
        crate::os::thread_id() as usize % COUNT
    }

    /// The one of that number. Waits for it.
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
        shelves: &[CachePadded; COUNT],
        own: usize,
    ) -> (ForkSafeMutexGuard<'_, PageCache>, usize) {
        let mut tries = 0_u32;
        loop {
            for step in 1..=COUNT {
                let other = (own + step) % COUNT;
                if let Some(held) = shelves.get(other).and_then(|shelf| shelf.0.try_lock()) {
                    return (held, other);
                }
            }
            tries = tries.wrapping_add(1);
            relax(tries);
        }
    }

    /// # Safety
    /// `memory` is what it was made with, and nobody uses it any more.
    pub(super) unsafe fn close(self, memory: &dyn HostAllocator) {
        // SAFETY: taken in `new` with this layout and scope; nothing in it needs to be dropped.
        unsafe { memory.deallocate(self.0.cast(), Layout::new::<[CachePadded; COUNT]>(), SCOPE) };
    }
}
