//! Host memory that moves into a table or out of it.
//!
//! Tables of this crate may be behind a lock, so they do not allocate. A table returns its missing capacity, a
//! [`Layout`]; the caller unlocks, allocates, and passes the block in ([`DeviceAndHost::grow`](crate::pool::DeviceAndHost::grow)).
//! The table returns the memory that it does not need, also if another thread was faster, and the caller frees it.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, HostError, Scope};

/// A block of host memory with its layout; nothing else refers to it.
#[derive(Debug)]
#[must_use = "it is lost unless it is freed"]
pub(crate) struct HostBlock {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value owns the block, which any thread may use and free.
unsafe impl Send for HostBlock {}

impl HostBlock {
    /// # Safety
    /// `start` is a live block of `layout`, and is used only through this value.
    pub(crate) const unsafe fn new(start: NonNull<u8>, layout: Layout) -> Self {
        Self { start, layout }
    }

    /// A new block of scope object. Call it without a lock.
    pub(crate) fn allocate(
        memory: &(impl HostAllocator + ?Sized),
        layout: Layout,
    ) -> Result<Self, HostError> {
        match memory.allocate(layout, Scope::Object) {
            Ok(start) => Ok(Self { start, layout }),
            Err(_) => Err(memory.refusal(layout, Scope::Object)),
        }
    }

    /// Frees it. Call it without a lock.
    ///
    /// # Safety
    /// It came from this `memory`, for scope object.
    pub(crate) unsafe fn free(self, memory: &(impl HostAllocator + ?Sized)) {
        // SAFETY: allocated there with this layout and scope, by the caller's promise; it is not used any more.
        unsafe { memory.deallocate(self.start, self.layout, Scope::Object) };
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Its first byte; the caller owns the block.
    pub(crate) const fn into_start(self) -> NonNull<u8> {
        self.start
    }
}
