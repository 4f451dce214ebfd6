use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, null_mut};

use super::ContextHandle;
use crate::sync::{AtomicPtr, Ordering};

/// Set once, so that a handle can be copied without a lock.
static DEFAULT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The process's default context, if one was [set](set_default_context): for code behind an interface without a place
/// for a context.
#[must_use]
pub fn default_context() -> Option<ContextHandle> {
    let raw = NonNull::new(DEFAULT.load(Ordering::Acquire))?;
    // SAFETY: from `into_raw`; never dropped.
    let default = ManuallyDrop::new(unsafe { ContextHandle::from_raw(raw) });
    Some(ContextHandle::clone(&default))
}

/// Sets the process's [default context](default_context), once and for ever: `try_close` and `close_root` of its owner
/// are refused. Dropping the owner closes the context.
///
/// ```
/// use alloc_core::{Context, ContextOptions, FromGlobalAlloc, default_context, set_default_context};
///
/// static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("program"))?;
/// assert!(default_context().is_none());
/// set_default_context(root.handle()).expect("the first");
/// assert_eq!(default_context(), Some(root.handle()));
/// assert!(set_default_context(root.handle()).is_err());
/// # Ok::<(), alloc_core::HostError>(())
/// ```
///
/// # Errors
/// The handle, where one was set before.
pub fn set_default_context(context: ContextHandle) -> Result<(), ContextHandle> {
    let raw = context.into_raw();
    let set = DEFAULT.compare_exchange(null_mut(), raw.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
    match set {
        Ok(_) => Ok(()),
        // SAFETY: from `into_raw`, and not stored.
        Err(_) => Err(unsafe { ContextHandle::from_raw(raw) }),
    }
}
