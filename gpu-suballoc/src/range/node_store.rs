//! Stores nodes in chunks that never move, in memory that the user adds. Any number of blocks may share a store: the number of nodes of one
//! block varies, but the total of all blocks varies little, so that few chunks are half empty.
//!
//! ```text
//!   slots and chunk_table.rs (one host block each; a longer one replaces it)      chunks (4 KiB each)
//!   +--------------------------+   +-------------------------------+          +-----------------------+
//!   | floor, spare nodes: 20 B |   | address of its chunk: 8 bytes | -------> | 128 nodes of 32 bytes |
//!   +--------------------------+   +-------------------------------+          +-----------------------+
//! ```
//!
//! Node `n` is number `n % 128` of the chunk in slot `n / 128`. When a chunk is freed, its slot keeps its *floor*: the lowest generation
//! that no id of the chunk ever had. The next chunk in the slot starts with it. Every number is checked before use: a number beyond all
//! slots leads to the `stray` node, which is never live.

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
/// Number of chunks, 4 KiB each, that fit into a CPU core's cache.
const CROWD: u32 = 256;
const CHUNK: Layout = Layout::new::<[RangeNode; CHUNK_NODES as usize]>();
const MAX_SLOTS: u32 = u32::MAX / CHUNK_NODES;

/// Memory that the store needs: [`NodeStore::missing_capacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeShortage {
    Chunk,
    Slots(Layout),
    ChunkTable(Layout),
}

impl NodeShortage {
    /// The layout to allocate.
    pub(crate) const fn layout(self) -> Layout {
        match self {
            Self::Chunk => CHUNK,
            Self::Slots(layout) | Self::ChunkTable(layout) => layout,
        }
    }
}

/// See the drawing above. Nodes change through `&self`; memory is added and removed through `&mut self`, when no reference to a node
/// exists.
#[derive(Debug)]
pub(crate) struct NodeStore {
    /// The node for numbers beyond all slots.
    stray: RangeNode,
    /// Has as many entries as there are slots.
    chunks: ChunkTable,
    slots: GrowableVec<ChunkSlot>,
    pub(super) spare: Cell<u32>,
    floor: u32,
    /// The list of slots with some spare nodes. (In no list: slots without spare nodes, and slots without a chunk whose floor is used up.)
    pub(super) open: Cell<u32>,
    /// The list of slots whose nodes are all spare or retired, at least one spare.
    pub(super) whole: Cell<u32>,
    /// The list of slots whose nodes are all retired.
    pub(super) dead: Cell<u32>,
    /// The list of slots without a chunk.
    absent: Cell<u32>,
}

// SAFETY: the pointers are to memory that only the store owns.
unsafe impl Send for NodeStore {}

impl NodeStore {
    /// Without memory. The first id has the generation `floor`, at least 1.
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

    /// Whether there are so many nodes that most are in no cache: then each step from a node to another node waits for memory.
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

    /// The node with this number. For a number from a user's id, call [`named`](Self::named).
    #[inline]
    pub(super) fn at(&self, id: u32) -> &RangeNode {
        match self.chunks.at(id / CHUNK_NODES) {
            Some(chunk) => self.node_of(chunk, id),
            None => &self.stray,
        }
    }

    /// The node with a number from a user's id; the stray node if the chunk is absent.
    #[inline]
    pub(super) fn named(&self, id: u32) -> &RangeNode {
        match self.chunks.present(id / CHUNK_NODES) {
            Some(chunk) => self.node_of(chunk, id),
            None => &self.stray,
        }
    }

    /// The generation of a node: the current one, or that of its next use.
    #[inline]
    pub(crate) fn generation(&self, id: u32) -> u32 {
        self.named(id).generation()
    }

    /// As [`named`](Self::named), for a node that is freed next. In a crowded store, prefetches what freeing reads, before the node is
    /// loaded: the neighbours are mostly the adjacent nodes, because a block that fills up gets consecutive nodes.
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

    /// `chunk` must be in the table.
    #[inline]
    fn node_of(&self, chunk: NonNull<RangeNode>, id: u32) -> &RangeNode {
        // SAFETY: a chunk has 128 nodes.
        let place = unsafe { chunk.add((id % CHUNK_NODES) as usize) };
        // SAFETY: the nodes of a chunk are initialised, consist of cells, and are not removed while the store is borrowed.
        unsafe { place.as_ref() }
    }

    /// The memory to allocate next to have `nodes` spare nodes; an allocation needs [`NODES_PER_ALLOCATION`](super::NODES_PER_ALLOCATION).
    /// Call it again after each [`grow_with`](Self::grow_with). `None` if there are enough, or if the limit of 2^32 nodes is reached.
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

    /// Adds memory. Returns the memory to free: the replaced slots or table, or `block` if another thread was faster.
    pub(crate) fn grow_with(&mut self, lack: NodeShortage, block: HostBlock) -> Option<HostBlock> {
        match lack {
            NodeShortage::Chunk => self.add_chunk(block),
            NodeShortage::Slots(_) => self.slots.grow_with(block),
            NodeShortage::ChunkTable(_) => self.chunks.grow_with(block),
        }
    }

    /// Removes an absent slot from its list, or adds a slot.
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

    /// Adds a chunk. Returns the block if there is no slot for it.
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
        // The chunk is initialised before it is in a slot, with that slot's floor.
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
            // Node `NIL` is never spare: it is the end of every list.
            let last = number + 1 == CHUNK_NODES || first + number == NIL;
            let next = if last { NIL } else { first + number + 1 };
            // SAFETY: a chunk has 128 nodes.
            let place = unsafe { chunk.add(number as usize) };
            // SAFETY: within the chunk, which nothing else refers to.
            unsafe { place.write(RangeNode::spare(floor, next)) };
        }
        // There is a slot, as checked above.
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

    /// Removes an unneeded chunk: none of its nodes is in use, and as many nodes are spare elsewhere, or all its nodes are retired.
    /// Constant time. Call it after freeing ranges until it returns `None`.
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

    /// Removes the chunk from its slot and stores its floor there.
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
        // SAFETY: `add_chunk` received the chunk with this layout. Its slot is marked absent, so nothing refers to the chunk any more.
        Some(unsafe { HostBlock::new(chunk.cast(), CHUNK) })
    }

    /// The lowest generation that no id of this slot ever had.
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

    /// The lowest generation that no id ever had.
    #[cfg(test)]
    pub(super) fn ceiling(&self) -> u32 {
        (0..self.slots.len()).fold(self.floor, |most, index| most.max(self.ceiling_of(index)))
    }

    /// Removes one host block of the store, to be freed; `None` when no block is left. Then the store is as new, with a higher floor, so
    /// that no id is reissued. No block may have nodes in the store any more.
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

    /// Bytes of the store's memory.
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
