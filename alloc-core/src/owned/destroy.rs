//! Ending values: newest first, taken out under the lock, their destructors run outside of it.

use super::slot::{Kind, List, Slot};
use super::table::{self, Table, Taken};
use crate::context::Node;
use crate::sync::Ordering;
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
    let table = table::lock(node).filter(|table| !table.is_ended_elsewhere())?;
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

impl Table {
    /// The context ends, and this thread is to destroy its values. False: another one does.
    pub(super) fn begin_ending(&self, thread: usize) -> bool {
        let _held = self.lock.lock();
        let ender = self.ender.load(Ordering::Relaxed);
        if ender == 0 {
            self.ender.store(thread, Ordering::Relaxed);
            // From now on they are not what goes with the context, but what is going.
            self.bytes.store(0, Ordering::Relaxed);
            self.blocks.store(0, Ordering::Relaxed);
            let mut at = if self.holds.get() > 0 { self.live.newest() } else { None };
            while let Some(slot) = at {
                at = slot.older();
                if let Some(kind) = slot.kind.get().filter(|_| !slot.is_free_to_go()) {
                    self.doom(slot, kind);
                }
            }
        }
        ender == 0 || ender == thread
    }

    /// By the ending thread, without the lock: the newest value. `None`: there is none, or the lock is needed for it.
    pub(super) fn take_newest_alone(&self) -> Option<Taken> {
        if self.held_at_end.get() {
            return None;
        }
        let slot = self.live.newest()?;
        let kind = slot.kind.get()?;
        self.live.take_out(slot);
        self.live_len.set(self.live_len.get().wrapping_sub(1));
        slot.kind.set(None);
        // The slot is not used again, so this is enough for its old ids.
        Some(Taken { value: slot.value.get(), kind })
    }
}
