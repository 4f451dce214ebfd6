//! A guard that rewinds an arena.

use core::fmt;
use core::ops::Deref;

use super::{Arena, Mark};
use crate::adapters::HostSource;

/// A guard that allocates from an arena. Dropping it ends the blocks allocated through it, and drops the values that the arena
/// [owns](Arena::try_own) since then, newest first.
///
/// The drop frees the chunks allocated meanwhile, except the largest one of up to 64 KiB, which stays as a spare: a scope that is opened
/// again and again needs nothing from the base. Forgetting a scope (`mem::forget`) keeps its blocks until the arena ends.
///
/// It lends the arena shared only: a `&mut Arena` could be swapped for another arena, which would then be rewound to a wrong mark.
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
