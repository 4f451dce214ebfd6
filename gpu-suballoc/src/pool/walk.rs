//! Walks pools for reports.

use super::Pools;
use super::blocks::Object;
use super::config::PoolConfig;
use super::request::{LINEAR_RANGE, MOVE_TARGET};
use super::state::PoolState;
use crate::device::MemoryHandle;
use crate::id::{BlockRef, PlaceKind, RegionPlace};
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
    pub(crate) own_bytes: u64,
}

/// A pool's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolTotals {
    pub(crate) pool: u16,
    /// The generation of a custom pool.
    pub(crate) custom: Option<u32>,
    pub(crate) memory_type: u32,
    pub(crate) heap: u32,
    pub(crate) preferred_block: u64,
    /// Memory objects and their bytes, those in creation and being freed included.
    pub(crate) objects: u32,
    pub(crate) object_bytes: u64,
    /// Of the objects, those with one region.
    pub(crate) dedicated: u32,
    pub(crate) regions: u64,
    pub(crate) region_bytes: u64,
    /// Bytes of blocks without a region.
    pub(crate) empty_bytes: u64,
    /// An upper bound of the free ranges of blocks that are not being drained.
    pub(crate) largest_free_bound: u64,
    /// Ranges reserved as targets of moves, and their bytes.
    pub(crate) moving: u64,
    pub(crate) moving_bytes: u64,
}

/// A piece of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkItem {
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
    /// A hole; `within` is the kind of its surroundings.
    Free {
        offset: u64,
        size: u64,
        within: PlaceKind,
    },
    /// The rest behind the last whole granule, which is never allocated.
    Tail {
        offset: u64,
        size: u64,
    },
    MoveTarget {
        offset: u64,
        size: u64,
    },
    /// A region.
    Region {
        at: RegionPlace,
        offset: u64,
        size: u64,
        /// The requested bytes; in linear pools, which do not store them, all bytes.
        asked: u64,
        /// The required alignment; 0 if it is not stored.
        alignment: u64,
    },
}

impl Pools {
    pub(crate) fn heap(&self, index: u32) -> HeapView {
        let heap = self.budget.lock().heap(index);
        HeapView {
            size: heap.size,
            usage: heap.usage(),
            budget: heap.budget(),
            own_bytes: heap.own_bytes,
        }
    }

    /// The peak of the bytes of memory objects.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.budget.lock().peak_bytes
    }

    /// The numbers of a pool, by index below [`POOLS`](crate::id::BlockRef::POOLS); `None` if there is no such pool.
    pub(crate) fn totals(&self, index: u16) -> Option<PoolTotals> {
        let state = self.pool(index)?.lock();
        let PoolConfig {
            memory_type,
            heap,
            generation,
            ..
        } = state.config;
        state.is_open.then(|| PoolTotals {
            pool: index,
            custom: state.config.is_custom().then_some(generation),
            memory_type,
            heap,
            preferred_block: state.growth.preferred(),
            objects: state.objects,
            object_bytes: state.bytes,
            dedicated: state.dedicated.filled(),
            regions: state.regions,
            region_bytes: state.used_bytes,
            empty_bytes: state.blocks.empty_bytes,
            largest_free_bound: state.blocks.largest_free_bound(),
            moving: state.moving,
            moving_bytes: state.moving_bytes,
        })
    }

    /// Visits every memory object and its pieces, pool by pool, each pool as it is at one moment. `visit` runs under the pool's lock: it must
    /// not allocate or call back.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(WalkItem)) {
        for pool in self.all() {
            let state = pool.lock();
            state.walk_blocks(visit);
            state.walk_dedicated(visit);
        }
    }
}

impl PoolState {
    fn walk_blocks(&self, visit: &mut dyn FnMut(WalkItem)) {
        for (block, live) in self.blocks.slots.each() {
            visit(self.object_item(block, false, &live.object));
            let mut end = 0u64;
            self.blocks.for_each(live, &mut |span| {
                end = span.offset.saturating_add(span.size);
                self.walk_span(block, span, visit);
            });
            if end < live.object.size {
                visit(WalkItem::Tail {
                    offset: end,
                    size: live.object.size - end,
                });
            }
        }
    }

    fn walk_span(&self, block: u32, span: Span, visit: &mut dyn FnMut(WalkItem)) {
        let Span {
            offset,
            size,
            state,
        } = span;
        let SpanState::Used {
            id,
            asked,
            alignment,
            user_data,
        } = state
        else {
            visit(WalkItem::Free {
                offset,
                size,
                within: PlaceKind::General,
            });
            return;
        };
        match user_data {
            MOVE_TARGET => visit(WalkItem::MoveTarget { offset, size }),
            LINEAR_RANGE => self.walk_linear(offset, size, visit),
            slot => visit(WalkItem::Region {
                at: RegionPlace {
                    block: BlockRef::new(PlaceKind::General, self.config.index, block),
                    node: id.node,
                    slot,
                },
                offset,
                size,
                asked,
                alignment,
            }),
        }
    }

    /// The pieces of the range of a linear pool.
    fn walk_linear(&self, offset: u64, size: u64, visit: &mut dyn FnMut(WalkItem)) {
        let mut end = offset;
        let free = |from: u64, to: u64| {
            (to > from).then(|| WalkItem::Free {
                offset: from,
                size: to - from,
                within: PlaceKind::Linear,
            })
        };
        self.linear.walk(&self.config, &mut |at, offset, size| {
            free(end, offset).into_iter().for_each(&mut *visit);
            end = offset.saturating_add(size);
            visit(WalkItem::Region {
                at,
                offset,
                size,
                asked: size,
                alignment: 0,
            });
        });
        free(end, offset.saturating_add(size))
            .into_iter()
            .for_each(visit);
    }

    fn walk_dedicated(&self, visit: &mut dyn FnMut(WalkItem)) {
        for (place, region) in self.dedicated.each() {
            let size = region.object.size;
            visit(self.object_item(place, true, &region.object));
            visit(if region.is_freed {
                WalkItem::Free {
                    offset: 0,
                    size,
                    within: PlaceKind::Dedicated,
                }
            } else {
                WalkItem::Region {
                    at: RegionPlace {
                        block: BlockRef::new(PlaceKind::Dedicated, self.config.index, place),
                        node: 0,
                        slot: region.slot,
                    },
                    offset: 0,
                    size,
                    asked: size,
                    alignment: 0,
                }
            });
        }
    }

    fn object_item(&self, block: u32, dedicated: bool, object: &Object) -> WalkItem {
        let config = &self.config;
        WalkItem::Object {
            pool: config.index,
            custom: config.is_custom().then_some(config.generation),
            block,
            dedicated,
            kind: config.kind,
            memory_type: config.memory_type,
            heap: config.heap,
            memory: object.memory,
            size: object.size,
            maps: object.map.count(),
        }
    }
}
