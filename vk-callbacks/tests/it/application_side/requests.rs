//! What a bridge is, and what it gives: V1 to V10.

use std::alloc::Layout;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Notice, Scope};
use testkit::RecordingAllocator;
use vk_callbacks::bridge::BareBridge;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{Command, Owners};

use super::support::{Keeps, Moody, bridged, faultless, moody, quietly};
use crate::common::{Driver, fill, raw};

#[test]
fn v1_v2_v3_v4_all_functions_are_there() {
    faultless(|driver, _| {
        let raw = driver.0;
        assert!(raw.pfn_allocation.is_some() && raw.pfn_reallocation.is_some());
        assert!(raw.pfn_free.is_some() && raw.pfn_internal_allocation.is_some());
        assert!(raw.pfn_internal_free.is_some());
    });
}

#[test]
fn v7_size_zero_is_a_real_block_of_sixteen_bytes() {
    faultless(|driver, witness| {
        let blocks: Vec<_> = (0..9)
            .map(|log| driver.alloc(0, 1 << log, Scope::Command))
            .collect();
        for (log, block) in blocks.iter().enumerate() {
            assert!(!block.is_null() && block.addr().is_multiple_of(1 << log));
        }
        let mut unique = blocks.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), blocks.len(), "a live pointer was given twice");
        assert_eq!(
            (witness.zero_sized(), witness.total().live_blocks),
            (0, 9),
            "size 0 reached the backing"
        );
        let small = driver.alloc(0, 8, Scope::Command);
        assert_eq!(witness.total().allocations, 10);
        assert_eq!(
            witness.total().live_bytes,
            5 * 16 + 32 + 64 + 128 + 256 + 16
        );
        blocks
            .into_iter()
            .chain([small])
            .for_each(|block| driver.free(block));
    });
}

#[test]
fn v7_alignments_one_to_a_megabyte_are_kept_and_take_no_more_than_they_must() {
    faultless(|driver, witness| {
        let top = if cfg!(miri) { 13 } else { 20 };
        for log in 0..=top {
            for size in [1, 4, 16, 100] {
                let block = driver.alloc(size, 1 << log, Scope::Object);
                assert!(block.addr().is_multiple_of(1 << log), "{size} {log}");
                assert_eq!(
                    witness.total().live_bytes as usize,
                    size + (1 << log).max(16)
                );
                fill(block, size, 1);
                driver.free(block);
            }
        }
    });
}

#[test]
fn v7_a_size_that_no_machine_has_is_null_and_noted() {
    /// The bridge's own limit, or the largest layout of a smaller machine.
    const LIMIT: usize = 1 << if usize::BITS == 64 { 47 } else { 31 };
    bridged(|driver, witness, notes| {
        for (i, size) in [usize::MAX, usize::MAX - 15, 1 << (usize::BITS - 1), LIMIT]
            .into_iter()
            .enumerate()
        {
            for align in [1, 16, 64, 8192] {
                assert!(driver.alloc(size, align, Scope::Object).is_null());
            }
            assert_eq!(notes().too_large, 4 * (i as u64 + 1));
        }
        assert_eq!(
            (witness.total().allocations, witness.refused()),
            (0, 0),
            "the backing was asked"
        );
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
        let bridge = pin!(BareBridge::new(Takes(Keeps(
            RecordingAllocator::system(),
            std::sync::Mutex::default()
        ))));
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
        assert_eq!(
            (notes.panics, notes.freed_pointers, notes.faults()),
            (3, 2, 5),
            "{notes:?}"
        );
        assert_eq!(bridge.backing().0.kept(), 2);
    });
}

#[test]
fn v9_a_command_can_tell_whether_it_was_refused() {
    moody(Moody::default(), |driver, backing, _| {
        Command::new("vkCreateImage", Owners::default(), BracketCoverage::Partial).run(|frame| {
            driver.free(driver.alloc(64, 8, Scope::Object));
            assert_eq!(
                frame.null_answers(),
                0,
                "OUT_OF_HOST_MEMORY now would be the driver's own malloc"
            );
            backing.refuse.store(true, SeqCst);
            assert!(driver.alloc(64, 8, Scope::Object).is_null());
            assert_eq!(frame.null_answers(), 1);
        });
    });
}

#[test]
fn v10_new_memory_is_as_the_backing_gave_it() {
    moody(
        Moody {
            poison: true,
            ..Moody::default()
        },
        |driver, _, _| {
            for (size, align) in [(64, 8), (100, 64), (33, 8192)] {
                let block = driver.alloc(size, align, Scope::Object);
                assert!(
                    // SAFETY: the backing wrote all bytes of the block.
                    (0..size).all(|i| unsafe { block.wrapping_add(i).read() } == 0xa5),
                    "the bridge wrote into the payload"
                );
                driver.free(block);
            }
        },
    );
}
