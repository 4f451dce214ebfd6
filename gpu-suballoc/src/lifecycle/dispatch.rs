//! One dispatch at a time: a lock, and nothing else.

use core::ops::Deref;

use super::context::OwnedContext;
use super::until_lost::ContextDevice;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::threads;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody waits.
const WANTED: u32 = 2;

/// May be held over calls of the driver: it guards no state of ours.
pub(super) struct DispatchLock {
    word: AtomicU32,
}

impl DispatchLock {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU32::new(FREE) }
    }

    fn lock(&self) {
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() {
            return;
        }
        // Whoever waited does not know whether others do: it says so.
        while self.word.swap(WANTED, Acquire) != FREE {
            threads::wait_while(&self.word, WANTED);
        }
    }

    fn unlock(&self) {
        if self.word.swap(FREE, Release) == WANTED {
            threads::wake(&self.word);
        }
    }
}

/// A context, while a dispatch has it; dropped, the next one may.
#[must_use = "dropping it ends the dispatch"]
pub struct Dispatch<'c, D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> {
    context: &'c OwnedContext<D, P, E>,
    lock: &'c DispatchLock,
}

impl<'c, D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> Dispatch<'c, D, P, E> {
    pub(super) fn new(context: &'c OwnedContext<D, P, E>, lock: &'c DispatchLock) -> Self {
        lock.lock();
        Self { context, lock }
    }
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> Deref for Dispatch<'_, D, P, E> {
    type Target = OwnedContext<D, P, E>;

    fn deref(&self) -> &Self::Target {
        self.context
    }
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> Drop for Dispatch<'_, D, P, E> {
    fn drop(&mut self) {
        self.lock.unlock();
    }
}
