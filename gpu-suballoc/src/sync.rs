//! Locks and atomics. The order: the records of regions, a pool, the budget; a shard of the cache and the register of
//! contexts are each locked alone. The turn at one `VkDeviceMemory` (`map_count.rs`) is last and no lock of a state:
//! nobody waits for it with a lock.

#[cfg(all(feature = "std", any(target_os = "linux", target_os = "android", windows)))]
pub(crate) use crate::threads::{StateGuard, StateMutex};
/// Where std's mutex allocates nothing, who waits for a lock spins for a moment and then sleeps; elsewhere it spins and
/// yields.
#[cfg(not(all(feature = "std", any(target_os = "linux", target_os = "android", windows))))]
pub(crate) use alloc_core::support::{StateGuard, StateMutex};

#[cfg(feature = "cache")]
pub(crate) use core::sync::atomic::AtomicU32;
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
