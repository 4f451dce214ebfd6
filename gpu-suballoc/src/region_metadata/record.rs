//! The slot of a region: 48 bytes.

#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::resource_description::ResourceDescriptions;
use super::root_state::{RemovalTime, RootState};
use super::wrapped_buffers::ForeignMemory;
use crate::device::{BufferHandle, MemoryHandle};
use crate::error::GpuMisuse;
use crate::growable_vec::Chunked;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::id::{BlockRef, LAST_GENERATION, RegionKey, RegionPlace};
use crate::memory_type::PropertyFlags;
use crate::region::RegionContent;
use core::alloc::Layout;
use core::ptr::NonNull;

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
    /// A region of the allocator's own memory.
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
    /// Crops of this region, and unmaps of it that are under way. A crop has none, and keeps its [root](CropRecord::root) here: with a field
    /// more, every record would be 56 bytes.
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
    /// Requested bytes.
    pub(super) asked: u64,
    /// Where it lies; a move writes both.
    pub(super) block: BlockRef,
    pub(super) node: u32,
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
    pub(super) header: RecordHeader,
}

// With a node of 32 bytes for its place, a region costs 80 bytes.
const _: () = assert!(size_of::<RegionRecord>() <= 48);

/// The resource of a root: a buffer, an image, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootView {
    pub(crate) resource: u64,
    pub(crate) content: RegionContent,
    /// Requested bytes.
    pub(crate) asked: u64,
}

/// A region that is no crop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordView {
    Root(RootView, RegionPlace),
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

    /// Whether crops or mappings use it, if it is not a crop's.
    pub(super) const fn is_used(&self) -> bool {
        self.crops > 0 || self.maps > 0
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

impl CropRecord {
    /// `header` is a new one.
    pub(super) const fn new(root: u32, (offset, size): (u64, u64), header: RecordHeader) -> Self {
        let header = RecordHeader {
            crops: root,
            ..header
        };
        Self {
            offset,
            size,
            header,
        }
    }

    /// The root's slot.
    pub(super) const fn root(&self) -> u32 {
        self.header.crops
    }
}

impl RootRecord {
    pub(super) const fn view(&self) -> RootView {
        RootView {
            resource: self.resource,
            content: self.header.content,
            asked: self.asked,
        }
    }

    /// Where the region of this slot lies.
    pub(super) const fn place(&self, slot: u32) -> RegionPlace {
        RegionPlace {
            block: self.block,
            node: self.node,
            slot,
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

    /// Crops of the region, and unmaps of it that are under way.
    pub(super) fn crops(&self) -> u32 {
        match self {
            Self::Crop(_) => 0,
            _ => self.header().map_or(0, |header| header.crops),
        }
    }

    /// Whether crops or mappings use the region.
    pub(super) fn is_used(&self) -> bool {
        match self {
            Self::Crop(crop) => crop.header.maps > 0,
            _ => self.header().is_some_and(RecordHeader::is_used),
        }
    }

    /// Begins the removal of a live region. A region in use is refused, unless its removal may `wait` for its last use.
    pub(super) fn begin_removal(&mut self, wait: bool) -> Result<RemovalTime, GpuMisuse> {
        let (crops, is_used) = (self.crops(), self.is_used());
        let header = self.header_mut().ok_or(GpuMisuse::Stale)?;
        if header.state.is_live() && is_used && !wait {
            return Err(if crops > 0 {
                GpuMisuse::HasCrops
            } else {
                GpuMisuse::Mapped
            });
        }
        header.state.begin_removal(is_used).ok_or(GpuMisuse::Stale)
    }

    pub(super) const fn generation(&self) -> u32 {
        match self {
            Self::Free { generation, .. } | Self::Reserved { generation } => *generation,
            Self::Root(RootRecord { header, .. })
            | Self::Wrapped(WrappedRecord { header, .. })
            | Self::Crop(CropRecord { header, .. }) => header.generation,
        }
    }

    /// The name of the region in this slot.
    pub(super) const fn key(&self, slot: u32) -> RegionKey {
        RegionKey {
            slot,
            generation: self.generation(),
        }
    }

    /// The region in this slot, unless it is a crop.
    pub(super) fn view(&self, slot: u32) -> Option<RecordView> {
        match self {
            Self::Root(root) => Some(RecordView::Root(root.view(), root.place(slot))),
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

// The slots of records: 64 in a chunk, which never moves.

const CHUNK_RECORDS: usize = 64;
/// Larger numbers are the pools' own, and [`NONE`].
const MAX_RECORDS: u32 = crate::pool::FIRST_OWN;
/// No slot.
const NONE: u32 = u32::MAX;

/// In reserve it has one slot.
pub(super) struct RecordTable {
    records: Chunked<RegionRecord, CHUNK_RECORDS>,
    /// The first free slot.
    free: u32,
}

impl RecordTable {
    pub(super) const fn new() -> Self {
        Self {
            records: Chunked::new(),
            free: NONE,
        }
    }

    /// Whether a slot is free.
    pub(super) const fn has_free(&self) -> bool {
        self.free != NONE
    }

    pub(super) fn get(&self, number: u32) -> Option<&RegionRecord> {
        self.records.get(number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut RegionRecord> {
        self.records.get_mut(number)
    }

    /// The record that `key` names.
    pub(super) fn named(&self, key: RegionKey) -> Result<&RegionRecord, GpuMisuse> {
        self.get(key.slot)
            .filter(|record| record.header().is_some() && record.generation() == key.generation)
            .ok_or(GpuMisuse::Stale)
    }

    /// The record that `key` names.
    pub(super) fn record_mut(&mut self, key: RegionKey) -> Result<&mut RegionRecord, GpuMisuse> {
        self.get_mut(key.slot)
            .filter(|record| record.header().is_some() && record.generation() == key.generation)
            .ok_or(GpuMisuse::Stale)
    }

    /// The header of the record that `key` names.
    pub(super) fn named_mut(&mut self, key: RegionKey) -> Result<&mut RecordHeader, GpuMisuse> {
        let record = self.record_mut(key)?;
        record.header_mut().ok_or(GpuMisuse::Stale)
    }

    /// The root in a slot.
    pub(super) fn root(&self, slot: u32) -> Option<&RootRecord> {
        match self.get(slot) {
            Some(RegionRecord::Root(root)) => Some(root),
            _ => None,
        }
    }

    /// The root at a place.
    pub(super) fn root_at(&self, at: RegionPlace) -> Option<&RootRecord> {
        self.root(at.slot).filter(|root| root.place(at.slot) == at)
    }

    /// The root that `key` names.
    pub(super) fn root_mut(&mut self, key: RegionKey) -> Option<&mut RootRecord> {
        match self.get_mut(key.slot) {
            Some(RegionRecord::Root(root)) if root.header.generation == key.generation => {
                Some(root)
            }
            _ => None,
        }
    }

    /// Reserves a slot: its number.
    pub(super) fn reserve(&mut self) -> Option<u32> {
        let number = self.free;
        let slot = self.get_mut(number)?;
        let RegionRecord::Free { next, generation } = *slot else {
            return None;
        };
        *slot = RegionRecord::Reserved { generation };
        self.free = next;
        Some(number)
    }

    /// Fills a reserved slot. Returns its name.
    pub(super) fn fill(
        &mut self,
        number: u32,
        record: impl FnOnce(RecordHeader) -> RegionRecord,
    ) -> Option<RegionKey> {
        let slot = self.get_mut(number)?;
        let generation = slot.generation();
        *slot = record(RecordHeader::new(generation));
        Some(RegionKey {
            slot: number,
            generation,
        })
    }

    /// Frees a slot, for the next generation if it was `used`. Drops nothing: its content must have been moved out.
    pub(super) fn release(&mut self, number: u32, used: bool) {
        let next = self.free;
        let Some(slot) = self.get_mut(number) else {
            return;
        };
        let generation = slot.generation() + u32::from(used);
        *slot = RegionRecord::Free { next, generation };
        if generation <= LAST_GENERATION {
            self.free = number;
        }
    }

    /// Each slot, in order of number.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &RegionRecord)> {
        (0..self.records.len()).filter_map(|number| self.get(number).map(|record| (number, record)))
    }
}

impl GrowableTable for RecordTable {
    fn missing(&self) -> Option<Layout> {
        let can_grow = self.records.len() < MAX_RECORDS;
        (can_grow && !self.has_free()).then(|| self.records.missing())
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let (first, free) = (self.records.len(), self.free);
        let last = first + CHUNK_RECORDS as u32 - 1;
        let unneeded = self.records.grow_with(block, |number| RegionRecord::Free {
            next: if number == last { free } else { number + 1 },
            generation: 1,
        });
        if self.records.len() > first {
            self.free = first;
        }
        unneeded
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.free = NONE;
        self.records.detach_memory()
    }
}

#[cfg(test)]
mod table_tests {
    use std::vec::Vec;

    use alloc_core::FromGlobalAlloc;

    use super::*;
    use crate::host_memory::{fill, free_table};

    #[test]
    fn slots_differ_come_back_and_are_retired() {
        let memory = FromGlobalAlloc::SYSTEM;
        let mut table = RecordTable::new();
        assert!(table.reserve().is_none(), "without memory");
        let mut numbers = Vec::new();
        for _ in 0..2000 {
            fill(&mut table, &memory).unwrap();
            numbers.push(table.reserve().unwrap());
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 2000);
        assert!(table.get(NONE).is_none() && table.get(4096).is_none());
        table.release(77, true);
        assert_eq!(table.reserve(), Some(77));
        assert_eq!(table.get(77).unwrap().generation(), 2);
        *table.get_mut(77).unwrap() = RegionRecord::Reserved {
            generation: LAST_GENERATION,
        };
        table.release(77, true);
        fill(&mut table, &memory).unwrap();
        assert_ne!(table.reserve(), Some(77), "used up");
        free_table(&mut table, &memory);
        assert!(table.reserve().is_none() && table.get(0).is_none());
    }
}
