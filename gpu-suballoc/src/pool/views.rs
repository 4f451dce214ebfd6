//! What reports are made of.

use super::Pools;
use super::ask::{PAGE, SLAB, Where, is_own};
use super::facts::Facts;
use super::state::State;
use crate::device::MemoryHandle;
use crate::id::{Place, PlaceKind};
use crate::range::{Span, SpanState};
use crate::request::ResourceKind;

/// A heap's numbers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapView {
    pub(crate) size: u64,
    /// Estimated use of the whole process.
    pub(crate) usage: u64,
    /// What the process should stay below.
    pub(crate) budget: u64,
    /// Our memory objects.
    pub(crate) ours: u64,
}

/// A pool's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolTotals {
    pub(crate) pool: u16,
    /// Of a custom pool, its generation.
    pub(crate) custom: Option<u32>,
    pub(crate) memory_type: u32,
    pub(crate) heap: u32,
    pub(crate) preferred_block: u64,
    /// Memory objects and their bytes, those being made and given back included.
    pub(crate) objects: u32,
    pub(crate) object_bytes: u64,
    /// Of the objects, those with one region.
    pub(crate) dedicated: u32,
    pub(crate) regions: u64,
    pub(crate) region_bytes: u64,
    pub(crate) empty_bytes: u64,
}

/// A piece of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A memory object; its pieces follow, in order, and tile it.
    Object {
        pool: u16,
        custom: Option<u32>,
        block: u32,
        dedicated: bool,
        kind: ResourceKind,
        memory_type: u32,
        heap: u32,
        memory: MemoryHandle,
        size: u64,
        maps: u32,
    },
    /// Nobody's. `within` is the page or slab it is in, or else [`PlaceKind::General`].
    Free { offset: u64, size: u64, within: PlaceKind },
    /// What is left behind the last whole granule: it is never given out.
    Tail { offset: u64, size: u64 },
    /// A region.
    Region {
        at: Where,
        offset: u64,
        size: u64,
        /// Of the bytes, those that were asked for; in pages and slabs nobody remembers, and all are.
        asked: u64,
        word: u32,
    },
}

impl Pools {
    pub(crate) fn heap(&self, index: u32) -> HeapView {
        let heap = self.ledger.lock().heap(index);
        HeapView { size: heap.size, usage: heap.usage(), budget: heap.budget(), ours: heap.ours }
    }

    /// The numbers of a pool, by index below [`Place::POOLS`]; `None` where there is none.
    pub(crate) fn totals(&self, index: u16) -> Option<PoolTotals> {
        let state = self.pool(index)?.lock();
        let Facts { memory_type, heap, generation, .. } = state.facts;
        state.open.then(|| PoolTotals {
            pool: index,
            custom: state.facts.is_custom().then_some(generation),
            memory_type,
            heap,
            preferred_block: state.growth.preferred(),
            objects: state.objects,
            object_bytes: state.bytes,
            dedicated: state.alone.live,
            regions: state.regions,
            region_bytes: state.used,
            empty_bytes: state.blocks.empty_bytes,
        })
    }

    /// Every memory object and what lies in it, pool by pool, each as it is at one moment. `see` runs under the pool's lock: it neither
    /// allocates nor calls anybody.
    pub(crate) fn walk(&self, see: &mut dyn FnMut(Seen)) {
        for pool in self.all() {
            let state = pool.lock();
            state.walk_blocks(see);
            state.walk_alone(see);
        }
    }
}

impl State {
    fn walk_blocks(&self, see: &mut dyn FnMut(Seen)) {
        for (block, slot) in (0u32..).zip(self.blocks.slots.as_slice()) {
            let Some(live) = &slot.live else { continue };
            see(self.seen_object(block, false, live.object.memory, live.object.size, live.object.map.count()));
            let mut end = 0u64;
            self.blocks.for_each(live, &mut |span| {
                end = span.offset.saturating_add(span.size);
                self.walk_span(block, span, see);
            });
            if end < live.object.size {
                see(Seen::Tail { offset: end, size: live.object.size - end });
            }
        }
    }

    fn walk_span(&self, block: u32, span: Span, see: &mut dyn FnMut(Seen)) {
        let Span { offset, size, state } = span;
        let SpanState::Used { node, generation, word, asked, .. } = state else {
            see(Seen::Free { offset, size, within: PlaceKind::General });
            return;
        };
        if !is_own(word) {
            see(Seen::Region { at: self.at(PlaceKind::General, block, node, generation), offset, size, asked, word });
            return;
        }
        let (kind, number) = match word {
            PAGE.. => (PlaceKind::Transient, word - PAGE),
            SLAB.. => (PlaceKind::Slab, word - SLAB),
            _ => (PlaceKind::Linear, 0),
        };
        let mut end = offset;
        let mut piece = |found: crate::classes::Piece| {
            if found.offset > end {
                see(Seen::Free { offset: end, size: found.offset - end, within: kind });
            }
            end = found.offset.saturating_add(found.size);
            let at = Where {
                place: Place { kind, pool: self.facts.index, block: found.group },
                slot: found.slot,
                generation: found.generation,
            };
            see(Seen::Region { at, offset: found.offset, size: found.size, asked: found.size, word: found.word });
        };
        match kind {
            PlaceKind::Slab => self.classes.slabs.walk(number, &mut piece),
            PlaceKind::Linear => self.classes.line.walk(&mut piece),
            _ => self.classes.pages.walk(number, &mut piece),
        }
        let whole = offset.saturating_add(size);
        if end < whole {
            see(Seen::Free { offset: end, size: whole - end, within: kind });
        }
    }

    fn walk_alone(&self, see: &mut dyn FnMut(Seen)) {
        for (place, slot) in (0u32..).zip(self.alone.slots.as_slice()) {
            let Some(region) = &slot.live else { continue };
            let size = region.object.size;
            see(self.seen_object(place, true, region.object.memory, size, region.object.map.count()));
            let at = self.at(PlaceKind::Dedicated, place, 0, slot.generation);
            see(Seen::Region { at, offset: 0, size, asked: size, word: region.word });
        }
    }

    fn seen_object(&self, block: u32, dedicated: bool, memory: MemoryHandle, size: u64, maps: u32) -> Seen {
        let facts = &self.facts;
        Seen::Object {
            pool: facts.index,
            custom: facts.is_custom().then_some(facts.generation),
            block,
            dedicated,
            kind: facts.kind,
            memory_type: facts.memory_type,
            heap: facts.heap,
            memory,
            size,
            maps,
        }
    }
}
