//! The memory map: blocks, ranges, crops and names.

use crate::id::RegionId;
use crate::view::{BlockView, RangeView};
use alloc_core::{HostAllocator, HostError, Scope, Scoped, TryVec};

/// All device memory of an allocator at one moment, copied by [`GpuAllocator::memory_map`](crate::GpuAllocator::memory_map).
///
/// Each block is copied within one lock of its pool, so its ranges are consistent; pools are copied one after the other. Reading the map
/// locks nothing.
pub struct MemoryMap<'a> {
    pub(super) blocks: MapList<'a, BlockView>,
    pub(super) ranges: MapList<'a, RangeView>,
    pub(super) crops: MapList<'a, RangeView>,
    pub(super) names: TryVec<u8, Memory<'a>>,
}

/// The allocator's host memory.
type Memory<'a> = Scoped<&'a dyn HostAllocator>;

/// A list that is filled under a lock, so that it must not allocate: what has no room is counted.
pub(super) struct MapList<'a, T> {
    pub(super) items: TryVec<T, Memory<'a>>,
    missing: usize,
}

impl<T> MapList<'_, T> {
    pub(super) fn put(&mut self, item: T) {
        let has_room = self.items.len() < self.items.capacity();
        if !(has_room && self.items.try_push(item).is_ok()) {
            self.missing += 1;
        }
    }

    /// Empties it, with room for what it held, what was missing, and `more`.
    fn grow(&mut self, more: usize) -> Result<(), HostError> {
        let room = self.items.len().saturating_add(self.missing);
        self.missing = 0;
        self.items.clear();
        self.items.try_reserve_exact(room.saturating_add(more))
    }
}

impl<'a> MemoryMap<'a> {
    pub(super) fn new_in(host: &'a dyn HostAllocator) -> Self {
        let memory = Scoped::new(host, Scope::Object);
        Self {
            blocks: MapList {
                items: TryVec::new_in(memory),
                missing: 0,
            },
            ranges: MapList {
                items: TryVec::new_in(memory),
                missing: 0,
            },
            crops: MapList {
                items: TryVec::new_in(memory),
                missing: 0,
            },
            names: TryVec::new_in(memory),
        }
    }
}

impl MemoryMap<'_> {
    /// The blocks, pool by pool; wrapped buffers last.
    #[must_use]
    pub fn blocks(&self) -> &[BlockView] {
        &self.blocks.items
    }

    /// Each block with its ranges, in order of offset: they tile it.
    pub fn blocks_with_ranges(&self) -> impl Iterator<Item = (&BlockView, &[RangeView])> {
        self.blocks().iter().map(|block| {
            let (first, count) = (block.ranges.0 as usize, block.ranges.1 as usize);
            let ranges = self.ranges.items.get(first..first.saturating_add(count));
            (block, ranges.unwrap_or_default())
        })
    }

    /// All crops.
    #[must_use]
    pub fn crops(&self) -> &[RangeView] {
        &self.crops.items
    }

    /// The crops of one region.
    pub fn crops_of(&self, root: RegionId) -> impl Iterator<Item = &RangeView> {
        self.crops()
            .iter()
            .filter(move |crop| crop.root == Some(root))
    }

    /// The name of a region or crop, if it has one.
    #[must_use]
    pub fn name(&self, range: &RangeView) -> Option<&str> {
        let (first, count) = (range.name.0 as usize, range.name.1 as usize);
        let bytes = self.names.get(first..first.saturating_add(count))?;
        core::str::from_utf8(bytes)
            .ok()
            .filter(|name| !name.is_empty())
    }

    /// Whether everything that was put had room.
    pub(super) fn is_whole(&self) -> bool {
        self.blocks.missing + self.ranges.missing + self.crops.missing == 0
    }

    /// Empties it, with room for all that was put, and `more` of each kind.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), HostError> {
        self.blocks.grow(more)?;
        self.ranges.grow(more)?;
        self.crops.grow(more)
    }

    /// Appends a block, whose ranges follow.
    pub(super) fn put_block(&mut self, block: BlockView) {
        let ranges = (self.ranges.items.len() as u32, 0);
        self.blocks.put(BlockView { ranges, ..block });
    }

    /// Appends a range of the last block.
    pub(super) fn put_range(&mut self, range: RangeView) {
        self.ranges.put(range);
        if let Some(block) = self.blocks.items.last_mut() {
            block.ranges.1 += 1;
        }
    }
}
