//! Stores nodes in chunks of memory that the user adds. Any number of blocks may share a store: the number of nodes of one block varies, but
//! the total of all blocks varies little.

#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::cell::Cell;

use super::node::{NIL, NodeState, RangeNode};
use super::types::NODES_PER_ALLOCATION;
use crate::chunked::Chunked;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::prefetch::prefetch;

/// Nodes of a chunk.
pub(super) const CHUNK_NODES: usize = 128;
/// Number of nodes, 1 MiB, that fit into a CPU core's cache.
const CROWD: u32 = 1 << 15;

/// Nodes change through `&self`; memory is added and removed through `&mut self`, when no reference to a node exists.
#[derive(Debug)]
pub(crate) struct NodeStore {
    nodes: Chunked<RangeNode, CHUNK_NODES>,
    /// The node for numbers beyond all chunks; it is never live.
    stray: RangeNode,
    /// The first spare node, and their number.
    first: Cell<u32>,
    spare: Cell<u32>,
    /// The number of spare nodes that the store keeps in reserve.
    pub(super) reserve: u32,
}

impl NodeStore {
    /// Without memory.
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Chunked::new(),
            stray: RangeNode::spare(NIL),
            first: Cell::new(NIL),
            spare: Cell::new(0),
            reserve: NODES_PER_ALLOCATION,
        }
    }

    /// Whether there are so many nodes that most are in no cache: then each step from a node to another node waits for memory.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.nodes.len() > CROWD
    }

    /// Whether there is more than one chunk.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.nodes.len() > CHUNK_NODES as u32
    }

    /// The node with this number.
    #[inline]
    pub(super) fn at(&self, id: u32) -> &RangeNode {
        self.nodes.get(id).unwrap_or(&self.stray)
    }

    /// As [`at`](Self::at), for a node that is freed next. In a crowded store, prefetches what freeing reads, before the node is loaded: the
    /// neighbours are mostly the adjacent nodes, because a block that fills up gets consecutive nodes.
    #[inline]
    pub(super) fn at_to_free(&self, id: u32) -> &RangeNode {
        let node = self.at(id);
        if self.is_crowded() {
            let place = core::ptr::from_ref(node);
            prefetch(place.wrapping_sub(1));
            prefetch(place.wrapping_add(1));
        }
        node
    }

    /// Number of nodes that can be allocated without more memory.
    #[inline]
    pub(super) fn spare_nodes(&self) -> u32 {
        self.spare.get()
    }

    /// Allocates one of the [spare nodes](Self::spare_nodes), of which there must be one.
    #[inline]
    pub(super) fn allocate_node(&self) -> u32 {
        let id = self.first.get();
        self.first.set(self.at(id).link.get());
        self.spare.set(self.spare.get() - 1);
        id
    }

    /// Frees a node, which no block uses any more.
    #[inline]
    pub(super) fn free_node(&self, id: u32, node: &RangeNode) {
        node.set_state(NodeState::Spare);
        node.link.set(self.first.replace(id));
        self.spare.set(self.spare.get() + 1);
    }

    /// Bytes of the store's memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.memory_bytes()
    }
}

impl GrowableTable for NodeStore {
    #[inline]
    fn missing(&self) -> Option<Layout> {
        let is_full = self.nodes.len() > u32::MAX - CHUNK_NODES as u32;
        (self.spare.get() < self.reserve && !is_full).then(|| self.nodes.missing())
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let before = self.nodes.len();
        // Nodes are allocated in order of their numbers. Node `NIL` is never spare: it is the end of every list.
        let (first, last) = (before.max(NIL + 1), before + CHUNK_NODES as u32 - 1);
        let old = self.first.get();
        let next = |number: u32| if number == last { old } else { number + 1 };
        let unneeded = self
            .nodes
            .grow_with(block, |number| RangeNode::spare(next(number)));
        if self.nodes.len() > before {
            self.first.set(first);
            self.spare.set(self.spare.get() + (last - first + 1));
        }
        unneeded
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        (self.first, self.spare) = (Cell::new(NIL), Cell::new(0));
        self.nodes.detach_memory()
    }
}
