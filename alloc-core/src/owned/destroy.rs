//! Ending values: newest first, taken out under the lock, their destructors run outside of it.

use super::slot::{Kind, List, Slot};
use super::table::{self, Taken};
use crate::context::Node;
use crate::threads;

/// Gives a block back when its value is gone, be it by a panic of its destructor.
struct Block<'n> {
    node: &'n Node,
    taken: Taken,
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: the block was taken from this node, in its default scope, with the layout of the kind; or handed over to it.
        unsafe { self.node.deallocate(self.taken.value, self.taken.kind.layout, self.node.scope) };
    }
}

impl Taken {
    /// Runs the destructor and gives the block back. No lock is held.
    #[inline]
    pub(super) fn destroy(self, node: &Node) {
        let block = Block { node, taken: self };
        if let Some(destroy) = block.taken.kind.destroy {
            // SAFETY: the value was taken out of its slot, so that nobody else reaches it.
            unsafe { destroy(block.taken.value) };
        }
    }

    /// Takes the value out of its block, and gives the block back.
    ///
    /// # Safety
    /// The value is a `T`.
    #[inline]
    pub(super) unsafe fn into_value<T>(self, node: &Node) -> T {
        let block = Block { node, taken: self };
        // SAFETY: the caller's promise; it is read once, and the block's end does not touch it.
        unsafe { block.taken.value.cast::<T>().read() }
    }
}

/// Destroys the values that the node owns, newest first. What somebody holds stays, or, where the node is ending, goes with the
/// last hold.
pub(crate) fn destroy_values(node: &Node, ending: bool) {
    if ending && let Some(table) = table::of(node) {
        let thread = threads::id();
        if thread != 0 {
            if !table.begin_ending(thread) {
                // Another thread is at it.
                return;
            }
            while let Some(taken) = table.take_newest_alone() {
                taken.destroy(node);
            }
        }
    }
    while let Some(taken) = next(node, ending) {
        taken.destroy(node);
    }
}

fn next(node: &Node, ending: bool) -> Option<Taken> {
    let table = table::lock(node)?;
    let mut at = table.live.newest();
    while let Some(slot) = at {
        let kind = slot.kind.get()?;
        if slot.is_free_to_go() {
            return Some(table.take(slot, kind));
        }
        at = slot.older();
        if ending {
            table.doom(slot, kind);
        }
    }
    None
}

fn newest(list: &List) -> Option<(&Slot, &'static Kind)> {
    let slot = list.newest()?;
    Some((slot, slot.kind.get()?))
}

/// Destroys what is still there when nobody refers to the node any more: values whose holds were forgotten, for nobody can use
/// those any more either.
pub(crate) fn destroy_leftovers(node: &Node) {
    let leftover = || {
        let table = table::lock(node)?;
        let (slot, kind) = newest(&table.live).or_else(|| newest(&table.doomed))?;
        Some(table.take(slot, kind))
    };
    while let Some(taken) = leftover() {
        taken.destroy(node);
    }
}
