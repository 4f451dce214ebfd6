//! Where the mock device has its own memory from, as a driver would: the C library's heap, with a word that says so.

use alloc_core::FromGlobalAlloc;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::alloc::System;

pub(super) struct DriverHeap;

// SAFETY: the system's heap, whose blocks outlive every value.
pub(super) static HEAP: FromGlobalAlloc<DriverHeap> = unsafe { FromGlobalAlloc::new(DriverHeap) };

/// How many requests of devices for memory of their own are under way.
pub static IN_DRIVER: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's, as it is.
unsafe impl GlobalAlloc for DriverHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_DRIVER.fetch_add(1, SeqCst);
        // SAFETY: a layout that is not empty, by `GlobalAlloc`.
        let block = unsafe { System.alloc_zeroed(layout) };
        IN_DRIVER.fetch_sub(1, SeqCst);
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a block of the system's with its layout, by `GlobalAlloc`.
        unsafe { System.dealloc(block, layout) }
    }
}
