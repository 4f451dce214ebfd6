//! The driver's side: blocks from the most specific callbacks there are, of the object, else of its parent, else from the C library.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use alloc_core::HostAllocator;
use vk_callbacks::{CallbackAllocator, RawCallbacks};

use crate::context::scope_of;
use crate::edge::enter;

/// The object's callbacks, or else its parent's; `None` where neither has any.
unsafe fn most_specific(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
) -> Result<Option<CallbackAllocator>, ()> {
    let callbacks = if own.is_null() { parent } else { own };
    // SAFETY: NULL or the caller's struct, whose functions keep Vulkan's rules.
    unsafe { CallbackAllocator::from_ptr(callbacks) }.map_err(|_| ())
}

unsafe fn allocate(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    let (Ok(layout), Some(scope)) = (Layout::from_size_align(size, align), scope_of(scope)) else {
        return null_mut();
    };
    // SAFETY: forwarded.
    match unsafe { most_specific(own, parent) } {
        _ if size == 0 => null_mut(),
        Err(()) => null_mut(),
        Ok(Some(callbacks)) => callbacks
            .allocate(layout, scope)
            .map_or(null_mut(), |block| block.as_ptr().cast()),
        Ok(None) => {
            let mut block = null_mut();
            let align = align.max(size_of::<*mut c_void>());
            // SAFETY: a place for the answer, and an alignment that is a power of two and a multiple of a pointer's size.
            let refused = unsafe { libc::posix_memalign(&raw mut block, align, size) };
            if refused == 0 { block } else { null_mut() }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_alloc2(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: forwarded.
    enter("steward_alloc2", || unsafe {
        allocate(own, parent, size, align, scope)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_zalloc2(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    enter("steward_zalloc2", || {
        // SAFETY: forwarded.
        let block = unsafe { allocate(own, parent, size, align, scope) };
        if !block.is_null() {
            // SAFETY: a new block of that size.
            unsafe { block.cast::<u8>().write_bytes(0, size) };
        }
        block
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_free2(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    block: *mut c_void,
) {
    enter("steward_free2", || {
        let Some(memory) = NonNull::new(block.cast::<u8>()) else {
            return;
        };
        // SAFETY: forwarded.
        match unsafe { most_specific(own, parent) } {
            // Callbacks are told neither size nor scope.
            // SAFETY: the caller's live block of these callbacks.
            Ok(Some(callbacks)) => unsafe {
                callbacks.deallocate(memory, Layout::new::<u8>(), alloc_core::Scope::Object);
            },
            // SAFETY: the caller's live block of the C library.
            Ok(None) => unsafe { libc::free(block) },
            Err(()) => (),
        }
    });
}
