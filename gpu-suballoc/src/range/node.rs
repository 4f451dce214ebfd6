//! A node: one hole or live range. It has 32 bytes, and never spans two cache lines.
//!
//! ```text
//!        0       4       8        12      16        20       24                   28       32
//!        +-------+-------+--------+-------+---------+--------+--------------------+--------+
//!  free  | first | count | before | after | in front| behind | generation | state | block  |
//!  used  | first | count | before | after | word    | edge   | generation | state | slack  |
//!  spare | -     | -     | -      | -     | -       | next   | generation | state | -      |
//!  edge  | -     | -     | last   | first | block   | -      | generation | state | -      |
//!        +-------+-------+--------+-------+---------+--------+--------------------+--------+
//!          granules        by offset        in the bin         30 bits      2       bytes
//! ```
//!
//! The nodes of a block are a ring in order of offset. Between the last node and the first is the block's *edge*, a node that is never free
//! or live, and never in a list of spare nodes. A live range contains the number of its block's edge: so blocks that share a store
//! recognize their own ranges.

#![forbid(unsafe_code)]

use core::cell::Cell;

/// The end of a bin's list. It is the number of a real node, so that code can write to a neighbour without a check. This node is never free
/// or live, never in a list of spare nodes, and has size 0.
pub(super) const NIL: u32 = 0;

/// The layout of `slack` in a live range of a pool: 26 bits for the bytes that were not requested, then the base-2 logarithm of the
/// required alignment.
pub(super) const SLACK_BYTES: u32 = (1 << 26) - 1;
pub(super) const ALIGNMENT_SHIFT: u32 = 26;
pub(super) const ALIGNMENT_BITS: u32 = 31;
/// The largest alignment that a node can store; larger alignments are stored as this.
pub(crate) const MAX_NOTED_ALIGNMENT: u64 = 1 << ALIGNMENT_BITS;

/// The current use of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Not used, or an edge.
    Spare = 0,
    /// A hole in a bin.
    Free = 1,
    /// A live range.
    Used = 2,
    /// Being freed: no longer live, not in a bin yet.
    Leaving = 3,
}

/// See the drawing above. The fields are cells, so that a node can be changed while other references to it and its neighbours exist.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct RangeNode {
    /// The first granule.
    pub(super) first: Cell<u32>,
    /// Number of granules, at least 1.
    pub(super) count: Cell<u32>,
    /// The neighbour at lower offsets, or the edge.
    pub(super) before: Cell<u32>,
    /// The neighbour at higher offsets, or the edge.
    pub(super) after: Cell<u32>,
    /// Free: the node in front of it in its bin. Used: the user data. Edge: the block's number.
    pub(super) word: Cell<u32>,
    /// Free: the node behind it in its bin. Used: the edge of its block. Spare: the next spare node of its chunk.
    pub(super) link: Cell<u32>,
    mark: Cell<u32>,
    /// Free: the number of its block. Used: bytes at its end that were not requested; in a pool, packed with the alignment.
    pub(super) slack: Cell<u32>,
}

const _: () = assert!(size_of::<RangeNode>() == 32);

impl RangeNode {
    /// A spare node.
    pub(super) const fn spare(generation: u32, next: u32) -> Self {
        Self {
            first: Cell::new(0),
            count: Cell::new(0),
            before: Cell::new(NIL),
            after: Cell::new(NIL),
            word: Cell::new(NIL),
            link: Cell::new(next),
            mark: Cell::new(generation << 2),
            slack: Cell::new(0),
        }
    }

    /// The node's state.
    #[inline]
    pub(super) fn state(&self) -> NodeState {
        match self.mark.get() & 3 {
            0 => NodeState::Spare,
            1 => NodeState::Free,
            2 => NodeState::Used,
            _ => NodeState::Leaving,
        }
    }

    /// Whether it is a hole.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.mark.get() & 3 == NodeState::Free as u32
    }

    /// The generation of the node's id: the current id, or the id of its next use.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.mark.get() >> 2
    }

    /// Whether the node is a live range with this generation.
    #[inline]
    pub(super) fn is_live(&self, generation: u32) -> bool {
        // The shift would drop bits of a generation above 30 bits, which then could match by mistake.
        self.mark.get() == (generation << 2 | NodeState::Used as u32) && generation >> 30 == 0
    }

    /// Sets the node's state.
    #[inline]
    pub(super) fn set_state(&self, state: NodeState) {
        self.mark.set(self.mark.get() & !3 | state as u32);
    }

    /// Increments the generation, so that all earlier ids are stale, and sets the state.
    #[inline]
    pub(super) fn outdate(&self, state: NodeState) {
        self.mark
            .set((self.mark.get() & !3).wrapping_add(4) | state as u32);
    }

    /// Sets the node's granules.
    #[inline]
    pub(super) fn set_range(&self, first: u32, count: u32) {
        self.first.set(first);
        self.count.set(count);
    }

    /// Sets the node's neighbours in the list of a bin.
    #[inline]
    pub(super) fn set_place(&self, front: u32, behind: u32) {
        self.word.set(front);
        self.link.set(behind);
    }
}
