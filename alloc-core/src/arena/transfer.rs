//! Moving a whole arena to another context: the charge moves, the chunks stay.

use super::Arena;
use crate::context::{ContextRef, transfer};
use crate::error::HostError;

impl<A: ContextRef> Arena<A> {
    /// Moves the arena to another context: its chunks are charged to `other` and freed through it. No block is copied or moved, and owned
    /// values stay owned. O(chunks).
    ///
    /// Totals only grow: afterwards the totals of both contexts contain the chunks.
    ///
    /// # Errors
    /// The arena as it was, with [`Misuse::OtherBacking`](crate::Misuse::OtherBacking) when the contexts draw on different
    /// allocators, [`Misuse::OtherScope`](crate::Misuse::OtherScope) when they have different scopes, [`HostError::Closed`] when `other` is
    /// closed, [`HostError::OverBudget`] when a budget above `other` and not above this context has no room for the arena.
    pub fn move_to<B: ContextRef>(self, other: B) -> Result<Arena<B>, (Self, HostError)> {
        let (from, to) = (self.base.sealed_node().0, other.sealed_node().0);
        let (mut blocks, mut bytes) = (0_u64, 0_u64);
        for chunk in self.chunks() {
            blocks = blocks.saturating_add(1);
            bytes = bytes.saturating_add(chunk.size() as u64);
        }
        match transfer(from, to, blocks, bytes) {
            // SAFETY: all chunks were just charged to `other`, which draws on the same backing and names the same scope.
            Ok(()) => Ok(unsafe { self.with_base(other) }),
            Err(error) => Err((self, error)),
        }
    }
}
