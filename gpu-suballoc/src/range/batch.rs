//! Many ranges given back at once: a run of neighbours becomes one hole in one step.

#![forbid(unsafe_code)]

use super::node::State;
use super::range_core::RangeCore;
use super::store::Store;
use super::types::Refusal;

impl RangeCore {
    /// Gives ranges (node, generation) back, all or none; neighbours are joined first, so that a run costs its nodes and one hole.
    /// Whether nothing is live any more.
    ///
    /// # Errors
    /// [`Refusal::Stale`], with the number of the range; one that is named twice is stale the second time.
    pub(crate) fn give_batch<I: Copy + Into<(u32, u32)>>(
        &mut self,
        store: &Store,
        ranges: &[I],
    ) -> Result<bool, (usize, Refusal)> {
        for (at, &range) in ranges.iter().enumerate() {
            let (node, generation) = range.into();
            if let Ok(place) = self.live_node(store, node, generation) {
                place.set_state(State::Leaving);
                continue;
            }
            for &range in ranges.iter().take(at) {
                let (node, _) = range.into();
                store.at(node).set_state(State::Used);
            }
            return Err((at, Refusal::Stale));
        }
        for &range in ranges {
            let (node, _) = range.into();
            if store.at(node).state() == State::Leaving {
                self.give_run(store, node);
            }
        }
        Ok(self.is_empty())
    }

    /// Gives back all leaving ranges around one that touch one another.
    fn give_run(&mut self, store: &Store, node: u32) {
        let mut start = node;
        loop {
            let before = store.at(start).before.get();
            if store.at(before).state() != State::Leaving {
                break;
            }
            start = before;
        }
        let run = store.at(start);
        let (first, before) = (run.first.get(), run.before.get());
        let (mut count, mut after, mut ranges) = (run.count.get(), run.after.get(), 1);
        loop {
            let next = store.at(after);
            if next.state() != State::Leaving {
                break;
            }
            count += next.count.get();
            ranges += 1;
            next.outdate(State::Spare);
            store.give_node(after, next);
            after = next.after.get();
        }
        run.outdate(State::Leaving);
        run.after.set(after);
        store.at(after).before.set(start);
        self.live -= ranges;
        self.free += count;
        self.join(store, start, first, count, before, after);
    }
}
