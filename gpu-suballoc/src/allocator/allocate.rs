use super::{BatchError, GpuAllocator};
use crate::device::{DeviceMemory, ResourceHandle, ResourceRequirements};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RangePlacement, RegionId};
use crate::pool::{AllocationRequest, Suballocation};
use crate::region::Region;
use crate::region_metadata::{Leftovers, RemovedRoot, RootView};
use crate::request::RegionOptions;
use alloc_core::{HostAllocator, Rejected};

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Allocates a region for a resource that the caller creates and binds, or for any other use.
    ///
    /// # Errors
    /// [`GpuMisuse`] for a size of 0, a bad alignment, pool or priority; [`GpuMisuse::UnnamedResource`] for a resource
    /// that must have a memory object of its own and is not [named](RegionOptions::dedicated_for);
    /// [`GpuMisuse::NotEnabled`]; [`GpuError::TooLarge`]; [`GpuError::MemoryType`] if no type fits; refusals of host
    /// memory, device and limits.
    #[doc(alias("vmaAllocateMemory", "vkAllocateMemory"))]
    #[inline]
    pub fn allocate(
        &self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        self.check_options(options)?;
        let request = self.allocation_request(requirements, options);
        self.allocate_by(request, options, |request| self.place_or_evict(request))
    }

    /// Allocates a region at a place of the options' custom pool, for example to replay a capture. Block and offset are
    /// those of a [memory map](GpuAllocator::memory_map); [`reserve`](GpuAllocator::reserve) allocates the block.
    /// `lifetime` and `within_budget` are not read.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPlace`], [`GpuMisuse::PlaceTaken`], [`GpuMisuse::PlaceMisaligned`];
    /// [`GpuMisuse::PlacesItself`] for a linear pool; [`GpuMisuse::Defragmenting`] for a block that is being emptied;
    /// [`GpuMisuse::NoSuchPool`] without a pool; [`GpuMisuse::BadOptions`] for a region that must be dedicated;
    /// otherwise as [`allocate`](GpuAllocator::allocate).
    pub fn allocate_at(
        &self,
        block: u32,
        offset: u64,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        self.check_options(options)?;
        let request = self.allocation_request(requirements, options);
        self.allocate_by(request, options, |request| self.pools().place_at(request, (block, offset)))
    }

    #[inline(always)]
    fn allocate_by(
        &self,
        mut request: AllocationRequest,
        options: &RegionOptions<'_>,
        place: impl FnOnce(&AllocationRequest) -> Result<Suballocation, GpuError>,
    ) -> Result<Region, GpuError> {
        let new = self.records.prepare(self.host(), None, options)?;
        request.slot = new.slot;
        match self.with_margin(|| place(&request)) {
            Ok(placed) => {
                let view = RootView { resource: None, asked: request.size };
                let key = self.records.insert_root(new, placed.at, view);
                Ok(self.region(&view, &placed, key))
            }
            Err(error) => {
                self.records.cancel(self.host(), new);
                Err(error)
            }
        }
    }

    /// Allocates a region for each place of `out`, all alike, or none. A place that is not `None` is
    /// [`GpuMisuse::Held`].
    ///
    /// # Errors
    /// As [`allocate`](GpuAllocator::allocate).
    #[doc(alias("vmaAllocateMemoryPages"))]
    pub fn allocate_batch(
        &self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
        out: &mut [Option<Region>],
    ) -> Result<(), GpuError> {
        if out.iter().any(Option::is_some) {
            return Err(GpuMisuse::Held.into());
        }
        let result = out.iter_mut().try_for_each(|place| {
            *place = Some(self.allocate(requirements, options)?);
            Ok(())
        });
        if result.is_err() {
            for region in out.iter_mut().filter_map(Option::take) {
                let _ = self.free_named(region.id, true);
            }
        }
        result
    }

    /// Frees a region, with the buffer or image that was created with it; of a wrapped buffer or a crop, only the
    /// bookkeeping. The device must not use it any more.
    ///
    /// # Errors
    /// The region, and [`GpuMisuse::HasCrops`] or [`GpuMisuse::Mapped`] while it is in use
    /// ([`free_when_unused`](GpuAllocator::free_when_unused) waits), [`GpuMisuse::OutOfOrder`] in a linear pool,
    /// [`GpuMisuse::MarginOverwritten`] once, [`GpuMisuse::OtherAllocator`], or [`GpuMisuse::Stale`] if it was freed by
    /// its id.
    #[doc(alias("vmaFreeMemory", "vmaDestroyBuffer", "vmaDestroyImage", "vkFreeMemory"))]
    #[inline]
    pub fn free(&self, region: Region) -> Result<(), Rejected<Region, GpuError>> {
        match self.free_named(region.id, false) {
            Ok(()) => Ok(()),
            Err(rule) => Err(Rejected::new(region, rule)),
        }
    }

    /// As [`free`](GpuAllocator::free), but a region with crops or mappings is freed with the last of them. Its id is
    /// stale at once. A linear pool reclaims the space in its turn.
    ///
    /// # Errors
    /// The region, and [`GpuMisuse::OtherAllocator`] or [`GpuMisuse::Stale`].
    pub fn free_when_unused(&self, region: Region) -> Result<(), Rejected<Region, GpuError>> {
        match self.free_named(region.id, true) {
            Ok(()) => Ok(()),
            Err(rule) => Err(Rejected::new(region, rule)),
        }
    }

    /// As [`free`](GpuAllocator::free), by id, for tables and C.
    pub fn free_id(&self, id: RegionId) -> Result<(), GpuError> {
        Ok(self.free_named(id, false)?)
    }

    /// As [`free_when_unused`](GpuAllocator::free_when_unused), by id. A crop of the whole region is a counted user:
    /// the last one frees it.
    pub fn free_id_when_unused(&self, id: RegionId) -> Result<(), GpuError> {
        Ok(self.free_named(id, true)?)
    }

    /// Frees each region of `regions`, and sets its place to `None`. Those of a linear pool must be in its order.
    ///
    /// # Errors
    /// The index of the first region that was refused, and why; the others are freed.
    #[doc(alias("vmaFreeMemoryPages"))]
    pub fn free_batch(&self, regions: &mut [Option<Region>]) -> Result<(), BatchError> {
        let mut first = Ok(());
        for (index, place) in regions.iter_mut().enumerate() {
            let Some(region) = place else { continue };
            match self.free_named(region.id, false) {
                Ok(()) => *place = None,
                Err(rule) => {
                    let error = rule.into();
                    first = first.and(Err(BatchError { index, error }));
                }
            }
        }
        first
    }

    #[inline]
    pub(crate) fn free_named(&self, id: RegionId, wait: bool) -> Result<(), GpuMisuse> {
        let rest = self.begin_removal(id, wait)?;
        self.free_leftovers(rest);
        Ok(())
    }

    pub(super) fn begin_removal(&self, id: RegionId, wait: bool) -> Result<Leftovers, GpuMisuse> {
        self.check_tag(id)?;
        if self.pools.margin() > 0 && !wait {
            self.check_margin(id.key())?;
        }
        self.records.begin_removal(id.key(), wait, |at| {
            if at.kind() == RangePlacement::Linear && !wait { self.pools().check_order(at) } else { Ok(()) }
        })
    }

    pub(crate) fn free_leftovers(&self, rest: Leftovers) {
        if let Some(gone) = rest.free(self.host()) {
            self.destroy_removed_root(gone);
        }
    }

    pub(crate) fn destroy_removed_root(&self, gone: RemovedRoot) {
        self.destroy_resource(gone.view.resource);
        let freed = self.pools().free(gone.place);
        debug_assert!(freed.is_ok(), "a region has a place: {freed:?}");
        self.records.finish_removal(self.host(), gone);
    }

    pub(crate) fn destroy_resource(&self, resource: Option<ResourceHandle>) {
        match resource {
            Some(ResourceHandle::Buffer(buffer)) => {
                // SAFETY: created by this allocator and no longer reachable; the device does not use it (`new`).
                unsafe { self.device.destroy_buffer(buffer) };
            }
            Some(ResourceHandle::Image(image)) => {
                // SAFETY: created by this allocator and no longer reachable; the device does not use it (`new`).
                unsafe { self.device.destroy_image(image) };
            }
            None => {}
        }
    }
}
