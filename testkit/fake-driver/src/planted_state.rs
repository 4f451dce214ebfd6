//! The state of a planted defect between commands.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use crate::chain::FakeBlock;

/// A block that is not freed where it was allocated.
#[derive(Debug, Default)]
pub struct PlantedState {
    block: AtomicPtr<u8>,
}

impl PlantedState {
    /// Without a block.
    #[must_use]
    pub const fn new() -> Self {
        Self { block: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether no block is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.load(SeqCst).is_null()
    }

    /// Keeps the address of `block`.
    pub(crate) fn put(&self, block: FakeBlock) {
        self.block.store(block.at.as_ptr(), SeqCst);
    }

    /// Removes and returns the block.
    pub(crate) fn remove(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.block.swap(ptr::null_mut(), SeqCst))
    }
}
