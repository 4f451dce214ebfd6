//! Collections whose every growth can be refused: thin shells over `allocator_api2` and `hashbrown`.
//!
//! The wrapped types also grow infallibly, and abort when they cannot; the shells leave those calls out. What remains
//! answers with the allocator's own reason, and leaves the collection as it was.

mod boxed;
mod hasher;
mod into_iter;
mod map;
mod string;
mod vec;

use core::error::Error;
use core::fmt;

use crate::error::HostError;

pub use boxed::TryBox;
pub use hasher::{FoldHasher, FoldState};
pub use into_iter::TryVecIntoIter;
pub use map::TryMap;
pub use string::TryString;
pub use vec::TryVec;

/// A value that found no room, given back with the reason.
///
/// `?` turns it into the bare [`HostError`] and drops the value.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "it holds the value that was not stored"]
pub struct Refused<T> {
    /// The value as it was handed in.
    pub value: T,
    /// Why there was no room.
    pub error: HostError,
}

impl<T> From<Refused<T>> for HostError {
    fn from(refused: Refused<T>) -> Self {
        refused.error
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> Error for Refused<T> {}
