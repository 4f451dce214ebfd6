//! The blocks of the driver: as it should, and with mistakes that the environment orders.

use vk_callbacks::raw::RawCallbacks;

use super::Callbacks;

/// A block for an object: through the callbacks, or the driver's own.
pub(super) fn allocate(callbacks: Callbacks) -> *mut usize {
    // SAFETY: NULL or live callbacks.
    match unsafe { callbacks.as_ref() } {
        None => Box::into_raw(Box::new([0_usize; 4])).cast(),
        Some(callbacks) => {
            let allocation = callbacks.pfn_allocation.expect("a function");
            // SAFETY: live callbacks; 1 is the scope of objects.
            let block = unsafe { allocation(callbacks.p_user_data, 32, 8, 1) }.cast::<usize>();
            if overflows() && !block.is_null() {
                // SAFETY: not the block's own byte: what a guard is there to report. It lies in the block's padding, or
                // in its redzone.
                unsafe { block.cast::<u8>().wrapping_add(32).write_volatile(1) };
            }
            if std::env::var_os("FAKE_DRIVER_FREES_MALLOC").is_some() {
                free_malloc_through(callbacks);
            }
            block
        }
    }
}

/// Frees through callbacks, and reallocates, what it allocated by `malloc`, and frees it as it should afterwards.
pub(super) fn free_malloc_through(callbacks: &RawCallbacks) {
    let (free, reallocation) = (callbacks.pfn_free, callbacks.pfn_reallocation);
    // SAFETY: any size.
    let foreign = unsafe { libc::malloc(64) };
    assert!(!foreign.is_null());
    // SAFETY: 64 bytes that were just allocated.
    unsafe { foreign.cast::<u8>().write_bytes(7, 64) };
    // SAFETY: live callbacks; that the block is none of theirs is what the layer is to find.
    unsafe { free.expect("a function")(callbacks.p_user_data, foreign) };
    // SAFETY: live callbacks; that the block is none of theirs is what the layer is to find. 1 is the scope of objects.
    let moved = unsafe { reallocation.expect("a function")(callbacks.p_user_data, foreign, 128, 8, 1) };
    assert!(moved.is_null());
    // SAFETY: 64 bytes that are not freed yet.
    assert_eq!(unsafe { foreign.cast::<[u8; 64]>().read() }, [7; 64]);
    // SAFETY: the block of `malloc` above.
    unsafe { libc::free(foreign) };
}

/// Whether the driver writes a byte behind each block.
pub(super) fn overflows() -> bool {
    std::env::var_os("FAKE_DRIVER_OVERFLOWS").is_some()
}

pub(super) fn free(callbacks: Callbacks, block: *mut usize) {
    // SAFETY: NULL or live callbacks.
    match unsafe { callbacks.as_ref() } {
        // SAFETY: from `allocate`, when it got NULL as well.
        None => drop(unsafe { Box::from_raw(block.cast::<[usize; 4]>()) }),
        Some(callbacks) => {
            let free = callbacks.pfn_free.expect("a function");
            // SAFETY: from `allocate` with these callbacks.
            unsafe { free(callbacks.p_user_data, block.cast()) };
        }
    }
}
