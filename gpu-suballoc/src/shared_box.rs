//! A shared value in memory of a context, dropped with its last reference: `Arc` over a context.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{ContextHandle, HostAllocator, HostError, Scope};

use crate::on_drop::OnDrop;

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

// SAFETY: the value is reached by shared reference alone, and dropped once.
unsafe impl<T: Send + Sync> Send for SharedBox<T> {}
// SAFETY: the value is reached by shared reference alone, and dropped once.
unsafe impl<T: Send + Sync> Sync for SharedBox<T> {}

impl<T> SharedBox<T> {
    pub(crate) fn new(value: T, memory: ContextHandle) -> Result<Self, HostError> {
        let block = memory.try_allocate(Layout::new::<SharedBlock<T>>(), Scope::Object)?.cast::<SharedBlock<T>>();
        // SAFETY: a new block of this layout.
        unsafe { block.write(SharedBlock { value, references: AtomicU64::new(1), memory }) };
        Ok(Self { block, owns: PhantomData })
    }

    /// The uses of dropped references happened before.
    pub(crate) fn is_only(&self) -> bool {
        self.block().references.load(Ordering::Acquire) == 1
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        if !self.is_only() {
            return None;
        }
        // SAFETY: no other reference exists, and this one is borrowed.
        Some(&mut unsafe { self.block.as_mut() }.value)
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
        Self { block: self.block, owns: PhantomData }
    }
}

impl<T> Drop for SharedBox<T> {
    fn drop(&mut self) {
        if self.block().references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // SAFETY: this was the last reference; the block is not read any more.
        let SharedBlock { value, memory, .. } = unsafe { self.block.read() };
        let (block, layout) = (self.block.cast(), Layout::new::<SharedBlock<T>>());
        let _freed = OnDrop(|| {
            // SAFETY: allocated in `new` with this layout and scope; the value was moved out.
            unsafe { memory.deallocate(block, layout, Scope::Object) }
        });
        drop(value);
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
        let mut one = SharedBox::new(Wild(&ends), root.handle()).expect("memory");
        let others = [one.clone(), one.clone()];
        assert!(one.get_mut().is_none(), "it is shared");
        thread::scope(|threads| {
            for other in others {
                threads.spawn(move || assert_eq!(other.0.load(Ordering::Relaxed), 0));
            }
        });
        assert!(one.get_mut().is_some() && bytes() > before && ends.load(Ordering::Relaxed) == 0);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(one))).is_err());
        assert_eq!((ends.load(Ordering::Relaxed), bytes()), (1, before));
        root.close_root().expect("everything was given back");
    }
}
