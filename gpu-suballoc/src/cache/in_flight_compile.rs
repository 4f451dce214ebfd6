//! A compile that is under way, and who waits for it: one thread compiles, all others get what it made.
//!
//! ```text
//!   FREE -> RUNNING --+-> DONE    entry is set, a hold for each user is counted already
//!                    +-> FAILED  the compiler's own error, for all who joined
//!                    +-> RETRY   the leader's own trouble (memory, a panic): one of the others leads next
//! ```
//! The last user gives it back. Flights never move, so a thread can wait on the word of one.

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
    /// Who has to look at it yet, the leader among them. With the lock.
    pub(super) users: AtomicU32,
    device: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    /// Number of the leader's thread.
    pub(super) leader: AtomicU64,
    /// Number of the leader's owner.
    pub(super) owner: AtomicU32,
    /// 1: owner or device went meanwhile, so nobody is to find what is made. With the lock.
    pub(super) released: AtomicU32,
    pub(super) entry: AtomicU32,
    /// The next one in its list. With the lock.
    pub(super) link: AtomicU32,
    error: UnsafeCell<MaybeUninit<E>>,
}

// SAFETY: the error is written before `state` becomes FAILED, by the leader alone, and read afterwards.
unsafe impl<E: Copy + Send + Sync> Sync for InFlightCompile<E> {}
// SAFETY: zeros are a free one, whose error nobody reads; a `Copy` error needs no destructor.
unsafe impl<E: Copy + Send + Sync> Zeroed for InFlightCompile<E> {}

impl<E: Copy + Send + Sync> InFlightCompile<E> {
    /// Off it goes. With the lock.
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

    /// The leader's, before it says that the flight failed.
    pub(super) fn set_error(&self, error: E) {
        // SAFETY: nobody reads it before the state says FAILED, and only the leader writes.
        unsafe { self.error.get().write(MaybeUninit::new(error)) };
    }

    /// A user's, after the flight failed.
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
