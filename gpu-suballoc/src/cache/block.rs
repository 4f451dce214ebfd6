//! What lies in an owner's memory, and what entries and owners keep until it is freed.
//!
//! ```text
//!   block, the owner's    | front | value |          entry, the cache's    | atoms | content |
//!                                                    owner, the cache's    | atoms | handle of its context |
//! ```

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Deref;
use core::ptr::NonNull;

use alloc_core::{ContextHandle, HostAllocator, HostError, Scope, TryBox};

use super::entry::{CacheEntry, ShaderHeader};
use super::owner::OwnerSlot;
use super::segments::Zeroed;

/// A shader's block: what a hit reads lies side by side.
#[repr(C)]
pub(super) struct StoredPayload<P> {
    pub(super) front: ShaderHeader,
    pub(super) value: P,
}

/// What a shader was compiled from, where that is compared.
pub(super) type ShaderContent = Option<TryBox<[u8], ContextHandle>>;

/// An entry with its content: something, while it has a block.
pub(super) struct DetailedEntry {
    entry: CacheEntry,
    content: UnsafeCell<MaybeUninit<ShaderContent>>,
}

// SAFETY: `content` is written before the entry's block is there, and moved out when nobody reads it any more.
unsafe impl Sync for DetailedEntry {}
// SAFETY: zeros are a free entry, which has no content.
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
    pub(super) unsafe fn set_content(&self, content: ShaderContent) {
        // SAFETY: the caller: nobody else reads or writes it.
        unsafe { self.content.get().write(MaybeUninit::new(content)) };
    }

    /// # Safety
    /// The entry's block was there until now, and nobody reads the content any more.
    pub(super) unsafe fn remove_content(&self) -> ShaderContent {
        // SAFETY: the caller: it is there, and nobody else's.
        let content = unsafe { self.content.get().read() };
        // SAFETY: written before the block was.
        unsafe { content.assume_init() }
    }

    /// # Safety
    /// The entry has a block, and keeps it as long as the reference is used.
    pub(super) unsafe fn content(&self) -> Option<&[u8]> {
        // SAFETY: the caller: nobody writes it meanwhile.
        let content = unsafe { &*self.content.get() };
        // SAFETY: written before the block was.
        unsafe { content.assume_init_ref() }.as_deref()
    }
}

/// An owner with a handle of the context that its blocks lie in: one handle, however many blocks there are.
pub(super) struct OwnerWithContext {
    slot: OwnerSlot,
    memory: UnsafeCell<MaybeUninit<ContextHandle>>,
}

// SAFETY: `memory` is written before the slot is an owner's, and moved out when it is nobody's and has no block.
unsafe impl Sync for OwnerWithContext {}
// SAFETY: zeros are a slot that nobody has, which has no context.
unsafe impl Zeroed for OwnerWithContext {}

impl Deref for OwnerWithContext {
    type Target = OwnerSlot;
    #[inline(always)]
    fn deref(&self) -> &OwnerSlot {
        &self.slot
    }
}

impl OwnerWithContext {
    /// # Safety
    /// The slot is free, and the caller's, who makes it an owner's next. With the lock.
    pub(super) unsafe fn set_memory(&self, memory: ContextHandle) {
        // SAFETY: the caller: nobody else reads or writes it.
        unsafe { self.memory.get().write(MaybeUninit::new(memory)) };
    }

    /// # Safety
    /// The slot is an owner's that lives or has a block, as long as the reference is used.
    pub(super) unsafe fn memory(&self) -> &ContextHandle {
        // SAFETY: the caller: nobody writes it meanwhile.
        let memory = unsafe { &*self.memory.get() };
        // SAFETY: written before the slot was an owner's.
        unsafe { memory.assume_init_ref() }
    }

    /// # Safety
    /// The slot was an owner's until now, and has no block. With the lock.
    pub(super) unsafe fn remove_memory(&self) -> ContextHandle {
        // SAFETY: the caller: it is there, and nobody else reads it.
        let memory = unsafe { self.memory.get().read() };
        // SAFETY: written before the slot was an owner's.
        unsafe { memory.assume_init() }
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

    /// The block that an owner kept, of whose context `memory` is.
    pub(super) const fn of_spare(block: NonNull<ShaderHeader>, memory: &'m ContextHandle) -> Self {
        let block = block.cast();
        Self { block, memory }
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
