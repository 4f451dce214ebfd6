//! One piece of the range: 32 bytes, never more than one cache line.
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
//! The nodes of a core are a ring in order of offset: between the last one and the first there is the core's *edge*, a node that is never
//! free, never live, never spare. A live range names its core's edge: cores that share a store know their own by that.

#![forbid(unsafe_code)]

use core::cell::Cell;

/// No node: the end of a bin's list. It is a node like others, so that whoever changes a neighbour need not ask whether there is one.
/// It is never free, never live, never spare; of no size.
pub(super) const NIL: u32 = 0;

/// A live range in a pool packs its `slack`: bytes, 26 bits of them; the alignment that it needs, as a power of two; whether it was ever
/// moved, so that the block in its ids is a hint.
pub(super) const SLACK_BYTES: u32 = (1 << 26) - 1;
pub(super) const ALIGNMENT_SHIFT: u32 = 26;
pub(super) const ALIGNMENT_BITS: u32 = 31;
pub(super) const MOVED: u32 = 1 << 31;
/// So great an alignment, or a greater one, is noted as this.
pub(crate) const MAX_NOTED_ALIGNMENT: u64 = 1 << ALIGNMENT_BITS;

/// What a node is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Nothing: to be used next. An edge stays so.
    Spare = 0,
    /// A hole, in a bin.
    Free = 1,
    /// A live range.
    Used = 2,
    /// Of a batch that is being given back: no longer live, in no bin yet.
    Leaving = 3,
}

/// See the drawing above. Cells, so that a node and its neighbours can be held at once and changed.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct RangeNode {
    /// The first granule.
    pub(super) first: Cell<u32>,
    /// How many granules, at least 1.
    pub(super) count: Cell<u32>,
    /// The neighbour at lower offsets, or the edge.
    pub(super) before: Cell<u32>,
    /// The neighbour at higher offsets, or the edge.
    pub(super) after: Cell<u32>,
    /// Free: the node in front of it in its bin. Used: the user's word.
    pub(super) word: Cell<u32>,
    /// Free: the node behind it in its bin. Used: the edge of its core. Spare: the next spare one of its chunk.
    pub(super) link: Cell<u32>,
    mark: Cell<u32>,
    /// Free: the number of its block. Used: bytes at its end that were not requested, packed in a pool.
    pub(super) slack: Cell<u32>,
}

const _: () = assert!(size_of::<RangeNode>() == 32);

impl RangeNode {
    /// A node that is not part of the range.
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

    /// What it is.
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

    /// The generation of the id that names it, or will name it when it is used next.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.mark.get() >> 2
    }

    /// Whether an id of this generation names it now.
    #[inline]
    pub(super) fn is_live(&self, generation: u32) -> bool {
        // A generation beyond 30 bits would lose bits in the shift and might fit by mistake.
        self.mark.get() == (generation << 2 | NodeState::Used as u32) && generation >> 30 == 0
    }

    /// Changes what it is.
    #[inline]
    pub(super) fn set_state(&self, state: NodeState) {
        self.mark.set(self.mark.get() & !3 | state as u32);
    }

    /// Ends the id that named it: none of before fits again.
    #[inline]
    pub(super) fn outdate(&self, state: NodeState) {
        self.mark
            .set((self.mark.get() & !3).wrapping_add(4) | state as u32);
    }

    /// Where it lies, in granules.
    #[inline]
    pub(super) fn set_range(&self, first: u32, count: u32) {
        self.first.set(first);
        self.count.set(count);
    }

    /// Its place in the list of a bin.
    #[inline]
    pub(super) fn set_place(&self, front: u32, behind: u32) {
        self.word.set(front);
        self.link.set(behind);
    }
}
