//! Parts of regions: any offset, any depth, and never the memory of somebody else.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::region::{Content, Region};
use super::{GpuAllocator, where_of};
use crate::device::DeviceMemory;
use crate::error::{GpuError, Misuse};
use crate::id::{PlaceKind, RegionId};
use crate::records::{CROP, Key, NIL, Seen};

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// A part of a region: `size` bytes from `offset`, both whole elements of `element_bytes`. A crop of a crop is a crop of the same
    /// root, with the offsets added up. It is freed like any region; what it was cut from lives at least as long.
    ///
    /// # Errors
    /// [`Misuse::ZeroSize`], [`Misuse::ZeroElement`], [`Misuse::Misaligned`], [`Misuse::Outside`]; [`Misuse::NoBuffer`] for an image, whose
    /// bytes have no order; [`Misuse::OtherAllocator`], [`Misuse::Stale`]; what the host allocator refuses. The region is as it was then.
    pub fn crop(&self, of: &Region, offset: u64, size: u64, element_bytes: u64) -> Result<Region, GpuError> {
        if of.id.tag() != self.tag {
            return Err(Misuse::OtherAllocator.into());
        }
        check(of, offset, size, element_bytes)?;
        let (root, key, base) = self.root_of(of)?;
        let through_crop = of.id.place().kind == PlaceKind::Crop;
        let number = self.records.slot(self.host())?;
        let generation = match self.records.put_crop(number, root, key, through_crop, base + offset, size) {
            Ok(generation) => generation,
            Err(error) => {
                self.records.hand_back(number);
                return Err(error);
            }
        };
        Ok(Region {
            id: RegionId::new(self.tag, CROP, number, generation),
            memory: of.memory,
            offset: if of.memory.is_some() { of.offset + offset } else { 0 },
            size,
            resource: of.resource,
            buffer_offset: of.buffer_offset + offset,
            mapped: of.mapped,
            record: number,
            memory_type: of.memory_type,
            content: of.content,
        })
    }

    /// As [`crop`](GpuAllocator::crop), for callers whose offsets are signed (`HalideBuffer`, C).
    ///
    /// # Errors
    /// [`Misuse::Negative`]; otherwise as [`crop`](GpuAllocator::crop).
    pub fn crop_signed(&self, of: &Region, offset: i64, size: i64, element_bytes: u64) -> Result<Region, GpuError> {
        match (u64::try_from(offset), u64::try_from(size)) {
            (Ok(offset), Ok(size)) => self.crop(of, offset, size, element_bytes),
            _ => Err(Misuse::Negative.into()),
        }
    }

    /// As [`crop`](GpuAllocator::crop), of the region that an id names.
    ///
    /// # Errors
    /// [`Misuse::OtherShard`] for a region of a shard, whose books only its thread reads; otherwise as [`crop`](GpuAllocator::crop).
    pub fn crop_id(&self, of: RegionId, offset: u64, size: u64, element_bytes: u64) -> Result<Region, GpuError> {
        self.crop(&self.look(of)?, offset, size, element_bytes)
    }

    /// The record of the root, the root's key, and how far from its start the region begins.
    fn root_of(&self, of: &Region) -> Result<(u32, Key, u64), GpuError> {
        let key = Key::of(of.id);
        Ok(match key.kind() {
            PlaceKind::Wrapped => (key.slot, key, 0),
            PlaceKind::Crop => self.root_of_crop(of.id)?,
            _ => (self.attach(of)?, key, 0),
        })
    }

    pub(super) fn root_of_crop(&self, crop: RegionId) -> Result<(u32, Key, u64), Misuse> {
        match self.records.see(crop.slot(), Key::of(crop))? {
            Seen::Crop { root, offset, .. } => Ok((root, self.records.see_root(root)?.0, offset)),
            Seen::Root { .. } | Seen::Wrapped(_) => Err(Misuse::Stale),
        }
    }

    /// The record of a region of the allocator's own; makes one where there is none yet. It stays until the region goes.
    pub(super) fn attach(&self, region: &Region) -> Result<u32, GpuError> {
        if region.record != NIL {
            return Ok(region.record);
        }
        let key = Key::of(region.id);
        if key.kind() == PlaceKind::Shard {
            if let Some(number) = self.records.indexed(key) {
                return Ok(number);
            }
            let number = self.records.slot(self.host())?;
            return self.records.put_indexed(self.host(), number, key);
        }
        let at = where_of(region.id);
        let word = self.pools.find(at)?.word;
        if word != NIL {
            return Ok(word);
        }
        let number = self.records.slot(self.host())?;
        self.records.put_bare(number, key);
        match self.pools.set_word(at, NIL, number) {
            Ok(NIL) => Ok(number),
            // Somebody was faster: then that one counts.
            Ok(first) => {
                self.records.take_bare(number);
                Ok(first)
            }
            Err(rule) => {
                self.records.take_bare(number);
                Err(rule.into())
            }
        }
    }
}

fn check(of: &Region, offset: u64, size: u64, element: u64) -> Result<(), Misuse> {
    if of.content == Content::Image {
        return Err(Misuse::NoBuffer);
    }
    if element == 0 {
        return Err(Misuse::ZeroElement);
    }
    if size == 0 {
        return Err(Misuse::ZeroSize);
    }
    if !offset.is_multiple_of(element) || !size.is_multiple_of(element) {
        return Err(Misuse::Misaligned);
    }
    match offset.checked_add(size) {
        Some(end) if end <= of.size => Ok(()),
        _ => Err(Misuse::Outside),
    }
}
