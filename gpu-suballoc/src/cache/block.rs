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

use alloc_core::{Handle, HostAllocator, HostError, Scope, TryBox};

use super::entry::{Entry, Front};
use super::segments::Zeroed;

/// A shader's block: what a hit reads lies side by side.
#[repr(C)]
pub(super) struct Stored<P> {
    pub(super) front: Front,
    pub(super) value: P,
}

/// What only a comparison of contents and the end of a shader need.
pub(super) struct Keeps {
    pub(super) memory: Handle,
    pub(super) content: Option<TryBox<[u8], Handle>>,
}

/// An entry with what it keeps: something, while it has a block.
pub(super) struct Kept {
    entry: Entry,
    keeps: UnsafeCell<MaybeUninit<Keeps>>,
}

// SAFETY: `keeps` is written before the entry's block is there, and moved out when nobody reads it any more.
unsafe impl Sync for Kept {}
// SAFETY: zeros are a free entry, which keeps nothing.
unsafe impl Zeroed for Kept {}

impl Deref for Kept {
    type Target = Entry;
    #[inline(always)]
    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Kept {
    /// # Safety
    /// The entry is free, and the caller's, who gives it a block next.
    pub(super) unsafe fn put(&self, keeps: Keeps) {
        // SAFETY: the caller: nobody else reads or writes it.
        unsafe { self.keeps.get().write(MaybeUninit::new(keeps)) };
    }

    /// # Safety
    /// The entry's block was there until now, and nobody reads what is kept any more.
    pub(super) unsafe fn take(&self) -> Keeps {
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
pub(super) struct Room<'m, P> {
    pub(super) block: NonNull<Stored<P>>,
    pub(super) memory: &'m Handle,
}

impl<'m, P> Room<'m, P> {
    pub(super) fn new(memory: &'m Handle) -> Result<Self, HostError> {
        let block = memory.try_allocate(Layout::new::<Stored<P>>(), Scope::Cache)?.cast();
        Ok(Self { block, memory })
    }

    pub(super) fn fill(self, stored: Stored<P>) -> NonNull<Front> {
        let this = ManuallyDrop::new(self);
        // SAFETY: a block of this layout, nobody else's.
        unsafe { this.block.write(stored) };
        this.block.cast()
    }
}

impl<P> Drop for Room<'_, P> {
    fn drop(&mut self) {
        // SAFETY: taken in `new` with this layout and scope; nothing is in it.
        unsafe { self.memory.deallocate(self.block.cast(), Layout::new::<Stored<P>>(), Scope::Cache) };
    }
}
