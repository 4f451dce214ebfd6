//! Why there is no compiled shader.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::HostError;

/// Why a call was refused; the cache is as it was. `E` is the compiler's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError<E> {
    /// The compiler failed. Nothing is kept: the next call compiles again.
    Compile(E),
    /// No host memory for an entry, or the table. Nobody's fault.
    Host(HostError),
    /// Compiling this key asked for this key: on the same thread, or by way of what other threads compile and wait for, in this cache or in
    /// others. The caller's fault. Without feature `std` threads cannot be told apart: then such a call waits for ever.
    Recursive,
    /// The owner is for another device than the key. The caller's fault.
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
