//! The quarantine: freed blocks wait poisoned, so that writes after free are found.
//!
//! ```text
//!  a thread's cache -> chunk being filled
//!                        | full: under the lock
//!                        v
//!            last -> [chunk] .. [chunk] <- first      waiting, oldest first
//!                                          | too many, or too many bytes: its blocks are claimed, under the lock, and verified outside
//!                                          v
//!                                       the cache fills it next
//! ```
//! All chunks exist from the beginning (and one comes with each cache), so a free allocates nothing. A block in quarantine is known from
//! its record, so a damaged header loses nothing.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::record::CookieRecord;
use super::table::RecordTable;
use super::thread_cache::ThreadCache;
use crate::lock::{ForkSafeSpinLock, SpinLockGuard};

/// Blocks of this size and more never stay in a cache's chunk.
const MAX_STAGED: usize = 1 << 30;
/// Blocks of a chunk, which leave together.
pub(super) const ENTRIES: usize = 13;

/// A run of freed blocks. All zeros is an empty one.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct QuarantineChunk {
    len: AtomicU32,
    bytes: AtomicUsize,
    next: AtomicPtr<QuarantineChunk>,
    entries: [AtomicPtr<CookieRecord>; ENTRIES],
}

/// Blocks that left quarantine together; the caller owns them.
#[derive(Debug, Default)]
pub(super) struct Claimed<'t> {
    blocks: [Option<&'t CookieRecord>; ENTRIES],
    count: usize,
    /// Bytes of all of them.
    pub(super) bytes: usize,
}

impl<'t> Claimed<'t> {
    #[inline(always)]
    pub(super) fn blocks(&self) -> impl Iterator<Item = &'t CookieRecord> {
        self.blocks.iter().take(self.count).flatten().copied()
    }
}

impl QuarantineChunk {
    /// Adds a block of `size` bytes behind `len` others; false without room.
    #[inline(always)]
    pub(super) fn push(&self, len: u32, record: &CookieRecord, size: usize) -> bool {
        let Some(entry) = self.entries.get(len as usize) else {
            return false;
        };
        entry.store(core::ptr::from_ref(record).cast_mut(), Relaxed);
        self.bytes.store(self.bytes().wrapping_add(size), Relaxed);
        self.len.store(len + 1, Release);
        true
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Acquire) as usize
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Empties the chunk and claims its blocks. Called with the quarantine locked; records are `table`'s.
    #[inline(always)]
    fn empty<'t>(&self, _: &'t RecordTable, claimed: &mut Claimed<'t>) {
        (claimed.count, claimed.bytes) = (self.len(), self.bytes());
        for (to, entry) in claimed
            .blocks
            .iter_mut()
            .zip(&self.entries)
            .take(claimed.count)
        {
            // SAFETY: entries are records of the guard's table, which live as long as it does.
            *to = unsafe { entry.load(Relaxed).as_ref() };
            if let Some(record) = to {
                record.claim();
            }
        }
        self.len.store(0, Release);
        self.bytes.store(0, Relaxed);
    }
}

/// A guard's quarantine.
#[derive(Debug)]
pub(super) struct Quarantine {
    /// Maximum bytes in full chunks.
    bytes: usize,
    /// Blocks from this size on are not quarantined: one more than `bytes`, or 0.
    most: usize,
    /// Blocks from this size on do not stay in a cache's chunk: it is queued with them, and queued bytes are counted.
    small: usize,
    /// A chunk with this many blocks, or bytes, is full.
    chunk_len: u32,
    chunk_bytes: usize,
    chunks: AtomicPtr<QuarantineChunk>,
    count: usize,
    lock: ForkSafeSpinLock,
    /// Chunks from this index on were never used. Changed under the lock, as all below.
    used: AtomicUsize,
    unused: AtomicPtr<QuarantineChunk>,
    first: AtomicPtr<QuarantineChunk>,
    last: AtomicPtr<QuarantineChunk>,
    waiting: AtomicUsize,
    /// Approximate number of exchanged chunks.
    turns: AtomicUsize,
}

impl Quarantine {
    /// For this many blocks and bytes; no quarantine if either is 0.
    pub(super) fn new<A: HostAllocator + ?Sized>(
        memory: &A,
        blocks: usize,
        bytes: usize,
    ) -> Result<Self, AllocError> {
        let chunk_len = (blocks / 8).clamp(1, ENTRIES);
        // One more for the shared cache.
        let count = if blocks == 0 || bytes == 0 {
            0
        } else {
            (blocks / chunk_len).checked_add(1).ok_or(AllocError)?
        };
        let mut chunks = null_mut();
        if count > 0 {
            let layout = Layout::array::<QuarantineChunk>(count).map_err(|_| AllocError)?;
            chunks = memory
                .allocate_zeroed(layout, Scope::Instance)?
                .cast()
                .as_ptr();
        }
        Ok(Self {
            bytes,
            most: if count == 0 {
                0
            } else {
                bytes.saturating_add(1)
            },
            small: if count == 0 {
                0
            } else {
                (bytes / 16).clamp(1, MAX_STAGED)
            },
            chunk_len: chunk_len as u32,
            chunk_bytes: (bytes / 16).max(1),
            chunks: AtomicPtr::new(chunks),
            count,
            lock: ForkSafeSpinLock::new(),
            used: AtomicUsize::new(0),
            unused: AtomicPtr::new(null_mut()),
            first: AtomicPtr::new(null_mut()),
            last: AtomicPtr::new(null_mut()),
            waiting: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
        })
    }

    /// True if freed blocks are quarantined at all.
    #[inline]
    pub(super) const fn is_there(&self) -> bool {
        self.count > 0
    }

    /// True if a block of this size may be quarantined.
    #[inline]
    pub(super) const fn takes(&self, size: usize) -> bool {
        size < self.most
    }

    /// True if a block of this size may stay in a cache's chunk.
    #[inline(always)]
    pub(super) const fn stages(&self, size: usize) -> bool {
        size < self.small
    }

    /// True every 16th time: then chunks of ended threads are collected.
    pub(super) fn is_due(&self) -> bool {
        let turns = self.turns.load(Relaxed).wrapping_add(1);
        self.turns.store(turns, Relaxed);
        turns.is_multiple_of(16)
    }

    /// Queues the chunk of a cache, which is the caller's.
    pub(super) fn collect(&self, cache: &ThreadCache) {
        let _held = self.hold();
        // SAFETY: chunks live as long as the quarantine.
        let Some(chunk) = (unsafe { cache.chunk.load(Relaxed).as_ref() }) else {
            return;
        };
        if chunk.len.load(Relaxed) > 0 {
            self.append(NonNull::from(chunk));
            cache.chunk.store(null_mut(), Relaxed);
        }
    }

    /// Locks the quarantine: no block leaves it, and those that left before are in no list.
    ///
    /// Lists that a thread was changing when the process forked are dropped in the child: their blocks stay in quarantine for ever.
    #[inline]
    pub(super) fn hold(&self) -> SpinLockGuard<'_> {
        let held = self.lock.lock();
        if held.is_inherited() {
            for list in [&self.first, &self.last, &self.unused] {
                list.store(null_mut(), Relaxed);
            }
            self.waiting.store(0, Relaxed);
        }
        held
    }

    /// The cache's chunk, if it has room.
    #[inline(always)]
    pub(super) fn room<'l>(&self, cache: &'l ThreadCache) -> Option<(&'l QuarantineChunk, u32)> {
        // SAFETY: chunks live as long as the quarantine, and as caches.
        let chunk = unsafe { cache.chunk.load(Relaxed).as_ref() }?;
        let len = chunk.len.load(Relaxed);
        (len < self.chunk_len && chunk.bytes() < self.chunk_bytes).then_some((chunk, len))
    }

    /// Adds a block of `size` bytes to the cache's chunk; false if that is full.
    #[inline(always)]
    pub(super) fn push(&self, cache: &ThreadCache, record: &CookieRecord, size: usize) -> bool {
        match self.room(cache) {
            Some((chunk, len)) => chunk.push(len, record, size),
            None => false,
        }
    }

    /// Queues the cache's full chunk, and gives the cache another one: the oldest, whose blocks are claimed, or an unused one. False if
    /// there is none.
    #[inline]
    pub(super) fn rotate<'t>(
        &self,
        cache: &ThreadCache,
        table: &'t RecordTable,
        claimed: &mut Claimed<'t>,
    ) -> bool {
        let _held = self.hold();
        if let Some(full) = NonNull::new(cache.chunk.load(Relaxed)) {
            self.append(full);
            cache.chunk.store(null_mut(), Relaxed);
        }
        let room = self.waiting.load(Relaxed) <= self.bytes;
        let Some(next) = room
            .then(|| self.unused())
            .flatten()
            .or_else(|| self.remove())
        else {
            return false;
        };
        cache.chunk.store(next.as_ptr(), Relaxed);
        // SAFETY: chunks live as long as the quarantine.
        unsafe { next.as_ref() }.empty(table, claimed);
        true
    }

    /// Removes the oldest chunk if too many bytes are queued, and claims its blocks. False if none must leave.
    #[inline]
    pub(super) fn relieve<'t>(&self, table: &'t RecordTable, claimed: &mut Claimed<'t>) -> bool {
        if self.waiting.load(Relaxed) <= self.bytes {
            return false;
        }
        let _held = self.hold();
        let Some(first) = self.remove() else {
            return false;
        };
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { first.as_ref() };
        chunk.empty(table, claimed);
        chunk.next.store(self.unused.load(Relaxed), Relaxed);
        self.unused.store(first.as_ptr(), Relaxed);
        true
    }

    fn append(&self, full: NonNull<QuarantineChunk>) {
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { full.as_ref() };
        chunk.next.store(null_mut(), Relaxed);
        self.waiting.store(
            self.waiting.load(Relaxed).wrapping_add(chunk.bytes()),
            Relaxed,
        );
        // SAFETY: as above.
        match unsafe { self.last.load(Relaxed).as_ref() } {
            Some(last) => last.next.store(full.as_ptr(), Relaxed),
            None => self.first.store(full.as_ptr(), Relaxed),
        }
        self.last.store(full.as_ptr(), Relaxed);
    }

    fn remove(&self) -> Option<NonNull<QuarantineChunk>> {
        let first = NonNull::new(self.first.load(Relaxed))?;
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { first.as_ref() };
        let next = chunk.next.load(Relaxed);
        self.first.store(next, Relaxed);
        if next.is_null() {
            self.last.store(null_mut(), Relaxed);
        }
        self.waiting.store(
            self.waiting.load(Relaxed).wrapping_sub(chunk.bytes()),
            Relaxed,
        );
        Some(first)
    }

    fn unused(&self) -> Option<NonNull<QuarantineChunk>> {
        if let Some(chunk) = NonNull::new(self.unused.load(Relaxed)) {
            // SAFETY: chunks live as long as the quarantine.
            self.unused
                .store(unsafe { chunk.as_ref() }.next.load(Relaxed), Relaxed);
            return Some(chunk);
        }
        let used = self.used.load(Relaxed);
        if used == self.count {
            return None;
        }
        self.used.store(used + 1, Relaxed);
        let chunks = NonNull::new(self.chunks.load(Relaxed))?;
        // SAFETY: `used` is below their number.
        Some(unsafe { chunks.add(used) })
    }

    /// The used chunks, without those that came with caches.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &QuarantineChunk> {
        let chunks = NonNull::new(self.chunks.load(Relaxed));
        (0..self.used.load(Relaxed)).filter_map(move |number| {
            // SAFETY: `number` is below their number.
            let chunk = unsafe { chunks?.add(number) };
            // SAFETY: chunks are made of atomics, zero at first, and live as long as the quarantine.
            Some(unsafe { chunk.as_ref() })
        })
    }

    /// As it is in a child, where a thread that was left behind held the lock.
    #[cfg(test)]
    pub(super) fn leave_behind(&mut self) {
        self.lock = ForkSafeSpinLock::left_behind();
    }

    /// Frees the chunks.
    ///
    /// # Safety
    /// `memory` is that of `new`, and no chunk is referred to any more.
    pub(super) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A) {
        let chunks = core::mem::replace(self.chunks.get_mut(), null_mut());
        if let (Some(chunks), Ok(layout)) = (
            NonNull::new(chunks),
            Layout::array::<QuarantineChunk>(self.count),
        ) {
            // SAFETY: allocated in `new` with this layout and scope.
            unsafe { memory.deallocate(chunks.cast(), layout, Scope::Instance) };
        }
    }
}
