//! Allocators with moods, and a driver over a bridge over a witness.

use std::alloc::Layout;
use std::pin::pin;
use std::ptr::{self, NonNull};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Notice, Scope};
use testkit::RecordingAllocator;
use vk_callbacks::bridge::{BareBridge, BridgeCounters};

use crate::common::Driver;

/// Runs `test` with a driver over a bridge over a witness; nothing may be live afterwards.
pub(crate) fn bridged(test: impl FnOnce(Driver, &RecordingAllocator, &dyn Fn() -> BridgeCounters)) {
    let witness = RecordingAllocator::system();
    {
        let bridge = pin!(BareBridge::new(&witness));
        test(Driver(bridge.as_ref().raw()), &witness, &|| bridge.counters());
    }
    witness.assert_empty("at the end of the test");
}

/// As [`bridged`] for tests without any fault.
pub(crate) fn faultless(test: impl FnOnce(Driver, &RecordingAllocator)) {
    bridged(|driver, witness, notes| {
        test(driver, witness);
        assert_eq!(notes().faults(), 0, "{:?}", notes());
    });
}

/// Poisons what it gives; asserts the rules of a callee.
pub(crate) struct Callee(pub(crate) RecordingAllocator);

fn assert_called_back() {
    assert!(vk_callbacks::command::in_callback(), "entered from outside of a callback");
}

// SAFETY: blocks are the witness's.
unsafe impl HostAllocator for Callee {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert_called_back();
        let block = self.0.allocate(layout, scope)?;
        // SAFETY: just given with this size.
        unsafe { block.as_ptr().write_bytes(0xa5, layout.size()) };
        Ok(block)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        assert_called_back();
        // SAFETY: this function's contract: the block is the witness's.
        unsafe { self.0.deallocate(block, layout, scope) };
    }
    fn notify(&self, _: Notice) {
        assert_called_back();
    }
}

/// The default hook would print the panics that these tests make on purpose.
pub(crate) fn quietly<R>(body: impl FnOnce() -> R) -> R {
    testkit::silence_panics("an allocator with a bug");
    body()
}

/// Keeps freed blocks, so that a stale pointer can be read without undefined behaviour.
pub(crate) struct Keeps(pub(crate) RecordingAllocator, pub(crate) std::sync::Mutex<Vec<(usize, Layout, Scope)>>);

// SAFETY: blocks are the witness's; none is given twice.
unsafe impl HostAllocator for Keeps {
    fn traits(&self) -> AllocatorTraits {
        self.0.traits()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.0.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.1.lock().expect("no panic inside").push((block.as_ptr().expose_provenance(), layout, scope));
    }
}

impl Keeps {
    pub(crate) fn kept(&self) -> usize {
        self.1.lock().expect("no panic inside").len()
    }
}

impl Drop for Keeps {
    fn drop(&mut self) {
        for (at, layout, scope) in self.1.get_mut().expect("no panic inside").drain(..) {
            let block = NonNull::new(ptr::with_exposed_provenance_mut(at)).expect("a block");
            // SAFETY: freed by the bridge, and kept since.
            unsafe { self.0.deallocate(block, layout, scope) };
        }
    }
}
