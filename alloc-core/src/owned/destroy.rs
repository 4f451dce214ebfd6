//! Ending values: newest first, removed under the lock, destroyed outside it.

use super::slot::{List, ValueSlot, ValueType};
use super::table::{self, RemovedValue};
use crate::context::ContextNode;

/// Frees a value's block after the value, also after a panic of its destructor.
struct ValueBlock<'n> {
    node: &'n ContextNode,
    removed: RemovedValue,
}

impl Drop for ValueBlock<'_> {
    fn drop(&mut self) {
        // SAFETY: the block was allocated from this node, or its charge moved here, in its default scope with the layout of the kind.
        unsafe {
            self.node.deallocate(
                self.removed.value,
                self.removed.kind.layout,
                self.node.scope,
            )
        };
    }
}

impl RemovedValue {
    /// Runs the destructor and frees the block. No lock is held.
    #[inline]
    pub(super) fn destroy(self, node: &ContextNode) {
        let block = ValueBlock {
            node,
            removed: self,
        };
        if let Some(destroy) = block.removed.kind.destroy {
            // SAFETY: the value was removed from its slot, so that nothing else reaches it.
            unsafe { destroy(block.removed.value) };
        }
    }

    /// Moves the value out of its block, and frees the block.
    ///
    /// # Safety
    /// The value is a `T`.
    #[inline]
    pub(super) unsafe fn into_value<T>(self, node: &ContextNode) -> T {
        let block = ValueBlock {
            node,
            removed: self,
        };
        // SAFETY: the value is a `T` (this function's contract), which is read once: freeing the block does not touch it.
        unsafe { block.removed.value.cast::<T>().read() }
    }
}

/// Destroys the values of an ending node, newest first. A held value is destroyed with its last hold.
pub(crate) fn end_values(node: &ContextNode) {
    while let Some(taken) = next(node) {
        taken.destroy(node);
    }
}

fn next(node: &ContextNode) -> Option<RemovedValue> {
    let table = table::lock(node)?;
    let mut at = table.live.newest();
    while let Some(slot) = at {
        at = slot.older();
        match slot.kind.get() {
            Some(kind) if slot.is_free_to_go() => return Some(table.remove(slot, kind)),
            Some(kind) => table.doom(slot, kind),
            None => {} // a marker
        }
    }
    None
}

fn newest(list: &List) -> Option<(&ValueSlot, &'static ValueType)> {
    let slot = list.newest()?;
    Some((slot, slot.kind.get()?))
}

/// Destroys the remaining values of a node without references: their holds were forgotten (`mem::forget`) and can no longer be used.
pub(crate) fn destroy_leftovers(node: &ContextNode) {
    let leftover = || {
        let table = table::lock(node)?;
        let (slot, kind) = newest(&table.live).or_else(|| newest(&table.doomed))?;
        Some(table.remove(slot, kind))
    };
    while let Some(taken) = leftover() {
        taken.destroy(node);
    }
}
