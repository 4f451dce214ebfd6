//! A value that several hold, in memory of a context: it goes with the last of them.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{Handle, HostAllocator, HostError, Scope};

pub(crate) struct Shared<T> {
    block: NonNull<Block<T>>,
    owns: PhantomData<T>,
}

struct Block<T> {
    value: T,
    /// Of 64 bits: holders that are forgotten, one after the other, never bring it round to 0.
    holders: AtomicU64,
    memory: Handle,
}

// SAFETY: the value is reached by reference alone, and dropped once, on the thread of its last holder.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Where the memory is refused the value is dropped.
    pub(crate) fn new(value: T, memory: Handle) -> Result<Self, HostError> {
        let block = memory.try_allocate(Layout::new::<Block<T>>(), Scope::Object)?.cast::<Block<T>>();
        // SAFETY: a block of this layout, nobody else's.
        unsafe { block.write(Block { value, holders: AtomicU64::new(1), memory }) };
        Ok(Self { block, owns: PhantomData })
    }

    fn block(&self) -> &Block<T> {
        // SAFETY: it lives as long as one of its holders.
        unsafe { self.block.as_ref() }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.block().value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        self.block().holders.fetch_add(1, Ordering::Relaxed);
        Self { block: self.block, owns: PhantomData }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.block().holders.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // SAFETY: nobody else is left; it is moved out of its block, which nobody reads any more.
        let Block { value, memory, .. } = unsafe { self.block.read() };
        drop(value);
        // SAFETY: taken in `new` with this layout and scope.
        unsafe { memory.deallocate(self.block.cast(), Layout::new::<Block<T>>(), Scope::Object) };
    }
}
