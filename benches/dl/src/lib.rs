//! Allocating and freeing as separate C functions: through a context, and from the allocator behind it.
//!
//! Built as a shared library and loaded at run time, because thread-locals cost more there; also compiled into the bench.
#![allow(
    unreachable_pub,
    reason = "the bench includes this file as a private module"
)]

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;

use alloc_core::{Context, ContextOptions, HostAllocator, Scope};

#[path = "../../benches/support/backing.rs"]
mod backing;
use backing::{MIMALLOC, SYSTEM};

/// The functions of one subject.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "a bench")]
pub struct Functions {
    pub state: *const c_void,
    pub take: unsafe extern "C" fn(*const c_void, usize, usize) -> *mut c_void,
    pub give: unsafe extern "C" fn(*const c_void, *mut c_void, usize, usize),
}

/// The functions of allocator 0 (the C library's) or 1 (mimalloc), or with `context` those of a new context over it, which
/// lives until the process ends.
#[unsafe(no_mangle)]
pub extern "C" fn steward_bench_functions(allocator: u32, context: bool) -> Functions {
    match (allocator, context) {
        (0, false) => raw(&SYSTEM),
        (0, true) => over(&SYSTEM),
        (_, false) => raw(&MIMALLOC),
        (_, true) => over(&MIMALLOC),
    }
}

fn raw<H: HostAllocator>(allocator: &'static H) -> Functions {
    Functions {
        state: std::ptr::from_ref(allocator).cast(),
        take: take::<H>,
        give: give::<H>,
    }
}

fn over<H: HostAllocator + Sync>(allocator: &'static H) -> Functions {
    let context =
        Context::root_static(allocator, ContextOptions::new("bench")).expect("memory for a root");
    raw(Box::leak(Box::new(context)))
}

unsafe extern "C" fn take<H: HostAllocator>(
    state: *const c_void,
    size: usize,
    align: usize,
) -> *mut c_void {
    // SAFETY: `state` is the allocator that `raw` was given, which lives for ever.
    let allocator = unsafe { &*state.cast::<H>() };
    // SAFETY: the caller passes the size and alignment of a `Layout`.
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    allocator
        .allocate(layout, Scope::Object)
        .map_or(std::ptr::null_mut(), |block| block.as_ptr().cast())
}

unsafe extern "C" fn give<H: HostAllocator>(
    state: *const c_void,
    block: *mut c_void,
    size: usize,
    align: usize,
) {
    // SAFETY: `state` is the allocator that `raw` was given, which lives for ever.
    let allocator = unsafe { &*state.cast::<H>() };
    // SAFETY: the caller passes the size and alignment of a `Layout`.
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    // SAFETY: the caller passes a block that `take` gave, which is not null.
    let block = unsafe { NonNull::new_unchecked(block.cast::<u8>()) };
    // SAFETY: a live block of this allocator with this layout.
    unsafe { allocator.deallocate(block, layout, Scope::Object) };
}
