//! The growing array.
#![expect(
    clippy::disallowed_types,
    reason = "the one place that wraps the infallibly growing Vec and leaves its growth out"
)]

use core::alloc::Layout;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::{fmt, slice};

use allocator_api2::collections::{TryReserveError, TryReserveErrorKind};
use allocator_api2::vec::Vec;

use crate::adapters::HostSource;
use crate::error::HostError;
use crate::rejected::Rejected;

/// A growing array in host memory of `A`, whose every growth can be refused.
///
/// A refused call leaves length, content and capacity as they were and gives values back. Reading goes through the slice it
/// dereferences to. Growing doubles the capacity; `_exact` calls do not. There is no header: the block has exactly
/// `capacity * size_of::<T>()` bytes.
pub struct TryVec<T, A: HostSource> {
    inner: Vec<T, A>,
}

impl<T, A: HostSource> TryVec<T, A> {
    /// An empty array; takes no memory yet.
    #[inline]
    pub const fn new_in(allocator: A) -> Self {
        Self {
            inner: Vec::new_in(allocator),
        }
    }

    /// An empty array with room for `capacity` elements, exactly.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] when that exceeds `isize::MAX` bytes; the allocator's refusal.
    pub fn try_with_capacity_in(capacity: usize, allocator: A) -> Result<Self, HostError> {
        let mut vec = Self::new_in(allocator);
        vec.try_reserve_exact(capacity)?;
        Ok(vec)
    }

    /// `len` clones of `element`.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] when `len` elements exceed `isize::MAX` bytes; the allocator's refusal.
    pub fn try_from_elem_in(element: T, len: usize, allocator: A) -> Result<Self, HostError>
    where
        T: Clone,
    {
        let mut vec = Self::try_with_capacity_in(len, allocator)?;
        vec.try_resize(len, element)?;
        Ok(vec)
    }

    /// The clones of a slice's elements.
    ///
    /// # Errors
    /// The allocator's refusal.
    pub fn try_from_slice_in(slice: &[T], allocator: A) -> Result<Self, HostError>
    where
        T: Clone,
    {
        let mut vec = Self::try_with_capacity_in(slice.len(), allocator)?;
        vec.try_extend_from_slice(slice)?;
        Ok(vec)
    }

    /// Appends `value`.
    ///
    /// # Errors
    /// The refusal of a larger block, with the value; [`HostError::TooLarge`] past `isize::MAX` bytes.
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
        // There is room now.
        self.inner
            .push_within_capacity(value)
            .map_err(|value| Rejected {
                value,
                error: HostError::TooLarge,
            })
    }

    /// Takes the last element off.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.inner.pop()
    }

    /// Takes the element at `index` out and puts the last one in its place. `None` past the end.
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

    /// Keeps those elements of which `keep` says true, in their order.
    pub fn retain(&mut self, keep: impl FnMut(&mut T) -> bool) {
        self.inner.retain_mut(keep);
    }

    /// Room for `additional` elements beyond the length, growing to at least the double.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] when that exceeds `isize::MAX` bytes; the allocator's refusal.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), HostError> {
        self.inner
            .try_reserve(additional)
            .map_err(|refused| self.reason(&refused))
    }

    /// Room for `additional` elements beyond the length and no more.
    ///
    /// # Errors
    /// As [`try_reserve`](TryVec::try_reserve).
    pub fn try_reserve_exact(&mut self, additional: usize) -> Result<(), HostError> {
        self.inner
            .try_reserve_exact(additional)
            .map_err(|refused| self.reason(&refused))
    }

    #[cold]
    fn reason(&self, refused: &TryReserveError) -> HostError {
        match refused.kind() {
            TryReserveErrorKind::AllocError { layout, .. } => {
                // What was missing is the growth.
                let held = self.capacity().saturating_mul(size_of::<T>());
                let growth =
                    Layout::from_size_align(layout.size().saturating_sub(held), layout.align());
                self.allocator().refusal(growth.unwrap_or(layout))
            }
            TryReserveErrorKind::CapacityOverflow => HostError::TooLarge,
        }
    }

    /// Appends clones of a slice's elements.
    ///
    /// # Errors
    /// As [`try_reserve`](TryVec::try_reserve); then none was appended.
    pub fn try_extend_from_slice(&mut self, slice: &[T]) -> Result<(), HostError>
    where
        T: Clone,
    {
        self.try_reserve(slice.len())?;
        self.inner.extend_from_slice(slice);
        Ok(())
    }

    /// Appends what `values` yields.
    ///
    /// # Errors
    /// As [`try_reserve`](TryVec::try_reserve); then the length is what it was, and the values taken so far are dropped. Room
    /// taken on the way is given back, unless the allocator refuses even the smaller block: an iterator that knows its length
    /// needs no second growth.
    pub fn try_extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), HostError> {
        let (len, capacity) = (self.len(), self.capacity());
        let values = values.into_iter();
        self.try_reserve(values.size_hint().0)?;
        for value in values {
            if let Err(refused) = self.try_push(value) {
                self.truncate(len);
                let _ = self.try_shrink_to(capacity);
                return Err(refused.error);
            }
        }
        Ok(())
    }

    /// Makes the length `len`: drops what is beyond, or appends clones of `value`.
    ///
    /// # Errors
    /// As [`try_reserve`](TryVec::try_reserve).
    pub fn try_resize(&mut self, len: usize, value: T) -> Result<(), HostError>
    where
        T: Clone,
    {
        self.try_reserve(len.saturating_sub(self.len()))?;
        self.inner.resize(len, value);
        Ok(())
    }

    /// Gives back the room beyond the length.
    ///
    /// # Errors
    /// The refusal of an allocator that must move a block to make it smaller; then all stays as it is.
    pub fn try_shrink_to_fit(&mut self) -> Result<(), HostError> {
        self.try_shrink_to(0)
    }

    /// Gives back the room beyond the length and beyond `capacity` elements.
    ///
    /// # Errors
    /// As [`try_shrink_to_fit`](TryVec::try_shrink_to_fit).
    fn try_shrink_to(&mut self, capacity: usize) -> Result<(), HostError> {
        let len = self.len();
        let capacity = capacity.max(len);
        if size_of::<T>() == 0 || capacity >= self.capacity() {
            return Ok(());
        }
        let (Ok(old), Ok(new)) = (
            Layout::array::<T>(self.capacity()),
            Layout::array::<T>(capacity),
        ) else {
            return Err(HostError::TooLarge); // Cannot be: the block exists, so its layout does.
        };
        // `as_mut_ptr` speaks for the whole block, a slice only for the elements.
        let Some(block) = NonNull::new(self.inner.as_mut_ptr()) else {
            return Ok(());
        };
        if capacity == 0 {
            // Forgotten first: should the allocator unwind, the vector must not give the block back once more.
            // SAFETY: no element needs room.
            unsafe { self.replace_block(NonNull::dangling(), 0, 0) };
            // SAFETY: the vector's own block, with the layout it was taken with, just forgotten.
            unsafe { self.allocator().deallocate(block.cast(), old) };
            return Ok(());
        }
        // SAFETY: the vector's own block, with the layout it was taken with; `new` is smaller and as aligned.
        let moved = unsafe { self.allocator().shrink(block.cast(), old, new) };
        let smaller = moved.map_err(|_| self.allocator().refusal(new))?.cast();
        // SAFETY: `smaller` holds the `len` elements and has room for `capacity`; the old block is gone.
        unsafe { self.replace_block(smaller, len, capacity) };
        Ok(())
    }

    /// Forgets the block and continues with another one of the same allocator.
    ///
    /// # Safety
    /// `first` is the start of a live block of the vector's allocator with room for `capacity` elements, or dangles where that has size 0; its
    /// first `len` elements are valid.
    unsafe fn replace_block(&mut self, first: NonNull<T>, len: usize, capacity: usize) {
        // SAFETY: overwritten below, without a drop and without anything between that could unwind.
        let forgotten = unsafe { ptr::read(&raw const self.inner) };
        let (_, _, _, allocator) = forgotten.into_raw_parts_with_alloc();
        // SAFETY: this function's contract.
        let inner = unsafe { Vec::from_raw_parts_in(first.as_ptr(), len, capacity, allocator) };
        // SAFETY: what stood here was moved out above.
        unsafe { ptr::write(&raw mut self.inner, inner) };
    }

    /// The same elements again, in the same allocator, with no spare room.
    ///
    /// # Errors
    /// The allocator's refusal.
    pub fn try_clone(&self) -> Result<Self, HostError>
    where
        T: Clone,
        A: Clone,
    {
        Self::try_from_slice_in(self, self.allocator().clone())
    }

    /// How many elements the block has room for; `usize::MAX` for elements of size 0.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    /// Whose memory the elements lie in.
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

    /// The elements, to be changed.
    #[inline]
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.inner.as_mut_slice()
    }

    /// Gives the block away: first element, length, capacity in elements, allocator. Nothing is freed.
    pub(crate) fn into_raw_parts_with_allocator(self) -> (NonNull<T>, usize, usize, A) {
        let (first, len, capacity, allocator) = self.inner.into_raw_parts_with_alloc();
        // SAFETY: a vector's pointer is never null; it dangles where there is no block.
        (
            unsafe { NonNull::new_unchecked(first) },
            len,
            capacity,
            allocator,
        )
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

impl<'a, T, A: HostSource> IntoIterator for &'a mut TryVec<T, A> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;

    fn into_iter(self) -> slice::IterMut<'a, T> {
        self.iter_mut()
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

impl<T: PartialEq, A: HostSource> PartialEq<[T]> for TryVec<T, A> {
    fn eq(&self, other: &[T]) -> bool {
        self.as_slice() == other
    }
}

impl<T: PartialEq, A: HostSource, const N: usize> PartialEq<[T; N]> for TryVec<T, A> {
    fn eq(&self, other: &[T; N]) -> bool {
        self.as_slice() == other
    }
}
