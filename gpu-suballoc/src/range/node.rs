//! A node: one hole or live range. It has 32 bytes, and never spans two cache lines.
//!
//! ```text
//!        0       4       8        12      16        20       24                   28       32
//!        +-------+-------+--------+-------+---------+--------+--------------------+--------+
//!  free  | first | count | before | after | in front| behind | -          | state | block  |
//!  used  | first | count | before | after | word    | serial ..           | state | slack  |
//!  spare | -     | -     | -      | -     | -       | next   | -          | state | -      |
//!  edge  | -     | -     | last   | first | -       | -      | -          | state | -      |
//!        +-------+-------+--------+-------+---------+--------+--------------------+--------+
//!          granules        by offset        in the bin         30 bits      2       bytes
//! ```
//!
//! The nodes of a block are a ring in order of offset. Between the last node and the first is the block's *edge*, which
//! is never free, live or spare. The serial of a live range is a number that no other range of its store has: in a
//! virtual block that of the allocation; in a pool, whose regions have ids of their own, that of its block's edge.

#![forbid(unsafe_code)]

use super::allocator::NODES_PER_ALLOCATION;
use crate::growable_vec::{Chunked, prefetch};
use crate::host_memory::{GrowableTable, HostBlock};
use core::alloc::Layout;
use core::cell::Cell;

/// The number of a real node, so that code can write to a neighbour without a check. It is never free, live or spare,
/// and has size 0.
pub(super) const NIL: u32 = 0;

/// `slack` of a live range of a pool: bytes that were not requested, the required alignment's logarithm, the kind of
/// resource.
pub(super) const SLACK_BYTES: u32 = (1 << 26) - 1;
pub(super) const ALIGNMENT_SHIFT: u32 = 26;
pub(super) const ALIGNMENT_BITS: u32 = 31;
pub(super) const OPTIMAL: u32 = 1 << 31;
/// Larger alignments are stored as this.
pub(crate) const MAX_NOTED_ALIGNMENT: u64 = 1 << ALIGNMENT_BITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Not used, or an edge.
    Spare = 0,
    Free = 1,
    /// A live range.
    Used = 2,
}

/// The fields are cells: a node is changed while other references to it and its neighbours exist.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct RangeNode {
    pub(super) first: Cell<u32>,
    pub(super) count: Cell<u32>,
    pub(super) before: Cell<u32>,
    pub(super) after: Cell<u32>,
    pub(super) word: Cell<u32>,
    pub(super) link: Cell<u32>,
    mark: Cell<u32>,
    /// A hole has its block's number, or its note. A live range has the bytes that were not requested; in a pool,
    /// packed with the alignment.
    pub(super) slack: Cell<u32>,
}

const _: () = assert!(size_of::<RangeNode>() == 32);

impl RangeNode {
    pub(super) const fn spare(next: u32) -> Self {
        Self {
            first: Cell::new(0),
            count: Cell::new(0),
            before: Cell::new(NIL),
            after: Cell::new(NIL),
            word: Cell::new(NIL),
            link: Cell::new(next),
            mark: Cell::new(NodeState::Spare as u32),
            slack: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.mark.get() & 3 == NodeState::Free as u32
    }

    #[inline]
    pub(super) fn is_live(&self, serial: u64) -> bool {
        self.mark.get() & 3 == NodeState::Used as u32 && self.serial() == serial
    }

    #[inline]
    pub(super) fn is_live_of(&self, is_optimal: bool) -> bool {
        self.mark.get() & 3 == NodeState::Used as u32 && (self.slack.get() & OPTIMAL != 0) == is_optimal
    }

    #[inline]
    pub(super) fn serial(&self) -> u64 {
        u64::from(self.mark.get() >> 2) << 32 | u64::from(self.link.get())
    }

    #[inline]
    pub(super) fn set_used(&self, serial: u64) {
        self.link.set(serial as u32);
        self.mark.set(((serial >> 32) as u32) << 2 | NodeState::Used as u32);
    }

    #[inline]
    pub(super) fn set_state(&self, state: NodeState) {
        self.mark.set(self.mark.get() & !3 | state as u32);
    }

    #[inline]
    pub(super) fn set_range(&self, first: u32, count: u32) {
        self.first.set(first);
        self.count.set(count);
    }

    #[inline]
    pub(super) fn set_place(&self, front: u32, behind: u32) {
        self.word.set(front);
        self.link.set(behind);
    }
}

pub(super) const CHUNK_NODES: usize = 128;
/// So many nodes, 1 MiB, fit into a CPU core's cache.
const CROWD: u32 = 1 << 15;

/// Nodes change through `&self`; memory through `&mut self`, when no reference to a node exists.
#[derive(Debug)]
pub(crate) struct NodeStore {
    nodes: Chunked<RangeNode, CHUNK_NODES>,
    /// The node for numbers beyond all chunks; it is never live.
    stray: RangeNode,
    first: Cell<u32>,
    spare: Cell<u32>,
    pub(crate) reserve: u32,
}

impl NodeStore {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Chunked::new(),
            stray: RangeNode::spare(NIL),
            first: Cell::new(NIL),
            spare: Cell::new(0),
            reserve: NODES_PER_ALLOCATION,
        }
    }

    /// Most nodes are in no cache: each step to another node waits for memory.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.nodes.len() > CROWD
    }

    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.nodes.len() > CHUNK_NODES as u32
    }

    #[inline]
    pub(super) fn at(&self, id: u32) -> &RangeNode {
        self.nodes.get(id).unwrap_or(&self.stray)
    }

    /// In a crowded store, prefetches what freeing reads: the neighbours are mostly the adjacent nodes.
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

    #[inline]
    pub(super) fn spare_nodes(&self) -> u32 {
        self.spare.get()
    }

    /// There must be a [spare node](Self::spare_nodes).
    #[inline]
    pub(super) fn allocate_node(&self) -> u32 {
        let id = self.first.get();
        self.first.set(self.at(id).link.get());
        self.spare.set(self.spare.get() - 1);
        id
    }

    #[inline]
    pub(super) fn free_node(&self, id: u32, node: &RangeNode) {
        node.set_state(NodeState::Spare);
        node.link.set(self.first.replace(id));
        self.spare.set(self.spare.get() + 1);
    }

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
        // Node `NIL` is never spare: it is the end of every list.
        let (first, last) = (before.max(NIL + 1), before + CHUNK_NODES as u32 - 1);
        let old = self.first.get();
        let next = |number: u32| if number == last { old } else { number + 1 };
        let unneeded = self.nodes.grow_with(block, |number| RangeNode::spare(next(number)));
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
