use crate::flags::debug_fields;
use crate::id::RegionId;
use crate::region::RangePlacement;
use crate::view::{BlockView, RangeUse, RangeView, RegionResource};
use alloc_core::{HostAllocator, HostError, Scope, Scoped, TryVec};
use core::fmt;

/// All device memory of an allocator at one moment, copied by
/// [`GpuAllocator::memory_map`](crate::GpuAllocator::memory_map).
///
/// Each block is copied within one lock of its pool, so its ranges are consistent; pools are copied one after the
/// other.
pub struct MemoryMap<'a> {
    pub(super) blocks: MapList<'a, BlockView>,
    pub(super) ranges: MapList<'a, RangeView>,
    pub(super) crops: MapList<'a, RangeView>,
    pub(super) names: TryVec<u8, Memory<'a>>,
}

type Memory<'a> = Scoped<&'a dyn HostAllocator>;

/// It is filled under a lock: what has no room is counted.
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

    fn grow(&mut self, more: usize) -> Result<(), HostError> {
        let room = self.items.len().saturating_add(self.missing);
        self.missing = 0;
        self.items.clear();
        self.items.try_reserve_exact(room.saturating_add(more))
    }
}

debug_fields!(
    [] MemoryMap<'_>, "MemoryMap",
    |this| blocks = this.blocks.items.len(),
        ranges = this.ranges.items.len(),
        crops = this.crops.items.len()
);

impl<'a> MemoryMap<'a> {
    pub(super) fn new_in(host: &'a dyn HostAllocator) -> Self {
        let memory = Scoped::new(host, Scope::Object);
        Self {
            blocks: MapList { items: TryVec::new_in(memory), missing: 0 },
            ranges: MapList { items: TryVec::new_in(memory), missing: 0 },
            crops: MapList { items: TryVec::new_in(memory), missing: 0 },
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

    /// The name of a region or crop, if it has one.
    #[must_use]
    pub fn name(&self, range: &RangeView) -> Option<&str> {
        let (first, count) = (range.name.0 as usize, range.name.1 as usize);
        let bytes = self.names.get(first..first.saturating_add(count))?;
        core::str::from_utf8(bytes).ok().filter(|name| !name.is_empty())
    }

    pub(super) fn is_whole(&self) -> bool {
        self.blocks.missing + self.ranges.missing + self.crops.missing == 0
    }

    pub(super) fn grow(&mut self, more: usize) -> Result<(), HostError> {
        self.blocks.grow(more)?;
        self.ranges.grow(more)?;
        self.crops.grow(more)
    }

    pub(super) fn put_block(&mut self, block: BlockView) {
        let ranges = (self.ranges.items.len() as u32, 0);
        self.blocks.put(BlockView { ranges, ..block });
    }

    pub(super) fn put_range(&mut self, range: RangeView) {
        self.ranges.put(range);
        if let Some(block) = self.blocks.items.last_mut() {
            block.ranges.1 += 1;
        }
    }
}

/// A live region, wrapped buffer or crop. As text a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionLeak<'m> {
    /// Its id.
    pub id: RegionId,
    /// Its name.
    pub name: Option<&'m str>,
    /// Its `VkDeviceMemory`; 0 for wrapped buffers and crops.
    pub memory: u64,
    /// Its place in the map.
    pub range: &'m RangeView,
}

impl MemoryMap<'_> {
    /// All live regions: owned ones, wrapped ones, crops.
    #[doc(alias("report_memory_leaks"))]
    pub fn leaks(&self) -> impl Iterator<Item = RegionLeak<'_>> {
        let regions =
            self.blocks_with_ranges().flat_map(|(block, ranges)| ranges.iter().map(move |range| (block.memory, range)));
        let crops = self.crops().iter().map(|crop| (0, crop));
        regions.chain(crops).filter(|(_, range)| range.range_use == RangeUse::Region).filter_map(|(memory, range)| {
            let name = self.name(range);
            Some(RegionLeak { id: range.id?, name, memory, range })
        })
    }
}

impl RegionLeak<'_> {
    /// Requested bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.range.size.saturating_sub(self.range.padding)
    }
}

impl fmt::Display for RegionLeak<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeView { offset, resource, root, placement, tag, site, .. } = *self.range;
        let what = match (root, resource) {
            (Some(_), _) => "crop",
            (_, RegionResource::Unknown) => "region",
            (_, RegionResource::Buffer) if placement == RangePlacement::Wrapped => "wrapped buffer",
            (_, RegionResource::Buffer) => "buffer",
            (_, RegionResource::ImageLinear | RegionResource::ImageOptimal) => "image",
        };
        write!(f, "{what} {} of {} bytes at offset {offset:#x}", self.id, self.size())?;
        if let Some(root) = root {
            write!(f, " of {root}")?;
        }
        if self.memory != 0 {
            write!(f, " of memory {:#x}", self.memory)?;
        }
        if let Some(name) = self.name {
            write!(f, ", {name:?}")?;
        }
        if tag != 0 {
            write!(f, ", tag {tag:#x}")?;
        }
        if site != 0 {
            write!(f, ", allocated at site {site}")?;
        }
        Ok(())
    }
}
