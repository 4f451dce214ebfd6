//! Locks and atomics.

pub(crate) use alloc_core::support::{StateGuard, StateMutex};
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
