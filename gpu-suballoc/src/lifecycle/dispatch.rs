//! One dispatch at a time: a lock, and nothing else.

use core::ops::Deref;

use super::context::OwnedContext;
use super::turns::Turns;
use super::until_lost::ContextDevice;

/// A context, while a dispatch has it; dropped, the next one may.
#[must_use = "dropping it ends the dispatch"]
pub struct Dispatch<'c, D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> {
    context: &'c OwnedContext<D, P, E>,
    lock: &'c Turns,
}

impl<'c, D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> Dispatch<'c, D, P, E> {
    pub(super) fn new(context: &'c OwnedContext<D, P, E>, lock: &'c Turns) -> Self {
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
