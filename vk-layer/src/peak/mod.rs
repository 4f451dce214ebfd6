//! The memory behind all accounts, which knows the most that was live at once.
//!
//! An exact budget would know it, too; below one each allocation walks up the tree of contexts under a lock. Here it costs two atomic
//! additions a block.

mod count;

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::{
    AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope,
};

pub(crate) use count::PeakCount;

/// Hands on to `inner`, and counts.
pub(crate) struct PeakMemory<B: 'static> {
    inner: &'static B,
    pub(crate) count: PeakCount,
}

impl<B> PeakMemory<B> {
    pub(crate) fn new(inner: &'static B) -> Self {
        Self {
            inner,
            count: PeakCount::default(),
        }
    }
}

// SAFETY: every block is the inner allocator's, and every call goes on to it as it came.
unsafe impl<B: HostAllocator + Sync> HostAllocator for PeakMemory<B> {
    fn traits(&self) -> AllocatorTraits {
        self.inner.traits()
    }

    #[inline]
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate(layout, scope)?;
        self.count.add(layout.size());
        Ok(block)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate_zeroed(layout, scope)?;
        self.count.add(layout.size());
        Ok(block)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.count.subtract(layout.size());
        // SAFETY: forwarded.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded.
        let block = unsafe { self.inner.resize(block, old, new, scope) }?;
        // The difference at once: between two steps others would take their peaks without the block.
        match new.size().checked_sub(old.size()) {
            Some(more) => self.count.add(more),
            None => self.count.subtract(old.size().saturating_sub(new.size())),
        }
        Ok(block)
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.inner.refusal(layout, scope)
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.inner.validate_pointer(pointer, front)
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use alloc_core::{HostAllocator as _, Scope};

    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::PeakMemory;
    use crate::record::SYSTEM;

    #[test]
    fn ly22_the_peak_is_what_was_live_at_once_and_a_refusal_is_none_of_it() {
        let memory = PeakMemory::new(&SYSTEM);
        let layout = |bytes| Layout::from_size_align(bytes, 16).expect("a layout");
        let allocate = |bytes| memory.allocate(layout(bytes), Scope::Object);
        let counts = || (memory.count.live_bytes(), memory.count.peak_bytes());
        let first = allocate(100).expect("memory");
        let second = memory.allocate_zeroed(layout(50), Scope::Object);
        let second = second.expect("memory");
        assert_eq!(counts(), (150, 150));
        allocate(isize::MAX as usize - 15).expect_err("no address space has so much");
        assert_eq!(counts(), (150, 150));
        // SAFETY: a live block, with the layout that it was allocated with.
        let second = unsafe { memory.resize(second, layout(50), layout(20), Scope::Object) };
        let second = second.expect("memory");
        assert_eq!(counts(), (120, 150));
        memory.count.restart();
        assert_eq!(counts(), (120, 150));
        assert_eq!(memory.count.recent_peak_bytes(), 120);
        for (block, bytes) in [(first, 100), (second, 20)] {
            // SAFETY: as above.
            unsafe { memory.deallocate(block, layout(bytes), Scope::Object) };
        }
        assert_eq!(counts(), (0, 150));
    }
    #[test]
    fn ly22_a_block_that_grows_is_live_all_the_time() {
        let memory = PeakMemory::new(&SYSTEM);
        let layout = |bytes| Layout::from_size_align(bytes, 16).expect("a layout");
        let (small, large) = (layout(64), layout(4096));
        let mut block = memory.allocate(small, Scope::Object).expect("memory");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let live = memory.count.live_bytes();
                    assert!(live == 64 || live == 4096, "{live}");
                }
            });
            for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                for (old, new) in [(small, large), (large, small)] {
                    // SAFETY: a live block, with the layout that it was given with last.
                    let resized = unsafe { memory.resize(block, old, new, Scope::Object) };
                    block = resized.expect("memory");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        // SAFETY: as above.
        unsafe { memory.deallocate(block, small, Scope::Object) };
        assert_eq!(memory.count.live_bytes(), 0);
    }
}
