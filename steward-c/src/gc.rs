//! ralloc's collectors.

use std::ffi::c_void;
use std::ptr::null_mut;

use alloc_core::tagged::{Fill, GcBlocks};
use alloc_core::{HostError, Misuse};

use crate::edge::{FunctionName, enter, enter_counting, enter_leaf};
use crate::ralloc::{allocate, block, payload};
use crate::refusal::{note, of_some};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gc_context(parent: *const c_void) -> *mut c_void {
    enter_counting(&"steward_gc_context", |table| {
        // SAFETY: NULL or a live parent.
        let block = unsafe { allocate(table, parent, GcBlocks::BLOCK_SIZE, Fill::Undefined) };
        // SAFETY: new, and of that size.
        payload(block.map(|block| unsafe { GcBlocks::init(block) }.block()))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gc_alloc_size(collector: *mut c_void, size: usize, align: usize) -> *mut c_void {
    // SAFETY: NULL or a live collector.
    unsafe { collected(&"steward_gc_alloc_size", collector, size, align, Fill::Undefined) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gc_zalloc_size(collector: *mut c_void, size: usize, align: usize) -> *mut c_void {
    // SAFETY: NULL or a live collector.
    unsafe { collected(&"steward_gc_zalloc_size", collector, size, align, Fill::Zeros) }
}

/// The rare part is a function of its own, so that the common one needs no stack for it.
#[inline(always)]
unsafe fn collected(
    function: FunctionName,
    collector: *mut c_void,
    size: usize,
    align: usize,
    fill: Fill,
) -> *mut c_void {
    let is_aligned = align.is_power_of_two() && align <= 16;
    let collector = gc(collector).filter(|_| is_aligned);
    // SAFETY: the caller's live collector.
    let quick = enter_leaf(|| collector.and_then(|gc| unsafe { gc.allocate_in_slab(size, fill) }));
    if let Some(new) = quick {
        return new.payload().as_ptr().cast();
    }
    // SAFETY: no collector, or the live one that had no room in its slab.
    unsafe { collected_further(function, collector, is_aligned, size, fill) }
}

#[cold]
#[inline(never)]
unsafe fn collected_further(
    function: FunctionName,
    collector: Option<GcBlocks>,
    is_aligned: bool,
    size: usize,
    fill: Fill,
) -> *mut c_void {
    enter(function, || {
        if !is_aligned {
            note(HostError::Misuse(Misuse::BadAlignment));
            return null_mut();
        }
        // SAFETY: the caller's live collector.
        let new = collector.map(|gc| unsafe { gc.allocate(size, fill) });
        of_some(new, payload)
    })
}

fn gc(collector: *mut c_void) -> Option<GcBlocks> {
    block(collector).map(GcBlocks::new)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gc_sweep_start(collector: *mut c_void) {
    enter_leaf(|| {
        if let Some(gc) = gc(collector) {
            // SAFETY: the caller's live collector.
            if !unsafe { gc.begin_sweep() } {
                note(HostError::Misuse(Misuse::Held));
            }
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gc_mark_live(collector: *mut c_void, kept: *const c_void) {
    enter_leaf(|| {
        if let (Some(gc), Some(kept)) = (gc(collector), block(kept)) {
            // SAFETY: the caller's live collector and block.
            unsafe { gc.mark(kept) };
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gc_sweep_end(collector: *mut c_void) {
    enter(&"steward_gc_sweep_end", || {
        if let Some(gc) = gc(collector) {
            // SAFETY: the caller's live collector; unmarked blocks are not used any more.
            unsafe { gc.end_sweep() };
        }
    });
}
