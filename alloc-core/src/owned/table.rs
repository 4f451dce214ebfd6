//! The slots of one context: made when it owns its first value, enlarged by segments, nothing of it ever moves.
//!
//! ```text
//!   node.owned -> | lock, lists, counts | 8 slots |   -> | older | 16 slots |   -> .. 256 slots, 256 slots, ..
//! ```
//! All of it is memory of the context itself, in its default scope. Slots that were never used lie at the end of the newest
//! segment; those given back are in a list. Freeing takes no memory.

use core::cell::Cell;
use core::ptr::NonNull;

use super::slot::{DOOMED, LAST_GENERATION, List, ValueSlot, ValueType};
use crate::context::ContextNode;
use crate::sync::{AtomicU64, Held, Lock, Ordering, Relaxed as _};

/// See the file's head. All but the atomics is used under the lock.
pub(crate) struct ValueTable {
    pub(super) lock: Lock,
    /// Slots that were never used, at `fresh`.
    pub(super) fresh_left: Cell<u32>,
    pub(super) fresh: Cell<*mut ValueSlot>,
    pub(super) free: List,
    /// Slots in `free`.
    pub(super) free_len: Cell<usize>,
    pub(super) live: List,
    pub(super) live_len: Cell<usize>,
    /// Values of an ended context that somebody still holds.
    pub(super) doomed: List,
    /// Holds that are out.
    pub(super) holds: Cell<usize>,
    pub(super) segments: Cell<*mut Segment>,
    pub(super) next_size: Cell<u32>,
    /// Blocks of the values that go with the context.
    pub(super) bytes: AtomicU64,
    pub(super) blocks: AtomicU64,
    /// Blocks of the table itself.
    pub(super) own_bytes: AtomicU64,
    pub(super) own_blocks: AtomicU64,
}

/// A segment's head, followed by its slots.
pub(super) struct Segment {
    pub(super) older: *mut Segment,
    pub(super) slots: u32,
}

/// A value that was taken out of its slot, and the block that it lies in.
pub(super) struct RemovedValue {
    pub(super) value: NonNull<u8>,
    pub(super) kind: &'static ValueType,
}

/// A slot that got a value.
pub(super) struct Put {
    pub(super) slot: NonNull<ValueSlot>,
    pub(super) generation: u32,
}

/// The table of a node, locked.
pub(super) struct Locked<'n> {
    table: &'n ValueTable,
    _held: Held<'n>,
}

impl core::ops::Deref for Locked<'_> {
    type Target = ValueTable;

    fn deref(&self) -> &ValueTable {
        self.table
    }
}

/// The table of the node, if it ever owned anything.
pub(super) fn of(node: &ContextNode) -> Option<&ValueTable> {
    // SAFETY: a node's table is freed with the node.
    unsafe { node.owned.load(Ordering::Acquire).as_ref() }
}

/// The same, locked.
#[inline]
pub(super) fn lock(node: &ContextNode) -> Option<Locked<'_>> {
    of(node).map(|table| Locked {
        table,
        _held: table.lock.lock(),
    })
}

/// The tables of two contexts, locked in the order of the contexts' numbers.
pub(super) fn lock_both<'n>(
    one: &'n ContextNode,
    other: &'n ContextNode,
) -> (Option<Locked<'n>>, Option<Locked<'n>>) {
    if one.id() < other.id() {
        let first = lock(one);
        (first, lock(other))
    } else {
        let first = lock(other);
        (lock(one), first)
    }
}

/// Bytes and blocks that go with the node: its values' blocks and the table's own. May be asked under the tree's lock.
pub(crate) fn bytes_freed_with(node: &ContextNode) -> (u64, u64) {
    of(node).map_or((0, 0), |table| {
        let read = |one: &AtomicU64, other: &AtomicU64| one.get().saturating_add(other.get());
        (
            read(&table.bytes, &table.own_bytes),
            read(&table.blocks, &table.own_blocks),
        )
    })
}

impl ValueTable {
    /// `None`: there is no slot left.
    #[inline]
    pub(super) fn put(&self, value: NonNull<u8>, kind: &'static ValueType) -> Option<Put> {
        self.empty_slot().map(|slot| self.fill(slot, value, kind))
    }

    /// A slot, which is to be filled under the same lock.
    #[inline]
    fn empty_slot(&self) -> Option<&ValueSlot> {
        match self.free.pop_free() {
            Some(slot) => {
                self.free_len.set(self.free_len.get().wrapping_sub(1));
                Some(slot)
            }
            None => self.fresh(),
        }
    }

    #[inline]
    fn fill(&self, slot: &ValueSlot, value: NonNull<u8>, kind: &'static ValueType) -> Put {
        slot.value.set(value);
        slot.kind.set(Some(kind));
        slot.holds.set(0);
        self.live.push(slot);
        self.live_len.set(self.live_len.get().wrapping_add(1));
        self.count(kind);
        Put {
            slot: NonNull::from(slot),
            generation: slot.generation.get(),
        }
    }

    /// How many values there is room for without growing.
    pub(super) fn room(&self) -> usize {
        self.free_len
            .get()
            .saturating_add(self.fresh_left.get() as usize)
    }

    pub(super) fn fresh(&self) -> Option<&ValueSlot> {
        let left = self.fresh_left.get().checked_sub(1)?;
        let slot = self.fresh.get();
        self.fresh_left.set(left);
        self.fresh.set(slot.wrapping_add(1));
        // SAFETY: one of the newest segment's slots, which nobody has used yet.
        unsafe { slot.write(ValueSlot::new()) };
        // SAFETY: one of the newest segment's slots, just written.
        unsafe { slot.as_ref() }
    }

    /// Takes the value out of a slot that has one, and gives the slot back.
    #[inline]
    pub(super) fn remove(&self, slot: &ValueSlot, kind: &'static ValueType) -> RemovedValue {
        if slot.holds.get() & DOOMED == 0 {
            self.live.unlink(slot);
            self.live_len.set(self.live_len.get().wrapping_sub(1));
            self.uncount(kind);
        } else {
            self.doomed.unlink(slot);
        }
        slot.kind.set(None);
        let generation = slot.generation.get().saturating_add(1);
        slot.generation.set(generation);
        if generation != LAST_GENERATION {
            self.free.push_free(slot);
            self.free_len.set(self.free_len.get().wrapping_add(1));
        }
        RemovedValue {
            value: slot.value.get(),
            kind,
        }
    }

    /// The context has ended, and somebody holds the value: it goes with the last hold.
    pub(super) fn doom(&self, slot: &ValueSlot, kind: &'static ValueType) {
        self.live.unlink(slot);
        self.live_len.set(self.live_len.get().wrapping_sub(1));
        self.uncount(kind);
        slot.holds.set(slot.holds.get() | DOOMED);
        self.doomed.push(slot);
    }

    /// True when somebody holds one of the values.
    pub(super) fn is_held(&self) -> bool {
        self.holds.get() > 0
    }

    /// Bytes of all values that go with the context, and blocks.
    pub(super) fn values(&self) -> (u64, u64) {
        (self.bytes.get(), self.blocks.get())
    }

    #[inline]
    fn count(&self, kind: &'static ValueType) {
        let size = kind.layout.size() as u64;
        self.bytes.set(self.bytes.get().wrapping_add(size));
        self.blocks
            .set(self.blocks.get().wrapping_add(u64::from(size > 0)));
    }

    #[inline]
    fn uncount(&self, kind: &'static ValueType) {
        let size = kind.layout.size() as u64;
        self.bytes.set(self.bytes.get().saturating_sub(size));
        self.blocks
            .set(self.blocks.get().saturating_sub(u64::from(size > 0)));
    }
}
