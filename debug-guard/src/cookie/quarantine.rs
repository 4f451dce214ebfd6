//! Where freed blocks wait, poisoned, so that late writes are found, and with them who freed them.
//!
//! ```text
//!  a thread's lane -> chunk being filled
//!                        | full: under the lock
//!                        v
//!            last -> [chunk] .. [chunk] <- first      waiting, oldest first
//!                                          | too many, or too many bytes: emptied, its blocks verified and given back
//!                                          v
//!                                       the lane fills it next
//! ```
//! All chunks are there from the beginning (and one comes with each lane), so a free takes no memory. An entry holds all that the
//! header said and the mark of the free: a header that is damaged later takes nothing along.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::lane::Lane;
use super::words::{Words, mark};
use crate::block::{Known, State};
use crate::lock::{Held, Lock};

/// Blocks that a chunk has room for, and that leave together: what glibc keeps at hand of a size.
pub(super) const ENTRIES: usize = 7;

/// A freed block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) address: usize,
    pub(super) words: Words,
    /// Of its header, while it lived.
    pub(super) sum: u64,
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
pub(super) struct Entry {
    address: AtomicUsize,
    words: [AtomicU64; 3],
    sum: AtomicU64,
    given: AtomicU64,
    site: AtomicU32,
    moved: AtomicUsize,
}

impl Entry {
    #[inline(always)]
    fn store(&self, block: &Waiting) {
        self.address.store(block.address, Relaxed);
        let ([one, two, three], [a, b, c]) = (&self.words, block.words.0);
        one.store(a, Relaxed);
        two.store(b, Relaxed);
        three.store(c, Relaxed);
        self.sum.store(block.sum, Relaxed);
        self.given.store(block.given, Relaxed);
        self.site.store(block.site, Relaxed);
        self.moved.store(block.moved, Relaxed);
    }

    /// Address, words and sum.
    #[inline(always)]
    pub(super) fn header(&self) -> (usize, Words, u64) {
        let [a, b, c] = &self.words;
        (self.address.load(Relaxed), Words([a.load(Relaxed), b.load(Relaxed), c.load(Relaxed)]), self.sum.load(Relaxed))
    }

    pub(super) fn load(&self) -> Waiting {
        let [a, b, c] = &self.words;
        Waiting {
            address: self.address.load(Relaxed),
            words: Words([a.load(Relaxed), b.load(Relaxed), c.load(Relaxed)]),
            sum: self.sum.load(Relaxed),
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

    /// Empties it: whose blocks were in it, so many, is up to the caller.
    pub(super) fn empty(&self) -> usize {
        let len = self.len.load(Relaxed) as usize;
        self.len.store(0, Release);
        self.bytes.store(0, Relaxed);
        len
    }

    /// The blocks that were in it before it was emptied, as long as nobody fills it again.
    #[inline(always)]
    pub(super) fn former(&self, blocks: usize) -> &[Entry] {
        self.entries.get(..blocks).unwrap_or_default()
    }
}

/// A guard's quarantine.
#[derive(Debug)]
pub(super) struct Quarantine {
    /// Most bytes that wait in full chunks.
    bytes: usize,
    /// Blocks from this size on do not wait: one more than `bytes`, or 0.
    most: usize,
    /// Blocks from this size on do not stay in a lane's chunk, but go on with it to the queue, where bytes are counted.
    small: usize,
    /// A chunk with so many blocks, or bytes, is full.
    chunk_len: u32,
    chunk_bytes: usize,
    chunks: AtomicPtr<Chunk>,
    count: usize,
    lock: Lock,
    /// Chunks from this on were never used. Changed under the lock, as all below.
    used: AtomicUsize,
    unused: AtomicPtr<Chunk>,
    first: AtomicPtr<Chunk>,
    last: AtomicPtr<Chunk>,
    waiting: AtomicUsize,
    /// How often a chunk was exchanged, about.
    turns: AtomicUsize,
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
            most: if count == 0 { 0 } else { bytes.saturating_add(1) },
            small: if count == 0 { 0 } else { (bytes / 16).max(1) },
            chunk_len: chunk_len as u32,
            chunk_bytes: (bytes / 16).max(1),
            chunks: AtomicPtr::new(chunks),
            count,
            lock: Lock::new(),
            used: AtomicUsize::new(0),
            unused: AtomicPtr::new(null_mut()),
            first: AtomicPtr::new(null_mut()),
            last: AtomicPtr::new(null_mut()),
            waiting: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
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
        size < self.most
    }

    /// True where a block of so many bytes may stay in a lane's chunk.
    #[inline(always)]
    pub(super) const fn stages(&self, size: usize) -> bool {
        size < self.small
    }

    /// True now and then: when chunks of threads that ended are to be collected.
    pub(super) fn is_due(&self) -> bool {
        let turns = self.turns.load(Relaxed).wrapping_add(1);
        self.turns.store(turns, Relaxed);
        turns.is_multiple_of(32)
    }

    /// Takes what waits in a lane into the queue. The lane is the caller's.
    pub(super) fn collect(&self, lane: &Lane) {
        let _held = self.hold();
        // SAFETY: chunks live as long as the quarantine.
        let Some(chunk) = (unsafe { lane.chunk.load(Relaxed).as_ref() }) else { return };
        if chunk.len.load(Relaxed) > 0 {
            self.append(NonNull::from(chunk));
            lane.chunk.store(null_mut(), Relaxed);
        }
    }

    /// Nothing leaves quarantine while this is held, and what left before is out of every list.
    ///
    /// Lists that a thread was changing when the process forked are given up in the child: what waits there waits for ever.
    #[inline]
    pub(super) fn hold(&self) -> Held<'_> {
        let held = self.lock.lock();
        if held.is_inherited() {
            for list in [&self.first, &self.last, &self.unused] {
                list.store(null_mut(), Relaxed);
            }
            self.waiting.store(0, Relaxed);
        }
        held
    }

    /// Puts a block into the lane's chunk; false where that is full.
    #[inline(always)]
    pub(super) fn push(&self, lane: &Lane, block: &Waiting) -> bool {
        // SAFETY: chunks live as long as the quarantine.
        let Some(chunk) = (unsafe { lane.chunk.load(Relaxed).as_ref() }) else { return false };
        let (len, bytes) = (chunk.len.load(Relaxed), chunk.bytes());
        if len >= self.chunk_len || bytes >= self.chunk_bytes {
            return false;
        }
        let Some(entry) = chunk.entries.get(len as usize) else { return false };
        entry.store(block);
        chunk.bytes.store(bytes.wrapping_add(block.words.size()), Relaxed);
        chunk.len.store(len + 1, Release);
        true
    }

    /// Takes the lane's full chunk into the queue, and out of it, or from the unused ones, a chunk to fill next: it is in no list until
    /// it is settled, and so many blocks were in it that have to go. `None` where there is none: all are under way like this.
    pub(super) fn rotate(&self, lane: &Lane) -> Option<(&Chunk, usize)> {
        let _held = self.hold();
        if let Some(full) = NonNull::new(lane.chunk.load(Relaxed)) {
            self.append(full);
            lane.chunk.store(null_mut(), Relaxed);
        }
        let room = self.waiting.load(Relaxed) <= self.bytes;
        let next = room.then(|| self.unused()).flatten().or_else(|| self.remove())?;
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { next.as_ref() };
        Some((chunk, chunk.empty()))
    }

    /// Lets the lane fill `chunk`, unless it has got another one meanwhile.
    pub(super) fn settle(&self, lane: &Lane, chunk: &Chunk) {
        if lane.chunk.load(Relaxed).is_null() {
            lane.chunk.store(core::ptr::from_ref(chunk).cast_mut(), Relaxed);
        } else {
            self.keep(chunk);
        }
    }

    /// Keeps an empty chunk for later.
    pub(super) fn keep(&self, chunk: &Chunk) {
        let _held = self.hold();
        chunk.next.store(self.unused.load(Relaxed), Relaxed);
        self.unused.store(core::ptr::from_ref(chunk).cast_mut(), Relaxed);
    }

    /// Takes the oldest chunk out where too many bytes wait; so many blocks were in it that have to go.
    pub(super) fn relieve(&self) -> Option<(&Chunk, usize)> {
        if self.waiting.load(Relaxed) <= self.bytes {
            return None;
        }
        let _held = self.hold();
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { self.remove()?.as_ref() };
        Some((chunk, chunk.empty()))
    }

    fn append(&self, full: NonNull<Chunk>) {
        // SAFETY: chunks live as long as the quarantine.
        let chunk = unsafe { full.as_ref() };
        chunk.next.store(null_mut(), Relaxed);
        self.waiting.store(self.waiting.load(Relaxed).wrapping_add(chunk.bytes()), Relaxed);
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
        self.waiting.store(self.waiting.load(Relaxed).wrapping_sub(chunk.bytes()), Relaxed);
        Some(first)
    }

    fn unused(&self) -> Option<NonNull<Chunk>> {
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

    /// As it is in a child, where a thread that was left behind held the lock.
    #[cfg(test)]
    pub(super) fn leave_behind(&mut self) {
        self.lock = Lock::left_behind();
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
