//! What comes back, and what does not belong: V18, V19, M40.

use std::pin::pin;
use std::ptr::{self};

use alloc_core::Scope;
use testkit::RecordingAllocator;
use vk_callbacks::bridge::BareBridge;

use super::support::{Keeps, bridged};
use crate::common::Driver;

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
    assert_eq!((bridge.counters().freed_pointers, bridge.counters().faults()), (5, 5), "{:?}", bridge.counters());
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
