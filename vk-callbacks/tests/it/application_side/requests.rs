//! What a bridge is, and what it gives: V1 to V10.

use std::alloc::Layout;
use std::pin::pin;
use std::ptr::{self, NonNull};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Notice, Scope};
use testkit::RecordingAllocator;
use vk_callbacks::bridge::BareBridge;

use super::support::{Callee, Keeps, bridged, quietly};
use crate::common::{Driver, raw};

#[test]
fn v7_v13_what_nobody_can_give_is_counted_and_asks_nobody() {
    /// The bridge's own limit, or the largest layout of a smaller machine.
    const LIMIT: usize = 1 << if usize::BITS == 64 { 47 } else { 31 };
    bridged(|driver, witness, notes| {
        for align in [1, 8192] {
            assert!(driver.alloc(LIMIT, align, Scope::Object).is_null());
        }
        let null = ptr::null_mut();
        assert!(driver.realloc(null, 64, 3, Scope::Device).is_null());
        assert!(driver.realloc_raw(null, 64, 8, 5).is_null());
        let counted = notes();
        let counted = [counted.too_large, counted.bad_alignments, counted.bad_scopes];
        assert_eq!(counted, [2, 1, 1]);
        assert_eq!((witness.total().allocations, witness.refused()), (0, 0));
    });
}

/// A block that the backing freed before it panicked may be another's by then: no byte of it may be written.
#[test]
fn v8_a_panic_while_a_block_is_resized_leaves_it_alone_and_freed() {
    /// Takes the block away and panics.
    struct Takes(Keeps);
    // SAFETY: blocks are the witness's; a resize that panics keeps the block, as a deallocation does.
    unsafe impl HostAllocator for Takes {
        fn traits(&self) -> AllocatorTraits {
            AllocatorTraits::new()
        }
        fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
            self.0.allocate(layout, scope)
        }
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
            // SAFETY: this function's contract: the block is the witness's.
            unsafe { self.0.deallocate(block, layout, scope) }
        }
        unsafe fn resize(
            &self,
            block: NonNull<u8>,
            old: Layout,
            new: Layout,
            scope: Scope,
        ) -> Result<NonNull<u8>, AllocError> {
            // SAFETY: this function's contract: the block is the witness's.
            unsafe { self.0.deallocate(block, old, scope) };
            // The bytes of a block that was to shrink stay, so that what the bridge wrote in front can be read.
            if new.size() > old.size() {
                // SAFETY: exclusive now, and of `old.size()` bytes.
                unsafe { block.write_bytes(0xdd, old.size()) };
            }
            panic!("an allocator with a bug");
        }
        fn notify(&self, _: Notice) {
            panic!("an allocator with a bug");
        }
    }
    quietly(|| {
        let bridge = pin!(BareBridge::new(Takes(Keeps(RecordingAllocator::system(), std::sync::Mutex::default()))));
        let driver = Driver(bridge.as_ref().raw());
        let grown = driver.alloc(64, 8, Scope::Object);
        assert!(driver.realloc(grown, 640, 8, Scope::Object).is_null());
        for i in 0..64 + 16 {
            assert_eq!(
                // SAFETY: the backing keeps the block, header and all.
                unsafe { grown.wrapping_sub(16).wrapping_add(i).read() },
                0xdd,
                "byte {i} was written"
            );
        }
        // Here the mark can still be read: a free that follows is a second one, and nothing is freed twice.
        let shrunk = driver.alloc(64, 8, Scope::Object);
        assert!(driver.realloc(shrunk, 6, 8, Scope::Object).is_null());
        driver.free(shrunk);
        assert!(driver.realloc(shrunk, 6, 8, Scope::Object).is_null());
        driver.internal(true, 64, 0, raw(Scope::Object));
        assert!(!vk_callbacks::command::in_callback());
        let notes = bridge.counters();
        assert_eq!((notes.panics, notes.freed_pointers, notes.faults()), (3, 2, 5), "{notes:?}");
        assert_eq!(bridge.backing().0.kept(), 2);
    });
}

#[test]
fn v10_v25_new_memory_is_as_the_backing_gave_it_to_a_thread_that_knows_of_the_callback() {
    let bridge = pin!(BareBridge::new(Callee(RecordingAllocator::system())));
    let driver = Driver(bridge.as_ref().raw());
    for (size, align) in [(64, 8), (100, 64), (33, 8192)] {
        let block = driver.alloc(size, align, Scope::Command);
        assert!(
            // SAFETY: the backing wrote all bytes of the block.
            (0..size).all(|i| unsafe { block.wrapping_add(i).read() } == 0xa5),
            "the bridge wrote into the payload"
        );
        driver.free(driver.realloc(block, 2 * size, align, Scope::Command));
        driver.internal(true, 8, 0, 0);
        assert!(!vk_callbacks::command::in_callback());
    }
    assert_eq!(bridge.counters().faults(), 0);
}
