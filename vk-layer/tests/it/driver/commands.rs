//! Commands without callbacks of their own.

use std::ffi::c_void;
use std::ptr;

use vk_callbacks::raw::RawCallbacks;

use super::blocks::{allocate, free};
use super::{DRIVER, Handle};

/// Allocates and frees a block.
pub(super) fn allocate_and_free(callbacks: Option<RawCallbacks>) {
    let callbacks = callbacks.as_ref().map_or(ptr::null(), ptr::from_ref);
    free(callbacks, allocate(callbacks));
}

/// Records: allocates from the command pool's callbacks.
///
/// Never inlined: tests compare its address, and an optimising compiler makes copies of small functions, each with its
/// own.
#[inline(never)]
pub(crate) unsafe extern "system" fn draw(_: Handle) {
    allocate_and_free(DRIVER.with_borrow(|driver| driver.pool));
}

/// As `draw`, in a command that is none of recording.
pub(super) unsafe extern "system" fn reset_pool(_: Handle, pool: u64, flags: u32) -> i32 {
    DRIVER.with_borrow_mut(|driver| driver.arguments.extend([pool, flags.into()]));
    allocate_and_free(DRIVER.with_borrow(|driver| driver.pool));
    0
}

/// As lavapipe does: a thread of the driver's own frees what it took.
pub(super) unsafe extern "system" fn wait_idle(_: Handle) -> i32 {
    struct Callbacks(RawCallbacks);
    // SAFETY: callbacks may be called on any thread.
    unsafe impl Send for Callbacks {}
    let callbacks = DRIVER.with_borrow(|driver| driver.device).map(Callbacks);
    let worker = std::thread::spawn(move || {
        let callbacks = callbacks;
        allocate_and_free(callbacks.map(|callbacks| callbacks.0));
    });
    worker.join().expect("a worker that ends");
    -4
}

/// 15 parameters and no fewer, of which some are no words, as of `vkCmdTraceRaysNV`.
pub(super) unsafe extern "system" fn trace_rays(
    _: Handle,
    a: u64,
    b: u32,
    c: u64,
    d: u32,
    e: u64,
    f: u64,
    g: u32,
    h: u64,
    i: u64,
    j: u32,
    k: u64,
    l: u32,
    m: u32,
    n: u32,
) {
    let [b, d, g, j, l, m, n] = [b, d, g, j, l, m, n].map(u64::from);
    let all = vec![a, b, c, d, e, f, g, h, i, j, k, l, m, n];
    DRIVER.with_borrow_mut(|driver| driver.arguments = all);
}

pub(super) unsafe extern "system" fn set_depth_bias(_: Handle, a: f32, b: f32, c: f32) {
    let all = [a, b, c].map(|float| u64::from(float.to_bits()));
    DRIVER.with_borrow_mut(|driver| driver.arguments = all.to_vec());
}

pub(super) unsafe extern "system" fn bind_many(_: Handle, count: u32, _: *const [u64; 5]) -> i32 {
    // What is bound three times at once is too much.
    if count == 3 { -2 } else { 0 }
}

pub(super) unsafe extern "system" fn map(_: Handle, _: u64, _: u64, _: u64, _: u32, _: *mut *mut c_void) -> i32 {
    0
}

pub(super) unsafe extern "system" fn submit(_: Handle, _: u32, _: *const c_void, _: u64) -> i32 {
    0
}

pub(super) unsafe extern "system" fn unmap(_: Handle, _: u64) {}

/// An unknown command. Never inlined, as `draw`.
#[inline(never)]
pub(crate) unsafe extern "system" fn unknown(_: Handle) {}
