//! A thread's cache of a guard: some unused records, the chunk for its frees, and some blocks that left quarantine, which serve the next
//! requests of their size without the allocator behind.
//!
//! A cache is used by one thread at a time without a lock. When the thread ends, the next new thread gets its cache. Threads without a
//! cache, and all of them without feature `std`, share one under a lock.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use alloc_core::{HostAllocator, Scope};

use super::quarantine::{ENTRIES, Quarantine, QuarantineChunk};
use super::record::CookieRecord;
use super::registry::KeySlot;
use super::table::RecordTable;
use crate::lock::ForkSafeSpinLock;

/// Maximum unused records of a cache; half of that is drawn or returned at a time.
const UNUSED: usize = 64;

/// One thread's part.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct ThreadCache {
    /// Null without quarantine.
    pub(super) chunk: AtomicPtr<QuarantineChunk>,
    /// Verified blocks that left quarantine and are not released yet.
    pub(super) recycled: RecordStack<ENTRIES>,
    drawn: AtomicBool,
    pub(super) unused: RecordStack<UNUSED>,
    next: AtomicPtr<CacheWithChunk>,
}

/// A cache, and the chunk that comes with it.
#[derive(Debug)]
#[repr(C)]
struct CacheWithChunk {
    cache: ThreadCache,
    chunk: QuarantineChunk,
}

/// A stack of records.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RecordStack<const ROOM: usize> {
    count: AtomicU32,
    records: [AtomicPtr<CookieRecord>; ROOM],
}

impl<const ROOM: usize> RecordStack<ROOM> {
    const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            records: [const { AtomicPtr::new(null_mut()) }; ROOM],
        }
    }

    #[inline(always)]
    pub(super) fn pop<'t>(&self, _: &'t RecordTable) -> Option<&'t CookieRecord> {
        let last = self.count.load(Relaxed).checked_sub(1)?;
        let record = self.records.get(last as usize)?.load(Relaxed);
        self.count.store(last, Relaxed);
        // SAFETY: pushed as a reference into this table, whose records live as long as it does.
        unsafe { record.as_ref() }
    }

    /// The record that [`pop`](Self::pop) would return.
    #[inline(always)]
    pub(super) fn last<'t>(&self, _: &'t RecordTable) -> Option<&'t CookieRecord> {
        let last = self.count.load(Relaxed).checked_sub(1)?;
        // SAFETY: as in `pop`.
        unsafe { self.records.get(last as usize)?.load(Relaxed).as_ref() }
    }

    /// Removes the last one, which is there.
    #[inline(always)]
    pub(super) fn drop_last(&self) {
        self.count
            .store(self.count.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// False without room.
    #[inline(always)]
    pub(super) fn push(&self, record: &CookieRecord) -> bool {
        let count = self.count.load(Relaxed);
        let Some(place) = self.records.get(count as usize) else {
            return false;
        };
        place.store(core::ptr::from_ref(record).cast_mut(), Relaxed);
        self.count.store(count + 1, Relaxed);
        true
    }
}

impl ThreadCache {
    const fn new() -> Self {
        Self {
            chunk: AtomicPtr::new(null_mut()),
            recycled: RecordStack::new(),
            drawn: AtomicBool::new(false),
            unused: RecordStack::new(),
            next: AtomicPtr::new(null_mut()),
        }
    }

    /// Keeps an unused record; without room, half of the records go to the table.
    #[inline(always)]
    pub(super) fn keep(&self, record: &CookieRecord, table: &RecordTable) {
        if !self.unused.push(record) {
            self.shed(record, table);
        }
    }

    #[cold]
    fn shed(&self, record: &CookieRecord, table: &RecordTable) {
        let half = (0..UNUSED / 2).filter_map(|_| self.unused.pop(table));
        table.put(half.chain([record]));
    }

    /// An unused record: one of this cache, or of those that the table has for it.
    pub(super) fn record<'t>(&self, table: &'t RecordTable) -> Option<&'t CookieRecord> {
        self.unused.pop(table).or_else(|| self.refill(table))
    }

    #[cold]
    fn refill<'t>(&self, table: &'t RecordTable) -> Option<&'t CookieRecord> {
        // There is room for them all: none was left.
        table.draw(UNUSED / 2, |record| {
            self.unused.push(record);
        });
        self.unused.pop(table)
    }
}

/// All caches of a guard.
#[derive(Debug)]
pub(super) struct ThreadCaches {
    slot: KeySlot,
    all: AtomicPtr<CacheWithChunk>,
    lock: ForkSafeSpinLock,
    /// Used under the lock.
    pub(super) shared: ThreadCache,
}

impl ThreadCaches {
    pub(super) const fn new(slot: KeySlot) -> Self {
        Self {
            slot,
            all: AtomicPtr::new(null_mut()),
            lock: ForkSafeSpinLock::new(),
            shared: ThreadCache::new(),
        }
    }

    /// The thread's cache, if it has one.
    #[inline(always)]
    pub(super) fn own(&self) -> Option<&ThreadCache> {
        // SAFETY: caches live as long as the guard of their slot, which is borrowed; only this thread uses its cache.
        threads::cache(self.slot).map(|cache| unsafe { cache.as_ref() })
    }

    /// Runs `f` with the thread's cache, or as [`with`](Self::with).
    #[inline(always)]
    pub(super) fn run<R>(&self, f: impl FnOnce(&ThreadCache) -> R) -> R {
        match self.own() {
            Some(cache) => f(cache),
            None => self.with(f),
        }
    }

    /// Runs `f` with the thread's cache, or one of an ended thread, or the shared one.
    #[cold]
    #[inline(never)]
    pub(super) fn with<R>(&self, f: impl FnOnce(&ThreadCache) -> R) -> R {
        if self.own().is_none() {
            self.adopt();
        }
        if let Some(cache) = self.own() {
            return f(cache);
        }
        let _held = self.lock.lock();
        f(&self.shared)
    }

    /// Gives the thread the cache of an ended thread, if there is one.
    fn adopt(&self) -> bool {
        self.all_caches().any(|entry| {
            let free = !entry.cache.drawn.load(Relaxed) && !entry.cache.drawn.swap(true, Acquire);
            free && threads::keep(self.slot, &entry.cache)
        })
    }

    /// Creates a cache for a thread that has none. Without memory or thread-locals, the thread uses the shared one.
    #[inline]
    pub(super) fn attach<A: HostAllocator + ?Sized>(&self, memory: &A, quarantine: bool) {
        if threads::cache(self.slot).is_none() {
            self.make(memory, quarantine);
        }
    }

    #[cold]
    #[inline(never)]
    fn make<A: HostAllocator + ?Sized>(&self, memory: &A, quarantine: bool) {
        if !threads::may_keep(self.slot) || self.adopt() {
            return;
        }
        let Ok(entry) = memory.allocate_zeroed(Layout::new::<CacheWithChunk>(), Scope::Instance)
        else {
            return;
        };
        let entry = entry.cast::<CacheWithChunk>();
        // SAFETY: all zeros is a cache without records and a chunk without entries; not shared yet.
        let made = unsafe { entry.as_ref() };
        made.cache.drawn.store(true, Relaxed);
        if quarantine {
            // SAFETY: a field of the block, which outlives all uses of the chunk: caches go last.
            made.cache
                .chunk
                .store(unsafe { &raw mut (*entry.as_ptr()).chunk }, Relaxed);
        }
        let _ = self.all.fetch_update(Release, Relaxed, |head| {
            made.cache.next.store(head, Relaxed);
            Some(entry.as_ptr())
        });
        if threads::cache(self.slot).is_none() {
            threads::keep(self.slot, &made.cache);
        } else {
            // `memory` called back, and the thread has had one since: this is for the next thread.
            made.cache.drawn.store(false, Release);
        }
    }

    /// Queues the chunks of caches of ended threads.
    pub(super) fn collect(&self, quarantine: &Quarantine) {
        for entry in self.all_caches() {
            if !entry.cache.drawn.load(Relaxed) && !entry.cache.drawn.swap(true, Acquire) {
                quarantine.collect(&entry.cache);
                entry.cache.drawn.store(false, Release);
            }
        }
    }

    /// From now on threads find no cache of their own, as those of a guard beyond the last slot.
    #[cfg(test)]
    pub(super) fn share(&mut self) {
        self.slot.index = super::registry::SLOTS;
    }

    fn all_caches(&self) -> impl Iterator<Item = &CacheWithChunk> {
        let mut at = self.all.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: caches are never unlinked while the guard is borrowed.
            let entry = unsafe { at.as_ref() }?;
            at = entry.cache.next.load(Relaxed);
            Some(entry)
        })
    }

    /// The chunks that came with caches, wherever they are now.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &QuarantineChunk> {
        self.all_caches().map(|entry| &entry.chunk)
    }

    /// Frees all caches. Threads notice by the ticket.
    ///
    /// # Safety
    /// `memory` is what they were made with, the slot has been left, and no chunk is referred to any more.
    pub(super) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A) {
        let mut at = core::mem::replace(self.all.get_mut(), null_mut());
        while let Some(entry) = NonNull::new(at) {
            // SAFETY: not given back yet.
            at = unsafe { entry.as_ref() }.cache.next.load(Relaxed);
            // SAFETY: allocated in `make` with this layout and scope.
            unsafe {
                memory.deallocate(
                    entry.cast(),
                    Layout::new::<CacheWithChunk>(),
                    Scope::Instance,
                )
            };
        }
    }
}

/// The caches of the running thread: a thread-local without a destructor, valid as long as the thread, and one that only has a destructor.
/// Registering that makes libc allocate a few bytes, once a thread.
#[cfg(feature = "std")]
mod threads {
    use core::cell::Cell;
    use core::ptr::NonNull;
    use core::sync::atomic::Ordering::Release;
    use std::thread_local;

    use super::super::registry::{KeySlot, SLOTS, while_registered};
    use super::ThreadCache;

    thread_local! {
        // Ticket and cache; a ticket that is not 0 has one.
        static CACHES: [Cell<(u64, NonNull<ThreadCache>)>; SLOTS] = const { [const { Cell::new((0, NonNull::dangling())) }; SLOTS] };
        static END: End = const { End };
    }

    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            CACHES.with(|caches| {
                for (index, cell) in caches.iter().enumerate() {
                    let (ticket, cache) = cell.replace((0, NonNull::dangling()));
                    if ticket == 0 {
                        continue;
                    }
                    while_registered(KeySlot { index, ticket }, || {
                        // SAFETY: the guard is there, and with it its caches.
                        unsafe { cache.as_ref() }.drawn.store(false, Release)
                    });
                }
            });
        }
    }

    /// The cache of the running thread.
    #[inline]
    pub(super) fn cache(slot: KeySlot) -> Option<NonNull<ThreadCache>> {
        CACHES.with(|caches| {
            let (ticket, cache) = caches.get(slot.index)?.get();
            (ticket == slot.ticket).then_some(cache)
        })
    }

    /// True if this thread can have a cache: not while its thread-locals are destroyed.
    pub(super) fn may_keep(slot: KeySlot) -> bool {
        slot.index < SLOTS && END.try_with(|_| ()).is_ok()
    }

    /// Makes the cache this thread's, or releases it.
    pub(super) fn keep(slot: KeySlot, cache: &ThreadCache) -> bool {
        let kept = may_keep(slot);
        if kept {
            CACHES.with(|caches| {
                if let Some(cell) = caches.get(slot.index) {
                    cell.set((slot.ticket, NonNull::from(cache)));
                }
            });
        } else {
            cache.drawn.store(false, Release);
        }
        kept
    }
}

#[cfg(not(feature = "std"))]
mod threads {
    use core::ptr::NonNull;

    use super::super::registry::KeySlot;
    use super::ThreadCache;

    pub(super) fn cache(_: KeySlot) -> Option<NonNull<ThreadCache>> {
        None
    }
    pub(super) fn may_keep(_: KeySlot) -> bool {
        false
    }
    pub(super) fn keep(_: KeySlot, cache: &ThreadCache) -> bool {
        cache
            .drawn
            .store(false, core::sync::atomic::Ordering::Release);
        false
    }
}
