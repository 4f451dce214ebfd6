//! A heap of 1000 bytes with one memory type and a budget, where `FAKE_DRIVER_BUDGET` is set.

use std::cell::Cell;

use super::Handle;

const TYPES: usize = 1;
const HEAPS: usize = 1 + 2 * 32;

thread_local! {
    pub(crate) static BUDGETS_READ: Cell<u32> = const { Cell::new(0) };
}

pub(super) fn budget() -> Option<u64> {
    std::env::var("FAKE_DRIVER_BUDGET").ok()?.parse().ok()
}

/// `VkPhysicalDeviceMemoryProperties`, whose words before the heaps' sizes have 4 bytes.
pub(super) unsafe extern "system" fn memory_properties(_: Handle, properties: *mut u32) {
    // SAFETY: the caller's struct, which begins with the number of types.
    unsafe { properties.write(TYPES as u32) };
    // SAFETY: the number of heaps is behind 32 types of two words.
    let heaps = unsafe { properties.add(HEAPS) };
    // SAFETY: the same word.
    unsafe { heaps.write(1) };
    // SAFETY: the first heap's size follows, at a multiple of 8 bytes.
    let size = unsafe { heaps.add(1) };
    // SAFETY: the same place.
    unsafe { size.cast::<u64>().write(1000) };
}

/// `VkPhysicalDeviceMemoryProperties2`, with the struct of the budgets alone behind it.
#[repr(C)]
pub(super) struct Chained {
    s_type: i32,
    next: *mut Self,
    first: u64,
}

pub(super) unsafe extern "system" fn memory_properties_2(_: Handle, properties: *mut Chained) {
    BUDGETS_READ.set(BUDGETS_READ.get() + 1);
    // SAFETY: the caller's struct.
    let properties = unsafe { properties.as_ref() }.expect("a struct");
    assert_eq!(properties.s_type, 1_000_059_006);
    // SAFETY: the caller's chain has one struct.
    let budgets = unsafe { properties.next.as_mut() }.expect("a chain");
    assert_eq!((budgets.s_type, budgets.next.is_null()), (1_000_237_000, true));
    budgets.first = budget().expect("looked up where there is one");
}
