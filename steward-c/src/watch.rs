//! Contexts whose blocks are guarded, and contexts that refuse on purpose, configured by the syntax of the program's
//! command line.

use std::ffi::c_char;

use alloc_core::{Context, ContextHandle, ContextOptions, HostAllocator, HostError, Misuse};
use debug_guard::{FailingAllocator, Fault, Guard, GuardChoice, GuardError};

use crate::context::{NAME, root_over, store};
use crate::edge::{StewardContext, context, enter, text};

/// `None` of `make` means that the configuration is invalid.
///
/// # Safety
/// `owner` is NULL or a live owner, `name` NULL or a string, `out` NULL or a place.
unsafe fn watched<A: HostAllocator + Send + Sync + 'static>(
    owner: *const StewardContext,
    name: *const c_char,
    out: *mut *mut StewardContext,
    make: impl FnOnce(ContextHandle) -> Result<A, HostError>,
) -> i32 {
    // SAFETY: the caller's string.
    let options = ContextOptions::new(NAME).label(unsafe { text(name) });
    // SAFETY: NULL or a live owner.
    let owner = unsafe { context(owner) };
    let root = || -> Result<Context, HostError> {
        let owner = owner.ok_or(HostError::Misuse(Misuse::OtherContext))?;
        let allocator = make(owner.handle())?;
        root_over(allocator, options.scope(owner.scope()))
    };
    // SAFETY: the caller's place.
    unsafe { store(out, root) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_root_guarded(
    owner: *const StewardContext,
    words: *const c_char,
    name: *const c_char,
    out: *mut *mut StewardContext,
) -> i32 {
    enter(&"steward_root_guarded", || {
        // SAFETY: the caller's string.
        let choice = unsafe { text(words) }.parse::<GuardChoice>();
        let make = |handle: ContextHandle| {
            let choice = choice.map_err(|_| HostError::Misuse(Misuse::OutOfRange))?;
            let scope = handle.scope();
            Guard::new(handle, choice.options()).map_err(|rejected| match rejected.error {
                GuardError::NoHostMemory { bytes } => HostError::OutOfHostMemory { bytes, scope },
                _ => HostError::Misuse(Misuse::OtherBacking),
            })
        };
        // SAFETY: NULL or a live owner, a string, and a place.
        unsafe { watched(owner, name, out, make) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_root_failing(
    owner: *const StewardContext,
    words: *const c_char,
    name: *const c_char,
    out: *mut *mut StewardContext,
) -> i32 {
    enter(&"steward_root_failing", || {
        // SAFETY: the caller's string.
        let fault = unsafe { text(words) }.parse::<Fault>();
        let make = |handle: ContextHandle| {
            let fault = fault.map_err(|_| HostError::Misuse(Misuse::OutOfRange))?;
            Ok(FailingAllocator::new(handle, fault))
        };
        // SAFETY: NULL or a live owner, a string, and a place.
        unsafe { watched(owner, name, out, make) }
    })
}
