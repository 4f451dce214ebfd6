//! A shared value in memory of a context, dropped with its last reference: `Arc` over a context.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{ContextHandle, HostAllocator, HostError, Scope};

pub(crate) struct SharedBox<T> {
    block: NonNull<SharedBlock<T>>,
    owns: PhantomData<T>,
}

struct SharedBlock<T> {
    value: T,
    /// 64 bits, so that forgotten references cannot overflow it.
    references: AtomicU64,
    memory: ContextHandle,
}

// SAFETY: the value is reached by shared reference alone, and dropped once, with the last reference.
unsafe impl<T: Send + Sync> Send for SharedBox<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SharedBox<T> {}

impl<T> SharedBox<T> {
    /// Drops the value if the memory is refused.
    pub(crate) fn new(value: T, memory: ContextHandle) -> Result<Self, HostError> {
        let block = memory
            .try_allocate(Layout::new::<SharedBlock<T>>(), Scope::Object)?
            .cast::<SharedBlock<T>>();
        // SAFETY: a new block of this layout.
        unsafe {
            block.write(SharedBlock {
                value,
                references: AtomicU64::new(1),
                memory,
            })
        };
        Ok(Self {
            block,
            owns: PhantomData,
        })
    }

    /// Whether this is the only reference. What users of dropped ones did happened before.
    pub(crate) fn is_only(&self) -> bool {
        self.block().references.load(Ordering::Acquire) == 1
    }

    /// Moves the value out of the only reference. Returns the reference if there are others.
    pub(crate) fn into_parts(self) -> Result<(T, EmptyBox<T>), Self> {
        if !self.is_only() {
            return Err(self);
        }
        // SAFETY: no other reference exists, and this one is forgotten.
        let parts = unsafe { Self::empty(self.block) };
        mem::forget(self);
        Ok(parts)
    }

    /// # Safety
    /// The last reference of `block`, which is not used any more.
    unsafe fn empty(block: NonNull<SharedBlock<T>>) -> (T, EmptyBox<T>) {
        // SAFETY: the value is moved out of its block, which is not read any more.
        let SharedBlock { value, memory, .. } = unsafe { block.read() };
        (value, EmptyBox { block, memory })
    }

    fn block(&self) -> &SharedBlock<T> {
        // SAFETY: it lives as long as a reference.
        unsafe { self.block.as_ref() }
    }
}

impl<T> Deref for SharedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.block().value
    }
}

impl<T> Clone for SharedBox<T> {
    fn clone(&self) -> Self {
        self.block().references.fetch_add(1, Ordering::Relaxed);
        Self {
            block: self.block,
            owns: PhantomData,
        }
    }
}

impl<T> Drop for SharedBox<T> {
    fn drop(&mut self) {
        if self.block().references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // SAFETY: this was the last reference.
        let (value, _emptied) = unsafe { Self::empty(self.block) };
        drop(value);
    }
}

/// The block of a value that was moved out. Freed when dropped, also if the value's destructor unwinds.
pub(crate) struct EmptyBox<T> {
    block: NonNull<SharedBlock<T>>,
    memory: ContextHandle,
}

impl<T> EmptyBox<T> {
    /// Moves a value in. Allocates nothing.
    pub(crate) fn fill(self, value: T) -> SharedBox<T> {
        let this = ManuallyDrop::new(self);
        let block = this.block;
        // SAFETY: moved out of what is not dropped.
        let memory = unsafe { ptr::read(&this.memory) };
        // SAFETY: the block is empty, and of this layout.
        unsafe {
            block.write(SharedBlock {
                value,
                references: AtomicU64::new(1),
                memory,
            })
        };
        SharedBox {
            block,
            owns: PhantomData,
        }
    }
}

impl<T> Drop for EmptyBox<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `SharedBox::new` with this layout and scope; it is empty and not read any more.
        unsafe {
            self.memory.deallocate(
                self.block.cast(),
                Layout::new::<SharedBlock<T>>(),
                Scope::Object,
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::boxed::Box;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::thread;

    use alloc_core::{Context, ContextOptions, FromGlobalAlloc};

    use super::*;

    static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

    struct Wild<'w>(&'w AtomicU64);

    impl Drop for Wild<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            // Quietly: no hook is run.
            resume_unwind(Box::new("planted"));
        }
    }

    #[test]
    fn a_value_goes_once_with_its_last_holder_and_its_memory_also_where_it_unwinds() {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("shared")).expect("memory");
        let bytes = || root.usage().total().live_bytes;
        let (ends, before) = (AtomicU64::new(0), bytes());
        let one = SharedBox::new(Wild(&ends), root.handle()).expect("memory");
        let others = [one.clone(), one.clone()];
        thread::scope(|threads| {
            for other in others {
                threads.spawn(move || assert_eq!(other.0.load(Ordering::Relaxed), 0));
            }
        });
        assert!(bytes() > before && ends.load(Ordering::Relaxed) == 0);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(one))).is_err());
        assert_eq!((ends.load(Ordering::Relaxed), bytes()), (1, before));
        root.close_root().expect("everything was given back");
    }

    #[test]
    fn the_only_reference_moves_its_value_out_and_back() {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("shared")).expect("memory");
        let live = || root.usage().total().live_blocks;
        let before = live();
        let one = SharedBox::new(Box::new(1), root.handle()).expect("memory");
        let other = one.clone();
        let one = one.into_parts().map(|_| ()).expect_err("there are two");
        drop(other);
        let (value, place) = one.into_parts().map_err(|_| ()).expect("it is alone");
        assert_eq!((*value, live()), (1, before + 1));
        let one = place.fill(Box::new(*value + 1));
        assert_eq!(**one, 2);
        drop(one.into_parts().map_err(|_| ()).expect("it is alone"));
        assert_eq!(live(), before);
        root.close_root().expect("everything was given back");
    }
}
