use super::Pools;
use super::blocks::{LiveBlock, Object};
use super::request::MOVE_TARGET;
use super::state::PoolState;
use crate::device::HeapBudget;
use crate::id::{BlockRef, RangePlacement, RegionPlace};
use crate::range::Span;
use crate::view::{BlockContent, BlockView, MemoryTotals, RangeUse, RangeView};

pub(crate) struct PoolTotals {
    pub(crate) generation: u32,
    pub(crate) memory_type: u32,
    pub(crate) heap: u32,
    pub(crate) preferred_block: u64,
    /// Objects in creation and being freed are included.
    pub(crate) totals: MemoryTotals,
}

pub(crate) enum WalkItem {
    /// A memory object; its ranges follow, in order, and tile it.
    Block(BlockView),
    Range(RangeView),
}

impl Pools {
    pub(crate) fn heap_budget(&self, index: u32) -> HeapBudget {
        let heap = self.budget.lock().heap(index);
        HeapBudget { usage: heap.usage(), budget: heap.budget() }
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.budget.lock().peak_bytes
    }

    pub(crate) fn totals(&self, index: u16) -> Option<PoolTotals> {
        let state = self.pool(index)?.lock();
        state.is_open.then(|| PoolTotals {
            generation: state.config.generation,
            memory_type: state.config.options.memory_type,
            heap: state.config.heap,
            preferred_block: state.growth.next,
            totals: MemoryTotals {
                blocks: state.objects.into(),
                block_bytes: state.bytes,
                empty_bytes: state.blocks.empty_bytes,
                largest_free_bound: state.largest_free_bound(),
                dedicated: state.dedicated.filled().into(),
                regions: state.regions,
                region_bytes: state.used_bytes,
                moving: state.moving,
                moving_bytes: state.moving_bytes,
                ..MemoryTotals::default()
            },
        })
    }

    /// Each pool is as it is at one moment. `visit` runs under the pool's lock: it must not allocate or call back.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(WalkItem)) {
        for pool in self.all() {
            let state = pool.lock();
            state.walk_blocks(visit);
            state.walk_dedicated(visit);
        }
    }
}

impl PoolState {
    fn largest_free_bound(&self) -> u64 {
        if self.config.place_kind() == RangePlacement::Linear && self.regions > 0 {
            0
        } else {
            self.blocks.largest_free_bound()
        }
    }

    fn walk_blocks(&self, visit: &mut dyn FnMut(WalkItem)) {
        for (block, live) in self.blocks.slots.each() {
            visit(self.block_view(block, false, &live.object));
            let mut end = 0u64;
            live.core.for_each(&self.blocks.store, &mut |span| {
                end = span.offset.saturating_add(span.size);
                self.walk_span(block, live, span, visit);
            });
            // Behind the last whole granule nothing is ever allocated.
            if end < live.object.size {
                let rest = (end, live.object.size - end);
                visit(unowned(rest, RangeUse::Spent, RangePlacement::General));
            }
        }
    }

    fn walk_span(&self, block: u32, live: &LiveBlock, span: Span, visit: &mut dyn FnMut(WalkItem)) {
        let at = (span.offset, span.size);
        let kind = self.config.place_kind();
        match span.used {
            // Requests cannot choose a hole of a stack or a ring.
            None if kind == RangePlacement::Linear && !live.core.is_empty() => {
                visit(unowned(at, RangeUse::Spent, kind));
            }
            None => visit(unowned(at, RangeUse::Free, RangePlacement::General)),
            Some(used) if used.user_data == MOVE_TARGET => {
                visit(unowned(at, RangeUse::Spent, kind));
            }
            Some(used) => {
                let block = BlockRef::new(kind, self.config.index, block);
                let mut range = region((block, used.id.node, used.user_data), at);
                range.padding = span.size.saturating_sub(used.asked);
                range.alignment = used.alignment;
                visit(WalkItem::Range(range));
            }
        }
    }

    fn walk_dedicated(&self, visit: &mut dyn FnMut(WalkItem)) {
        for (place, dedicated) in self.dedicated.each() {
            visit(self.block_view(place, true, &dedicated.object));
            let block = BlockRef::new(RangePlacement::Dedicated, self.config.index, place);
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
            memory_type: Some(config.options.memory_type),
            content: if is_dedicated { BlockContent::Dedicated } else { BlockContent::Shared },
            size: object.size,
            maps: object.map.count(),
            ranges: (0, 0),
        })
    }
}

fn unowned((offset, size): (u64, u64), range_use: RangeUse, kind: RangePlacement) -> WalkItem {
    WalkItem::Range(RangeView::unowned(offset, size, range_use, kind))
}

fn region((block, node, slot): (BlockRef, u32, u32), (offset, size): (u64, u64)) -> RangeView {
    RangeView {
        at: Some(RegionPlace { block, node, slot }),
        ..RangeView::unowned(offset, size, RangeUse::Region, block.kind())
    }
}
