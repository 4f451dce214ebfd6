//! A compile in flight: one thread compiles, and all others wait for its result.
//!
//! ```text
//!   FREE -> RUNNING --+-> DONE    entry is set; one reference for each user is counted already
//!                    +-> FAILED  the compiler's own error, for all users
//!                    +-> RETRY   the leader has no memory or panicked; another user leads next
//! ```
//! The last user frees it. It never moves, so threads can wait on its `state`.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use super::key::ShaderKey;
use super::segments::Zeroed;
use crate::sync::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

pub(super) const RUNNING: u32 = 1;
pub(super) const DONE: u32 = 2;
pub(super) const FAILED: u32 = 3;
pub(super) const RETRY: u32 = 4;

/// All zeros is a free one.
#[repr(C, align(64))]
pub(super) struct InFlightCompile<E> {
    pub(super) state: AtomicU32,
    /// Threads, including the leader, that still have to read the result. Requires the lock.
    pub(super) users: AtomicU32,
    device: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    /// Number of the leader's thread.
    pub(super) leader: AtomicU64,
    /// Number of the leader's owner.
    pub(super) owner: AtomicU32,
    /// 1: the owner or device was released meanwhile, so lookups must not find the shader. Requires the lock.
    pub(super) released: AtomicU32,
    pub(super) entry: AtomicU32,
    /// Next in its list. Requires the lock.
    pub(super) link: AtomicU32,
    error: UnsafeCell<MaybeUninit<E>>,
}

// SAFETY: only the leader writes the error, before `state` becomes FAILED; it is read afterwards.
unsafe impl<E: Copy + Send + Sync> Sync for InFlightCompile<E> {}
// SAFETY: zeros are a free one, whose error no thread reads; a `Copy` error needs no destructor.
unsafe impl<E: Copy + Send + Sync> Zeroed for InFlightCompile<E> {}

impl<E: Copy + Send + Sync> InFlightCompile<E> {
    /// Starts a compile. Requires the lock.
    pub(super) fn begin(&self, key: ShaderKey, leader: u64, owner: u32) {
        self.device.store(key.device, Relaxed);
        self.low.store(key.low, Relaxed);
        self.high.store(key.high, Relaxed);
        self.leader.store(leader, Relaxed);
        self.owner.store(owner, Relaxed);
        self.released.store(0, Relaxed);
        self.users.store(1, Relaxed);
        self.state.store(RUNNING, Release);
    }

    pub(super) fn key(&self) -> ShaderKey {
        ShaderKey {
            device: self.device.load(Relaxed),
            low: self.low.load(Relaxed),
            high: self.high.load(Relaxed),
        }
    }

    /// Called by the leader before `state` becomes FAILED.
    pub(super) fn set_error(&self, error: E) {
        // SAFETY: no thread reads it before the state is FAILED, and only the leader writes.
        unsafe { self.error.get().write(MaybeUninit::new(error)) };
    }

    /// Called by a user after the compile ended; `None` if it did not fail.
    pub(super) fn error(&self) -> Option<E> {
        if self.state.load(Acquire) != FAILED {
            return None;
        }
        // SAFETY: written before the state became FAILED, and not again before all users have left.
        let error = unsafe { self.error.get().read() };
        // SAFETY: as above: it was written.
        Some(unsafe { error.assume_init() })
    }
}

#[cfg(test)]
impl<E> Default for InFlightCompile<E> {
    fn default() -> Self {
        Self {
            state: AtomicU32::default(),
            users: AtomicU32::default(),
            device: AtomicU64::default(),
            low: AtomicU64::default(),
            high: AtomicU64::default(),
            leader: AtomicU64::default(),
            owner: AtomicU32::default(),
            released: AtomicU32::default(),
            entry: AtomicU32::default(),
            link: AtomicU32::default(),
            error: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}
