//! Shader blocks in an owner's memory, and the values that entries and owners keep until the block is freed.
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

/// A shader's block: header and value lie side by side for hits.
#[repr(C)]
pub(super) struct StoredPayload<P> {
    pub(super) front: ShaderHeader,
    pub(super) value: P,
}

/// The bytes that a shader was compiled from, if they are compared.
pub(super) type ShaderContent = Option<TryBox<[u8], ContextHandle>>;

/// An entry with its content, which is initialized while the entry has a block.
pub(super) struct DetailedEntry {
    entry: CacheEntry,
    content: UnsafeCell<MaybeUninit<ShaderContent>>,
}

// SAFETY: `content` is written before the entry has its block, and moved out when no thread reads it any more.
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
    /// The entry must be free and reserved for the caller, which sets its block next.
    pub(super) unsafe fn set_content(&self, content: ShaderContent) {
        // SAFETY: the caller: no other thread reads or writes it.
        unsafe { self.content.get().write(MaybeUninit::new(content)) };
    }

    /// # Safety
    /// The entry had its block until now, and no thread reads the content any more.
    pub(super) unsafe fn remove_content(&self) -> ShaderContent {
        // SAFETY: the caller: it is initialized, and no other thread uses it.
        let content = unsafe { self.content.get().read() };
        // SAFETY: written before the entry had its block.
        unsafe { content.assume_init() }
    }

    /// # Safety
    /// The entry must have a block, and keep it as long as the reference is used.
    pub(super) unsafe fn content(&self) -> Option<&[u8]> {
        // SAFETY: the caller: no thread writes it meanwhile.
        let content = unsafe { &*self.content.get() };
        // SAFETY: written before the entry had its block.
        unsafe { content.assume_init_ref() }.as_deref()
    }
}

/// An owner with one handle of the context that all of its blocks lie in.
pub(super) struct OwnerWithContext {
    slot: OwnerSlot,
    memory: UnsafeCell<MaybeUninit<ContextHandle>>,
}

// SAFETY: `memory` is written before the slot has an owner, and moved out when the slot has neither owner nor block.
unsafe impl Sync for OwnerWithContext {}
// SAFETY: zeros are a free slot, which has no context.
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
    /// The slot must be free and reserved for the caller, which assigns it to an owner next. Requires the lock.
    pub(super) unsafe fn set_memory(&self, memory: ContextHandle) {
        // SAFETY: the caller: no other thread reads or writes it.
        unsafe { self.memory.get().write(MaybeUninit::new(memory)) };
    }

    /// # Safety
    /// The slot's owner must live or have a block as long as the reference is used.
    pub(super) unsafe fn memory(&self) -> &ContextHandle {
        // SAFETY: the caller: no thread writes it meanwhile.
        let memory = unsafe { &*self.memory.get() };
        // SAFETY: written before the slot had an owner.
        unsafe { memory.assume_init_ref() }
    }

    /// # Safety
    /// The slot had an owner until now, and has no block. Requires the lock.
    pub(super) unsafe fn remove_memory(&self) -> ContextHandle {
        // SAFETY: the caller: it is initialized, and no other thread reads it.
        let memory = unsafe { self.memory.get().read() };
        // SAFETY: written before the slot had an owner.
        unsafe { memory.assume_init() }
    }
}

/// A block in the owner's memory without a value: reserved for a compile, or left by a destroyed shader.
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

    /// The owner's spare block; `memory` is the owner's context.
    pub(super) const fn of_spare(block: NonNull<ShaderHeader>, memory: &'m ContextHandle) -> Self {
        let block = block.cast();
        Self { block, memory }
    }

    pub(super) fn fill(self, stored: StoredPayload<P>) -> NonNull<ShaderHeader> {
        let this = ManuallyDrop::new(self);
        // SAFETY: a block of this layout, which only this value owns.
        unsafe { this.block.write(stored) };
        this.block.cast()
    }
}

impl<P> Drop for ReservedBlock<'_, P> {
    fn drop(&mut self) {
        // SAFETY: allocated by `memory` with this layout and scope; it has no value.
        unsafe {
            self.memory.deallocate(
                self.block.cast(),
                Layout::new::<StoredPayload<P>>(),
                Scope::Cache,
            )
        };
    }
}
