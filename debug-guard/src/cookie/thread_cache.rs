//! What a thread keeps of a guard for itself: some records of the table, the chunk that its frees go to, and some blocks that have left
//! quarantine: the next requests for as much get them, without a word to the allocator behind.
//!
//! A cache is used by one thread at a time without any lock. When the thread ends its cache goes, as it is, to the next one that comes.
//! Threads without a cache, and all of them without feature `std`, share one under a lock.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use alloc_core::{HostAllocator, Scope};

use super::quarantine::{ENTRIES, Quarantine, QuarantineChunk};
use super::record::CookieRecord;
use super::registry::KeySeat;
use super::table::RecordTable;
use crate::lock::ForkSafeSpinLock;

/// Unused records a cache has room for; it gets and gives away half of that at a time.
const UNUSED: usize = 64;

/// One thread's part.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct ThreadCache {
    /// Null where there is no quarantine.
    pub(super) chunk: AtomicPtr<QuarantineChunk>,
    /// Of blocks that left quarantine as they were to be, and are not given back yet.
    pub(super) recycled: RecordStack<ENTRIES>,
    drawn: AtomicBool,
    pub(super) unused: RecordStack<UNUSED>,
    next: AtomicPtr<CacheKey>,
}

/// A cache, and the chunk that it brings along.
#[derive(Debug)]
#[repr(C)]
struct CacheKey {
    cache: ThreadCache,
    chunk: QuarantineChunk,
}

/// Some records, the last of which is the first to go.
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

    /// The one that [`pop`](Self::pop) would give.
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
    seat: KeySeat,
    all: AtomicPtr<CacheKey>,
    lock: ForkSafeSpinLock,
    /// Used under the lock.
    pub(super) shared: ThreadCache,
}

impl ThreadCaches {
    pub(super) const fn new(seat: KeySeat) -> Self {
        Self {
            seat,
            all: AtomicPtr::new(null_mut()),
            lock: ForkSafeSpinLock::new(),
            shared: ThreadCache::new(),
        }
    }

    /// The thread's cache, if it has one.
    #[inline(always)]
    pub(super) fn own(&self) -> Option<&ThreadCache> {
        // SAFETY: caches live as long as the guard of their seat, which is borrowed; nobody else uses this thread's.
        threads::cache(self.seat).map(|cache| unsafe { cache.as_ref() })
    }

    /// Runs `f` with the thread's cache, or as [`with`](Self::with).
    #[inline(always)]
    pub(super) fn run<R>(&self, f: impl FnOnce(&ThreadCache) -> R) -> R {
        match self.own() {
            Some(cache) => f(cache),
            None => self.with(f),
        }
    }

    /// Runs `f` with the thread's cache, or one that has become free, or the shared one.
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

    /// Gives the thread the cache of one that has ended, where there is one.
    fn adopt(&self) -> bool {
        self.homes().any(|home| {
            let free = !home.cache.drawn.load(Relaxed) && !home.cache.drawn.swap(true, Acquire);
            free && threads::keep(self.seat, &home.cache)
        })
    }

    /// Makes a cache for a thread that has none. Without memory for it, or thread-locals, the thread shares one.
    #[inline]
    pub(super) fn attach<A: HostAllocator + ?Sized>(&self, memory: &A, quarantine: bool) {
        if threads::cache(self.seat).is_none() {
            self.make(memory, quarantine);
        }
    }

    #[cold]
    #[inline(never)]
    fn make<A: HostAllocator + ?Sized>(&self, memory: &A, quarantine: bool) {
        if !threads::may_keep(self.seat) || self.adopt() {
            return;
        }
        let Ok(home) = memory.allocate_zeroed(Layout::new::<CacheKey>(), Scope::Instance) else {
            return;
        };
        let home = home.cast::<CacheKey>();
        // SAFETY: all zeros is a cache without records and a chunk without entries; shown to nobody yet.
        let made = unsafe { home.as_ref() };
        made.cache.drawn.store(true, Relaxed);
        if quarantine {
            // SAFETY: a field of the block, which outlives all uses of the chunk: caches go last.
            made.cache
                .chunk
                .store(unsafe { &raw mut (*home.as_ptr()).chunk }, Relaxed);
        }
        let mut head = self.all.load(Relaxed);
        loop {
            made.cache.next.store(head, Relaxed);
            match self
                .all
                .compare_exchange_weak(head, home.as_ptr(), Release, Relaxed)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        if threads::cache(self.seat).is_none() {
            threads::keep(self.seat, &made.cache);
        } else {
            // `memory` called back, and the thread has had one since: this is for the next thread.
            made.cache.drawn.store(false, Release);
        }
    }

    /// Takes into the queue what waits in caches of threads that ended.
    pub(super) fn collect(&self, quarantine: &Quarantine) {
        for home in self.homes() {
            if !home.cache.drawn.load(Relaxed) && !home.cache.drawn.swap(true, Acquire) {
                quarantine.collect(&home.cache);
                home.cache.drawn.store(false, Release);
            }
        }
    }

    /// From now on threads find no cache of their own, as those of a guard beyond the last seat.
    #[cfg(test)]
    pub(super) fn share(&mut self) {
        self.seat.index = super::registry::SEATS;
    }

    fn homes(&self) -> impl Iterator<Item = &CacheKey> {
        let mut at = self.all.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: caches are never unlinked while the guard is borrowed.
            let home = unsafe { at.as_ref() }?;
            at = home.cache.next.load(Relaxed);
            Some(home)
        })
    }

    /// The chunks that came with caches, wherever they are now.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &QuarantineChunk> {
        self.homes().map(|home| &home.chunk)
    }

    /// Gives all caches back. Threads that had one find that out by themselves.
    ///
    /// # Safety
    /// `memory` is what they were made with, the seat has been left, and no chunk is referred to any more.
    pub(super) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A) {
        let mut at = core::mem::replace(self.all.get_mut(), null_mut());
        while let Some(home) = NonNull::new(at) {
            // SAFETY: not given back yet.
            at = unsafe { home.as_ref() }.cache.next.load(Relaxed);
            // SAFETY: taken in `make` with this layout and scope.
            unsafe { memory.deallocate(home.cast(), Layout::new::<CacheKey>(), Scope::Instance) };
        }
    }
}

/// Which caches the running thread has: a thread-local without a destructor, to be there as long as the thread is, and one that has
/// nothing but a destructor. Registering it makes libc take a few bytes, once a thread.
#[cfg(feature = "std")]
mod threads {
    use core::cell::Cell;
    use core::ptr::NonNull;
    use core::sync::atomic::Ordering::Release;
    use std::thread_local;

    use super::super::registry::{KeySeat, SEATS, while_registered};
    use super::ThreadCache;

    thread_local! {
        // Ticket and cache; a ticket that is not 0 has one.
        static CACHES: [Cell<(u64, NonNull<ThreadCache>)>; SEATS] = const { [const { Cell::new((0, NonNull::dangling())) }; SEATS] };
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
                    while_registered(KeySeat { index, ticket }, || {
                        // SAFETY: the guard is there, and with it its caches.
                        unsafe { cache.as_ref() }.drawn.store(false, Release)
                    });
                }
            });
        }
    }

    /// The cache of the running thread.
    #[inline]
    pub(super) fn cache(seat: KeySeat) -> Option<NonNull<ThreadCache>> {
        CACHES.with(|caches| {
            let (ticket, cache) = caches.get(seat.index)?.get();
            (ticket == seat.ticket).then_some(cache)
        })
    }

    /// True where this thread can have a cache: not while its thread-locals are being destroyed.
    pub(super) fn may_keep(seat: KeySeat) -> bool {
        seat.index < SEATS && END.try_with(|_| ()).is_ok()
    }

    /// Makes it this thread's, or lets it go again.
    pub(super) fn keep(seat: KeySeat, cache: &ThreadCache) -> bool {
        let kept = may_keep(seat);
        if kept {
            CACHES.with(|caches| {
                if let Some(cell) = caches.get(seat.index) {
                    cell.set((seat.ticket, NonNull::from(cache)));
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

    use super::super::registry::KeySeat;
    use super::ThreadCache;

    pub(super) fn cache(_: KeySeat) -> Option<NonNull<ThreadCache>> {
        None
    }
    pub(super) fn may_keep(_: KeySeat) -> bool {
        false
    }
    pub(super) fn keep(_: KeySeat, cache: &ThreadCache) -> bool {
        cache
            .drawn
            .store(false, core::sync::atomic::Ordering::Release);
        false
    }
}
