//! Moves a live range to another place under the same id.
//!
//! ```text
//!   before   block 3:  .. - A - ..      block 7:  .. - T - ..     A is the range, T is the range that was reserved for it
//!   after    block 3:  .. - T - ..      block 7:  .. - A - ..     node, generation, size and user data of A stay
//! ```
//!
//! A node's number and its generation are the id; the node contains the place. So the two nodes exchange their places, and then the
//! reserved range is freed at the old place. Both nodes are marked as [`MOVED`]: for such a range, the block in the id is only a hint.

#![forbid(unsafe_code)]

use super::node::{MOVED, RangeNode};
use super::node_store::NodeStore;

/// The place of a live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangePlace {
    /// The number of its block.
    pub(crate) block: u32,
    /// In granules.
    pub(crate) first: u32,
    pub(crate) user_data: u32,
}

impl NodeStore {
    #[inline]
    fn place(&self, range: &RangeNode) -> RangePlace {
        RangePlace {
            block: self.at(range.link.get()).word.get(),
            first: range.first.get(),
            user_data: range.word.get(),
        }
    }

    /// Exchanges the places of the range to move and its target, two live ranges (node, generation) of different blocks, if `fit` of their
    /// places is true. Returns the former places. Returns `None`, and changes nothing, if a range is not live, both are in one block, their
    /// sizes differ, or `fit` is false.
    pub(crate) fn exchange(
        &self,
        moved: (u32, u32),
        target: (u32, u32),
        fit: impl FnOnce(&RangePlace, &RangePlace) -> bool,
    ) -> Option<(RangePlace, RangePlace)> {
        let (range, other) = (self.named(moved.0), self.named(target.0));
        if !range.is_live(moved.1)
            || !other.is_live(target.1)
            || range.link.get() == other.link.get()
            || range.count.get() != other.count.get()
        {
            return None;
        }
        let (from, to) = (self.place(range), self.place(other));
        if !fit(&from, &to) {
            return None;
        }
        range.first.swap(&other.first);
        range.before.swap(&other.before);
        range.after.swap(&other.after);
        range.link.swap(&other.link);
        for (id, node) in [(moved.0, range), (target.0, other)] {
            node.slack.set(node.slack.get() | MOVED);
            self.at(node.before.get()).after.set(id);
            self.at(node.after.get()).before.set(id);
        }
        Some((from, to))
    }

    /// The number of the block that contains a live range, if the range was ever moved.
    #[cold]
    pub(crate) fn block_of_moved(&self, node: u32, generation: u32) -> Option<u32> {
        let range = self.named(node);
        if !range.is_live(generation) || range.slack.get() & MOVED == 0 {
            return None;
        }
        Some(self.place(range).block)
    }
}
