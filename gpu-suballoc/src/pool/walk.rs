//! What reports read of pools: numbers, and every range of memory.

use super::Pools;
use super::blocks::Object;
use super::request::{LINEAR_RANGE, MOVE_TARGET};
use super::state::PoolState;
use crate::device::HeapBudget;
use crate::id::{BlockRef, PlaceKind, RegionPlace};
use crate::range::{Span, SpanState};
use crate::view::{BlockContent, BlockView, MemoryTotals, RangeUse, RangeView};

/// A pool's numbers.
pub(crate) struct PoolTotals {
    /// The generation of a custom pool; 0 for others.
    pub(crate) generation: u32,
    pub(crate) memory_type: u32,
    pub(crate) heap: u32,
    pub(crate) preferred_block: u64,
    /// Objects in creation and being freed are included.
    pub(crate) totals: MemoryTotals,
}

/// A piece of a walk.
pub(crate) enum WalkItem {
    /// A memory object; its ranges follow, in order, and tile it.
    Block(BlockView),
    Range(RangeView),
}

impl Pools {
    /// A heap's budget, and the estimated use of the whole process, in bytes.
    pub(crate) fn heap_budget(&self, index: u32) -> HeapBudget {
        let heap = self.budget.lock().heap(index);
        HeapBudget {
            usage: heap.usage(),
            budget: heap.budget(),
        }
    }

    /// The peak of the bytes of memory objects.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.budget.lock().peak_bytes
    }

    /// The numbers of a pool, by index below [`POOLS`](crate::id::BlockRef::POOLS); `None` if there is no such pool.
    pub(crate) fn totals(&self, index: u16) -> Option<PoolTotals> {
        let state = self.pool(index)?.lock();
        state.is_open.then(|| PoolTotals {
            generation: state.config.generation,
            memory_type: state.config.memory_type,
            heap: state.config.heap,
            preferred_block: state.growth.preferred(),
            totals: MemoryTotals {
                blocks: state.objects.into(),
                block_bytes: state.bytes,
                empty_bytes: state.blocks.empty_bytes,
                largest_free_bound: state.blocks.largest_free_bound(),
                dedicated: state.dedicated.filled().into(),
                regions: state.regions,
                region_bytes: state.used_bytes,
                moving: state.moving,
                moving_bytes: state.moving_bytes,
                ..MemoryTotals::default()
            },
        })
    }

    /// Visits every memory object and its ranges, pool by pool, each pool as it is at one moment. `visit` runs under the pool's lock: it must
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
            visit(self.block_view(block, false, &live.object));
            let mut end = 0u64;
            self.blocks.for_each(live, &mut |span| {
                end = span.offset.saturating_add(span.size);
                self.walk_span(block, span, visit);
            });
            // Behind the last whole granule nothing is ever allocated.
            if end < live.object.size {
                visit(unowned((end, live.object.size - end), RangeUse::Spent));
            }
        }
    }

    fn walk_span(&self, block: u32, span: Span, visit: &mut dyn FnMut(WalkItem)) {
        let at = (span.offset, span.size);
        match span.state {
            SpanState::Free => visit(unowned(at, RangeUse::Free)),
            SpanState::Used {
                user_data: MOVE_TARGET,
                ..
            } => visit(unowned(at, RangeUse::Spent)),
            SpanState::Used {
                user_data: LINEAR_RANGE,
                ..
            } => self.walk_linear(at, visit),
            SpanState::Used {
                id,
                asked,
                alignment,
                user_data,
            } => {
                let block = BlockRef::new(PlaceKind::General, self.config.index, block);
                let mut range = region((block, id.node, user_data), at);
                range.padding = span.size.saturating_sub(asked);
                range.alignment = alignment;
                visit(WalkItem::Range(range));
            }
        }
    }

    /// The pieces of the range of a linear pool.
    fn walk_linear(&self, (offset, size): (u64, u64), visit: &mut dyn FnMut(WalkItem)) {
        let mut end = offset;
        let spent = |from: u64, to: u64, visit: &mut dyn FnMut(WalkItem)| {
            if to > from {
                let placement = PlaceKind::Linear.into();
                let range = RangeView::unowned(from, to - from, RangeUse::Spent, placement);
                visit(WalkItem::Range(range));
            }
        };
        self.linear.walk(&self.config, &mut |at, offset, size| {
            spent(end, offset, visit);
            end = offset.saturating_add(size);
            visit(WalkItem::Range(region(
                (at.block, at.node, at.slot),
                (offset, size),
            )));
        });
        spent(end, offset.saturating_add(size), visit);
    }

    fn walk_dedicated(&self, visit: &mut dyn FnMut(WalkItem)) {
        for (place, dedicated) in self.dedicated.each() {
            visit(self.block_view(place, true, &dedicated.object));
            let block = BlockRef::new(PlaceKind::Dedicated, self.config.index, place);
            let mut range = region((block, 0, dedicated.slot), (0, dedicated.object.size));
            if dedicated.is_freed {
                (range.range_use, range.at) = (RangeUse::Spent, None);
            }
            visit(WalkItem::Range(range));
        }
    }

    fn block_view(&self, block: u32, is_dedicated: bool, object: &Object) -> WalkItem {
        let config = &self.config;
        WalkItem::Block(BlockView {
            pool: config.index.into(),
            block,
            is_custom: config.is_custom(),
            memory: object.memory.as_raw(),
            memory_type: Some(config.memory_type),
            content: if is_dedicated {
                BlockContent::Dedicated
            } else {
                BlockContent::Shared
            },
            size: object.size,
            maps: object.map.count(),
            ranges: (0, 0),
        })
    }
}

/// A range of a block without a region.
fn unowned((offset, size): (u64, u64), range_use: RangeUse) -> WalkItem {
    let placement = PlaceKind::General.into();
    WalkItem::Range(RangeView::unowned(offset, size, range_use, placement))
}

/// A region, whose slot was not read yet.
fn region((block, node, slot): (BlockRef, u32, u32), (offset, size): (u64, u64)) -> RangeView {
    RangeView {
        at: Some(RegionPlace { block, node, slot }),
        ..RangeView::unowned(offset, size, RangeUse::Region, block.kind().into())
    }
}
