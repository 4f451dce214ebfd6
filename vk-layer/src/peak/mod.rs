//! The most bytes that were live at once of the driver's blocks. The layer's own contexts and bridges, which it creates
//! outside of callbacks, are not counted.
//!
//! An exact budget would know it, too, but walks up the tree of contexts under a lock. Here it costs two atomic
//! additions a block.

mod count;

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope};
use vk_callbacks::command::in_callback;

pub(crate) use count::PeakCount;

pub(crate) struct PeakMemory<B: 'static> {
    inner: &'static B,
    pub(crate) count: PeakCount,
}

impl<B> PeakMemory<B> {
    pub(crate) fn new(inner: &'static B) -> Self {
        Self { inner, count: PeakCount::default() }
    }
}

// SAFETY: every block is the inner allocator's, and every call goes on to it as it came.
unsafe impl<B: HostAllocator + Sync> HostAllocator for PeakMemory<B> {
    fn traits(&self) -> AllocatorTraits {
        self.inner.traits()
    }

    #[inline]
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        // Before the inner allocator: if that calls other callbacks, the thread is in none afterwards.
        let is_counted = in_callback();
        let block = self.inner.allocate(layout, scope)?;
        if is_counted {
            self.count.add(layout.size());
        }
        Ok(block)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let is_counted = in_callback();
        let block = self.inner.allocate_zeroed(layout, scope)?;
        if is_counted {
            self.count.add(layout.size());
        }
        Ok(block)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if in_callback() {
            self.count.subtract(layout.size());
        }
        // SAFETY: a live block of `inner`, with this layout.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let is_counted = in_callback();
        // SAFETY: a live block of `inner`, with the old layout.
        let block = unsafe { self.inner.resize(block, old, new, scope) }?;
        if !is_counted {
            return Ok(block);
        }
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
    use std::ptr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use alloc_core::{Context, ContextOptions, HostAllocator as _, Scope};
    use vk_callbacks::Bridge;

    use super::PeakMemory;
    use crate::record::{SYSTEM, new_static};

    const HEADER: u64 = 16;

    fn counted() -> (&'static super::PeakCount, Bridge) {
        let memory = new_static(PeakMemory::new(&SYSTEM)).expect("memory");
        let context = Context::root_static(memory, ContextOptions::new("test"));
        let bridge = Bridge::new(context.expect("memory")).expect("memory");
        (&memory.count, bridge)
    }

    #[test]
    fn ly22_the_peak_is_what_the_driver_had_at_once_and_a_refusal_is_none_of_it() {
        let (count, bridge) = counted();
        let callbacks = bridge.raw();
        let allocation = callbacks.pfn_allocation.expect("a function");
        let reallocation = callbacks.pfn_reallocation.expect("a function");
        let free = callbacks.pfn_free.expect("a function");
        let user = callbacks.p_user_data;
        let counts = || (count.live_bytes(), count.peak_bytes());
        assert_eq!(counts(), (0, 0), "the bridge itself is no block of the driver");
        // SAFETY: a request as Vulkan allows it.
        let allocate = |bytes| unsafe { allocation(user, bytes, 16, 1) };
        let (first, second) = (allocate(100), allocate(50));
        assert_eq!(counts(), (150 + 2 * HEADER, 150 + 2 * HEADER));
        assert!(allocate(isize::MAX as usize - 64).is_null());
        assert_eq!(counts(), (150 + 2 * HEADER, 150 + 2 * HEADER));
        // SAFETY: a live block of these callbacks.
        let second = unsafe { reallocation(user, second, 20, 16, 1) };
        assert_eq!(counts(), (120 + 2 * HEADER, 150 + 2 * HEADER));
        count.restart();
        assert_eq!(counts(), (120 + 2 * HEADER, 150 + 2 * HEADER));
        assert_eq!(count.recent_peak_bytes(), 120 + 2 * HEADER);
        for block in [first, second, ptr::null_mut()] {
            // SAFETY: a live block of these callbacks, or NULL.
            unsafe { free(user, block) };
        }
        assert_eq!(counts(), (0, 150 + 2 * HEADER));
    }

    #[test]
    fn ly22_what_is_allocated_outside_of_callbacks_is_not_counted() {
        let memory = PeakMemory::new(&SYSTEM);
        let layout = |bytes| Layout::from_size_align(bytes, 16).expect("a layout");
        let mut block = memory.allocate(layout(64), Scope::Object).expect("memory");
        for (old, new) in [(64, 4096), (4096, 32)] {
            // SAFETY: a live block, with its layout.
            let resized = unsafe { memory.resize(block, layout(old), layout(new), Scope::Object) };
            block = resized.expect("memory");
        }
        // SAFETY: a live block, with its layout.
        unsafe { memory.deallocate(block, layout(32), Scope::Object) };
        let zeroed = memory.allocate_zeroed(layout(8), Scope::Object);
        // SAFETY: a live block, with its layout.
        unsafe { memory.deallocate(zeroed.expect("memory"), layout(8), Scope::Object) };
        assert_eq!((memory.count.live_bytes(), memory.count.peak_bytes()), (0, 0));
    }

    #[test]
    fn ly22_a_block_that_grows_is_live_all_the_time() {
        let (count, bridge) = counted();
        let callbacks = bridge.raw();
        let allocation = callbacks.pfn_allocation.expect("a function");
        let reallocation = callbacks.pfn_reallocation.expect("a function");
        let free = callbacks.pfn_free.expect("a function");
        let user = callbacks.p_user_data;
        // SAFETY: a request as Vulkan allows it.
        let mut block = unsafe { allocation(user, 64, 16, 1) };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let live = count.live_bytes();
                    assert!(live == 64 + HEADER || live == 4096 + HEADER, "{live}");
                }
            });
            for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                for bytes in [4096, 64] {
                    // SAFETY: a live block of these callbacks.
                    block = unsafe { reallocation(user, block, bytes, 16, 1) };
                    assert!(!block.is_null());
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        // SAFETY: a live block of these callbacks.
        unsafe { free(user, block) };
        assert_eq!(count.live_bytes(), 0);
    }
}
