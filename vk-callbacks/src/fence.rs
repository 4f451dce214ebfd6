//! The panic fence: a panic of an application's allocator must not unwind into C.
//!
//! Vulkan specification, *Host Memory*: unwinding through a driver's frames is undefined. With the feature `std` a
//! panic is caught here; otherwise the process ends at the `extern "system"` boundary (V27).

pub(crate) struct Panicked;

/// Care that is not needed costs nothing.
pub(crate) trait Care {
    /// It may unwind.
    const FENCED: bool;
    /// It gets the size of the bridge's front of a block, and validates pointers before they are dereferenced.
    const GUARDED: bool;
}

pub(crate) enum PlainCare {}
pub(crate) enum FencedCare {}
pub(crate) enum GuardedCare {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CareKind {
    Plain,
    Fenced,
    Guarded,
}

impl Care for PlainCare {
    const FENCED: bool = false;
    const GUARDED: bool = false;
}

impl Care for FencedCare {
    const FENCED: bool = true;
    const GUARDED: bool = false;
}

impl Care for GuardedCare {
    const FENCED: bool = true;
    const GUARDED: bool = true;
}

/// Without the fence if the callee cannot unwind: the fence costs more than the header.
#[inline(always)]
pub(crate) fn fence<C: Care, R>(call: impl FnOnce() -> R) -> Result<R, Panicked> {
    if C::FENCED { fenced(call) } else { Ok(call()) }
}

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
