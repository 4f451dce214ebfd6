//! What there is of a shader: a block in its owner's memory, which a hit reads, and an entry in the cache's, which only writers do.
//!
//! ```text
//!   block, the owner's       0        8     16     24       28        32
//!                            | device | low | high | number | touched | payload ..
//!   entry, the cache's       0       8         16     24      28      32     36         40     44      48
//!                            | block | refs    | bytes | state | owner | next | previous | link | dying |
//! ```
//! Where an entry lies never changes, and what once was one always is: holds that are counted are let go in it when the block may be gone.

#![forbid(unsafe_code)]

use core::ptr::{NonNull, null_mut};

use super::key::ShaderKey;
use super::segments::NONE;
use crate::sync::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

/// Unused.
pub(super) const FREE: u32 = 0;
/// In the table; a lookup may reference it.
pub(super) const LIVE: u32 = 1;
/// Removed from the table; destroyed when the last reference is dropped.
pub(super) const DEAD: u32 = 2;

/// What lies in front of a payload. Read by who holds the shader, and by who has the lock while the shader is there.
#[repr(C)]
pub(super) struct ShaderHeader {
    pub(super) key: ShaderKey,
    /// Number of its entry.
    pub(super) number: u32,
    /// The epoch of the last hit.
    pub(super) touched: AtomicU32,
}

/// All zeros is a free one. What only those with the lock change, but for `refs`.
#[derive(Default)]
#[repr(C)]
pub(super) struct CacheEntry {
    /// The shader's block; null where there is none.
    block: AtomicPtr<ShaderHeader>,
    /// Holds that stand in no record. Of 64 bits: holds that are forgotten, one after the other, never bring it round to 0.
    pub(super) refs: AtomicU64,
    /// How much it counts.
    pub(super) bytes: AtomicU64,
    pub(super) state: AtomicU32,
    /// Number of the owner.
    pub(super) owner: AtomicU32,
    /// Neighbours in the list of the owner's live ones, or in that of all dead ones that are held.
    pub(super) next: AtomicU32,
    pub(super) previous: AtomicU32,
    /// The next free one, or the next that is about to be destroyed.
    pub(super) link: AtomicU32,
    /// Somebody is destroying it.
    pub(super) is_being_destroyed: AtomicU32,
}

impl CacheEntry {
    /// Fills a free one, held so many times: dead at once where nobody is to find it, live otherwise. With the lock.
    pub(super) fn fill(
        &self,
        block: NonNull<ShaderHeader>,
        owner: u32,
        bytes: u64,
        holds: u32,
        found: bool,
    ) {
        self.owner.store(owner, Relaxed);
        self.next.store(NONE, Relaxed);
        self.previous.store(NONE, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.block.store(block.as_ptr(), Release);
        // Before it can be found, so that nobody can evict it before those who wait have it. Whoever lets one of these go knows of it by
        // the lock, or by the place that the block is put into next.
        self.refs.store(u64::from(holds), Relaxed);
        self.state.store(if found { LIVE } else { DEAD }, Relaxed);
    }

    /// Is free, after its payload was destroyed. With the lock.
    pub(super) fn free(&self) {
        self.is_being_destroyed.store(0, Relaxed);
        self.state.store(FREE, Relaxed);
    }

    /// Where the shader's block lies.
    pub(super) fn block(&self) -> Option<NonNull<ShaderHeader>> {
        NonNull::new(self.block.load(Acquire))
    }

    /// From now on it has none: the block is the caller's.
    pub(super) fn detach_block(&self) -> Option<NonNull<ShaderHeader>> {
        let block = self.block();
        self.block.store(null_mut(), Release);
        block
    }

    pub(super) fn is_live(&self) -> bool {
        self.state.load(SeqCst) == LIVE
    }
}
