//! Moving a whole arena to another context: the charge moves, the chunks stay.

use super::Arena;
use crate::context::{ContextRef, transfer};
use crate::error::HostError;

impl<A: ContextRef> Arena<A> {
    /// Makes the arena another context's: from now on its chunks are charged to `other` and given back through it. Nothing is
    /// copied and no block moves; what was allocated before stays in place, and what is to be dropped is dropped later. O(chunks).
    ///
    /// Totals only ever grow: afterwards the chunks are in what this context took and in what `other` took.
    ///
    /// # Errors
    /// The arena as it was, with [`Misuse::OtherBacking`](crate::Misuse::OtherBacking) when the contexts draw on different
    /// allocators, [`Misuse::OtherScope`](crate::Misuse::OtherScope) when they name different scopes, [`HostError::Closed`] when `other` is closed,
    /// [`HostError::OverBudget`] when a budget above it that is not above this context as well cannot hold the arena.
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
