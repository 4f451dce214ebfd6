//! Where nodes live: in memory that the user donates, in chunks that never move. Any number of cores may have their nodes in one store:
//! a block's population comes and goes, that of all blocks together hardly does, so that few chunks are half empty.
//!
//! ```text
//!   slots and chunk_table.rs (one block each; a longer one replaces it)      chunks (4 KiB each)
//!   +--------------------------+   +-----------------------------+          +-----------------------+
//!   | floor, spare nodes: 20 B |   | where its chunk is: 8 bytes | -------> | 128 nodes of 32 bytes |
//!   +--------------------------+   +-----------------------------+          +-----------------------+
//! ```
//!
//! RangeNode `n` is number `n % 128` of the chunk in slot `n / 128`. A chunk that is given back leaves its *floor* in its slot: the lowest
//! generation that none of its ids ever carried, where the next chunk in that slot begins. Every number is checked before it is followed:
//! one beyond all slots leads to a node that is none.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::chunk_table::ChunkTable;
use super::node::{NIL, NodeState, RangeNode};
use super::spare_nodes::{ABSENT, ChunkSlot, NO_SLOT};
use super::types::MAX_GENERATION;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;
use crate::prefetch::prefetch;

/// Nodes of a chunk.
pub(super) const CHUNK_NODES: u32 = 128;
/// Chunks that a core's cache holds, of 4 KiB each.
const CROWD: u32 = 256;
const CHUNK: Layout = Layout::new::<[RangeNode; CHUNK_NODES as usize]>();
const MAX_SLOTS: u32 = u32::MAX / CHUNK_NODES;

/// Memory that the store can do with: what [`NodeStore::missing_capacity`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeShortage {
    Chunk,
    Slots(Layout),
    ChunkTable(Layout),
}

impl NodeShortage {
    /// What to allocate.
    pub(crate) const fn layout(self) -> Layout {
        match self {
            Self::Chunk => CHUNK,
            Self::Slots(layout) | Self::ChunkTable(layout) => layout,
        }
    }
}

/// See the drawing above. What is in a node changes through `&self`; memory comes and goes through `&mut self`, when nobody
/// holds a node.
#[derive(Debug)]
pub(crate) struct NodeStore {
    /// What numbers beyond all slots lead to.
    stray: RangeNode,
    /// As many as there are slots.
    chunks: ChunkTable,
    slots: GrowableVec<ChunkSlot>,
    pub(super) spare: Cell<u32>,
    floor: u32,
    /// Slots of which some nodes are spare. (On no list: those without a spare node, and those without a chunk and a floor.)
    pub(super) open: Cell<u32>,
    /// Slots of which all nodes are spare or retired.
    pub(super) whole: Cell<u32>,
    /// Slots of which all nodes are retired.
    pub(super) dead: Cell<u32>,
    /// Slots without a chunk.
    absent: Cell<u32>,
}

// SAFETY: the pointers are to memory that the store owns alone since it was donated.
unsafe impl Send for NodeStore {}

impl NodeStore {
    /// Without memory. The first id's generation is `floor`, 1 at least.
    pub(crate) const fn new(floor: u32) -> Self {
        Self {
            stray: RangeNode::spare(0, NIL),
            chunks: ChunkTable::new(),
            slots: GrowableVec::new(),
            spare: Cell::new(0),
            floor: if floor == 0 { 1 } else { floor },
            open: Cell::new(NO_SLOT),
            whole: Cell::new(NO_SLOT),
            dead: Cell::new(NO_SLOT),
            absent: Cell::new(NO_SLOT),
        }
    }

    /// So many nodes that hardly one of them is in a cache: whoever follows links from one to the next waits for memory each time.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.slots.len() > CROWD
    }

    #[inline]
    fn slots(&self) -> &[ChunkSlot] {
        self.slots.as_slice()
    }

    #[inline]
    pub(super) fn slot(&self, index: u32) -> Option<&ChunkSlot> {
        self.slots().get(index as usize)
    }

    /// The node of that number. One that a user came with may be another's: see [`named`](Self::named).
    #[inline]
    pub(super) fn at(&self, id: u32) -> &RangeNode {
        match self.chunks.at(id / CHUNK_NODES) {
            Some(chunk) => self.node_of(chunk, id),
            None => &self.stray,
        }
    }

    /// The node of that number, as a user knows it: none in a chunk that is no longer there.
    #[inline]
    pub(super) fn named(&self, id: u32) -> &RangeNode {
        match self.chunks.present(id / CHUNK_NODES) {
            Some(chunk) => self.node_of(chunk, id),
            None => &self.stray,
        }
    }

    /// [`named`](Self::named), for a node that is freed next. Where nodes are many, what else that reads is asked for before the node is
    /// there: its neighbours are mostly the nodes around it, for who fills a block takes nodes in a row.
    #[inline]
    pub(super) fn named_to_free(&self, id: u32) -> &RangeNode {
        let node = self.named(id);
        if self.is_crowded() {
            let place = core::ptr::from_ref(node);
            prefetch(place.wrapping_sub(1));
            prefetch(place.wrapping_add(1));
            if let Some(slot) = self.slot(id / CHUNK_NODES) {
                prefetch(slot);
            }
        }
        node
    }

    /// The chunk is one of the table's.
    #[inline]
    fn node_of(&self, chunk: NonNull<RangeNode>, id: u32) -> &RangeNode {
        // SAFETY: a chunk has 128 nodes.
        let place = unsafe { chunk.add((id % CHUNK_NODES) as usize) };
        // SAFETY: the nodes of a chunk are initialised. They are cells, and stay while the store is borrowed.
        unsafe { place.as_ref() }
    }

    /// What to allocate next so that `nodes` are spare: [`NODES_PER_ALLOCATION`](super::NODES_PER_ALLOCATION) for a take. To be asked again after each
    /// [`grow_with`](Self::grow_with); `None` when there are enough, or when there are 2^32 nodes and cannot be more.
    #[inline]
    pub(crate) fn missing_capacity(&self, nodes: u32) -> Option<NodeShortage> {
        if self.spare.get() >= nodes {
            None
        } else {
            self.next_shortage()
        }
    }

    #[cold]
    fn next_shortage(&self) -> Option<NodeShortage> {
        if self.absent.get() != NO_SLOT {
            return Some(NodeShortage::Chunk);
        }
        if self.slots.len() >= MAX_SLOTS {
            return None;
        }
        if let Some(layout) = self.chunks.missing_capacity() {
            return Some(NodeShortage::ChunkTable(layout));
        }
        Some(
            self.slots
                .missing_capacity(1)
                .map_or(NodeShortage::Chunk, NodeShortage::Slots),
        )
    }

    /// Takes a block over. What comes back is to be freed: the slots that were replaced, or `block` where another thread was faster.
    pub(crate) fn grow_with(&mut self, lack: NodeShortage, block: HostBlock) -> Option<HostBlock> {
        match lack {
            NodeShortage::Chunk => self.add_chunk(block),
            NodeShortage::Slots(_) => self.slots.grow_with(block),
            NodeShortage::ChunkTable(_) => self.chunks.grow_with(block),
        }
    }

    /// A slot for a chunk, on no list.
    fn fresh_slot(&mut self, chunk: NonNull<RangeNode>) -> Option<u32> {
        let absent = self.absent.get();
        if let Some(slot) = self.slot(absent) {
            self.unlink(slot, &self.absent);
            return Some(absent);
        }
        let index = self.slots.len();
        let slot = ChunkSlot {
            floor: Cell::new(self.floor),
            spare: Cell::new(0),
            retired: Cell::new(0),
            first: Cell::new(NIL),
            back: Cell::new(NO_SLOT),
            forth: Cell::new(NO_SLOT),
        };
        self.slots.push(slot).ok()?;
        self.chunks.push(chunk)?;
        Some(index)
    }

    /// Takes a chunk, where there is a slot for it; else it comes back.
    fn add_chunk(&mut self, block: HostBlock) -> Option<HostBlock> {
        let has_room = self
            .chunks
            .missing_capacity()
            .or(self.slots.missing_capacity(1))
            .is_none();
        let has_slot = self.absent.get() != NO_SLOT || has_room;
        if block.layout() != CHUNK || !has_slot {
            return Some(block);
        }
        let chunk = block.into_start().cast::<RangeNode>();
        // Initialised before it is in a slot, with the floor that it will find there.
        let floor = self
            .slot(self.absent.get())
            .map_or(self.floor, |slot| slot.floor.get());
        let absent = self.absent.get();
        let first = if absent == NO_SLOT {
            self.slots.len()
        } else {
            absent
        } * CHUNK_NODES;
        for number in 0..CHUNK_NODES {
            // The first node of all is none: the end of every list.
            let last = number + 1 == CHUNK_NODES || first + number == NIL;
            let next = if last { NIL } else { first + number + 1 };
            // SAFETY: a chunk has 128 nodes.
            let place = unsafe { chunk.add(number as usize) };
            // SAFETY: within the chunk, which is nobody else's.
            unsafe { place.write(RangeNode::spare(floor, next)) };
        }
        // There is a slot: it was asked for above.
        let index = self.fresh_slot(chunk)?;
        let slot = self.slot(index)?;
        self.chunks.set(index, chunk);
        slot.retired.set(0);
        let none = u32::from(index == 0);
        slot.first.set(first + none);
        slot.spare.set((CHUNK_NODES - none) as u16);
        self.spare.set(self.spare.get() + CHUNK_NODES - none);
        self.link(
            index,
            slot,
            if index == 0 { &self.open } else { &self.whole },
        );
        None
    }

    /// A chunk that nobody needs: none of its nodes is in use, and as many are spare elsewhere. Constant time. To be called after giving
    /// back, until there is none.
    #[inline]
    pub(crate) fn detach_spare_chunk(&mut self) -> Option<HostBlock> {
        if (self.spare.get() >= 2 * CHUNK_NODES && self.whole.get() != NO_SLOT)
            || self.dead.get() != NO_SLOT
        {
            return self.remove_spare_chunk();
        }
        None
    }

    #[cold]
    fn remove_spare_chunk(&mut self) -> Option<HostBlock> {
        let list = if self.dead.get() != NO_SLOT {
            &self.dead
        } else {
            &self.whole
        };
        let index = list.get();
        self.unlink(self.slot(index)?, list);
        let memory = self.remove_chunk(index)?;
        let slot = self.slot(index)?;
        if slot.floor.get() <= MAX_GENERATION {
            self.link(index, slot, &self.absent);
        }
        Some(memory)
    }

    /// Takes the chunk out of its slot and leaves its floor there.
    fn remove_chunk(&mut self, index: u32) -> Option<HostBlock> {
        let floor = self.ceiling_of(index);
        let slot = self.slot(index)?;
        if slot.retired.replace(ABSENT) == ABSENT {
            return None;
        }
        let chunk = self.chunks.remove(index)?;
        slot.floor.set(floor);
        self.spare
            .set(self.spare.get() - u32::from(slot.spare.take()));
        // SAFETY: `add_chunk` was handed it with this layout; its slot was marked absent, so that nobody follows it any more.
        Some(unsafe { HostBlock::new(chunk.cast(), CHUNK) })
    }

    /// The lowest generation that no id of this slot ever carried.
    fn ceiling_of(&self, index: u32) -> u32 {
        let Some(slot) = self.slot(index) else {
            return self.floor;
        };
        if slot.retired.get() == ABSENT {
            return slot.floor.get();
        }
        (0..CHUNK_NODES).fold(slot.floor.get(), |most, number| {
            let node = self.at(index * CHUNK_NODES + number);
            most.max(node.generation() + u32::from(node.state() == NodeState::Used))
        })
    }

    /// The lowest generation that no id ever carried.
    #[cfg(test)]
    pub(super) fn ceiling(&self) -> u32 {
        (0..self.slots.len()).fold(self.floor, |most, index| most.max(self.ceiling_of(index)))
    }

    /// The end: a block of what the store has, until there is none; then it is as new, with a higher floor, so that no id comes twice.
    /// No core has nodes in it any more, or will use them.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        while let Some(last) = self.slots.len().checked_sub(1) {
            self.floor = self.floor.max(self.ceiling_of(last));
            let memory = self.remove_chunk(last);
            self.slots.pop();
            self.chunks.pop();
            if memory.is_some() {
                return memory;
            }
        }
        if let Some(table) = self.chunks.detach_memory() {
            return Some(table);
        }
        let slots = self.slots.detach_memory();
        *self = Self::new(self.floor);
        slots
    }

    /// Bytes of memory that the store has.
    pub(crate) fn bytes(&self) -> u64 {
        let chunks = self
            .slots()
            .iter()
            .filter(|slot| slot.retired.get() != ABSENT)
            .count();
        let slots = self.slots.capacity() as usize * size_of::<ChunkSlot>();
        (chunks * CHUNK.size() + slots) as u64 + self.chunks.bytes()
    }
}
