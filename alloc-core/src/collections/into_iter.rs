//! A vector taken apart, value by value.

use core::fmt;
use core::iter::FusedIterator;

use allocator_api2::vec;

use crate::adapters::HostSource;

/// The values of a [`TryVec`](crate::TryVec); what is not taken is dropped with it, and the block goes back.
///
/// Not `Clone`: a clone would have to take a block, and could not say that it was refused.
///
/// ```compile_fail
/// # use alloc_core::{FromGlobalAlloc, Scope, Scoped, TryVec};
/// let bytes = TryVec::<u8, _>::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object));
/// let _ = bytes.into_iter().clone();
/// ```
pub struct TryVecIntoIter<T, A: HostSource> {
    inner: vec::IntoIter<T, A>,
}

impl<T, A: HostSource> TryVecIntoIter<T, A> {
    pub(super) fn new(inner: vec::IntoIter<T, A>) -> Self {
        Self { inner }
    }

    /// The values that are left.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.inner.as_slice()
    }
}

impl<T, A: HostSource> Iterator for TryVecIntoIter<T, A> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.inner.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<T, A: HostSource> DoubleEndedIterator for TryVecIntoIter<T, A> {
    fn next_back(&mut self) -> Option<T> {
        self.inner.next_back()
    }
}

impl<T, A: HostSource> ExactSizeIterator for TryVecIntoIter<T, A> {}

impl<T, A: HostSource> FusedIterator for TryVecIntoIter<T, A> {}

impl<T: fmt::Debug, A: HostSource> fmt::Debug for TryVecIntoIter<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TryVecIntoIter")
            .field(&self.as_slice())
            .finish()
    }
}
