//! Ending values: newest first, removed under the lock, destroyed outside it.

use super::slot::{List, ValueSlot, ValueType};
use super::table::{self, RemovedValue, ValueTable};
use crate::context::ContextNode;
use crate::sync::Ordering;
use crate::threads;

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
        // SAFETY: the caller's promise; it is read once, and the block's end does not touch it.
        unsafe { block.removed.value.cast::<T>().read() }
    }
}

/// Destroys the values of an ending node, newest first. A held value is destroyed with its last hold.
pub(crate) fn end_values(node: &ContextNode) {
    if let Some(table) = table::of(node) {
        let thread = threads::id();
        if thread != 0 {
            if !table.begin_ending(thread) {
                // Another thread destroys the values.
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

impl ValueTable {
    /// Makes this thread the one that destroys the values of the ending context. False if another one does.
    pub(super) fn begin_ending(&self, thread: usize) -> bool {
        let _held = self.lock.lock();
        let ender = self.ender.load(Ordering::Relaxed);
        if ender == 0 {
            self.ender.store(thread, Ordering::Relaxed);
            // Values that are being destroyed do not count as freed with the context.
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
                    // A marker lies on the stack of another thread or further up this one's: a walk without the lock must not meet it.
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
