//! The panic fence: a panic of an application's allocator must not unwind into C.
//!
//! Vulkan specification, *Host Memory*: a callback may end the process (V27), but unwinding through a driver's frames is
//! undefined. With the feature `std` a panic is caught here; without it, or with `panic = "abort"`, the process ends at the
//! `extern "system"` boundary.

/// A caught panic.
pub(crate) struct Panicked;

/// How a bridge calls its allocator, chosen when the callbacks are created: care that is not needed costs nothing.
pub(crate) trait Care {
    /// It may unwind.
    const FENCED: bool;
    /// It knows its blocks: it gets the size of the bridge's front of a block, and validates pointers before they are dereferenced.
    const GUARDED: bool;
}

/// A plain allocator that never unwinds.
pub(crate) enum PlainCare {}
/// One that may.
pub(crate) enum FencedCare {}
/// One that guards its blocks.
pub(crate) enum GuardedCare {}

/// The [`Care`] of a bridge's callbacks.
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

/// As [`fenced`], or without the fence if the callee cannot unwind: the fence costs more than the header.
#[inline(always)]
pub(crate) fn fence<C: Care, R>(call: impl FnOnce() -> R) -> Result<R, Panicked> {
    if C::FENCED { fenced(call) } else { Ok(call()) }
}

/// Runs `call`; a panic is an error.
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
