//! Ending values: newest first, taken out under the lock, their destructors run outside of it.

use super::slot::{List, ValueSlot, ValueType};
use super::table::{self, RemovedValue, ValueTable};
use crate::context::ContextNode;
use crate::sync::Ordering;
use crate::threads;

/// Gives a block back when its value is gone, be it by a panic of its destructor.
struct ValueBlock<'n> {
    node: &'n ContextNode,
    removed: RemovedValue,
}

impl Drop for ValueBlock<'_> {
    fn drop(&mut self) {
        // SAFETY: the block was taken from this node, in its default scope, with the layout of the kind; or handed over to it.
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
    /// Runs the destructor and gives the block back. No lock is held.
    #[inline]
    pub(super) fn destroy(self, node: &ContextNode) {
        let block = ValueBlock {
            node,
            removed: self,
        };
        if let Some(destroy) = block.removed.kind.destroy {
            // SAFETY: the value was taken out of its slot, so that nobody else reaches it.
            unsafe { destroy(block.removed.value) };
        }
    }

    /// Takes the value out of its block, and gives the block back.
    ///
    /// # Safety
    /// The value is a `T`.
    #[inline]
    pub(super) unsafe fn into_value<T>(self, node: &ContextNode) -> T {
        let block = ValueBlock {
            node,
            removed: self,
        };
        // SAFETY: the caller's promise; it is read once, and the block's end does not touch it.
        unsafe { block.removed.value.cast::<T>().read() }
    }
}

/// Destroys the values of a node that is ending, newest first. What somebody holds goes with the last hold.
pub(crate) fn end_values(node: &ContextNode) {
    if let Some(table) = table::of(node) {
        let thread = threads::id();
        if thread != 0 {
            if !table.begin_ending(thread) {
                // Another thread is at it.
                return;
            }
            while let Some(taken) = table.remove_newest_unlocked() {
                taken.destroy(node);
            }
        }
    }
    while let Some(taken) = next(node) {
        taken.destroy(node);
    }
}

fn next(node: &ContextNode) -> Option<RemovedValue> {
    let table = table::lock(node).filter(|table| !table.is_ended_elsewhere())?;
    let mut at = table.live.newest();
    while let Some(slot) = at {
        at = slot.older();
        let Some(kind) = slot.kind.get() else {
            continue;
        };
        if slot.is_free_to_go() {
            return Some(table.remove(slot, kind));
        }
        table.doom(slot, kind);
    }
    None
}

fn newest(list: &List) -> Option<(&ValueSlot, &'static ValueType)> {
    let slot = list.newest()?;
    Some((slot, slot.kind.get()?))
}

/// Destroys what is still there when nobody refers to the node any more: values whose holds were forgotten, for nobody can use
/// those any more either.
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

impl ValueTable {
    /// The context ends, and this thread is to destroy its values. False: another one does.
    pub(super) fn begin_ending(&self, thread: usize) -> bool {
        let _held = self.lock.lock();
        let ender = self.ender.load(Ordering::Relaxed);
        if ender == 0 {
            self.ender.store(thread, Ordering::Relaxed);
            // From now on they are not what goes with the context, but what is going.
            self.bytes.store(0, Ordering::Relaxed);
            self.blocks.store(0, Ordering::Relaxed);
            let mut at = if self.holds.get() > 0 || self.markers.get() > 0 {
                self.live.newest()
            } else {
                None
            };
            while let Some(slot) = at {
                at = slot.older();
                match slot.kind.get() {
                    Some(kind) if !slot.is_free_to_go() => self.doom(slot, kind),
                    Some(_) => {}
                    // A marker is another thread's, or one further up this thread's stack: it must not be met without the lock.
                    None => self.live.unlink(slot),
                }
            }
        }
        ender == 0 || ender == thread
    }

    /// By the ending thread, without the lock: the newest value. `None`: there is none, or the lock is needed for it.
    pub(super) fn remove_newest_unlocked(&self) -> Option<RemovedValue> {
        if self.held_at_end.get() {
            return None;
        }
        let slot = self.live.newest()?;
        let kind = slot.kind.get()?;
        self.live.unlink(slot);
        self.live_len.set(self.live_len.get().wrapping_sub(1));
        slot.kind.set(None);
        // The slot is not used again, so this is enough for its old ids.
        Some(RemovedValue {
            value: slot.value.get(),
            kind,
        })
    }
}
