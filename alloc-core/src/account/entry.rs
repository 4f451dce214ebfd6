//! One thread's unfolded counts for one (context, scope): a cache line that only its thread writes.
//!
//! ```text
//!  0 tag          serial * 8 + scope of the row these counts belong to; 0 = empty
//!  8 alloc_bytes  16 alloc_blocks   24 free_bytes   32 free_blocks      since the last fold
//! 40 high         the maximum of alloc_bytes - free_bytes since the last fold
//! 48 ceiling      unbudgeted: fold when the difference exceeds it; budgeted: the difference that the lease allows
//! 56 node         the context
//! ```
//!
//! A reader that loads `tag` and the frees first, with Acquire, also sees the allocation of each free.

use crate::context::ContextNode;
use crate::sync::{AtomicI64, AtomicPtr, AtomicU64, Ordering, Relaxed as _};

#[repr(C, align(64))]
pub(crate) struct AccountEntry {
    pub(super) tag: AtomicU64,
    alloc_bytes: AtomicU64,
    alloc_blocks: AtomicU64,
    free_bytes: AtomicU64,
    free_blocks: AtomicU64,
    high: AtomicI64,
    ceiling: AtomicI64,
    node: AtomicPtr<ContextNode>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) alloc_bytes: u64,
    pub(crate) alloc_blocks: u64,
    pub(crate) free_bytes: u64,
    pub(crate) free_blocks: u64,
    pub(crate) high: i64,
}

impl Counts {
    #[inline]
    pub(crate) fn delta(&self) -> i64 {
        self.alloc_bytes.wrapping_sub(self.free_bytes).cast_signed()
    }
}

impl AccountEntry {
    pub(crate) const fn new() -> Self {
        Self {
            tag: AtomicU64::new(0),
            alloc_bytes: AtomicU64::new(0),
            alloc_blocks: AtomicU64::new(0),
            free_bytes: AtomicU64::new(0),
            free_blocks: AtomicU64::new(0),
            high: AtomicI64::new(0),
            ceiling: AtomicI64::new(0),
            node: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn node(&self) -> *mut ContextNode {
        self.node.get()
    }

    #[inline]
    pub(crate) fn ceiling(&self) -> i64 {
        self.ceiling.get()
    }

    #[inline]
    pub(crate) fn set_ceiling(&self, ceiling: i64) {
        self.ceiling.set(ceiling);
    }

    #[inline]
    pub(crate) fn delta(&self) -> i64 {
        let taken = self.alloc_bytes.get();
        taken.wrapping_sub(self.free_bytes.get()).cast_signed()
    }

    /// True when the owner thread must fold the entry.
    #[inline]
    pub(crate) fn record_alloc(&self, bytes: u64, blocks: u64) -> bool {
        let taken = self.alloc_bytes.get().wrapping_add(bytes);
        let delta = taken.wrapping_sub(self.free_bytes.get()).cast_signed();
        self.alloc_bytes.set(taken);
        self.alloc_blocks.set(self.alloc_blocks.get().wrapping_add(blocks));
        if delta > self.high.get() {
            self.high.set(delta);
            return delta > self.ceiling.get();
        }
        false
    }

    #[inline]
    pub(crate) fn record_free(&self, bytes: u64, blocks: u64) -> i64 {
        let given = self.free_bytes.get().wrapping_add(bytes);
        let delta = self.alloc_bytes.get().wrapping_sub(given).cast_signed();
        self.free_blocks.store(self.free_blocks.get().wrapping_add(blocks), Ordering::Release);
        self.free_bytes.store(given, Ordering::Release);
        delta
    }

    /// The caller holds the row's lock.
    pub(crate) fn read(&self) -> Counts {
        let free_bytes = self.free_bytes.load(Ordering::Acquire);
        let free_blocks = self.free_blocks.load(Ordering::Acquire);
        Counts {
            free_bytes,
            free_blocks,
            alloc_bytes: self.alloc_bytes.get(),
            alloc_blocks: self.alloc_blocks.get(),
            high: self.high.get(),
        }
    }

    /// The caller holds the row's lock, and no other thread can write the entry.
    pub(crate) fn drain(&self) -> Counts {
        let counts = self.read();
        self.alloc_bytes.set(0);
        self.alloc_blocks.set(0);
        self.free_blocks.set(0);
        self.free_bytes.set(0);
        self.high.set(0);
        counts
    }

    /// The entry is drained, and the table's lock held. Whoever sees the new tag also sees the zeroed counts.
    pub(crate) fn install(&self, tag: u64, node: *mut ContextNode, ceiling: i64) {
        self.node.set(node);
        self.ceiling.set(ceiling);
        self.tag.store(tag, Ordering::Release);
    }
}
