//! Whose entries they are.

#![forbid(unsafe_code)]

use core::ptr::{NonNull, null_mut};

use super::entry::ShaderHeader;
use super::key::CacheDevice;
use super::segments::NONE;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// One owner's list and sums; all zeros is one that nobody has. Changed with the lock, read by whoever wants to know.
#[derive(Default)]
pub(super) struct OwnerSlot {
    /// 0: free. 1: its owner lives. 2: the owner is gone, some of its entries are still held, or being compiled.
    pub(super) state: AtomicU32,
    /// The first of its live entries.
    pub(super) first: AtomicU32,
    /// Entries that are live, dead but held, or about to be made: while there is one the slot stays its owner's.
    pub(super) bound: AtomicU32,
    /// The next free one.
    pub(super) link: AtomicU32,
    /// A block of its context for the next compile; null where there is none. The owner's as long as it lives.
    pub(super) spare: AtomicPtr<ShaderHeader>,
    device: AtomicU64,
    pub(super) entries: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) zombies: AtomicU64,
    pub(super) compiled: AtomicU64,
}

pub(super) const OWNER_LIVE: u32 = 1;
pub(super) const OWNER_LEAVING: u32 = 2;

impl OwnerSlot {
    /// A new owner moves in.
    pub(super) fn begin(&self, device: CacheDevice) {
        self.first.store(NONE, Relaxed);
        self.device.store(device.raw(), Relaxed);
        for sum in [&self.entries, &self.bytes, &self.zombies, &self.compiled] {
            sum.store(0, Relaxed);
        }
        self.bound.store(0, Relaxed);
        self.state.store(OWNER_LIVE, Relaxed);
    }

    /// One entry more to come.
    pub(super) fn bind(&self) {
        self.bound
            .store(self.bound.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// One entry less, or none to come: an owner that has gone leaves its slot with the last.
    pub(super) fn unbind(&self) {
        self.bound
            .store(self.bound.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// The block that it keeps is the caller's. With the lock.
    pub(super) fn remove_spare(&self) -> Option<NonNull<ShaderHeader>> {
        let spare = NonNull::new(self.spare.load(Relaxed));
        if spare.is_some() {
            self.spare.store(null_mut(), Relaxed);
        }
        spare
    }

    pub(super) fn is_of(&self, device: CacheDevice) -> bool {
        self.device.load(Relaxed) == device.raw()
    }
}

/// Adds to a sum that only those with the lock change.
pub(super) fn add(sum: &AtomicU64, by: u64) {
    sum.store(sum.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Takes from a sum that only those with the lock change.
pub(super) fn subtract(sum: &AtomicU64, by: u64) {
    sum.store(sum.load(Relaxed).wrapping_sub(by), Relaxed);
}
