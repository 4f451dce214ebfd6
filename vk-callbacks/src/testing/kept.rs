//! What a planted defect carries from one command to another.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use super::chain::Block;

/// One block that is freed somewhere else than where it was taken.
#[derive(Default)]
pub(super) struct Kept {
    block: AtomicPtr<u8>,
}

impl Kept {
    /// Keeps the address of `block`.
    pub(super) fn put(&self, block: Block) {
        self.block.store(block.at.as_ptr(), SeqCst);
    }

    /// The block that was put last, once.
    pub(super) fn take(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.block.swap(ptr::null_mut(), SeqCst))
    }
}
