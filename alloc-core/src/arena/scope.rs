//! A place to go back to, as a guard.

use core::fmt;
use core::ops::Deref;

use super::{Arena, Mark};
use crate::adapters::HostSource;

/// Allocates from an arena until it is dropped, which ends what was allocated through it and no more; values that the arena
/// [owns](Arena::try_own) since then are dropped, newest first.
///
/// The chunks taken meanwhile go back to the base, but for the largest one of up to 64 KiB, kept as a spare: a scope entered
/// again and again asks the base for nothing. Forgetting a scope instead of dropping it leaves its blocks to the arena's end.
///
/// Gives out the arena shared only: an arena that could be swapped for another would be rewound to a place in the wrong one.
pub struct ArenaScope<'a, A: HostSource> {
    arena: &'a mut Arena<A>,
    mark: Mark,
}

impl<A: HostSource> Arena<A> {
    /// Opens a scope. The arena itself cannot be used until it ends; what was allocated before must not be borrowed.
    #[must_use = "the scope ends when it is dropped"]
    pub fn scope(&mut self) -> ArenaScope<'_, A> {
        let mark = self.mark();
        ArenaScope { arena: self, mark }
    }
}

impl<A: HostSource> ArenaScope<'_, A> {
    /// Opens a scope within this one.
    #[must_use = "the scope ends when it is dropped"]
    pub fn scope(&mut self) -> ArenaScope<'_, A> {
        self.arena.scope()
    }
}

impl<A: HostSource> Deref for ArenaScope<'_, A> {
    type Target = Arena<A>;

    #[inline]
    fn deref(&self) -> &Arena<A> {
        self.arena
    }
}

impl<A: HostSource> Drop for ArenaScope<'_, A> {
    fn drop(&mut self) {
        // SAFETY: the mark is this arena's; only scopes within this one could rewind it meanwhile, and no further than their own
        // marks. Whatever was allocated since borrows from this scope, so it is no longer in use.
        unsafe { self.arena.rewind(&self.mark) };
    }
}

impl<A: HostSource> fmt::Debug for ArenaScope<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arena.fmt(f)
    }
}
