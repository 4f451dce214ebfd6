//! The driver's side: blocks from the object's callbacks, else from its parent's, else from the C library.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Misuse, Scope, dangling};
use vk_callbacks::CallbackAllocator;
use vk_callbacks::driver::DynHost;
use vk_callbacks::raw::RawCallbacks;

use crate::context::{layout_of, scope_of};
use crate::edge::enter;
use crate::refusal::{of_some, pointer};

/// The allocator of last resort, where there are no callbacks. Its blocks are freed without their size and alignment,
/// which `steward_free2` does not get.
pub(crate) struct CLibrary;

pub(crate) static C_LIBRARY: CLibrary = CLibrary;

// SAFETY: blocks of the C library, of the requested size and alignment, which stay until they are freed.
unsafe impl HostAllocator for CLibrary {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let align = layout.align().max(size_of::<*mut c_void>());
        NonNull::new(aligned_malloc(layout.size(), align).cast()).ok_or(AllocError)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, _: Scope) {
        if layout.size() != 0 {
            // SAFETY: the caller's live block of `aligned_malloc`.
            unsafe { aligned_free(block.as_ptr().cast()) };
        }
    }
}

#[cfg(not(windows))]
fn aligned_malloc(size: usize, align: usize) -> *mut c_void {
    let mut block = std::ptr::null_mut();
    // SAFETY: a place for the result, and a power of two of at least an address's size.
    match unsafe { libc::posix_memalign(&raw mut block, align, size) } {
        0 => block,
        _ => std::ptr::null_mut(),
    }
}

#[cfg(not(windows))]
use libc::free as aligned_free;

/// Its block begins behind a prefix, which C's `free` does not know.
#[cfg(windows)]
fn aligned_malloc(size: usize, align: usize) -> *mut c_void {
    // SAFETY: a power of two, and a size that a layout has: both fit together.
    unsafe { libc::aligned_malloc(size, align) }
}

#[cfg(windows)]
use libc::aligned_free;

/// `None` where functions are missing.
///
/// # Safety
/// Both are NULL or the caller's struct, whose functions keep Vulkan's rules.
unsafe fn with_most_specific<R>(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    call: impl FnOnce(&DynHost<'_>) -> R,
) -> Option<R> {
    let callbacks = if own.is_null() { parent } else { own };
    // SAFETY: NULL or a live struct whose functions keep Vulkan's rules.
    match unsafe { CallbackAllocator::from_ptr(callbacks) } {
        Ok(Some(callbacks)) => Some(call(&callbacks)),
        Ok(None) => Some(call(&C_LIBRARY)),
        Err(_) => None,
    }
}

/// # Safety
/// As [`with_most_specific`].
unsafe fn allocate(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
    zeroed: bool,
) -> *mut c_void {
    let serve = |allocator: &DynHost<'_>| allocate_from(allocator, size, align, scope, zeroed);
    // SAFETY: callbacks as `with_most_specific` requires.
    let block = unsafe { with_most_specific(own, parent, serve) };
    of_some(block, |block| block)
}

/// NULL, with the reason noted, where that fails. The block has at least one byte.
pub(crate) fn allocate_from(
    allocator: &DynHost<'_>,
    size: usize,
    align: usize,
    scope: i32,
    zeroed: bool,
) -> *mut c_void {
    let allocate = || {
        let layout = layout_of(size, align)?;
        let scope = scope_of(scope).ok_or(HostError::Misuse(Misuse::OtherScope))?;
        let block = match zeroed {
            _ if size == 0 => return Err(HostError::TooLarge),
            true => allocator.allocate_zeroed(layout, scope),
            false => allocator.allocate(layout, scope),
        };
        block.map_err(|_| allocator.refusal(layout, scope))
    };
    pointer(allocate()).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_alloc2(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: callbacks that are NULL or keep Vulkan's rules.
    enter(&"steward_alloc2", || unsafe { allocate(own, parent, size, align, scope, false) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_zalloc2(
    own: *const RawCallbacks,
    parent: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: callbacks that are NULL or keep Vulkan's rules.
    enter(&"steward_zalloc2", || unsafe { allocate(own, parent, size, align, scope, true) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_free2(own: *const RawCallbacks, parent: *const RawCallbacks, block: *mut c_void) {
    enter(&"steward_free2", || {
        let Some(memory) = NonNull::new(block.cast::<u8>()) else {
            return;
        };
        let free = |allocator: &DynHost<'_>| {
            // SAFETY: the caller's live block of these callbacks, which get neither size nor scope.
            unsafe { allocator.deallocate(memory, Layout::new::<u8>(), Scope::Object) };
        };
        // SAFETY: callbacks that are NULL or keep Vulkan's rules.
        let _freed = unsafe { with_most_specific(own, parent, free) };
    });
}
