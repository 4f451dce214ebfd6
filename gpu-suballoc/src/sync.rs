//! Locks and atomics.

#[cfg(all(
    feature = "std",
    any(target_os = "linux", target_os = "android", windows)
))]
pub(crate) use crate::threads::{StateGuard, StateMutex};
/// Where std's mutex allocates nothing, who waits for a lock spins for a moment and then sleeps; elsewhere it spins and yields.
#[cfg(not(all(
    feature = "std",
    any(target_os = "linux", target_os = "android", windows)
)))]
pub(crate) use alloc_core::support::{StateGuard, StateMutex};

pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
