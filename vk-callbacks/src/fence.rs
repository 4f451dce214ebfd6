//! The panic fence: an application's allocator that panics must not unwind into C.
//!
//! Vulkan specification, *Host Memory*: a callback may end the process (V27), but unwinding through a driver's frames is
//! undefined. With the feature `std` a panic is caught here; without it, or with `panic = "abort"`, the process ends at the
//! `extern "system"` boundary.

/// A panic was stopped.
pub(crate) struct Panicked;

/// As [`fenced`], or without the fence where the callee cannot unwind: handing arguments through it costs more than the header.
#[inline(always)]
pub(crate) fn fence<const FENCED: bool, R>(call: impl FnOnce() -> R) -> Result<R, Panicked> {
    if FENCED { fenced(call) } else { Ok(call()) }
}

/// Runs `call`; a panic in it is an error.
#[cfg(feature = "std")]
#[inline]
pub(crate) fn fenced<R>(call: impl FnOnce() -> R) -> Result<R, Panicked> {
    extern crate std;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        // Dropping the payload may panic again, outside of the fence.
        core::mem::forget(payload);
        Panicked
    })
}

#[cfg(not(feature = "std"))]
#[inline]
pub(crate) fn fenced<R>(call: impl FnOnce() -> R) -> Result<R, Panicked> {
    Ok(call())
}
