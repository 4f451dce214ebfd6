//! Parts of regions: any offset, any depth, and never the memory of somebody else.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::region::{Content, Region};
use super::{GpuAllocator, where_of};
use crate::device::DeviceMemory;
use crate::error::{GpuError, Misuse};
use crate::id::{PlaceKind, RegionId};
use crate::records::{CROP, Key, NIL, NewShare, SeenCrop};

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
        let place = of.id.place().kind;
        let (known, key, base) = match place {
            PlaceKind::Wrapped => (of.id.slot(), Key::of(of.id), 0),
            PlaceKind::Crop => {
                let SeenCrop { number, root_key, offset, .. } = self.see_crop(of.id)?;
                (number, root_key, offset)
            }
            _ => (self.record_of(of)?, Key::of(of.id), 0),
        };
        let mut new = self.records.prepare_share(self.host(), true, known == NIL, place == PlaceKind::Shard)?;
        let number = new.crop;
        let made = self
            .attach(of, known, &mut new)
            .and_then(|root| self.records.put_crop(number, root, key, place == PlaceKind::Crop, base + offset, size));
        let generation = match made {
            Ok(generation) => generation,
            Err(error) => {
                self.records.drop_share_of(self.host(), &new);
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

    pub(super) fn see_crop(&self, crop: RegionId) -> Result<SeenCrop, Misuse> {
        self.records.see_crop(crop.slot(), Key::of(crop))
    }

    /// The record of a region of the allocator's own; `NIL` where it has none yet.
    pub(super) fn record_of(&self, region: &Region) -> Result<u32, Misuse> {
        if region.record != NIL {
            return Ok(region.record);
        }
        let key = Key::of(region.id);
        if key.kind() == PlaceKind::Shard {
            return Ok(self.records.indexed(key).unwrap_or(NIL));
        }
        Ok(self.pools.find(where_of(region.id))?.word)
    }

    /// Gives a region the record that was prepared for it, where `known` says that it has none. It stays until the region goes.
    pub(super) fn attach(&self, region: &Region, known: u32, new: &mut NewShare) -> Result<u32, GpuError> {
        if known != NIL {
            return Ok(known);
        }
        let key = Key::of(region.id);
        // Its own thread alone knows its books, but anybody may see whether its seat is taken; with a record it is not freed past that.
        if key.kind() == PlaceKind::Shard && !self.shards.is_live(region.id) {
            return Err(Misuse::Stale.into());
        }
        let number = core::mem::replace(&mut new.root, NIL);
        if key.kind() == PlaceKind::Shard {
            return Ok(self.records.put_indexed(number, key));
        }
        self.records.put_bare(number, key);
        match self.pools.set_word(where_of(region.id), NIL, number) {
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

    /// The record of a region, made now where it has none.
    pub(super) fn attach_now(&self, region: &Region) -> Result<u32, GpuError> {
        let known = self.record_of(region)?;
        if known != NIL {
            return Ok(known);
        }
        let mut new = self.records.prepare_share(self.host(), false, true, region.id.place().kind == PlaceKind::Shard)?;
        let attached = self.attach(region, known, &mut new);
        if attached.is_err() {
            self.records.drop_share_of(self.host(), &new);
        }
        attached
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
