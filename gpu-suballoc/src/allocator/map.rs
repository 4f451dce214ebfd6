//! Bytes of regions in the host's address space.

use core::fmt;
use core::ptr::NonNull;

use alloc_core::HostAllocator;

use super::region::Region;
use super::{GpuAllocator, where_of};
use crate::device::{DeviceMemory, MappedRange};
use crate::error::{GpuError, MapRefusal, Misuse};
use crate::id::{PlaceKind, RegionId};
use crate::property_flags::PropertyFlags;
use crate::records::{Backing, Key, NIL, Seen, Wrap};

/// A region's bytes, until dropped.
///
/// It gives a pointer, and not a slice, since the device and other mappings may use the same bytes. Coherent memory needs nothing else;
/// otherwise [`flush`](GpuAllocator::flush) what was written, and [`invalidate`](GpuAllocator::invalidate) before reading what the
/// device wrote. The region cannot be freed meanwhile.
#[must_use = "dropping it unmaps"]
pub struct Mapping<'a> {
    start: NonNull<u8>,
    size: usize,
    number: u32,
    key: Key,
    by: &'a dyn Unmap,
}

/// An allocator without its types.
trait Unmap {
    fn unmap(&self, number: u32, key: Key, by_id: bool) -> Result<(), Misuse>;
}

impl Mapping<'_> {
    /// The first byte. Good for [`len`](Mapping::len) bytes until this is dropped.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes, never 0.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.size
    }
}

impl fmt::Debug for Mapping<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("start", &self.start).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        let unmapped = self.by.unmap(self.number, self.key, false);
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl<D: DeviceMemory, A: HostAllocator> Unmap for GpuAllocator<D, A> {
    fn unmap(&self, number: u32, key: Key, by_id: bool) -> Result<(), Misuse> {
        let (root, root_key, seen, rest) = self.records.begin_unmap(number, key, by_id)?;
        if let Some(rest) = rest {
            self.settle(rest);
        }
        match seen {
            Seen::Wrapped(wrap) => {
                if let Some(foreign) = wrap.foreign() {
                    foreign.unmap(self.env().device);
                }
            }
            _ if root_key.kind() == PlaceKind::Shard => {}
            _ => {
                let unmapped = self.pools.unmap(self.env(), where_of(root_key.id(self.tag)));
                debug_assert!(unmapped.is_ok(), "mapped when it was counted: {unmapped:?}");
            }
        }
        self.settle(self.records.end_hold(root));
        Ok(())
    }
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Maps a region. Any number of regions of one block may be mapped at once, by any threads, and one region several times.
    ///
    /// # Errors
    /// [`GpuError::MapUnsupported`] with the reason; [`Misuse::OtherAllocator`], [`Misuse::Stale`]; what host allocator and driver refuse.
    pub fn map(&self, region: &Region) -> Result<Mapping<'_>, GpuError> {
        if region.id.tag() != self.tag {
            return Err(Misuse::OtherAllocator.into());
        }
        let size = usize::try_from(region.size).map_err(|_| GpuError::MapUnsupported { reason: MapRefusal::AddressSpace })?;
        let key = Key::of(region.id);
        let (number, start) = match key.kind() {
            PlaceKind::Wrapped | PlaceKind::Crop => match self.base_of(key)? {
                (_, Some(wrap), offset) => self.map_wrapped(key, &wrap, offset)?,
                (root, None, offset) if root.kind() == PlaceKind::Shard => self.map_in_shard(region, key.slot, key, offset)?,
                (root, None, offset) => self.map_owned(key.slot, key, root, offset)?,
            },
            PlaceKind::Shard => self.map_in_shard(region, NIL, key, 0)?,
            _ => {
                self.check_visible(key)?;
                self.map_owned(self.attach_now(region)?, key, key, 0)?
            }
        };
        Ok(Mapping { start, size, number, key, by: self })
    }

    /// As [`map`](GpuAllocator::map), for tables and C: mapped until [`unmap_id`](GpuAllocator::unmap_id) was called as often.
    ///
    /// # Errors
    /// As [`map`](GpuAllocator::map).
    pub fn map_id(&self, id: RegionId) -> Result<NonNull<u8>, GpuError> {
        let mapping = core::mem::ManuallyDrop::new(self.map(&self.look(id)?)?);
        self.records.lend_map(mapping.number, mapping.key);
        Ok(mapping.start)
    }

    /// Undoes one [`map_id`](GpuAllocator::map_id), and no [`Mapping`]; also of a region that is to go with its last mapping.
    ///
    /// # Errors
    /// [`Misuse::NotMapped`]; [`Misuse::Stale`], [`Misuse::OtherAllocator`], [`Misuse::OtherShard`].
    pub fn unmap_id(&self, id: RegionId) -> Result<(), GpuError> {
        if id.tag() != self.tag {
            return Err(Misuse::OtherAllocator.into());
        }
        let key = Key::of(id);
        let number = match key.kind() {
            PlaceKind::Shard => return Err(Misuse::OtherShard.into()),
            PlaceKind::Wrapped | PlaceKind::Crop => key.slot,
            _ => self.pools.find(where_of(id))?.word,
        };
        if number == NIL {
            return Err(Misuse::NotMapped.into());
        }
        Ok(self.unmap(number, key, true)?)
    }

    /// The root that a region of the records' own lies in: itself or what it was cut from, the wrapped buffer where it is one, and how
    /// far in.
    fn base_of(&self, key: Key) -> Result<(Key, Option<Wrap>, u64), Misuse> {
        let (root, seen, offset) = match key.kind() {
            PlaceKind::Crop => {
                let crop = self.records.see_crop(key.slot, key)?;
                (crop.root_key, crop.root, crop.offset)
            }
            _ => (key, self.records.see(key.slot, key)?, 0),
        };
        match seen {
            Seen::Wrapped(wrap) => Ok((root, Some(wrap), offset)),
            Seen::Root { .. } => Ok((root, None, offset)),
        }
    }

    fn check_visible(&self, key: Key) -> Result<(), GpuError> {
        let found = self.pools.find(where_of(key.id(self.tag)))?;
        if found.properties.contains(PropertyFlags::HOST_VISIBLE) {
            Ok(())
        } else {
            Err(GpuError::MapUnsupported { reason: MapRefusal::NotHostVisible })
        }
    }

    /// Counts a mapping at `number`, and has `start` make it; counted off again when that fails.
    fn counted(
        &self,
        number: u32,
        key: Key,
        start: impl FnOnce() -> Result<NonNull<u8>, GpuError>,
    ) -> Result<(u32, NonNull<u8>), GpuError> {
        self.records.count_map(number, key)?;
        match start() {
            Ok(start) => Ok((number, start)),
            Err(error) => {
                if let Ok(rest) = self.records.end_map(number, key) {
                    self.settle(rest);
                }
                Err(error)
            }
        }
    }

    fn map_owned(&self, number: u32, key: Key, root: Key, offset: u64) -> Result<(u32, NonNull<u8>), GpuError> {
        self.check_visible(root)?;
        self.counted(number, key, || Ok(at(self.pools.map(self.env(), where_of(root.id(self.tag)))?, offset)))
    }

    fn map_in_shard(&self, region: &Region, number: u32, key: Key, offset: u64) -> Result<(u32, NonNull<u8>), GpuError> {
        let start = region.mapped.ok_or(GpuError::MapUnsupported { reason: MapRefusal::NotHostVisible })?;
        let number = if number == NIL { self.attach_now(region)? } else { number };
        self.counted(number, key, || Ok(at(start, offset)))
    }

    fn map_wrapped(&self, key: Key, wrap: &Wrap, offset: u64) -> Result<(u32, NonNull<u8>), GpuError> {
        let backing = visible(wrap)?;
        // Counted at what the wrapping was seen by: if that still lives, the wrapping does, and what it refers to.
        self.counted(key.slot, key, || {
            let start = match (backing.mapped, wrap.foreign()) {
                (Some(start), _) => start,
                (None, Some(foreign)) => foreign.map(self.env().device)?,
                (None, None) => return Err(GpuError::MapUnsupported { reason: MapRefusal::BackingUnknown }),
            };
            Ok(at(start, backing.offset + wrap.offset + offset))
        })
    }

    /// Makes what the host wrote to `size` bytes from `offset` of a mapped region visible to the device. Coherent memory needs none of
    /// it, and the driver is not called. Of an owned region nobody else's bytes are touched; of a wrapped one the range grows to whole
    /// `nonCoherentAtomSize` of the application's memory.
    ///
    /// # Errors
    /// [`Misuse::Outside`], [`Misuse::ZeroSize`], [`Misuse::NotMapped`]; otherwise as [`map`](GpuAllocator::map).
    pub fn flush(&self, region: &Region, offset: u64, size: u64) -> Result<(), GpuError> {
        self.sync(region, offset, size, true)
    }

    /// Makes what the device wrote to `size` bytes from `offset` of a mapped region visible to the host. As [`flush`](GpuAllocator::flush).
    ///
    /// # Errors
    /// As [`flush`](GpuAllocator::flush).
    pub fn invalidate(&self, region: &Region, offset: u64, size: u64) -> Result<(), GpuError> {
        self.sync(region, offset, size, false)
    }

    fn sync(&self, region: &Region, offset: u64, size: u64, flush: bool) -> Result<(), GpuError> {
        if region.id.tag() != self.tag {
            return Err(Misuse::OtherAllocator.into());
        }
        if size == 0 {
            return Err(Misuse::ZeroSize.into());
        }
        if offset.checked_add(size).is_none_or(|end| end > region.size) {
            return Err(Misuse::Outside.into());
        }
        let key = Key::of(region.id);
        let (root, wrap, base) = match key.kind() {
            PlaceKind::Wrapped | PlaceKind::Crop => self.base_of(key)?,
            _ => (key, None, 0),
        };
        match (root.kind(), wrap) {
            (_, Some(wrap)) => {
                let backing = visible(&wrap)?;
                if backing.mapped.is_none() && !self.records.is_mapped(key.slot, key)? {
                    return Err(Misuse::NotMapped.into());
                }
                // The wrapping stays meanwhile, and its memory mapped, whatever others do.
                let _mapped = self.map(region)?;
                let start = backing.offset + wrap.offset + base + offset;
                self.sync_range(
                    backing.properties,
                    backing.memory_size,
                    MappedRange { memory: backing.memory, offset: start, size },
                    flush,
                )
            }
            (PlaceKind::Shard, None) => {
                if key.kind() == PlaceKind::Shard && !self.shards.is_live(region.id) {
                    return Err(Misuse::Stale.into());
                }
                let (Some(memory), Some(_)) = (region.memory, region.mapped) else { return Err(Misuse::NotMapped.into()) };
                let types = self.device.properties().types;
                let properties = types.get(usize::from(region.memory_type)).map_or(PropertyFlags::NONE, |one| one.properties);
                let range = MappedRange { memory, offset: region.offset + offset, size };
                self.sync_range(properties, u64::MAX, range, flush)
            }
            _ => {
                let at = where_of(root.id(self.tag));
                if flush {
                    self.pools.flush(self.env(), at, base + offset, size)
                } else {
                    self.pools.invalidate(self.env(), at, base + offset, size)
                }
            }
        }
    }

    /// The range in whole atoms, or to the end of the memory object.
    fn sync_range(&self, properties: PropertyFlags, memory_size: u64, range: MappedRange, flush: bool) -> Result<(), GpuError> {
        if properties.contains(PropertyFlags::HOST_COHERENT) {
            return Ok(());
        }
        let atom = self.limits.non_coherent_atom_size.max(1);
        let start = range.offset - range.offset % atom;
        let end = (range.offset + range.size).checked_next_multiple_of(atom).unwrap_or(memory_size).min(memory_size);
        let range = MappedRange { memory: range.memory, offset: start, size: end - start };
        if flush {
            // SAFETY: within the memory object and what is mapped of it, which is all; in whole atoms, or to its end.
            unsafe { self.device.flush(&[range]) }?;
        } else {
            // SAFETY: as above.
            unsafe { self.device.invalidate(&[range]) }?;
        }
        Ok(())
    }
}

/// The memory behind a wrapped buffer, if it can be mapped.
fn visible(wrap: &Wrap) -> Result<Backing, GpuError> {
    let refused = |reason| Err(GpuError::MapUnsupported { reason });
    match wrap.backing {
        None => refused(MapRefusal::BackingUnknown),
        Some(backing) if !backing.properties.contains(PropertyFlags::HOST_VISIBLE) => refused(MapRefusal::BackingNotHostVisible),
        Some(backing) => Ok(backing),
    }
}

/// A byte of something that is mapped.
fn at(start: NonNull<u8>, offset: u64) -> NonNull<u8> {
    let there = start.as_ptr().wrapping_add(offset as usize);
    NonNull::new(there).unwrap_or(start)
}
