//! Buffers that outlive their owners: kept with their memory for the next request that fits exactly.

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering;

use alloc_core::HostAllocator;

use super::region::{Content, Ownership, Region};
use super::{GpuAllocator, where_of};
use crate::device::{BufferInfo, DeviceMemory};
use crate::error::{Misuse, Refused};
use crate::id::{PlaceKind, RegionId};
use crate::records::{GoneRoot, Key};
use crate::request::RegionOptions;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Gives a region back as [`free`](GpuAllocator::free) does, but keeps its buffer and memory for the next
    /// [`create_buffer`](GpuAllocator::create_buffer) of the same size, usage and options, if [reuse](GpuAllocator::set_reuse) is on.
    ///
    /// What is kept has a budget (`keep_buffers`, `keep_bytes` of the options; the longest unwanted goes first), and goes when memory
    /// is short, at [`trim`](GpuAllocator::trim) and when reuse is switched off. The region's id means nothing from now on.
    /// Regions without a buffer of their own, small ones in slabs and pages, and those shared with other devices are freed.
    ///
    /// # Errors
    /// The region, with [`Misuse::IsWrapped`] for a wrapped buffer; otherwise as [`free`](GpuAllocator::free).
    pub fn release(&self, region: Region) -> Result<(), Refused<Region>> {
        if region.ownership() == Ownership::Wrapped {
            return Err(Refused::new(region, Misuse::IsWrapped));
        }
        let keeps = self.reuse.load(Ordering::Relaxed) && self.keep_buffers > 0 && region.size <= self.keep_bytes;
        let can_stay = matches!(region.id.place().kind, PlaceKind::General | PlaceKind::Dedicated);
        if !keeps || !can_stay || region.content != Content::Buffer || region.ownership() != Ownership::Owned {
            return self.free(region);
        }
        if region.id.tag() != self.tag {
            return Err(Refused::new(region, Misuse::OtherAllocator));
        }
        match self.records.part(region.record, Key::of(region.id), false) {
            Ok(Some(gone)) => self.keep(gone, region),
            Ok(None) => {}
            Err(rule) => return Err(Refused::new(region, rule)),
        }
        Ok(())
    }

    fn keep(&self, gone: GoneRoot, region: Region) {
        if !self.records.can_be_kept(&gone) {
            self.finish(gone);
            return;
        }
        // The place gets another generation at once, so that the old id is refused from here on.
        let at = where_of(region.id);
        let Ok(generation) = self.pools.renew(at) else {
            self.finish(gone);
            return;
        };
        let id = RegionId::new(self.tag, at.place, at.slot, generation);
        let region = Region { id, ..region };
        while self.drop_one(self.keep_buffers.saturating_sub(1), self.keep_bytes.saturating_sub(region.size)) {}
        if let Err((gone, _)) = self.records.park(self.host(), gone, Key::of(id), region) {
            self.finish(gone);
        }
        // Switched off meanwhile: whoever did has looked already.
        if !self.reuse.load(Ordering::Relaxed) {
            self.drop_kept(0, 0);
        }
    }

    /// Makes sure of a buffer that is at least as `info` says: `region` itself if it is as large, a new one otherwise. The content of a
    /// new one is undefined.
    ///
    /// # Errors
    /// The region as it was, with [`Misuse::IsCrop`], [`Misuse::NoBuffer`], [`Misuse::IsWrapped`] for a wrapped buffer that is too small,
    /// [`Misuse::HasCrops`] or [`Misuse::Mapped`] where others would lose what they use; or what a new buffer was refused with.
    pub fn ensure_buffer(
        &self,
        region: Region,
        info: &BufferInfo,
        options: &RegionOptions<'_>,
    ) -> Result<Region, Refused<Region>> {
        let rule = match (region.ownership(), region.content) {
            (Ownership::CropAlias, _) => Some(Misuse::IsCrop),
            (_, Content::Bare | Content::Image) => Some(Misuse::NoBuffer),
            _ => self.look(region.id).err(),
        };
        if let Some(rule) = rule {
            return Err(Refused::new(region, rule));
        }
        if region.size >= info.size {
            return Ok(region);
        }
        if region.ownership() == Ownership::Wrapped {
            return Err(Refused::new(region, Misuse::IsWrapped));
        }
        // Whoever uses the old one refuses before a new one is made.
        match self.records.facts(region.record, Key::of(region.id)) {
            Some(facts) if facts.crops > 0 => return Err(Refused::new(region, Misuse::HasCrops)),
            Some(facts) if facts.maps > 0 => return Err(Refused::new(region, Misuse::Mapped)),
            _ => {}
        }
        let larger = match self.create_buffer(info, options) {
            Ok(larger) => larger,
            Err(error) => return Err(Refused::new(region, error)),
        };
        match self.release(region) {
            Ok(()) => Ok(larger),
            Err(refused) => {
                // Somebody began to use the old one meanwhile: then that is the one there is.
                let _ = self.end(larger.id, larger.record, false);
                Err(refused)
            }
        }
    }

    /// Switches keeping on or off; off gives back what is kept. Answers how it was.
    pub fn set_reuse(&self, on: bool) -> bool {
        let was = self.reuse.swap(on, Ordering::Relaxed);
        if !on {
            self.drop_kept(0, 0);
        }
        was
    }

    /// Gives kept buffers back until so many, and so many bytes, are left. How many it gave.
    pub(crate) fn drop_kept(&self, count: u32, bytes: u64) -> u32 {
        let mut dropped = 0u32;
        while self.drop_one(count, bytes) {
            dropped = dropped.saturating_add(1);
        }
        dropped
    }

    pub(crate) fn drop_one(&self, count: u32, bytes: u64) -> bool {
        match self.records.unpark_oldest(count, bytes) {
            Some((gone, _)) => {
                self.finish(gone);
                true
            }
            None => false,
        }
    }
}
