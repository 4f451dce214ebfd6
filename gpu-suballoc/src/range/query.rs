//! Queries of a range allocator and its ranges.

#![forbid(unsafe_code)]

use super::free_index::FreeIndex;
use super::node::{ALIGNMENT_BITS, ALIGNMENT_SHIFT, NIL, NodeState, RangeNode, SLACK_BYTES};
use super::node_store::NodeStore;
use super::range_allocator::RangeAllocator;
use super::types::{LiveRange, RangeError, Span, SpanState};

impl RangeAllocator {
    /// The node of a live range of this block.
    #[inline]
    pub(super) fn live_node<'s>(
        &self,
        store: &'s NodeStore,
        node: u32,
        generation: u32,
    ) -> Result<&'s RangeNode, RangeError> {
        self.check_live(store.named(node), generation)
    }

    /// Returns the node if it is a live range of this block with this generation.
    #[inline]
    pub(super) fn check_live<'s>(
        &self,
        node: &'s RangeNode,
        generation: u32,
    ) -> Result<&'s RangeNode, RangeError> {
        if node.is_live(generation) && node.link.get() == self.edge {
            Ok(node)
        } else {
            Err(RangeError::Stale)
        }
    }

    /// Whether the block is one hole that has no node yet.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        self.edge == NIL
    }

    /// The bytes at the end of a live range that were not requested, and its required alignment, which is 1 if it is not stored.
    #[inline]
    fn rest_and_alignment(&self, node: &RangeNode) -> (u64, u64) {
        let slack = node.slack.get();
        if self.is_pooled {
            let alignment = slack >> ALIGNMENT_SHIFT & ALIGNMENT_BITS;
            (u64::from(slack & SLACK_BYTES), 1 << alignment)
        } else {
            (u64::from(slack), 1)
        }
    }

    /// A live range.
    ///
    /// # Errors
    /// [`RangeError::Stale`].
    #[inline]
    pub(crate) fn get(
        &self,
        store: &NodeStore,
        node: u32,
        generation: u32,
    ) -> Result<LiveRange, RangeError> {
        let found = self.live_node(store, node, generation)?;
        let size = self.bytes(found.count.get());
        Ok(LiveRange {
            offset: self.bytes(found.first.get()),
            size,
            asked: size - self.rest_and_alignment(found).0,
            alignment: self.rest_and_alignment(found).1,
            user_data: found.word.get(),
        })
    }

    /// Changes the user data of a live range.
    ///
    /// # Errors
    /// [`RangeError::Stale`].
    pub(crate) fn set_user_data(
        &self,
        store: &NodeStore,
        node: u32,
        generation: u32,
        word: u32,
    ) -> Result<(), RangeError> {
        self.live_node(store, node, generation)?.word.set(word);
        Ok(())
    }

    /// Bytes of the block, in whole granules.
    pub(crate) fn size(&self) -> u64 {
        self.bytes(self.count)
    }

    /// Bytes of all holes.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.bytes(self.free)
    }

    /// Bytes of live ranges, rounded.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.bytes(self.count - self.free)
    }

    /// Number of live ranges.
    pub(crate) fn live_count(&self) -> u32 {
        self.live
    }

    /// Number of holes.
    pub(crate) fn free_range_count(&self) -> u32 {
        self.free_ranges.get()
    }

    /// Whether there is no live range.
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Granules of the block, and free granules.
    #[inline]
    pub(crate) fn granules(&self) -> (u32, u32) {
        (self.count, self.free)
    }

    /// An upper bound of the bytes of a hole, for an index of only this block: exact below 64 granules and after a failed search, otherwise
    /// up to 1/32 too high. Constant time.
    #[inline]
    pub(crate) fn largest_free_bound(&self, index: &FreeIndex) -> u64 {
        self.bytes(if self.is_blank() {
            self.count
        } else {
            index.largest_bound().min(self.free)
        })
    }

    /// Bytes of the largest hole, for an index of only this block. Examines each hole of the last bin.
    pub(crate) fn largest_free(&self, store: &NodeStore, index: &FreeIndex) -> u64 {
        self.bytes(if self.is_blank() {
            self.count
        } else {
            index.largest(store)
        })
    }

    /// Visits the live ranges in order of offset: node and user data.
    #[inline]
    pub(crate) fn each_live(&self, store: &NodeStore, mut see: impl FnMut(u32, u32)) {
        let mut at = store.at(self.edge).after.get();
        while !self.is_blank() && at != self.edge {
            let node = store.at(at);
            if !node.is_free() {
                see(at, node.word.get());
            }
            at = node.after.get();
        }
    }

    /// Visits every range and hole in order of offset.
    pub(crate) fn for_each(&self, store: &NodeStore, see: &mut dyn FnMut(Span)) {
        if self.is_blank() {
            return see(Span {
                offset: 0,
                size: self.size(),
                state: SpanState::Free,
            });
        }
        let mut at = store.at(self.edge).after.get();
        while at != self.edge {
            let node = store.at(at);
            let size = self.bytes(node.count.get());
            let state = if node.is_free() {
                SpanState::Free
            } else {
                let word = node.word.get();
                let (rest, alignment) = self.rest_and_alignment(node);
                let asked = size - rest;
                SpanState::Used {
                    node: at,
                    generation: node.generation(),
                    asked,
                    alignment,
                    user_data: word,
                }
            };
            see(Span {
                offset: self.bytes(node.first.get()),
                size,
                state,
            });
            at = node.after.get();
        }
    }

    /// Frees all ranges: every id is stale from now on. Examines each node. Frees all nodes to the store and removes the block's holes from
    /// the index.
    pub(crate) fn clear(&mut self, store: &NodeStore, index: &FreeIndex) {
        if self.is_blank() {
            return;
        }
        let mut at = store.at(self.edge).after.get();
        while at != self.edge {
            let node = store.at(at);
            let after = node.after.get();
            match node.state() {
                NodeState::Used => node.outdate(NodeState::Spare),
                NodeState::Free => index.remove(store, node, node.count.get()),
                NodeState::Spare | NodeState::Leaving => {}
            }
            store.free_node(at, node);
            at = after;
        }
        store.free_node(self.edge, store.at(self.edge));
        self.edge = NIL;
        (self.free, self.live) = (self.count, 0);
        self.free_ranges.set(1);
    }
}
