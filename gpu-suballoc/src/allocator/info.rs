//! What an id names.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::region::{Content, Ownership, Region};
use super::{GpuAllocator, where_of};
use crate::GpuError;
use crate::device::{BufferHandle, DeviceMemory, ImageHandle, MemoryHandle};
use crate::error::Misuse;
use crate::id::{PlaceKind, RegionId};
use crate::pool::FoundRegion;
use crate::records::{Facts, Key, NIL, NewName, Seen, SeenCrop};
use crate::request::RegionOptions;

/// What is known of a region at the moment it is asked.
#[derive(Clone, Copy, Debug)]
pub struct RegionInfo {
    /// Whose it is.
    pub ownership: Ownership,
    /// The region it was cut from; itself where it is no crop.
    pub root: RegionId,
    /// As [`Region::memory`].
    pub memory: Option<MemoryHandle>,
    /// As [`Region::offset`].
    pub offset: u64,
    /// As [`Region::size`].
    pub size: u64,
    /// As [`Region::buffer`].
    pub buffer: Option<BufferHandle>,
    /// As [`Region::image`].
    pub image: Option<ImageHandle>,
    /// As [`Region::copy_offset`].
    pub copy_offset: u64,
    /// As [`Region::memory_type`].
    pub memory_type: Option<u32>,
    facts: Option<Facts>,
}

impl RegionInfo {
    /// What it is called; empty where it has no name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.facts.as_ref().map_or("", Facts::name)
    }

    /// The user's word; 0 where there is none.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.facts.map_or(0, |facts| facts.tag)
    }

    /// Where it was asked for; 0 where that is not known.
    #[must_use]
    pub fn site(&self) -> u64 {
        self.facts.map_or(0, |facts| facts.site)
    }

    /// Crops that were cut from it; crops of crops count at the root.
    #[must_use]
    pub fn crops(&self) -> u32 {
        self.facts.map_or(0, |facts| facts.crops)
    }

    /// Mappings of it.
    #[must_use]
    pub fn maps(&self) -> u32 {
        self.facts.map_or(0, |facts| u32::from(facts.maps))
    }
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// What an id names.
    ///
    /// # Errors
    /// [`Misuse::Stale`] for what was given back, [`Misuse::OtherAllocator`], and [`Misuse::OtherShard`] for a region of a shard, whose
    /// books only its thread reads.
    pub fn info(&self, id: RegionId) -> Result<RegionInfo, Misuse> {
        let region = self.look(id)?;
        let root = if region.ownership() == Ownership::CropAlias { self.see_crop(id)?.root_key.id(self.tag) } else { id };
        Ok(RegionInfo {
            ownership: region.ownership(),
            root,
            memory: region.memory(),
            offset: region.offset(),
            size: region.size(),
            buffer: region.buffer(),
            image: region.image(),
            copy_offset: region.copy_offset(),
            memory_type: region.memory_type(),
            facts: if region.record == NIL { None } else { self.records.facts(region.record, Key::of(id)) },
        })
    }

    /// Gives a region another name, tag and site: those of `options`, of which nothing else is read.
    ///
    /// # Errors
    /// As [`crop`](GpuAllocator::crop); the region keeps the name it had.
    pub fn set_name(&self, region: &Region, options: &RegionOptions<'_>) -> Result<(), GpuError> {
        if region.id.tag() != self.tag {
            return Err(Misuse::OtherAllocator.into());
        }
        let key = Key::of(region.id);
        // The name before the record, so that a refusal leaves neither.
        let name = NewName::new(self.host(), options)?;
        let number = match key.kind() {
            PlaceKind::Wrapped | PlaceKind::Crop => Ok(key.slot),
            _ => self.attach_now(region),
        };
        match number {
            Ok(number) => self.records.put_name(self.host(), number, key, name),
            Err(error) => {
                name.free(self.host());
                Err(error)
            }
        }
    }

    /// The region that an id names, as its owner has it, but not to be given back.
    pub(crate) fn look(&self, id: RegionId) -> Result<Region, Misuse> {
        if id.tag() != self.tag {
            return Err(Misuse::OtherAllocator);
        }
        let key = Key::of(id);
        match key.kind() {
            PlaceKind::Shard => Err(Misuse::OtherShard),
            PlaceKind::Wrapped => match self.records.see(key.slot, key)? {
                Seen::Wrapped(wrap) => Ok(wrap.region(key, self.tag)),
                Seen::Root { .. } => Err(Misuse::Stale),
            },
            PlaceKind::Crop => {
                let SeenCrop { number, root_key, root, offset, size } = self.records.see_crop(key.slot, key)?;
                let root = match root {
                    Seen::Wrapped(wrap) => wrap.region(root_key, self.tag),
                    _ if root_key.kind() == PlaceKind::Shard => return Err(Misuse::OtherShard),
                    seen => self.seen(root_key.id(self.tag), number, &seen, &self.pools.find(where_of(root_key.id(self.tag)))?),
                };
                let (start, buffer_offset) = (root.offset + offset, root.buffer_offset + offset);
                let start = if root.memory.is_some() { start } else { 0 };
                Ok(Region { id, offset: start, size, buffer_offset, record: key.slot, ..root })
            }
            _ => {
                let found = self.pools.find(where_of(id))?;
                let seen = match found.word {
                    NIL => Seen::Root { resource: 0, content: Content::Bare, asked: 0 },
                    number => self.records.see(number, key)?,
                };
                Ok(self.seen(id, found.word, &seen, &found))
            }
        }
    }

    fn seen(&self, id: RegionId, record: u32, seen: &Seen, found: &FoundRegion) -> Region {
        let (resource, content, asked) = match *seen {
            Seen::Root { resource, content, asked } => (resource, content, asked),
            Seen::Wrapped(_) => (0, Content::Bare, 0),
        };
        Region {
            id,
            memory: Some(found.memory),
            offset: found.offset,
            size: if content == Content::Bare { found.size } else { asked },
            resource,
            buffer_offset: 0,
            mapped: None,
            record,
            memory_type: found.memory_type as u8,
            content,
        }
    }
}
