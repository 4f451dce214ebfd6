//! The spare nodes of a store. Finds a chunk with a spare node in constant time.

#![forbid(unsafe_code)]

use core::cell::Cell;

use super::node::{NIL, NodeState, RangeNode};
use super::node_store::{CHUNK_NODES, NodeStore};
use super::types::MAX_GENERATION;

/// The value of [`ChunkSlot::retired`] without a chunk.
pub(super) const ABSENT: u16 = u16::MAX;
/// The end of a list of slots.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// The counts of a chunk.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ChunkSlot {
    /// The first generation of the next chunk.
    pub(super) floor: Cell<u32>,
    /// Number of spare nodes.
    pub(super) spare: Cell<u16>,
    /// Number of nodes whose generations are used up; [`ABSENT`] without a chunk.
    pub(super) retired: Cell<u16>,
    /// The first spare node.
    pub(super) first: Cell<u32>,
    pub(super) back: Cell<u32>,
    pub(super) forth: Cell<u32>,
}

const _: () = assert!(size_of::<ChunkSlot>() == 20);

impl NodeStore {
    /// Number of nodes that can be allocated without more memory.
    #[inline]
    pub(super) fn spare_nodes(&self) -> u32 {
        self.spare.get()
    }

    /// Allocates a node; [`NIL`] if there is no spare node. To allocate several, check [`spare_nodes`](Self::spare_nodes) first.
    #[inline]
    pub(super) fn allocate_node(&self) -> u32 {
        let index = self.open.get();
        let Some(slot) = self.slot(index) else {
            return self.allocate_from_whole();
        };
        let left = slot.spare.get() - 1;
        slot.spare.set(left);
        if left == 0 {
            self.unlink(slot, &self.open);
        }
        self.pop(slot)
    }

    #[cold]
    fn allocate_from_whole(&self) -> u32 {
        let index = self.whole.get();
        let Some(slot) = self.slot(index) else {
            return NIL;
        };
        self.unlink(slot, &self.whole);
        let left = slot.spare.get() - 1;
        slot.spare.set(left);
        if left > 0 {
            self.link(index, slot, &self.open);
        }
        self.pop(slot)
    }

    #[inline]
    fn pop(&self, slot: &ChunkSlot) -> u32 {
        let id = slot.first.get();
        slot.first.set(self.at(id).link.get());
        self.spare.set(self.spare.get() - 1);
        id
    }

    /// Frees a node, which no block uses any more. A node whose generations are used up is retired.
    #[inline]
    pub(super) fn free_node(&self, id: u32, node: &RangeNode) {
        let index = id / CHUNK_NODES;
        let Some(slot) = self.slot(index) else { return };
        node.set_state(NodeState::Spare);
        if node.generation() > MAX_GENERATION {
            return self.retire(index, slot);
        }
        node.link.set(slot.first.replace(id));
        self.spare.set(self.spare.get() + 1);
        let spare = slot.spare.get() + 1;
        slot.spare.set(spare);
        if spare == 1 {
            self.link(index, slot, &self.open);
        }
        if u32::from(spare + slot.retired.get()) == CHUNK_NODES {
            self.unlink(slot, &self.open);
            self.link(index, slot, &self.whole);
        }
    }

    #[cold]
    fn retire(&self, index: u32, slot: &ChunkSlot) {
        slot.retired.set(slot.retired.get() + 1);
        let spare = slot.spare.get();
        if u32::from(spare + slot.retired.get()) < CHUNK_NODES {
            return;
        }
        if spare > 0 {
            self.unlink(slot, &self.open);
        }
        self.link(
            index,
            slot,
            if spare > 0 { &self.whole } else { &self.dead },
        );
    }

    /// Inserts a slot at the front of a list.
    pub(super) fn link(&self, index: u32, slot: &ChunkSlot, list: &Cell<u32>) {
        let head = list.replace(index);
        if let Some(first) = self.slot(head) {
            first.back.set(index);
        }
        slot.back.set(NO_SLOT);
        slot.forth.set(head);
    }

    /// Removes a slot from its list.
    pub(super) fn unlink(&self, slot: &ChunkSlot, list: &Cell<u32>) {
        let (back, forth) = (slot.back.get(), slot.forth.get());
        if let Some(forth) = self.slot(forth) {
            forth.back.set(back);
        }
        match self.slot(back) {
            Some(back) => back.forth.set(forth),
            None => list.set(forth),
        }
    }
}
