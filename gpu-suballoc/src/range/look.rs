//! Looking at a core, and at its ranges.

#![forbid(unsafe_code)]

use super::bins::{Bins, bin_of, largest_of};
use super::node::{NIL, Node, State};
use super::range_core::RangeCore;
use super::types::{Found, MAX_GENERATION, Refusal, Span, SpanState};

/// As often may a range be held.
const MOST_HOLDS: u32 = u32::MAX - 1;

impl RangeCore {
    #[inline]
    fn live_node(&self, node: u32, generation: u32) -> Result<&Node, Refusal> {
        let place = self.store.at(node);
        if place.is_live(generation) { Ok(place) } else { Err(Refusal::Stale) }
    }

    #[inline]
    fn live_node_mut(&mut self, node: u32, generation: u32) -> Result<&mut Node, Refusal> {
        let place = self.store.at_mut(node);
        if place.is_live(generation) { Ok(place) } else { Err(Refusal::Stale) }
    }

    /// A live range.
    ///
    /// # Errors
    /// [`Refusal::Stale`].
    #[inline]
    pub(crate) fn get(&self, node: u32, generation: u32) -> Result<Found, Refusal> {
        let found = self.live_node(node, generation)?;
        let size = self.bytes(found.count);
        Ok(Found {
            offset: self.bytes(found.first),
            size,
            asked: size - u64::from(found.slack),
            word: found.word,
            holds: found.link,
        })
    }

    /// Changes the word of a live range.
    ///
    /// # Errors
    /// [`Refusal::Stale`].
    pub(crate) fn set_word(&mut self, node: u32, generation: u32, word: u32) -> Result<(), Refusal> {
        self.live_node_mut(node, generation)?.word = word;
        Ok(())
    }

    /// Gives a live range a new name: the next generation. The old one is stale from now on; place, word and holds stay.
    ///
    /// # Errors
    /// [`Refusal::Stale`]; [`Refusal::UsedUp`] where the node has no generation left: then nothing changed.
    pub(crate) fn renew(&mut self, node: u32, generation: u32) -> Result<u32, Refusal> {
        let live = self.live_node_mut(node, generation)?;
        if generation >= MAX_GENERATION {
            return Err(Refusal::UsedUp);
        }
        live.outdate(State::Used);
        Ok(generation + 1)
    }

    /// Holds a range: until it is [released](Self::release) as often, it cannot be given back. How often it is held now.
    ///
    /// # Errors
    /// [`Refusal::Stale`], [`Refusal::TooManyHolds`].
    pub(crate) fn hold(&mut self, node: u32, generation: u32) -> Result<u32, Refusal> {
        let held = self.live_node_mut(node, generation)?;
        if held.link >= MOST_HOLDS {
            return Err(Refusal::TooManyHolds);
        }
        held.link += 1;
        Ok(held.link)
    }

    /// Lets go once. How often it is still held.
    ///
    /// # Errors
    /// [`Refusal::Stale`], also where nobody held it.
    pub(crate) fn release(&mut self, node: u32, generation: u32) -> Result<u32, Refusal> {
        let held = self.live_node_mut(node, generation)?;
        held.link = held.link.checked_sub(1).ok_or(Refusal::Stale)?;
        Ok(held.link)
    }

    /// Bytes, in whole granules.
    pub(crate) fn size(&self) -> u64 {
        self.bytes(self.count)
    }

    /// Bytes that are free.
    pub(crate) fn free(&self) -> u64 {
        self.bytes(self.free)
    }

    /// Bytes of live ranges, as rounded.
    pub(crate) fn used(&self) -> u64 {
        self.bytes(self.count - self.free)
    }

    /// Live ranges.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Holes.
    pub(crate) fn holes(&self) -> u32 {
        self.holes
    }

    /// Whether nothing is live.
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// False: no hole has that size. Constant time.
    #[inline]
    pub(crate) fn may_fit(&self, size: u64) -> bool {
        size <= self.largest_free_bound()
    }

    /// No hole is larger: exact for holes below 64 granules, otherwise up to 1/32 too much. Constant time.
    #[inline]
    pub(crate) fn largest_free_bound(&self) -> u64 {
        if self.blank {
            return self.size();
        }
        let Some(bin) = self.bins.last() else { return 0 };
        let known = if self.in_vain.1 == 1 { self.in_vain.0.saturating_sub(1) } else { u32::MAX };
        self.bytes(largest_of(bin).min(known).min(self.free))
    }

    /// The largest hole. It costs one look at each hole of the last bin.
    pub(crate) fn largest_free(&self) -> u64 {
        if self.blank {
            return self.size();
        }
        let mut largest = 0;
        let mut hole = self.bins.last().map_or(NIL, |bin| self.store.head(bin));
        while hole != NIL {
            let node = self.store.at(hole);
            largest = largest.max(node.count);
            hole = node.link;
        }
        self.bytes(largest)
    }

    /// Every piece, in order of offset.
    pub(crate) fn for_each(&self, see: &mut dyn FnMut(Span)) {
        if self.blank {
            return see(Span { offset: 0, size: self.size(), state: SpanState::Free });
        }
        let mut at = self.store.at(NIL).after;
        while at != NIL {
            let node = self.store.at(at);
            let size = self.bytes(node.count);
            let state = if node.is_free() {
                SpanState::Free
            } else {
                let asked = size - u64::from(node.slack);
                SpanState::Used { node: at, generation: node.generation(), asked, word: node.word, holds: node.link }
            };
            see(Span { offset: self.bytes(node.first), size, state });
            at = node.after;
        }
    }

    /// Gives everything back at once, holds or not: every id is stale from now on. It costs one look at each node.
    pub(crate) fn clear(&mut self) {
        if self.blank {
            return;
        }
        let mut at = self.store.at(NIL).after;
        while at != NIL {
            let node = self.store.at_mut(at);
            let after = node.after;
            if node.state() == State::Used {
                node.outdate(State::Spare);
            }
            self.store.give_node(at);
            at = after;
        }
        self.forget();
        for bin in 0..=bin_of(self.count) {
            self.store.set_head(bin, NIL);
        }
    }

    /// As if nothing had ever been taken, but for the nodes.
    pub(super) fn forget(&mut self) {
        self.bins = Bins::default();
        (self.free, self.live, self.holes) = (self.count, 0, 1);
        self.in_vain = (u32::MAX, 1);
        self.blank = true;
    }
}
