//! A cached shader is a block in its owner's memory, which hits read, and an entry in the cache's memory, which only writers use.
//!
//! ```text
//!   block, the owner's       0        8     16     24       28        32
//!                            | device | low | high | number | touched | payload ..
//!   entry, the cache's       0       8         16     24      28      32     36         40     44                   48
//!                            | block | refs    | bytes | state | owner | next | previous | link | is_being_destroyed |
//! ```
//! An entry never moves, and its memory stays an entry: counted references are released in it when the block may already be gone.

#![forbid(unsafe_code)]

use core::ptr::{NonNull, null_mut};

use super::key::ShaderKey;
use super::segments::NONE;
use crate::sync::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

pub(super) const FREE: u32 = 0;
/// In the table; a lookup may reference it.
pub(super) const LIVE: u32 = 1;
/// Removed from the table; destroyed when the last reference is dropped.
pub(super) const DEAD: u32 = 2;

/// Precedes a payload. Read through a reference, or under the lock while the shader exists.
#[repr(C)]
pub(super) struct ShaderHeader {
    pub(super) key: ShaderKey,
    /// Number of the shader's entry.
    pub(super) number: u32,
    /// Epoch of the last hit.
    pub(super) touched: AtomicU32,
}

/// All zeros is a free entry. Only a thread with the lock writes it, except to `refs`, and to `block` while a dead entry is destroyed.
#[derive(Default)]
#[repr(C)]
pub(super) struct CacheEntry {
    /// Null if the entry has no block.
    block: AtomicPtr<ShaderHeader>,
    /// References that stand in no record. 64 bits, so that leaked references cannot wrap it to 0.
    pub(super) refs: AtomicU64,
    /// Bytes that count against the cache's limit.
    pub(super) bytes: AtomicU64,
    pub(super) state: AtomicU32,
    /// Number of the owner's slot.
    pub(super) owner: AtomicU32,
    /// Neighbours in the list of the owner's live entries, or in the list of dead entries that are still referenced.
    pub(super) next: AtomicU32,
    pub(super) previous: AtomicU32,
    /// Next free entry, or next entry to destroy.
    pub(super) link: AtomicU32,
    /// 1 once a thread was chosen to destroy the entry.
    pub(super) is_being_destroyed: AtomicU32,
}

impl CacheEntry {
    /// Fills a free entry with `holds` counted references; live if `found`, dead otherwise. Requires the lock.
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
        // Set before a lookup can find the entry, so that it is not evicted before the waiting threads have their references. A thread that
        // releases one of them sees this store through the lock, or through the place that the block is put into next.
        self.refs.store(u64::from(holds), Relaxed);
        self.state.store(if found { LIVE } else { DEAD }, Relaxed);
    }

    /// Marks the entry free after its payload was destroyed or moved out. Requires the lock.
    pub(super) fn free(&self) {
        self.is_being_destroyed.store(0, Relaxed);
        self.state.store(FREE, Relaxed);
    }

    pub(super) fn block(&self) -> Option<NonNull<ShaderHeader>> {
        NonNull::new(self.block.load(Acquire))
    }

    /// Removes the block from the entry; the caller owns it now.
    pub(super) fn detach_block(&self) -> Option<NonNull<ShaderHeader>> {
        let block = self.block();
        self.block.store(null_mut(), Release);
        block
    }

    pub(super) fn is_live(&self) -> bool {
        self.state.load(SeqCst) == LIVE
    }
}
