//! What a planted defect carries from one command to another.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use super::chain::FakeBlock;

/// One block that is freed somewhere else than where it was taken.
#[derive(Default)]
pub(super) struct PlantedState {
    block: AtomicPtr<u8>,
}

impl PlantedState {
    /// Keeps the address of `block`.
    pub(super) fn put(&self, block: FakeBlock) {
        self.block.store(block.at.as_ptr(), SeqCst);
    }

    /// The block that was put last, once.
    pub(super) fn remove(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.block.swap(ptr::null_mut(), SeqCst))
    }
}
