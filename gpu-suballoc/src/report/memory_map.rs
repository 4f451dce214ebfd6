//! The memory map: blocks, ranges, crops and names.

#![forbid(unsafe_code)]

use alloc_core::{HostAllocator, HostError, Scope, Scoped, TryVec};

use super::view::{BlockView, CropView, RangeView};
use crate::id::RegionId;

/// All device memory of an allocator at one moment, copied by [`GpuAllocator::memory_map`](crate::GpuAllocator::memory_map).
///
/// Each block is copied within one lock of its pool, so its ranges are consistent; pools are copied one after the other. Reading the map
/// locks nothing.
pub struct MemoryMap<'a> {
    pub(super) blocks: List<'a, BlockView>,
    pub(super) ranges: List<'a, RangeView>,
    pub(super) crops: List<'a, CropView>,
    pub(super) names: List<'a, u8>,
}

/// In the allocator's host memory.
type List<'a, T> = TryVec<T, Scoped<&'a dyn HostAllocator>>;

impl<'a> MemoryMap<'a> {
    pub(crate) fn new_in(host: &'a dyn HostAllocator) -> Self {
        let memory = Scoped::new(host, Scope::Object);
        Self {
            blocks: TryVec::new_in(memory),
            ranges: TryVec::new_in(memory),
            crops: TryVec::new_in(memory),
            names: TryVec::new_in(memory),
        }
    }
}

impl MemoryMap<'_> {
    /// The blocks, pool by pool; wrapped buffers last.
    #[must_use]
    pub fn blocks(&self) -> &[BlockView] {
        self.blocks.as_slice()
    }

    fn ranges(&self, block: &BlockView) -> &[RangeView] {
        let (first, count) = (block.ranges.0 as usize, block.ranges.1 as usize);
        self.ranges
            .as_slice()
            .get(first..first.saturating_add(count))
            .unwrap_or_default()
    }

    /// Each block with its ranges, in order of offset: they tile it.
    pub fn blocks_with_ranges(&self) -> impl Iterator<Item = (&BlockView, &[RangeView])> {
        self.blocks()
            .iter()
            .map(|block| (block, self.ranges(block)))
    }

    /// All crops.
    #[must_use]
    pub fn crops(&self) -> &[CropView] {
        self.crops.as_slice()
    }

    /// The crops of one region.
    pub fn crops_of(&self, root: RegionId) -> impl Iterator<Item = &CropView> {
        self.crops().iter().filter(move |crop| crop.root == root)
    }

    /// The name of a region, if it has one.
    #[must_use]
    pub fn name(&self, range: &RangeView) -> Option<&str> {
        self.text(range.name)
    }

    /// The name of a crop, if it has one.
    #[must_use]
    pub fn crop_name(&self, crop: &CropView) -> Option<&str> {
        self.text(crop.name)
    }

    fn text(&self, (first, count): (u32, u32)) -> Option<&str> {
        let (first, count) = (first as usize, count as usize);
        let bytes = self
            .names
            .as_slice()
            .get(first..first.saturating_add(count))?;
        core::str::from_utf8(bytes)
            .ok()
            .filter(|name| !name.is_empty())
    }

    /// Reserves capacity, so that putting allocates nothing.
    pub(crate) fn reserve(&mut self, room: MemoryMapCapacity) -> Result<(), HostError> {
        self.blocks.try_reserve_exact(room.blocks)?;
        self.ranges.try_reserve_exact(room.ranges)?;
        self.crops.try_reserve_exact(room.crops)?;
        self.names.try_reserve_exact(room.names)
    }

    /// Empties it and keeps the capacity.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.ranges.clear();
        self.crops.clear();
        self.names.clear();
    }

    /// Appends a block, whose ranges follow. False if there is no capacity.
    pub(crate) fn put_block(&mut self, mut block: BlockView) -> bool {
        block.ranges = (self.ranges.as_slice().len() as u32, 0);
        fits(&self.blocks) && self.blocks.try_push(block).is_ok()
    }

    /// Appends a range of the last block. False if there is no capacity.
    pub(crate) fn put_range(&mut self, range: RangeView) -> bool {
        let put = fits(&self.ranges) && self.ranges.try_push(range).is_ok();
        if let Some(block) = self.blocks.as_mut_slice().last_mut() {
            block.ranges.1 = block.ranges.1.saturating_add(u32::from(put));
        }
        put
    }

    /// Appends a crop. False if there is no capacity.
    pub(crate) fn put_crop(&mut self, mut crop: CropView, name: &str) -> bool {
        if !fits(&self.crops) {
            return false;
        }
        let Some(place) = self.put_name(name) else {
            return false;
        };
        crop.name = place;
        self.crops.try_push(crop).is_ok()
    }

    /// Appends the bytes of a name. `None` if there is no capacity.
    pub(crate) fn put_name(&mut self, name: &str) -> Option<(u32, u32)> {
        let first = self.names.as_slice().len();
        let end = first.checked_add(name.len())?;
        if end > self.names.capacity() {
            return None;
        }
        // There is capacity.
        self.names.try_extend_from_slice(name.as_bytes()).ok()?;
        Some((u32::try_from(first).ok()?, u32::try_from(name.len()).ok()?))
    }
}

/// The capacity of a memory map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryMapCapacity {
    pub(crate) blocks: usize,
    pub(crate) ranges: usize,
    pub(crate) crops: usize,
    pub(crate) names: usize,
}

impl MemoryMapCapacity {
    /// With capacity for `more` of each.
    pub(crate) const fn with_more(self, more: usize) -> Self {
        Self {
            blocks: self.blocks.saturating_add(more),
            ranges: self.ranges.saturating_add(more),
            crops: self.crops.saturating_add(more),
            names: self.names.saturating_add(more.saturating_mul(64)),
        }
    }
}

/// Whether a push allocates nothing: maps are filled under a lock.
fn fits<T>(vec: &List<'_, T>) -> bool {
    vec.as_slice().len() < vec.capacity()
}
