#![forbid(unsafe_code)]

use core::error::Error;
use core::fmt;

/// A refused call that would have consumed `value`, as
/// [`SendError`](https://doc.rust-lang.org/std/sync/mpsc/struct.SendError.html) is. `?` converts a rejection by
/// [`HostError`](crate::HostError) to that error and drops the value.
///
/// ```
/// use alloc_core::{Budget, Context, ContextOptions, FromGlobalAlloc, HostError, Rejected, TryVec};
///
/// static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("root"))?;
/// let small = root.child_with(ContextOptions::new("small").budget(Budget::exact(16)))?;
///
/// let mut words = TryVec::new_in(&small);
/// let Err(Rejected { value, error }) = words.try_push([0_u64; 8]) else { unreachable!() };
/// assert_eq!(value, [0; 8]);
/// assert!(matches!(error, HostError::OverBudget { .. }));
/// # Ok::<(), HostError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "it holds the value that was not consumed"]
pub struct Rejected<T, E> {
    /// What was handed in, unchanged.
    pub value: T,
    /// Why it was not consumed.
    pub error: E,
}

impl<T, E> Rejected<T, E> {
    /// `value`, not consumed because of `error`.
    #[inline]
    pub fn new(value: T, error: impl Into<E>) -> Self {
        Self { value, error: error.into() }
    }
}

impl<T, E: fmt::Debug> fmt::Debug for Rejected<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T, E: fmt::Display> fmt::Display for Rejected<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T, E: Error> Error for Rejected<T, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
