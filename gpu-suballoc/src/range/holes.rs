//! The lists of holes, one for each bin.

#![forbid(unsafe_code)]

use core::hint::select_unpredictable;

use super::bins::bin_of;
use super::node::{NIL, Node, State};
use super::range_core::RangeCore;

impl RangeCore {
    /// Puts a hole of `count` granules, at `first`, into its bin.
    #[inline]
    pub(super) fn put(&self, hole: u32, node: &Node, first: u32, count: u32) {
        node.set_state(State::Free);
        node.set_range(first, count);
        self.put_into(bin_of(count), hole, node, first, count);
    }

    /// The hole with the lowest offset goes to the front: what is taken from there leaves the high end whole. The others follow in
    /// no order.
    #[inline]
    fn put_into(&self, bin: u32, hole: u32, node: &Node, first: u32, count: u32) {
        let Some(head) = self.store.head(bin) else { return };
        let old = head.hole.get();
        if old == NIL {
            node.set_place(NIL, NIL);
            head.set(hole, NIL, first, count);
            return self.bins.set(bin);
        }
        let (front, second) = (self.store.at(old), head.second.get());
        let lower = first < head.first.get();
        node.set_place(select_unpredictable(lower, NIL, old), select_unpredictable(lower, old, second));
        select_unpredictable(lower, &front.word, &front.link).set(hole);
        self.store.at(select_unpredictable(lower, NIL, second)).word.set(hole);
        let (head_first, head_count) = (head.first.get(), head.count.get());
        head.set(
            select_unpredictable(lower, hole, old),
            select_unpredictable(lower, old, hole),
            head_first.min(first),
            select_unpredictable(lower, count, head_count),
        );
    }

    /// Takes a hole of `count` granules out of its bin.
    #[inline]
    pub(super) fn pull(&self, node: &Node, count: u32) {
        self.pull_from(bin_of(count), node);
    }

    #[inline]
    fn pull_from(&self, bin: u32, node: &Node) {
        let Some(head) = self.store.head(bin) else { return };
        let (front, behind) = (node.word.get(), node.link.get());
        let next = self.store.at(behind);
        next.word.set(front);
        if front == NIL {
            // The edge has no size: an empty bin's head says so too.
            head.set(behind, next.link.get(), next.first.get(), next.count.get());
            if behind == NIL {
                self.bins.clear(bin);
            }
        } else {
            self.store.at(front).link.set(behind);
            if head.hole.get() == front {
                head.second.set(behind);
            }
        }
    }

    /// Changes a hole's bounds, and its bin where it needs another.
    #[inline]
    pub(super) fn resize(&self, hole: u32, node: &Node, old_count: u32, first: u32, count: u32) {
        let (from, to) = (bin_of(old_count), bin_of(count));
        node.set_range(first, count);
        if from != to {
            self.pull_from(from, node);
            self.put_into(to, hole, node, first, count);
        } else if let Some(head) = self.store.head(to).filter(|head| head.hole.get() == hole) {
            head.first.set(first);
            head.count.set(count);
        }
    }
}
