//! Frees many ranges at once: each run of adjacent ranges becomes one hole in one step.

#![forbid(unsafe_code)]

use super::free_index::FreeIndex;
use super::node::NodeState;
use super::node_store::NodeStore;
use super::range_allocator::RangeAllocator;
use super::types::RangeError;

impl RangeAllocator {
    /// Frees ranges (node, generation), all or none. Joins adjacent ranges first, so that a run costs its nodes and one hole. Returns
    /// whether no range is live any more.
    ///
    /// # Errors
    /// [`RangeError::Stale`], with the index of the range; a range that is listed twice is stale the second time.
    pub(crate) fn free_batch<I: Copy + Into<(u32, u32)>>(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        ranges: &[I],
    ) -> Result<bool, (usize, RangeError)> {
        for (at, &range) in ranges.iter().enumerate() {
            let (node, generation) = range.into();
            if let Ok(place) = self.live_node(store, node, generation) {
                place.set_state(NodeState::Leaving);
                continue;
            }
            for &range in ranges.iter().take(at) {
                let (node, _) = range.into();
                store.at(node).set_state(NodeState::Used);
            }
            return Err((at, RangeError::Stale));
        }
        for &range in ranges {
            let (node, _) = range.into();
            if store.at(node).state() == NodeState::Leaving {
                self.free_run(store, index, node);
            }
        }
        Ok(self.is_empty())
    }

    /// Frees the run of adjacent leaving ranges that contains `node`.
    fn free_run(&mut self, store: &NodeStore, index: &FreeIndex, node: u32) {
        let mut start = node;
        loop {
            let before = store.at(start).before.get();
            if store.at(before).state() != NodeState::Leaving {
                break;
            }
            start = before;
        }
        let run = store.at(start);
        let before = run.before.get();
        let (mut count, mut after, mut ranges) = (run.count.get(), run.after.get(), 1);
        loop {
            let next = store.at(after);
            if next.state() != NodeState::Leaving {
                break;
            }
            count += next.count.get();
            ranges += 1;
            next.outdate(NodeState::Spare);
            store.free_node(after, next);
            after = next.after.get();
        }
        run.outdate(NodeState::Leaving);
        run.after.set(after);
        store.at(after).before.set(start);
        self.live -= ranges;
        self.free += count;
        self.join(store, index, start, count, (before, after));
    }
}
