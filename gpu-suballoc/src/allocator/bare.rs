//! Regions without a resource, and the end of every region.

use super::region::{Content, Region};
use super::{BatchRefused, GpuAllocator, where_of};
use crate::device::{BufferHandle, DeviceMemory, ImageHandle, ResourceRequirements};
use crate::error::{GpuError, Misuse, Refused};
use crate::id::{PlaceKind, RegionId};
use crate::pool::{Ask, Placed};
use crate::records::{GoneRoot, Key, NIL, Rest};
use crate::request::RegionOptions;
use crate::threads::relax;
use alloc_core::HostAllocator;

/// Regions of a batch that are asked for at once.
const BATCH: usize = 16;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Takes memory for a resource that the caller makes and binds itself, or for anything else.
    ///
    /// # Errors
    /// [`Misuse`] for a size of 0, an alignment that is no power of two, a pool or a priority that is none; [`GpuError::TooLarge`] for
    /// what no heap or block can hold; [`GpuError::MemoryType`] when no type fits; otherwise what memory, device or limits refuse.
    #[inline]
    pub fn allocate(&self, requirements: &ResourceRequirements, options: &RegionOptions<'_>) -> Result<Region, GpuError> {
        self.check(requirements, options)?;
        let ask = Self::ask(requirements, options);
        if options.name.is_some() || options.tag != 0 || options.site != 0 {
            return self.allocate_named(&ask, options);
        }
        let placed = self.place(&ask)?;
        Ok(self.region(&placed, NIL))
    }

    #[cold]
    fn allocate_named(&self, ask: &Ask, options: &RegionOptions<'_>) -> Result<Region, GpuError> {
        let new = self.records.prepare_root(self.host(), None, options)?;
        let number = new.number();
        match self.place(&Ask { word: number, ..*ask }) {
            Ok(placed) => {
                let region = self.region(&placed, number);
                self.records.put_root(new, Key::of(region.id), 0, Content::Bare, ask.size);
                Ok(region)
            }
            Err(error) => {
                self.records.drop_root(self.host(), new);
                Err(error)
            }
        }
    }

    /// Takes one region for each place of `out`, all alike, or none. Cheaper than one by one. What `out` held is refused by
    /// [`Misuse::Held`], since it would be lost.
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
            return Err(Misuse::Held.into());
        }
        let result = if options.name.is_some() || options.tag != 0 || options.site != 0 {
            out.iter_mut().try_for_each(|place| {
                *place = Some(self.allocate(requirements, options)?);
                Ok(())
            })
        } else {
            self.check(requirements, options)
                .map_err(GpuError::from)
                .and_then(|()| self.allocate_alike(&Self::ask(requirements, options), out))
        };
        if result.is_err() {
            // What was taken a moment ago is nobody's yet: it goes back.
            for region in out.iter_mut().filter_map(Option::take) {
                let _ = self.end(region.id, region.record, false);
            }
        }
        result
    }

    fn allocate_alike(&self, ask: &Ask, out: &mut [Option<Region>]) -> Result<(), GpuError> {
        let asks = [*ask; BATCH];
        for part in out.chunks_mut(BATCH) {
            let mut placed = [const { None::<Placed> }; BATCH];
            let (Some(asks), Some(placed)) = (asks.get(..part.len()), placed.get_mut(..part.len())) else { continue };
            self.or_without_kept(|| self.pools.place_batch(self.env(), asks, placed))?;
            for (place, placed) in part.iter_mut().zip(placed) {
                *place = placed.take().map(|placed| self.region(&placed, NIL));
            }
        }
        Ok(())
    }

    /// Gives a region back, with the buffer or image that was made with it. Of a wrapped buffer or a crop only the book-keeping goes.
    ///
    /// The device must not use it any more. Takes no memory and cannot fail for lack of any.
    ///
    /// # Errors
    /// The region, and [`Misuse::HasCrops`] or [`Misuse::Mapped`] while it is in use ([`free_when_unused`](GpuAllocator::free_when_unused)
    /// waits for that), [`Misuse::OtherAllocator`], or [`Misuse::Stale`] when it was given back by its id.
    #[inline]
    pub fn free(&self, region: Region) -> Result<(), Refused<Region>> {
        match self.end(region.id, region.record, false) {
            Ok(()) => Ok(()),
            Err(rule) => Err(Refused::new(region, rule)),
        }
    }

    /// As [`free`](GpuAllocator::free), but a region that has crops or mappings goes with the last of them: at once for its owner, to
    /// whom its id means nothing any more, later for its memory.
    ///
    /// # Errors
    /// The region, and [`Misuse::OtherAllocator`] or [`Misuse::Stale`].
    pub fn free_when_unused(&self, region: Region) -> Result<(), Refused<Region>> {
        match self.end(region.id, region.record, true) {
            Ok(()) => Ok(()),
            Err(rule) => Err(Refused::new(region, rule)),
        }
    }

    /// As [`free`](GpuAllocator::free), for tables and C, which keep ids.
    ///
    /// # Errors
    /// As [`free`](GpuAllocator::free); what was freed before is [`Misuse::Stale`], however often its place was used again.
    pub fn free_id(&self, id: RegionId) -> Result<(), GpuError> {
        Ok(self.end(id, NIL, false)?)
    }

    /// Gives regions back, each place of `regions` that has one; cheaper than one by one. Those that were given back are `None` then.
    ///
    /// # Errors
    /// The place of the first region that was refused, and why; the others are given back all the same.
    pub fn free_batch(&self, regions: &mut [Option<Region>]) -> Result<(), BatchRefused> {
        let mut first = None;
        let mut start = 0;
        for part in regions.chunks_mut(BATCH) {
            self.free_part(part, &mut |index, rule| {
                first.get_or_insert(BatchRefused { index: start + index, error: rule.into() });
            });
            start += part.len();
        }
        first.map_or(Ok(()), Err)
    }

    /// The bare ones among them go together, the others one by one.
    fn free_part(&self, part: &mut [Option<Region>], refused: &mut dyn FnMut(usize, Misuse)) {
        let nowhere = where_of(RegionId::from_raw([0; 4]));
        let (mut places, mut indices, mut count) = ([nowhere; BATCH], [0usize; BATCH], 0usize);
        for (index, place) in part.iter_mut().enumerate() {
            let Some(region) = place else { continue };
            if region.is_bare() && region.id.tag() == self.tag {
                if let (Some(at), Some(to)) = (places.get_mut(count), indices.get_mut(count)) {
                    *at = where_of(region.id);
                    *to = index;
                    count += 1;
                }
            } else {
                match self.end(region.id, region.record, false) {
                    Ok(()) => *place = None,
                    Err(rule) => refused(index, rule),
                }
            }
        }
        let (Some(places), Some(indices)) = (places.get(..count), indices.get(..count)) else { return };
        let mut stay = [false; BATCH];
        self.pools.give_batch(self.env(), places, &mut |nth, _| {
            if let Some(stay) = stay.get_mut(nth) {
                *stay = true;
            }
        });
        for (index, stay) in indices.iter().zip(stay) {
            let Some(place) = part.get_mut(*index) else { continue };
            let Some(region) = place else { continue };
            // What the pools would not take has a record by now, or was freed: the long way says which.
            match if stay { self.end(region.id, NIL, false) } else { Ok(()) } {
                Ok(()) => *place = None,
                Err(rule) => refused(*index, rule),
            }
        }
    }

    /// Ends what an id names. `number` is its record, where the caller knows that it has one.
    #[inline]
    pub(crate) fn end(&self, id: RegionId, number: u32, wait: bool) -> Result<(), Misuse> {
        if id.tag() != self.tag {
            return Err(Misuse::OtherAllocator);
        }
        let kind = id.place().kind;
        if number == NIL && !matches!(kind, PlaceKind::Wrapped | PlaceKind::Crop | PlaceKind::Shard) {
            match self.pools.give(self.env(), where_of(id)) {
                Ok(_) => return Ok(()),
                Err(Misuse::Held) => {}
                Err(rule) => return Err(rule),
            }
        }
        self.end_recorded(id, kind, number, wait)
    }

    #[cold]
    fn end_recorded(&self, id: RegionId, kind: PlaceKind, number: u32, wait: bool) -> Result<(), Misuse> {
        let key = Key::of(id);
        let number = match kind {
            PlaceKind::Wrapped => {
                self.settle(self.records.end_wrap(key, wait)?);
                return Ok(());
            }
            PlaceKind::Crop => {
                self.settle(self.records.end_crop(key.slot, key.generation, wait)?);
                return Ok(());
            }
            PlaceKind::Shard => match self.records.indexed(key) {
                Some(number) => number,
                None => return self.give_to_shard(id),
            },
            _ if number != NIL => number,
            _ => self.pools.find(where_of(id))?.word,
        };
        if let Some(gone) = self.records.part(number, key, wait)? {
            self.finish(gone);
        }
        Ok(())
    }

    /// Gives back what a call that ended something left.
    pub(crate) fn settle(&self, rest: Rest) {
        if let Some(gone) = rest.free(self.host()) {
            self.finish(gone);
        }
    }

    /// Takes a root apart that nobody finds any more: resource, memory, record.
    pub(crate) fn finish(&self, gone: GoneRoot) {
        self.destroy(gone.content, gone.resource);
        let id = gone.key.id(self.tag);
        let in_shard = id.place().kind == PlaceKind::Shard;
        let given = if in_shard { self.give_to_shard(id) } else { self.give_placed(id, gone.number) };
        debug_assert!(given.is_ok(), "a region whose record is going is still placed: {given:?}");
        self.records.forget(self.host(), gone, in_shard);
    }

    /// Gives the place of a region back that nobody finds any more and nobody maps. What may still be there is a flush that was begun
    /// before: a memory object of its own is freed when that is over.
    fn give_placed(&self, id: RegionId, number: u32) -> Result<(), Misuse> {
        let mut tries = 0u32;
        loop {
            match self.pools.give_recorded(self.env(), where_of(id), number) {
                Err(Misuse::Mapped) => {
                    tries = tries.wrapping_add(1);
                    relax(tries);
                }
                given => return given.map(|_| ()),
            }
        }
    }

    /// Destroys a buffer or image that this allocator made.
    pub(crate) fn destroy(&self, content: Content, resource: u64) {
        match content {
            Content::Bare => {}
            Content::Buffer => {
                if let Some(buffer) = BufferHandle::from_raw(resource) {
                    // SAFETY: made by us and in nobody's hands any more; that the device is done with it was promised at `new`.
                    unsafe { self.device.destroy_buffer(buffer) };
                }
            }
            Content::Image => {
                if let Some(image) = ImageHandle::from_raw(resource) {
                    // SAFETY: as for buffers.
                    unsafe { self.device.destroy_image(image) };
                }
            }
        }
    }
}
