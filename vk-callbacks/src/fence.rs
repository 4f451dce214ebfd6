//! The panic fence: an application's allocator that panics must not unwind into C.
//!
//! Vulkan specification, *Host Memory*: a callback may end the process (V27), but unwinding through a driver's frames is
//! undefined. With the feature `std` a panic is caught here; without it, or with `panic = "abort"`, the process ends at the
//! `extern "system"` boundary.

/// A panic was stopped.
pub(crate) struct Panicked;

/// How much care a bridge's allocator needs, chosen when the callbacks are made: what is not needed costs nothing then.
pub(crate) trait Care {
    /// It may unwind.
    const FENCED: bool;
    /// It knows its blocks: it is told what is the bridge's in front of them, and asked about pointers before they are followed.
    const GUARDED: bool;
}

/// A plain allocator that never unwinds.
pub(crate) enum PlainCare {}
/// One that may.
pub(crate) enum FencedCare {}
/// One that guards its blocks.
pub(crate) enum GuardedCare {}

/// Which [`Care`] the callbacks of a bridge were built with.
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

/// As [`fenced`], or without the fence where the callee cannot unwind: handing arguments through it costs more than the header.
#[inline(always)]
pub(crate) fn fence<C: Care, R>(call: impl FnOnce() -> R) -> Result<R, Panicked> {
    if C::FENCED { fenced(call) } else { Ok(call()) }
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
