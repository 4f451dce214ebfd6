//! Allocating regions without a resource, and freeing all regions.

use super::{BatchError, GpuAllocator};
use crate::device::{BufferHandle, DeviceMemory, ImageHandle, ResourceRequirements};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, RegionId, RegionPlaceKind};
use crate::pool::{AllocationRequest, Suballocation};
use crate::region::{Region, RegionContent};
use crate::region_metadata::{Leftovers, RemovedRoot, RootView};
use crate::request::RegionOptions;
use alloc_core::{HostAllocator, Rejected};

/// Regions of a batch that are placed in one call of the pools.
const BATCH: usize = 16;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Allocates a region for a resource that the caller creates and binds, or for any other use.
    ///
    /// # Errors
    /// [`GpuMisuse`] for a size of 0, an alignment that is no power of two, an invalid pool or priority;
    /// [`GpuMisuse::NotEnabled`] for device addresses or exports that are not enabled; [`GpuError::TooLarge`] above the size of heaps and
    /// blocks; [`GpuError::MemoryType`] if no type fits; refusals of host memory, device and limits.
    #[inline]
    pub fn allocate(
        &self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        self.check_options(options)?;
        let request = self.allocation_request(requirements, options);
        if options.needs_record() {
            return self.allocate_named(&request, options, |request| self.place(request));
        }
        let placed = self.place(&request)?;
        Ok(self.region(&placed, NO_RECORD))
    }

    /// Allocates a region at a place of the options' custom pool, to replay a captured run for instance. Block and
    /// offset are those of a [memory map](GpuAllocator::memory_map), whose sizes include padding. The block must exist:
    /// [`reserve`](GpuAllocator::reserve) allocates blocks, of one size in a pool with a [`block_size`](crate::PoolOptions::block_size).
    /// The time grows with the regions and holes in front of the place. `lifetime` and `within_budget` are not read.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPlace`], [`GpuMisuse::PlaceTaken`], [`GpuMisuse::PlaceMisaligned`]; [`GpuMisuse::PlacesItself`] for a linear pool;
    /// [`GpuMisuse::Defragmenting`] for a block that is being emptied; [`GpuMisuse::NoSuchPool`] without a pool;
    /// [`GpuMisuse::BadOptions`] for a region that needs a memory object of its own; otherwise as [`allocate`](GpuAllocator::allocate).
    pub fn allocate_at(
        &self,
        block: u32,
        offset: u64,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        self.check_options(options)?;
        let request = self.allocation_request(requirements, options);
        let place = |request: &AllocationRequest| {
            self.with_margin(request.user_data, || {
                (self.pools).place_at(self.device_and_host(), request, block, offset)
            })
        };
        if options.needs_record() {
            return self.allocate_named(&request, options, place);
        }
        Ok(self.region(&place(&request)?, NO_RECORD))
    }

    #[cold]
    fn allocate_named(
        &self,
        request: &AllocationRequest,
        options: &RegionOptions<'_>,
        place: impl FnOnce(&AllocationRequest) -> Result<Suballocation, GpuError>,
    ) -> Result<Region, GpuError> {
        let new = self.records.prepare_root(self.host(), None, options)?;
        let number = new.number();
        match place(&AllocationRequest {
            user_data: number,
            ..*request
        }) {
            Ok(placed) => {
                let region = self.region(&placed, number);
                let view = RootView {
                    asked: request.size,
                    ..RootView::BARE
                };
                self.records.insert_root(new, region.id.at(), view);
                Ok(region)
            }
            Err(error) => {
                self.records.cancel_root(self.host(), new);
                Err(error)
            }
        }
    }

    /// Allocates a region for each place of `out`, all alike, or none. Faster than one by one. All places must be `None`, or it is
    /// [`GpuMisuse::Held`].
    ///
    /// # Errors
    /// As [`allocate`](GpuAllocator::allocate).
    pub fn allocate_batch(
        &self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
        out: &mut [Option<Region>],
    ) -> Result<(), GpuError> {
        if out.iter().any(Option::is_some) {
            return Err(GpuMisuse::Held.into());
        }
        let result = if options.needs_record() {
            out.iter_mut().try_for_each(|place| {
                *place = Some(self.allocate(requirements, options)?);
                Ok(())
            })
        } else {
            self.check_options(options)
                .map_err(GpuError::from)
                .and_then(|()| {
                    self.allocate_alike(&self.allocation_request(requirements, options), out)
                })
        };
        if result.is_err() {
            for region in out.iter_mut().filter_map(Option::take) {
                let _ = self.free_named(region.id, region.record, true);
            }
        }
        result
    }

    fn allocate_alike(
        &self,
        request: &AllocationRequest,
        out: &mut [Option<Region>],
    ) -> Result<(), GpuError> {
        let requests = [*request; BATCH];
        for part in out.chunks_mut(BATCH) {
            let mut placed = [const { None::<Suballocation> }; BATCH];
            let (Some(requests), Some(placed)) =
                (requests.get(..part.len()), placed.get_mut(..part.len()))
            else {
                continue;
            };
            let _arming = (self.pools.margin() > 0).then(|| self.begin_arming());
            self.retry_after_evicting(|| {
                self.pools
                    .place_batch(self.device_and_host(), requests, placed)
            })?;
            let mut armed = Ok(());
            for (place, placed) in part.iter_mut().zip(placed) {
                let Some(mut placed) = placed.take() else {
                    continue;
                };
                if self.pools.margin() > 0 {
                    match self.arm_margin(placed, NO_RECORD) {
                        Ok(with_margin) => placed = with_margin,
                        Err(error) => {
                            armed = armed.and(Err(error));
                            continue;
                        }
                    }
                }
                *place = Some(self.region(&placed, NO_RECORD));
            }
            armed?;
        }
        Ok(())
    }

    /// Frees a region, with the buffer or image that was created with it; of a wrapped buffer or a crop, only the bookkeeping.
    ///
    /// The device must not use it any more. Allocates nothing.
    ///
    /// # Errors
    /// The region, and [`GpuMisuse::HasCrops`] or [`GpuMisuse::Mapped`] while it is in use ([`free_when_unused`](GpuAllocator::free_when_unused)
    /// waits for that), [`GpuMisuse::OutOfOrder`] before its turn in a linear pool, [`GpuMisuse::MarginOverwritten`] once, [`GpuMisuse::OtherAllocator`], or [`GpuMisuse::Stale`]
    /// if it was freed by its id.
    #[inline]
    pub fn free(&self, region: Region) -> Result<(), Rejected<Region, GpuError>> {
        match self.free_named(region.id, region.record, false) {
            Ok(()) => Ok(()),
            Err(rule) => Err(Rejected::new(region, rule)),
        }
    }

    /// As [`free`](GpuAllocator::free), but the memory of a region with crops or mappings is freed with the last of them. Its id is stale at
    /// once. The space of a linear pool's region is reclaimed in its turn.
    ///
    /// # Errors
    /// The region, and [`GpuMisuse::OtherAllocator`] or [`GpuMisuse::Stale`].
    pub fn free_when_unused(&self, region: Region) -> Result<(), Rejected<Region, GpuError>> {
        match self.free_named(region.id, region.record, true) {
            Ok(()) => Ok(()),
            Err(rule) => Err(Rejected::new(region, rule)),
        }
    }

    /// As [`free`](GpuAllocator::free), by id: for tables and C.
    ///
    /// # Errors
    /// As [`free`](GpuAllocator::free); the id of a freed region is [`GpuMisuse::Stale`] for ever.
    pub fn free_id(&self, id: RegionId) -> Result<(), GpuError> {
        Ok(self.free_named(id, NO_RECORD, false)?)
    }

    /// Frees each region of `regions`, and sets its place to `None`. Faster than one by one. Regions of a linear pool must be in the order
    /// in which the pool frees them.
    ///
    /// # Errors
    /// The index of the first region that was refused, and why; the others are freed.
    pub fn free_batch(&self, regions: &mut [Option<Region>]) -> Result<(), BatchError> {
        let mut first = None;
        let mut start = 0;
        for part in regions.chunks_mut(BATCH) {
            self.free_part(part, &mut |index, rule| {
                first.get_or_insert(BatchError {
                    index: start + index,
                    error: rule.into(),
                });
            });
            start += part.len();
        }
        first.map_or(Ok(()), Err)
    }

    /// Frees bare regions together, the others one by one.
    fn free_part(&self, part: &mut [Option<Region>], refused: &mut dyn FnMut(usize, GpuMisuse)) {
        let nowhere = RegionId::from_raw([0; 4]).at();
        let (mut places, mut indices, mut count) = ([nowhere; BATCH], [0usize; BATCH], 0usize);
        for (index, place) in part.iter_mut().enumerate() {
            let Some(region) = place else { continue };
            let in_order = region.id.kind() != RegionPlaceKind::Linear && self.pools.margin() == 0;
            if region.is_bare() && in_order && region.id.tag() == self.tag {
                if let (Some(at), Some(to)) = (places.get_mut(count), indices.get_mut(count)) {
                    *at = region.id.at();
                    *to = index;
                    count += 1;
                }
            } else {
                match self.free_named(region.id, region.record, false) {
                    Ok(()) => *place = None,
                    Err(rule) => refused(index, rule),
                }
            }
        }
        let (Some(places), Some(indices)) = (places.get(..count), indices.get(..count)) else {
            return;
        };
        let mut stay = [false; BATCH];
        self.pools
            .free_batch(self.device_and_host(), places, &mut |nth, _| {
                if let Some(stay) = stay.get_mut(nth) {
                    *stay = true;
                }
            });
        for (index, stay) in indices.iter().zip(stay) {
            let Some(place) = part.get_mut(*index) else {
                continue;
            };
            let Some(region) = place else { continue };
            // A region that the pools refused has a record by now, or was freed: the slow path finds out.
            match if stay {
                self.free_named(region.id, NO_RECORD, false)
            } else {
                Ok(())
            } {
                Ok(()) => *place = None,
                Err(rule) => refused(*index, rule),
            }
        }
    }

    /// Frees the region of an id. `number` is its record, if the caller knows it.
    #[inline]
    pub(crate) fn free_named(
        &self,
        id: RegionId,
        number: u32,
        wait: bool,
    ) -> Result<(), GpuMisuse> {
        self.check_tag(id)?;
        let kind = id.kind();
        if self.pools.margin() > 0 && !wait {
            self.check_margin(id.at())?;
        }
        if kind == RegionPlaceKind::Linear && !wait {
            self.pools.check_order(id.at())?;
        }
        if number == NO_RECORD && kind.is_in_pool() {
            match self.pools.free(self.device_and_host(), id.at()) {
                Ok(_) => return Ok(()),
                Err(GpuMisuse::Held) => {}
                Err(rule) => return Err(rule),
            }
        }
        self.free_recorded(id, kind, number, wait)
    }

    #[cold]
    fn free_recorded(
        &self,
        id: RegionId,
        kind: RegionPlaceKind,
        number: u32,
        wait: bool,
    ) -> Result<(), GpuMisuse> {
        let key = id.at();
        let number = match kind {
            RegionPlaceKind::Wrapped | RegionPlaceKind::Crop => {
                self.free_leftovers(self.records.end_alias(key, wait)?);
                return Ok(());
            }
            _ if number != NO_RECORD => number,
            _ => self.pools.find(key)?.1,
        };
        if let Some(gone) = self.records.begin_removal(number, key, wait)? {
            self.destroy_removed_root(gone);
        }
        Ok(())
    }

    /// Frees leftovers.
    pub(crate) fn free_leftovers(&self, rest: Leftovers) {
        if let Some(gone) = rest.free(self.host()) {
            self.destroy_removed_root(gone);
        }
    }

    /// Destroys a removed root: resource, memory, record.
    pub(crate) fn destroy_removed_root(&self, gone: RemovedRoot) {
        self.destroy_resource(gone.view.content, gone.view.resource);
        let freed = self
            .pools
            .free_recorded(self.device_and_host(), gone.key, gone.number);
        debug_assert!(
            freed.is_ok(),
            "a region with a record has a place: {freed:?}"
        );
        self.records.finish_removal(self.host(), gone);
    }

    /// Destroys a buffer or image that this allocator created.
    pub(crate) fn destroy_resource(&self, content: RegionContent, resource: u64) {
        match content {
            RegionContent::Bare => {}
            RegionContent::Buffer => {
                if let Some(buffer) = BufferHandle::from_raw(resource) {
                    // SAFETY: created by this allocator and no longer reachable; by the promise of `new` the device does not use it.
                    unsafe { self.device.destroy_buffer(buffer) };
                }
            }
            RegionContent::Image => {
                if let Some(image) = ImageHandle::from_raw(resource) {
                    // SAFETY: as for buffers.
                    unsafe { self.device.destroy_image(image) };
                }
            }
        }
    }
}
