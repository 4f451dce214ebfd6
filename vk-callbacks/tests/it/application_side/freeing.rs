//! What comes back, and what does not belong: V18, V19, M40.

use std::alloc::Layout;
use std::pin::pin;
use std::ptr::{self, NonNull};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Scope};
use testkit::RecordingAllocator;
use vk_callbacks::bridge::BareBridge;

use super::support::{Keeps, bridged, faultless};
use crate::common::Driver;

#[test]
fn v18_free_of_null_is_nothing() {
    faultless(|driver, witness| {
        driver.free(ptr::null_mut());
        assert_eq!(witness.total().frees, 0);
    });
}

#[test]
fn v19_a_double_free_is_noted_and_nothing_is_freed_twice() {
    let backing = Keeps(RecordingAllocator::system(), std::sync::Mutex::default());
    let bridge = pin!(BareBridge::new(&backing));
    let driver = Driver(bridge.as_ref().raw());
    for align in [8, 256] {
        let block = driver.alloc(64, align, Scope::Object);
        driver.free(block);
        let kept = backing.kept();
        driver.free(block);
        assert!(driver.realloc(block, 128, align, Scope::Object).is_null());
        assert_eq!(backing.kept(), kept, "given back twice");
    }
    let moved = driver.alloc(64, 8, Scope::Object);
    let grown = driver.realloc(moved, 4096, 8, Scope::Object);
    driver.free(moved);
    driver.free(grown);
    assert_eq!(
        (bridge.counters().freed_pointers, bridge.counters().faults()),
        (5, 5),
        "{:?}",
        bridge.counters()
    );
}

/// What the bridge cannot know: that the pointer is from before. README.md, *Limits*.
#[test]
fn v19_a_second_free_after_reuse_is_a_limit() {
    /// Gives the block that came back last, as allocators like to.
    struct Reuses(Keeps);
    // SAFETY: blocks are the witness's, and it reuses only freed ones.
    unsafe impl HostAllocator for Reuses {
        fn traits(&self) -> AllocatorTraits {
            self.0.traits()
        }
        fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
            match self
                .0
                .1
                .lock()
                .expect("no panic inside")
                .pop_if(|(_, was, _)| *was == layout)
            {
                Some((at, ..)) => {
                    NonNull::new(ptr::with_exposed_provenance_mut(at)).ok_or(AllocError)
                }
                None => self.0.allocate(layout, scope),
            }
        }
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
            // SAFETY: this function's contract: the block is the witness's.
            unsafe { self.0.deallocate(block, layout, scope) }
        }
    }
    let bridge = pin!(BareBridge::new(Reuses(Keeps(
        RecordingAllocator::system(),
        std::sync::Mutex::default()
    ))));
    let driver = Driver(bridge.as_ref().raw());
    let first = driver.alloc(64, 8, Scope::Object);
    driver.free(first);
    let second = driver.alloc(64, 8, Scope::Object);
    assert_eq!(first, second, "the address was given out again");
    driver.free(first);
    assert_eq!(
        (bridge.backing().0.kept(), bridge.counters().faults()),
        (1, 0),
        "the new block was freed, and nobody saw it"
    );
    // Its owner's own free is the one that is found.
    driver.free(second);
    assert_eq!(
        (bridge.backing().0.kept(), bridge.counters().freed_pointers),
        (1, 1)
    );
}

#[test]
fn v19_m40_the_cookie_catches_a_free_through_another_allocator() {
    let witnesses = [RecordingAllocator::system(), RecordingAllocator::system()];
    let first = pin!(BareBridge::new(&witnesses[0]));
    let second = pin!(BareBridge::new(&witnesses[1]));
    let (a, b) = (Driver(first.as_ref().raw()), Driver(second.as_ref().raw()));
    let block = a.alloc(64, 8, Scope::Object);
    b.free(block);
    assert!(b.realloc(block, 100, 8, Scope::Object).is_null());
    assert_eq!(
        (
            second.counters().unknown_pointers,
            first.counters().faults()
        ),
        (2, 0)
    );
    assert_eq!(
        witnesses[0].total().live_blocks,
        1,
        "still live, still its owner's"
    );
    a.free(block);
    assert_eq!(first.counters().faults(), 0);
}

#[test]
fn m40_mixing_malloc_and_the_bridge_is_caught_at_run_time() {
    bridged(|driver, _, notes| {
        let mut of_malloc = vec![0_u8; 64];
        driver.free(of_malloc.as_mut_ptr().wrapping_add(32));
        driver.free(of_malloc.as_mut_ptr().wrapping_add(33));
        assert_eq!(notes().unknown_pointers, 2);
        assert_eq!(of_malloc, [0; 64]);
        // A header copied in front of another address does not pass: the cookie knows its address.
        let block = driver.alloc(16, 8, Scope::Object);
        let mut copy = [0_u64; 4];
        // SAFETY: the block has 16 bytes in front.
        unsafe { ptr::copy_nonoverlapping(block.wrapping_sub(16), copy.as_mut_ptr().cast(), 16) };
        driver.free((&raw mut copy).cast::<u8>().wrapping_add(16));
        assert_eq!(notes().unknown_pointers, 3);
        driver.free(block);
    });
}

#[test]
fn m40_an_underrun_is_found_when_the_block_is_freed() {
    let backing = Keeps(RecordingAllocator::system(), std::sync::Mutex::default());
    let bridge = pin!(BareBridge::new(&backing));
    let driver = Driver(bridge.as_ref().raw());
    let block = driver.alloc(16, 8, Scope::Object);
    // SAFETY: the byte in front is the bridge's own and writable.
    let before = unsafe { block.wrapping_sub(1).read() };
    // SAFETY: the byte in front is the bridge's own and writable.
    unsafe { block.wrapping_sub(1).write(before ^ 0x40) };
    driver.free(block);
    assert_eq!((bridge.counters().unknown_pointers, backing.kept()), (1, 0));
    // SAFETY: the byte in front is the bridge's own and writable.
    unsafe { block.wrapping_sub(1).write(before) };
    driver.free(block);
    assert_eq!(backing.kept(), 1);
}
