//! ralloc's linear memory.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use alloc_core::tagged::{Fill, LinearBlocks};

use crate::edge::{FunctionName, enter, enter_counting, enter_leaf};
use crate::ralloc::allocate;
use crate::refusal::{of_some, pointer};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_linear_new(parent: *const c_void, first: usize) -> *mut c_void {
    enter_counting(&"steward_linear_new", |table| {
        let linear = LinearBlocks::block_size(first).and_then(|size| {
            // SAFETY: NULL or a live parent.
            let block = unsafe { allocate(table, parent, size, Fill::Undefined) }?;
            // SAFETY: new, and of that size.
            Ok(unsafe { LinearBlocks::init(block, first) })
        });
        pointer(linear.map(LinearBlocks::first)).cast()
    })
}

fn linear(handle: *const c_void) -> Option<LinearBlocks> {
    NonNull::new(handle.cast_mut().cast()).map(LinearBlocks::from_first)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_linear_context(parent: *const c_void, chunk: usize) -> *mut c_void {
    enter_counting(&"steward_linear_context", |table| {
        let linear = LinearBlocks::unsized_block_size(chunk).and_then(|size| {
            // SAFETY: NULL or a live parent.
            let block = unsafe { allocate(table, parent, size, Fill::Undefined) }?;
            // SAFETY: new, and of that size.
            Ok(unsafe { LinearBlocks::init_unsized(block) })
        });
        pointer(linear.map(LinearBlocks::first)).cast()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_linear_alloc(handle: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: NULL or a live first suballocation.
    unsafe { suballocation(&"steward_linear_alloc", handle, size, Fill::Undefined) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_linear_zalloc(handle: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: NULL or a live first suballocation.
    unsafe { suballocation(&"steward_linear_zalloc", handle, size, Fill::Zeros) }
}

/// The rare part is a function of its own, so that the common one needs no stack for it.
#[inline(always)]
unsafe fn suballocation(function: FunctionName, handle: *mut c_void, size: usize, fill: Fill) -> *mut c_void {
    let linear = linear(handle);
    // SAFETY: the caller's live linear memory.
    let quick = enter_leaf(|| linear.and_then(|at| unsafe { at.allocate_in_chunk(size, fill) }));
    if let Some(new) = quick {
        return new.as_ptr().cast();
    }
    // SAFETY: no linear memory, or the live one whose chunk had no room.
    unsafe { suballocation_further(function, linear, size, fill) }
}

#[cold]
#[inline(never)]
unsafe fn suballocation_further(
    function: FunctionName,
    linear: Option<LinearBlocks>,
    size: usize,
    fill: Fill,
) -> *mut c_void {
    enter(function, || {
        // SAFETY: the caller's live linear memory.
        let new = linear.map(|linear| unsafe { linear.allocate(size, fill) });
        of_some(new, |new| pointer(new).cast())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_linear_realloc(handle: *mut c_void, old: *mut c_void, size: usize) -> *mut c_void {
    enter(&"steward_linear_realloc", || {
        let new = linear(handle).map(|linear| match NonNull::new(old.cast()) {
            // SAFETY: the caller's live linear memory and suballocation.
            Some(old) => unsafe { linear.resize(old, size) },
            // SAFETY: the caller's live linear memory.
            None => unsafe { linear.allocate(size, Fill::Undefined) },
        });
        of_some(new, |new| pointer(new).cast())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_linear_block(handle: *mut c_void) -> *mut c_void {
    enter_leaf(|| {
        // SAFETY: the caller's live linear memory.
        let block = linear(handle).map(|linear| unsafe { linear.block() });
        block.map_or(null_mut(), |block| block.payload().as_ptr().cast())
    })
}
