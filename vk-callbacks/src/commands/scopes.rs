//! A set of scopes.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::Scope;

/// A set of scopes, one byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ScopeMask(u8);

impl ScopeMask {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All five.
    pub const ALL: Self = Self(0b1_1111);
    /// The scopes that any command may allocate and free (V36): command, device, instance.
    pub const ANY_COMMAND: Self = Self::NONE
        .with(Scope::Command)
        .with(Scope::Device)
        .with(Scope::Instance);

    /// These and `scope`.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | 1 << scope as u8)
    }

    /// Whether `scope` is among them.
    #[must_use]
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & 1 << scope as u8 != 0
    }
}

impl fmt::Debug for ScopeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(Scope::ALL.into_iter().filter(|scope| self.contains(*scope)))
            .finish()
    }
}
