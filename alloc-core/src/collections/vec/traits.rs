//! What a vector is to the rest of the language: a slice, a sequence, comparable, printable.

#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::slice;

use super::TryVec;
use crate::adapters::HostSource;

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
