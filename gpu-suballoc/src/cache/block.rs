//! What lies in an owner's memory, and what an entry keeps for the day when it is given back.
//!
//! ```text
//!   block, the owner's    | front | value |          entry, the cache's    | atoms | handle of the owner's context, content |
//! ```

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Deref;
use core::ptr::NonNull;

use alloc_core::{ContextHandle, HostAllocator, HostError, Scope, TryBox};

use super::entry::{CacheEntry, ShaderHeader};
use super::segments::Zeroed;

/// A shader's block: what a hit reads lies side by side.
#[repr(C)]
pub(super) struct StoredPayload<P> {
    pub(super) front: ShaderHeader,
    pub(super) value: P,
}

/// What only a comparison of contents and the end of a shader need.
pub(super) struct EntryDetails {
    pub(super) memory: ContextHandle,
    pub(super) content: Option<TryBox<[u8], ContextHandle>>,
}

/// An entry with what it keeps: something, while it has a block.
pub(super) struct DetailedEntry {
    entry: CacheEntry,
    keeps: UnsafeCell<MaybeUninit<EntryDetails>>,
}

// SAFETY: `keeps` is written before the entry's block is there, and moved out when nobody reads it any more.
unsafe impl Sync for DetailedEntry {}
// SAFETY: zeros are a free entry, which keeps nothing.
unsafe impl Zeroed for DetailedEntry {}

impl Deref for DetailedEntry {
    type Target = CacheEntry;
    #[inline(always)]
    fn deref(&self) -> &CacheEntry {
        &self.entry
    }
}

impl DetailedEntry {
    /// # Safety
    /// The entry is free, and the caller's, who gives it a block next.
    pub(super) unsafe fn set_details(&self, keeps: EntryDetails) {
        // SAFETY: the caller: nobody else reads or writes it.
        unsafe { self.keeps.get().write(MaybeUninit::new(keeps)) };
    }

    /// # Safety
    /// The entry's block was there until now, and nobody reads what is kept any more.
    pub(super) unsafe fn remove_details(&self) -> EntryDetails {
        // SAFETY: the caller: it is there, and nobody else's.
        let keeps = unsafe { self.keeps.get().read() };
        // SAFETY: written before the block was.
        unsafe { keeps.assume_init() }
    }

    /// # Safety
    /// The entry has a block, and keeps it as long as the reference is used.
    pub(super) unsafe fn content(&self) -> Option<&[u8]> {
        // SAFETY: the caller: nobody writes it meanwhile.
        let keeps = unsafe { &*self.keeps.get() };
        // SAFETY: written before the block was.
        unsafe { keeps.assume_init_ref() }.content.as_deref()
    }
}

/// Memory of the owner's for what will be compiled, or was.
pub(super) struct ReservedBlock<'m, P> {
    pub(super) block: NonNull<StoredPayload<P>>,
    pub(super) memory: &'m ContextHandle,
}

impl<'m, P> ReservedBlock<'m, P> {
    pub(super) fn new(memory: &'m ContextHandle) -> Result<Self, HostError> {
        let block = memory
            .try_allocate(Layout::new::<StoredPayload<P>>(), Scope::Cache)?
            .cast();
        Ok(Self { block, memory })
    }

    pub(super) fn fill(self, stored: StoredPayload<P>) -> NonNull<ShaderHeader> {
        let this = ManuallyDrop::new(self);
        // SAFETY: a block of this layout, nobody else's.
        unsafe { this.block.write(stored) };
        this.block.cast()
    }
}

impl<P> Drop for ReservedBlock<'_, P> {
    fn drop(&mut self) {
        // SAFETY: taken in `new` with this layout and scope; nothing is in it.
        unsafe {
            self.memory.deallocate(
                self.block.cast(),
                Layout::new::<StoredPayload<P>>(),
                Scope::Cache,
            )
        };
    }
}
