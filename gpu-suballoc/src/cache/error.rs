//! Errors of the cache.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::HostError;

/// Why a call failed; the cache is unchanged. `E` is the compiler's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError<E> {
    /// The compiler failed. Nothing is kept: the next call compiles again.
    Compile(E),
    /// No host memory for an entry or the table. Not a usage error.
    Host(HostError),
    /// Compiling this key requested this key again: on the same thread, or through other threads' compiles and waits, in this cache or
    /// others. The caller's error. Without feature `std` threads cannot be distinguished, and such a call waits for ever.
    Recursive,
    /// The owner is for another device than the key. The caller's error.
    OtherDevice,
}

impl<E> From<HostError> for CacheError<E> {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl<E: fmt::Display> fmt::Display for CacheError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(error) => write!(f, "the shader was not compiled: {error}"),
            Self::Host(error) => error.fmt(f),
            Self::Recursive => f.write_str(
                "compiling a shader asked for that shader: ask for it before, or for another one",
            ),
            Self::OtherDevice => f.write_str(
                "the key is of another device than its owner: make keys with the owner's device",
            ),
        }
    }
}

impl<E: core::error::Error> core::error::Error for CacheError<E> {}
