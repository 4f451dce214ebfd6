//! Where freed blocks wait, poisoned, so that late writes are found, and with them who freed them.
//!
//! ```text
//!  a thread's lane -> chunk being filled
//!                        | full: under the lock
//!                        v
//!            last -> [chunk] .. [chunk] <- first      waiting, oldest first
//!                                          | too many, or too many bytes: copied out and emptied, its blocks verified and given back
//!                                          v
//!                                       the lane fills it next
//! ```
//! All chunks are there from the beginning (and one comes with each lane), so a free takes no memory. An entry holds all that the
//! header said and the mark of the free: a header that is damaged later takes nothing along.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use alloc_core::{AllocError, HostAllocator, Scope, StateLock, StateLockHeld};

use super::lane::Lane;
use super::words::{Words, mark};
use crate::block::{Known, State};

/// Blocks that a chunk has room for.
pub(super) const ENTRIES: usize = 32;

/// A freed block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) address: usize,
    pub(super) words: Words,
    /// Thread and serial of the free.
    pub(super) given: u64,
    pub(super) site: u32,
    /// Where a reallocation moved it, or 0.
    pub(super) moved: usize,
}

impl Waiting {
    pub(super) fn known(&self) -> Known {
        let state = if self.moved == 0 { State::Freed } else { State::Moved(self.moved) };
        self.words.known(self.address, state, mark(self.site, self.given))
    }
}

/// Blocks on their way out of a chunk.
pub(super) type Batch = [Waiting; ENTRIES];

/// A run of entries. All zeros is an empty one.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Chunk {
    len: AtomicU32,
    bytes: AtomicUsize,
    next: AtomicPtr<Chunk>,
    entries: [Entry; ENTRIES],
}

/// A [`Waiting`] that may be read while it is written.
#[derive(Debug)]
#[repr(C, align(64))]
struct Entry {
    address: AtomicUsize,
    words: [AtomicU64; 3],
    given: AtomicU64,
    site: AtomicU32,
    moved: AtomicUsize,
}

impl Entry {
    #[inline]
    fn store(&self, block: &Waiting) {
        self.address.store(block.address, Relaxed);
        for (place, word) in self.words.iter().zip(block.words.0) {
            place.store(word, Relaxed);
        }
        self.given.store(block.given, Relaxed);
        self.site.store(block.site, Relaxed);
        self.moved.store(block.moved, Relaxed);
    }

    #[inline]
    fn load(&self) -> Waiting {
        let [a, b, c] = &self.words;
        Waiting {
            address: self.address.load(Relaxed),
            words: Words([a.load(Relaxed), b.load(Relaxed), c.load(Relaxed)]),
            given: self.given.load(Relaxed),
            site: self.site.load(Relaxed),
            moved: self.moved.load(Relaxed),
        }
    }
}

impl Chunk {
    /// What waits in it, as of now. Stays so while the quarantine is locked, but for what its lane adds.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Waiting> {
        self.entries.iter().take(self.len.load(Acquire) as usize).map(Entry::load)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Copies what waits in it and empties it.
    fn take(&self, batch: &mut Batch) -> usize {
        let len = self.len.load(Relaxed) as usize;
        for (to, from) in batch.iter_mut().zip(&self.entries).take(len) {
            *to = from.load();
        }
        self.len.store(0, Release);
        self.bytes.store(0, Relaxed);
        len
    }
}

/// A guard's quarantine.
#[derive(Debug)]
pub(super) struct Quarantine {
    /// Most bytes that wait in full chunks.
    bytes: usize,
    /// A chunk with so many blocks, or bytes, is full.
    chunk_len: u32,
    chunk_bytes: usize,
    chunks: AtomicPtr<Chunk>,
    count: usize,
    lock: StateLock,
    /// Chunks from this on were never used. Changed under the lock, as all below.
    used: AtomicUsize,
    unused: AtomicPtr<Chunk>,
    first: AtomicPtr<Chunk>,
    last: AtomicPtr<Chunk>,
    waiting: AtomicUsize,
}

impl Quarantine {
    /// For so many blocks and bytes; none where either is 0.
    pub(super) fn new<A: HostAllocator + ?Sized>(memory: &A, blocks: usize, bytes: usize) -> Result<Self, AllocError> {
        let chunk_len = (blocks / 8).clamp(1, ENTRIES);
        // One more for the lane that threads share.
        let count = if blocks == 0 || bytes == 0 { 0 } else { blocks.div_ceil(chunk_len).checked_add(1).ok_or(AllocError)? };
        let mut chunks = null_mut();
        if count > 0 {
            let layout = Layout::array::<Chunk>(count).map_err(|_| AllocError)?;
            chunks = memory.allocate_zeroed(layout, Scope::Instance)?.cast().as_ptr();
        }
        Ok(Self {
            bytes,
            chunk_len: chunk_len as u32,
            chunk_bytes: (bytes / 16).max(1),
            chunks: AtomicPtr::new(chunks),
            count,
            lock: StateLock::new(),
            used: AtomicUsize::new(0),
            unused: AtomicPtr::new(null_mut()),
            first: AtomicPtr::new(null_mut()),
            last: AtomicPtr::new(null_mut()),
            waiting: AtomicUsize::new(0),
        })
    }

    /// True where freed blocks wait at all.
    #[inline]
    pub(super) const fn is_there(&self) -> bool {
        self.count > 0
    }

    /// True where a block of so many bytes may wait.
    #[inline]
    pub(super) const fn takes(&self, size: usize) -> bool {
        self.count > 0 && size <= self.bytes
    }

    /// Nothing leaves quarantine while this is held, and what left before is out of every list.
    pub(super) fn hold(&self) -> StateLockHeld<'_> {
        self.lock.lock()
    }

    /// Puts a block into the lane's chunk; false where that is full.
    #[inline]
    pub(super) fn push(&self, lane: &Lane, block: &Waiting) -> bool {
        // SAFETY: chunks live as long as the quarantine.
        let Some(chunk) = (unsafe { lane.chunk.load(Relaxed).as_ref() }) else { return false };
        let (len, bytes) = (chunk.len.load(Relaxed), chunk.bytes());
        if len >= self.chunk_len || bytes >= self.chunk_bytes {
            return false;
        }
        let Some(entry) = chunk.entries.get(len as usize) else { return false };
        entry.store(block);
        chunk.bytes.store(bytes.saturating_add(block.words.size()), Relaxed);
        chunk.len.store(len + 1, Release);
        true
    }

    /// Gives the lane another chunk for its full one. What that held until now has to go: so many of `batch`.
    pub(super) fn rotate(&self, lane: &Lane, batch: &mut Batch) -> usize {
        let held = self.lock.lock();
        if let Some(full) = NonNull::new(lane.chunk.load(Relaxed)) {
            self.append(full);
        }
        let room = self.waiting.load(Relaxed) <= self.bytes;
        let next = room.then(|| self.empty()).flatten().or_else(|| self.remove());
        let taken = next.map_or(0, |next| {
            // SAFETY: chunks live as long as the quarantine.
            let chunk = unsafe { next.as_ref() };
            chunk.take(batch)
        });
        lane.chunk.store(next.map_or(null_mut(), NonNull::as_ptr), Relaxed);
        drop(held);
        taken
    }

    /// Takes the oldest chunk out where too many bytes wait; so many of `batch` have to go.
    pub(super) fn relieve(&self, batch: &mut Batch) -> usize {
        let _held = self.lock.lock();
        if self.waiting.load(Relaxed) <= self.bytes {
            return 0;
        }
        let Some(oldest) = self.remove() else { return 0 };
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { oldest.as_ref() };
        let taken = chunk.take(batch);
        chunk.next.store(self.unused.load(Relaxed), Relaxed);
        self.unused.store(oldest.as_ptr(), Relaxed);
        taken
    }

    fn append(&self, full: NonNull<Chunk>) {
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { full.as_ref() };
        chunk.next.store(null_mut(), Relaxed);
        self.waiting.fetch_add(chunk.bytes(), Relaxed);
        // SAFETY: as above.
        match unsafe { self.last.load(Relaxed).as_ref() } {
            Some(last) => last.next.store(full.as_ptr(), Relaxed),
            None => self.first.store(full.as_ptr(), Relaxed),
        }
        self.last.store(full.as_ptr(), Relaxed);
    }

    fn remove(&self) -> Option<NonNull<Chunk>> {
        let first = NonNull::new(self.first.load(Relaxed))?;
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { first.as_ref() };
        let next = chunk.next.load(Relaxed);
        self.first.store(next, Relaxed);
        if next.is_null() {
            self.last.store(null_mut(), Relaxed);
        }
        self.waiting.fetch_sub(chunk.bytes(), Relaxed);
        Some(first)
    }

    fn empty(&self) -> Option<NonNull<Chunk>> {
        if let Some(chunk) = NonNull::new(self.unused.load(Relaxed)) {
            // SAFETY: chunks live as long as the quarantine.
            self.unused.store(unsafe { chunk.as_ref() }.next.load(Relaxed), Relaxed);
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

    /// The chunks that are used, without those that came with lanes.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        let chunks = NonNull::new(self.chunks.load(Relaxed));
        (0..self.used.load(Relaxed)).filter_map(move |number| {
            // SAFETY: `number` is below their number.
            let chunk = unsafe { chunks?.add(number) };
            // SAFETY: chunks are made of atomics, zero at first, and live as long as the quarantine.
            Some(unsafe { chunk.as_ref() })
        })
    }

    /// Empties a chunk whose blocks have to go: so many of `batch`.
    pub(super) fn empty_out(chunk: &Chunk, batch: &mut Batch) -> usize {
        chunk.take(batch)
    }

    /// Gives the chunks back.
    ///
    /// # Safety
    /// `memory` is what they came from, and none is referred to any more.
    pub(super) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A) {
        let chunks = core::mem::replace(self.chunks.get_mut(), null_mut());
        if let (Some(chunks), Ok(layout)) = (NonNull::new(chunks), Layout::array::<Chunk>(self.count)) {
            // SAFETY: taken in `new` with this layout and scope.
            unsafe { memory.deallocate(chunks.cast(), layout, Scope::Instance) };
        }
        self.count = 0;
        self.used = AtomicUsize::new(0);
    }
}
