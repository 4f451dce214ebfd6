#![expect(
    clippy::disallowed_types,
    reason = "the one place that wraps the infallibly growing Vec and leaves its growth out"
)]

use core::alloc::Layout;
use core::ops::{Deref, DerefMut};
use core::{fmt, slice};

use allocator_api2::collections::{TryReserveError, TryReserveErrorKind};
use allocator_api2::vec::Vec;

use crate::adapters::HostSource;
use crate::error::HostError;
use crate::rejected::Rejected;

/// A growable array in host memory of `A`, whose every growth can be refused.
///
/// A refused call leaves length, content and capacity as they were and returns its values. Growing doubles the
/// capacity, except in `_exact` calls. The block has exactly `capacity * size_of::<T>()` bytes.
///
/// # Errors of all its functions
/// [`HostError::TooLarge`] above `isize::MAX` bytes; the allocator's refusal.
pub struct TryVec<T, A: HostSource> {
    inner: Vec<T, A>,
}

impl<T, A: HostSource> TryVec<T, A> {
    /// An empty array without memory.
    #[inline]
    pub const fn new_in(allocator: A) -> Self {
        Self { inner: Vec::new_in(allocator) }
    }

    /// An empty array with room for exactly `capacity` elements.
    pub fn try_with_capacity_in(capacity: usize, allocator: A) -> Result<Self, HostError> {
        let mut vec = Self::new_in(allocator);
        vec.try_reserve_exact(capacity)?;
        Ok(vec)
    }

    /// Clones of a slice's elements.
    pub fn try_from_slice_in(slice: &[T], allocator: A) -> Result<Self, HostError>
    where
        T: Clone,
    {
        let mut vec = Self::try_with_capacity_in(slice.len(), allocator)?;
        vec.try_extend_from_slice(slice)?;
        Ok(vec)
    }

    /// Appends `value`.
    #[inline]
    pub fn try_push(&mut self, value: T) -> Result<(), Rejected<T, HostError>> {
        match self.inner.push_within_capacity(value) {
            Ok(()) => Ok(()),
            Err(value) => self.grow_and_push(value),
        }
    }

    #[cold]
    fn grow_and_push(&mut self, value: T) -> Result<(), Rejected<T, HostError>> {
        if let Err(error) = self.try_reserve(1) {
            return Err(Rejected { value, error });
        }
        self.inner.push_within_capacity(value).map_err(|value| Rejected { value, error: HostError::TooLarge })
    }

    /// Removes the last element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.inner.pop()
    }

    /// Removes the element at `index` and puts the last one in its place. `None` past the end.
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        (index < self.len()).then(|| self.inner.swap_remove(index))
    }

    /// Drops all but the first `len` elements. Keeps the block.
    pub fn truncate(&mut self, len: usize) {
        self.inner.truncate(len);
    }

    /// Drops all elements. Keeps the block.
    pub fn clear(&mut self) {
        self.inner.clear();
    }

    /// Keeps the elements for which `keep` is true, in their order.
    pub fn retain(&mut self, keep: impl FnMut(&mut T) -> bool) {
        self.inner.retain_mut(keep);
    }

    /// Room for `additional` more elements, growing to at least the double.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), HostError> {
        self.inner.try_reserve(additional).map_err(|refused| self.reason(&refused))
    }

    /// Room for exactly `additional` more elements.
    pub fn try_reserve_exact(&mut self, additional: usize) -> Result<(), HostError> {
        self.inner.try_reserve_exact(additional).map_err(|refused| self.reason(&refused))
    }

    #[cold]
    fn reason(&self, refused: &TryReserveError) -> HostError {
        match refused.kind() {
            TryReserveErrorKind::AllocError { layout, .. } => {
                let held = self.capacity().saturating_mul(size_of::<T>());
                let growth = Layout::from_size_align(layout.size().saturating_sub(held), layout.align());
                self.allocator().refusal(growth.unwrap_or(layout))
            }
            TryReserveErrorKind::CapacityOverflow => HostError::TooLarge,
        }
    }

    /// Appends clones of a slice's elements.
    pub fn try_extend_from_slice(&mut self, slice: &[T]) -> Result<(), HostError>
    where
        T: Clone,
    {
        self.try_reserve(slice.len())?;
        self.inner.extend_from_slice(slice);
        Ok(())
    }

    /// Sets the length: drops elements, or appends clones of `value`.
    pub fn try_resize(&mut self, len: usize, value: T) -> Result<(), HostError>
    where
        T: Clone,
    {
        self.try_reserve(len.saturating_sub(self.len()))?;
        self.inner.resize(len, value);
        Ok(())
    }

    /// How many elements the block has room for; `usize::MAX` for elements of size 0.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    /// The allocator of the block.
    #[inline]
    pub fn allocator(&self) -> &A {
        self.inner.allocator()
    }

    /// The elements.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.inner.as_slice()
    }

    /// The elements, mutable.
    #[inline]
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.inner.as_mut_slice()
    }

    /// The block is never freed by the array.
    pub(crate) fn leak<'a>(self) -> &'a mut [T]
    where
        A: 'a,
    {
        self.inner.leak()
    }
}

impl<T, A: HostSource> Deref for TryVec<T, A> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.inner
    }
}

impl<T, A: HostSource> DerefMut for TryVec<T, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.inner
    }
}

impl<'a, T, A: HostSource> IntoIterator for &'a TryVec<T, A> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

impl<T: fmt::Debug, A: HostSource> fmt::Debug for TryVec<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<T: PartialEq, A: HostSource, B: HostSource> PartialEq<TryVec<T, B>> for TryVec<T, A> {
    fn eq(&self, other: &TryVec<T, B>) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: PartialEq, A: HostSource, const N: usize> PartialEq<[T; N]> for TryVec<T, A> {
    fn eq(&self, other: &[T; N]) -> bool {
        self.as_slice() == other
    }
}
