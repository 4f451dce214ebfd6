//! The record of a region: 56 bytes for a region that has more than a place in memory; the others have none.

#![forbid(unsafe_code)]

use core::ptr::NonNull;

use super::detail::RegionDetail;
use super::foreign::ForeignMemory;
use super::resource_description::ResourceDescriptions;
use super::root_state::{RemovalTime, RootState};
use crate::device::{BufferHandle, MemoryHandle};
use crate::error::GpuMisuse;
use crate::id::{NO_RECORD, RegionPlace, RegionPlaceKind, RegionSlot};
use crate::property_flags::PropertyFlags;
use crate::region::RegionContent;

/// The last generation of a slot; a slot that has used it is retired.
pub(super) const LAST_GENERATION: u32 = (1 << 24) - 1;

/// A slot of the table.
pub(super) enum RegionRecord {
    Free {
        next: u32,
        generation: u32,
    },
    /// Reserved by a call that is under way.
    Reserved {
        generation: u32,
    },
    /// A region of the allocator's own that has a buffer or image, a name, crops or mappings.
    Root(RootRecord),
    /// A buffer of the application's.
    Wrapped(WrappedRecord),
    /// A part of one of the two.
    Crop(CropRecord),
}

/// The fields that all records of regions have. A fixed layout, so that the record's discriminant fits into `content`.
#[repr(C)]
pub(super) struct RecordHeader {
    pub(super) detail: Option<RegionDetail>,
    /// The slot's generation.
    pub(super) generation: u32,
    /// Crops of this region, and unmaps of it that are under way; a crop has none.
    pub(super) crops: u32,
    pub(super) maps: u16,
    /// Those of `maps` that are undone by id.
    pub(super) maps_by_id: u16,
    /// The index of its resource's description, or `ResourceDescriptions::NONE`.
    pub(super) kind: u16,
    pub(super) content: RegionContent,
    pub(super) state: RootState,
}

#[repr(C)]
pub(super) struct RootRecord {
    /// The buffer or image, or 0.
    pub(super) resource: u64,
    /// Requested bytes; 0 if they are not known.
    pub(super) asked: u64,
    pub(super) key: RegionSlot,
    /// The next record of the same bucket of the index.
    pub(super) next: u32,
    pub(super) header: RecordHeader,
}

pub(super) struct WrappedRecord {
    pub(super) buffer_info: NonNull<WrappedBuffer>,
    pub(super) header: RecordHeader,
}

pub(super) struct CropRecord {
    /// From the start of the root.
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The root's record.
    pub(super) root: u32,
    pub(super) header: RecordHeader,
}

// One line of 64 bytes holds one; a table of them is what a buffer costs beyond its place.
const _: () = assert!(size_of::<RegionRecord>() <= 56);

/// The resource of a root: a buffer, an image, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootView {
    pub(crate) resource: u64,
    pub(crate) content: RegionContent,
    /// Requested bytes; 0 if they are not known.
    pub(crate) asked: u64,
}

impl RootView {
    pub(crate) const BARE: Self = Self {
        resource: 0,
        content: RegionContent::Bare,
        asked: 0,
    };
}

/// The region of a record that is no crop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordView {
    Root(RootView),
    Wrapped(WrappedBuffer),
}

impl RecordHeader {
    pub(super) const fn new(generation: u32) -> Self {
        Self {
            detail: None,
            generation,
            crops: 0,
            maps: 0,
            maps_by_id: 0,
            kind: ResourceDescriptions::NONE,
            content: RegionContent::Bare,
            state: RootState::Live,
        }
    }

    /// Whether crops or mappings use it.
    pub(super) const fn is_used(&self) -> bool {
        self.crops > 0 || self.maps > 0
    }

    /// Begins the removal of a live region. A region in use is refused, unless its removal may `wait` for its last use.
    pub(super) fn begin_removal(&mut self, wait: bool) -> Result<RemovalTime, GpuMisuse> {
        let is_used = self.is_used();
        if self.state.is_live() && is_used && !wait {
            return Err(if self.crops > 0 {
                GpuMisuse::HasCrops
            } else {
                GpuMisuse::Mapped
            });
        }
        self.state.begin_removal(is_used).ok_or(GpuMisuse::Stale)
    }

    /// Counts a mapping off, one that is undone by id if `by_id`.
    pub(super) fn remove_map(&mut self, by_id: bool) -> Result<(), GpuMisuse> {
        let maps = self.maps.checked_sub(1).ok_or(GpuMisuse::NotMapped)?;
        self.maps_by_id = self
            .maps_by_id
            .checked_sub(u16::from(by_id))
            .ok_or(GpuMisuse::NotMapped)?;
        self.maps = maps;
        Ok(())
    }
}

impl RootRecord {
    pub(super) const fn new(key: RegionSlot, header: RecordHeader) -> Self {
        Self {
            resource: 0,
            asked: 0,
            key,
            next: NO_RECORD,
            header,
        }
    }

    /// Whether `key` names this root. Node and generation identify a region of a block within its pool; a move may have changed its block.
    pub(super) fn is_named(&self, key: RegionSlot) -> bool {
        let is_general = |key: RegionSlot| key.kind() == RegionPlaceKind::General;
        self.key == key
            || is_general(self.key)
                && is_general(key)
                && self.key.place.pool() == key.place.pool()
                && (self.key.slot, self.key.generation) == (key.slot, key.generation)
    }

    pub(super) const fn view(&self) -> RootView {
        RootView {
            resource: self.resource,
            content: self.header.content,
            asked: self.asked,
        }
    }
}

impl RegionRecord {
    pub(super) const fn header(&self) -> Option<&RecordHeader> {
        match self {
            Self::Free { .. } | Self::Reserved { .. } => None,
            Self::Root(root) => Some(&root.header),
            Self::Wrapped(wrapped) => Some(&wrapped.header),
            Self::Crop(crop) => Some(&crop.header),
        }
    }

    pub(super) const fn header_mut(&mut self) -> Option<&mut RecordHeader> {
        match self {
            Self::Free { .. } | Self::Reserved { .. } => None,
            Self::Root(root) => Some(&mut root.header),
            Self::Wrapped(wrapped) => Some(&mut wrapped.header),
            Self::Crop(crop) => Some(&mut crop.header),
        }
    }

    pub(super) const fn generation(&self) -> u32 {
        match self {
            Self::Free { generation, .. } | Self::Reserved { generation } => *generation,
            Self::Root(RootRecord { header, .. })
            | Self::Wrapped(WrappedRecord { header, .. })
            | Self::Crop(CropRecord { header, .. }) => header.generation,
        }
    }

    /// The name of the region whose record is in slot `number`.
    pub(super) const fn key(&self, number: u32) -> Option<RegionSlot> {
        let place = match self {
            Self::Free { .. } | Self::Reserved { .. } => return None,
            Self::Root(root) => return Some(root.key),
            Self::Wrapped(_) => RegionPlace::WRAPPED,
            Self::Crop(_) => RegionPlace::CROP,
        };
        Some(RegionSlot {
            place,
            slot: number,
            generation: self.generation(),
        })
    }

    /// Whether `key` names the region whose record is in slot `number`.
    pub(super) fn is_named(&self, number: u32, key: RegionSlot) -> bool {
        match self {
            Self::Root(root) => root.is_named(key),
            other => other.key(number) == Some(key),
        }
    }

    /// The region, unless the record is a crop's.
    pub(super) fn view(&self) -> Option<RecordView> {
        match self {
            Self::Root(root) => Some(RecordView::Root(root.view())),
            Self::Wrapped(wrapped) => Some(RecordView::Wrapped(wrapped.buffer_info())),
            _ => None,
        }
    }
}

/// A wrapped buffer, in a block of memory of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrappedBuffer {
    pub(crate) buffer: BufferHandle,
    /// From the start of the buffer.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) backing: Option<Backing>,
    /// The mapping of its memory, if the allocator maps it.
    pub(super) foreign: Option<NonNull<ForeignMemory>>,
}

impl WrappedBuffer {
    pub(crate) const fn new(
        buffer: BufferHandle,
        offset: u64,
        size: u64,
        backing: Option<Backing>,
    ) -> Self {
        Self {
            buffer,
            offset,
            size,
            backing,
            foreign: None,
        }
    }
}

/// The memory behind a wrapped buffer.
///
/// The memory stays the application's. With `mapped` the allocator uses that pointer and never maps or unmaps the memory. Without
/// it the allocator maps the whole object when the first wrapped region of it is mapped, and unmaps it with the last: the
/// application must not map it meanwhile, as no memory object may be mapped twice (VUID-vkMapMemory-memory-00678). For the same reason
/// it must not be memory of the allocator's own: map a region of that instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The memory object that the buffer is bound to.
    pub memory: MemoryHandle,
    /// Where the buffer starts, in bytes from the start of the memory object.
    pub offset: u64,
    /// Bytes of the whole memory object.
    pub memory_size: u64,
    /// The properties of its memory type.
    pub properties: PropertyFlags,
    /// Where the application has mapped the start of the memory object, for as long as the buffer is wrapped.
    pub mapped: Option<NonNull<u8>>,
}
