//! An entry of the cache: where it lies never changes, and what once was an entry always is one.
//!
//! ```text
//!   line 0, read by all            0        8     16     24      28        32      36        40        48
//!                                  | device | low | high | state | touched | owner |   | payload | bytes
//!   line 1, the writers'          64             72         76          80        84
//!                                  | refs         | next     | previous  | link    | dying
//! ```

#![forbid(unsafe_code)]

use core::ptr::NonNull;

use super::key::ShaderKey;
use super::segments::NONE;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

/// Nobody's; what a table still says of it is old.
pub(super) const FREE: u32 = 0;
/// Found and held by whoever asks.
pub(super) const LIVE: u32 = 1;
/// Found by nobody any more; goes with its last hold.
pub(super) const DEAD: u32 = 2;
/// Its owner's release is being decided, under the lock: live again afterwards, or gone. Whoever meets it waits for the lock and looks again.
pub(super) const CLOSING: u32 = 3;

/// All zeros is a free one.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Entry {
    device: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    pub(super) state: AtomicU32,
    /// The epoch of the last hit.
    pub(super) touched: AtomicU32,
    /// Number of the owner.
    pub(super) owner: AtomicU32,
    /// What was compiled, in the owner's memory.
    pub(super) payload: AtomicPtr<u8>,
    /// How much it counts.
    pub(super) bytes: AtomicU64,
    pub(super) cold: Cold,
}

/// What only those with the lock change, but for `refs`.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// Holds that stand in no thread's record. Of 64 bits: holds that are forgotten, one after the other, never bring it round to 0.
    pub(super) refs: AtomicU64,
    /// Neighbours in the owner's list.
    pub(super) next: AtomicU32,
    pub(super) previous: AtomicU32,
    /// The next free one.
    pub(super) link: AtomicU32,
    /// Somebody is destroying it.
    pub(super) dying: AtomicU32,
}

impl Entry {
    /// True for this key, as of now.
    #[inline(always)]
    pub(super) fn is(&self, key: ShaderKey) -> bool {
        let Self { device, low, high, .. } = self;
        (device.load(Relaxed) ^ key.device) | (low.load(Relaxed) ^ key.low) | (high.load(Relaxed) ^ key.high) == 0
    }

    pub(super) fn key(&self) -> ShaderKey {
        ShaderKey { device: self.device.load(Relaxed), low: self.low.load(Relaxed), high: self.high.load(Relaxed) }
    }

    /// Fills a free one, held so many times: dead at once where nobody is to find it, live otherwise. With the lock.
    pub(super) fn make(&self, key: ShaderKey, owner: u32, payload: (NonNull<u8>, u64), holds: u32, found: bool) {
        self.name(key, owner);
        self.payload.store(payload.0.as_ptr(), Release);
        self.bytes.store(payload.1, Relaxed);
        // Before it can be found, so that nobody can evict it before those who wait have it. Added: somebody who found an old word in a
        // table may count here for a moment.
        self.cold.refs.fetch_add(u64::from(holds), SeqCst);
        self.state.store(if found { LIVE } else { DEAD }, SeqCst);
    }

    /// Is free, after its payload was destroyed. With the lock.
    pub(super) fn free(&self) {
        self.cold.dying.store(0, Relaxed);
        self.state.store(FREE, SeqCst);
    }

    fn name(&self, key: ShaderKey, owner: u32) {
        self.device.store(key.device, Relaxed);
        self.low.store(key.low, Relaxed);
        self.high.store(key.high, Relaxed);
        self.owner.store(owner, Relaxed);
        self.cold.next.store(NONE, Relaxed);
        self.cold.previous.store(NONE, Relaxed);
    }

    /// It does not live, and will not again as what it was.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state.load(SeqCst), FREE | DEAD)
    }

    #[inline(always)]
    pub(super) fn is_live(&self) -> bool {
        self.state.load(SeqCst) == LIVE
    }
}
