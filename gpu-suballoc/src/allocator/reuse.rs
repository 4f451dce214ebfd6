#![forbid(unsafe_code)]

use core::sync::atomic::Ordering;

use alloc_core::{HostAllocator, Rejected};

use super::GpuAllocator;
use crate::device::{BufferInfo, DeviceMemory};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RangePlacement, RegionId};
use crate::region::{Ownership, Region};
use crate::region_metadata::RemovedRoot;
use crate::request::RegionOptions;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// As [`free`](GpuAllocator::free), but keeps buffer and memory for the next
    /// [`create_buffer`](GpuAllocator::create_buffer) of the same size, usage and options, if
    /// [reuse](GpuAllocator::set_reuse) is on.
    ///
    /// Kept buffers have limits (`max_reusable_buffers`, `max_reusable_bytes`; the oldest is freed first). They are
    /// freed when memory is short, by [`trim`](GpuAllocator::trim), and when reuse is switched off. Regions without a
    /// buffer of their own and those shared with other devices are freed.
    ///
    /// # Errors
    /// The region, with [`GpuMisuse::IsWrapped`] for a wrapped buffer; otherwise as [`free`](GpuAllocator::free).
    pub fn release(&self, region: Region) -> Result<(), Rejected<Region, GpuError>> {
        if region.ownership() == Ownership::Wrapped {
            return Err(Rejected::new(region, GpuMisuse::IsWrapped));
        }
        let is_reusable = self.reuse.load(Ordering::Relaxed)
            && self.max_reusable_buffers > 0
            && region.size <= self.max_reusable_bytes
            && region.buffer().is_some()
            && region.ownership() == Ownership::Owned;
        if !is_reusable {
            return self.free(region);
        }
        match self.begin_removal(region.id, false) {
            Ok(rest) => {
                if let Some(gone) = rest.free(self.host()) {
                    self.cache_buffer(gone);
                }
                Ok(())
            }
            Err(rule) => Err(Rejected::new(region, rule)),
        }
    }

    /// As [`release`](GpuAllocator::release), by id, for tables and C.
    pub fn release_id(&self, id: RegionId) -> Result<(), GpuError> {
        let region = self.region_of(id)?;
        self.release(region).map_err(|refused| refused.error)
    }

    fn cache_buffer(&self, gone: RemovedRoot) {
        // A linear pool frees in order.
        if gone.place.kind() == RangePlacement::Linear || !self.records.is_reusable(&gone) {
            self.destroy_removed_root(gone);
            return;
        }
        self.evict_reusable(
            self.max_reusable_buffers.saturating_sub(1),
            self.max_reusable_bytes.saturating_sub(gone.view.asked),
        );
        if let Err(gone) = self.records.insert_reusable(self.host(), gone) {
            self.destroy_removed_root(gone);
        }
        // Another thread may have switched reuse off and evicted before the insertion.
        if !self.reuse.load(Ordering::Relaxed) {
            self.evict_reusable(0, 0);
        }
    }

    /// Returns a buffer of at least the size of `info`: `region` if it is large enough, else a new one with undefined
    /// content.
    ///
    /// # Errors
    /// The region, with [`GpuMisuse::Moved`] if it must be [refreshed](GpuAllocator::refresh), [`GpuMisuse::IsCrop`],
    /// [`GpuMisuse::NoBuffer`], [`GpuMisuse::IsWrapped`] for a wrapped buffer that is too small,
    /// [`GpuMisuse::HasCrops`] or [`GpuMisuse::Mapped`] for one in use; or the refusal of a new buffer.
    pub fn ensure_buffer(
        &self,
        region: Region,
        info: &BufferInfo,
        options: &RegionOptions<'_>,
    ) -> Result<Region, Rejected<Region, GpuError>> {
        let larger = match self.is_large_enough(&region, info) {
            Ok(true) => return Ok(region),
            Ok(false) => self.create_buffer(info, options),
            Err(rule) => Err(rule.into()),
        };
        let larger = match larger {
            Ok(larger) => larger,
            Err(error) => return Err(Rejected::new(region, error)),
        };
        match self.release(region) {
            Ok(()) => Ok(larger),
            Err(refused) => {
                // Another thread began to use the old one: it stays, and the new one is freed.
                let _ = self.free_named(larger.id, false);
                Err(refused)
            }
        }
    }

    fn is_large_enough(&self, region: &Region, info: &BufferInfo) -> Result<bool, GpuMisuse> {
        if region.ownership() == Ownership::CropAlias {
            return Err(GpuMisuse::IsCrop);
        }
        if region.buffer().is_none() {
            return Err(GpuMisuse::NoBuffer);
        }
        self.check_place(region)?;
        if region.size >= info.size {
            return Ok(true);
        }
        if region.ownership() == Ownership::Wrapped {
            return Err(GpuMisuse::IsWrapped);
        }
        match self.records.info(region.id.key()) {
            Some(record) if record.crops > 0 => Err(GpuMisuse::HasCrops),
            Some(record) if record.maps > 0 => Err(GpuMisuse::Mapped),
            _ => Ok(false),
        }
    }

    /// Switches reuse on or off; off frees the kept buffers. Returns the former state.
    pub fn set_reuse(&self, on: bool) -> bool {
        let was = self.reuse.swap(on, Ordering::Relaxed);
        if !on {
            self.evict_reusable(0, 0);
        }
        was
    }

    /// A device that calls back may add some: no more are freed than are kept now.
    pub(crate) fn evict_reusable(&self, count: u32, bytes: u64) -> u64 {
        let mut freed = 0u64;
        let kept = self.records.counts().reusable;
        while freed < kept && self.evict_one(count, bytes) {
            freed += 1;
        }
        freed
    }

    pub(crate) fn evict_one(&self, count: u32, bytes: u64) -> bool {
        match self.records.remove_oldest_reusable(count, bytes) {
            Some(gone) => {
                self.destroy_removed_root(gone);
                true
            }
            None => false,
        }
    }
}
