//! A live range lies elsewhere from now on, under the same name.
//!
//! ```text
//!   before   block 3:  .. - A - ..      block 7:  .. - T - ..     A is the range, T a range that was reserved for it
//!   after    block 3:  .. - T - ..      block 7:  .. - A - ..     node, generation, size and words of A stay
//! ```
//!
//! A node and its generation are the name; where the range lies is what the node says. So two nodes exchange their places, and the one
//! that was reserved is freed where the range lay. Both say that they were moved: the block in the ids of such a range is a hint.

#![forbid(unsafe_code)]

use super::node::{MOVED, RangeNode};
use super::node_store::NodeStore;

/// Where a live range lies.
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

    /// Exchanges the places of two live ranges (node, generation) of different blocks, where their places `fit`. The first one is the range
    /// that moves. Where they lay; `None`, and nothing changed, where one of them is not live, both lie in one block, or one is larger.
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

    /// The number of the block that a live range lies in, if it was ever moved.
    #[cold]
    pub(crate) fn block_of_moved(&self, node: u32, generation: u32) -> Option<u32> {
        let range = self.named(node);
        if !range.is_live(generation) || range.slack.get() & MOVED == 0 {
            return None;
        }
        Some(self.place(range).block)
    }
}
