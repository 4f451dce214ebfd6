//! One piece of the range: 32 bytes, never more than one cache line.
//!
//! ```text
//!        0       4       8        12      16        20       24                   28       32
//!        +-------+-------+--------+-------+---------+--------+--------------------+--------+
//!  free  | first | count | before | after | in front| behind | generation | state | 0      |
//!  used  | first | count | before | after | word    | holds  | generation | state | slack  |
//!  spare | -     | -     | -      | -     | -       | next   | generation | state | -      |
//!        +-------+-------+--------+-------+---------+--------+--------------------+--------+
//!          granules        by offset        in the bin         30 bits      2       bytes
//! ```

#![forbid(unsafe_code)]

/// No node. Looking it up gives the edge of the range.
pub(super) const NIL: u32 = u32::MAX;

/// What a node is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: to be used next. The edge of the range is one for ever.
    Spare = 0,
    /// A hole, in a bin.
    Free = 1,
    /// A live range.
    Used = 2,
    /// Of a batch that is being given back: no longer live, in no bin yet.
    Leaving = 3,
}

/// See the drawing above.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Node {
    /// The first granule.
    pub(super) first: u32,
    /// How many granules, at least 1.
    pub(super) count: u32,
    /// The neighbour at lower offsets; [`NIL`] is the edge.
    pub(super) before: u32,
    /// The neighbour at higher offsets.
    pub(super) after: u32,
    /// Free: the node in front of it in its bin. Used: the user's word.
    pub(super) word: u32,
    /// Free: the node behind it in its bin. Used: how often it is held. Spare: the next spare one of its chunk.
    pub(super) link: u32,
    mark: u32,
    /// Used: bytes of the last granule that were not asked for.
    pub(super) slack: u32,
}

const _: () = assert!(size_of::<Node>() == 32);

impl Node {
    /// A node that is not part of the range.
    pub(super) const fn spare(generation: u32, next: u32) -> Self {
        Self { first: 0, count: 0, before: NIL, after: NIL, word: NIL, link: next, mark: generation << 2, slack: 0 }
    }

    /// What it is.
    #[inline]
    pub(super) const fn state(&self) -> State {
        match self.mark & 3 {
            0 => State::Spare,
            1 => State::Free,
            2 => State::Used,
            _ => State::Leaving,
        }
    }

    /// Whether it is a hole.
    #[inline]
    pub(super) const fn is_free(&self) -> bool {
        self.mark & 3 == State::Free as u32
    }

    /// The generation of the id that names it, or will name it when it is used next.
    #[inline]
    pub(super) const fn generation(&self) -> u32 {
        self.mark >> 2
    }

    /// Whether an id of this generation names it now.
    #[inline]
    pub(super) const fn is_live(&self, generation: u32) -> bool {
        // A generation beyond 30 bits would lose bits in the shift and might fit by mistake.
        self.mark == (generation << 2 | State::Used as u32) && generation >> 30 == 0
    }

    /// Changes what it is.
    #[inline]
    pub(super) fn set_state(&mut self, state: State) {
        self.mark = self.mark & !3 | state as u32;
    }

    /// Ends the id that named it: none of before fits again.
    #[inline]
    pub(super) fn outdate(&mut self, state: State) {
        self.mark = (self.mark & !3).wrapping_add(4) | state as u32;
    }

    /// The granule behind its last one.
    #[inline]
    pub(super) const fn end(&self) -> u32 {
        self.first.wrapping_add(self.count)
    }
}
