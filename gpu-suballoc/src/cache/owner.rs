//! An owner's slot: the list and sums of its entries.

#![forbid(unsafe_code)]

use core::ptr::{NonNull, null_mut};

use super::entry::ShaderHeader;
use super::key::CacheDevice;
use super::segments::NONE;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// All zeros is a free slot. Changed only under the lock.
#[derive(Default)]
pub(super) struct OwnerSlot {
    /// 0: free. 1: the owner lives. 2: the owner was released; some entries are still referenced or being compiled.
    pub(super) state: AtomicU32,
    /// First of the owner's live entries.
    pub(super) first: AtomicU32,
    /// Entries that are live, dead but not freed, or being compiled. While it is above 0 the slot is not reused.
    pub(super) bound: AtomicU32,
    /// Next free slot.
    pub(super) link: AtomicU32,
    /// A block in the owner's context for its next compile, or null. Null once the owner was released.
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
    /// Assigns the slot to a new owner.
    pub(super) fn begin(&self, device: CacheDevice) {
        self.first.store(NONE, Relaxed);
        self.device.store(device.raw(), Relaxed);
        for sum in [&self.entries, &self.bytes, &self.zombies, &self.compiled] {
            sum.store(0, Relaxed);
        }
        self.bound.store(0, Relaxed);
        self.state.store(OWNER_LIVE, Relaxed);
    }

    /// Counts an entry that will be compiled.
    pub(super) fn bind(&self) {
        self.bound
            .store(self.bound.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Uncounts an entry that was freed or not compiled. A released owner's slot is freed after its last entry.
    pub(super) fn unbind(&self) {
        self.bound
            .store(self.bound.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// Removes the spare block; the caller owns it now. Requires the lock.
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

/// Adds to a sum that changes only under the lock.
pub(super) fn add(sum: &AtomicU64, by: u64) {
    sum.store(sum.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Subtracts from a sum that changes only under the lock.
pub(super) fn subtract(sum: &AtomicU64, by: u64) {
    sum.store(sum.load(Relaxed).wrapping_sub(by), Relaxed);
}
