#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::resource_description::NO_DESCRIPTION;
use super::root_state::{RemovalTime, RootState};
use crate::device::{BufferHandle, ImageHandle, MemoryHandle, ResourceHandle};
use crate::error::GpuMisuse;
use crate::growable_vec::Chunked;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::id::{BlockRef, LAST_GENERATION, RangePlacement, RegionKey, RegionPlace};
use crate::memory_type::PropertyFlags;
use core::alloc::Layout;
use core::ptr::NonNull;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Free,
    Reserved,
    /// A region of the allocator's own memory, without a resource.
    Bare,
    Buffer,
    Image,
    Wrapped,
    Crop,
}

#[repr(C)]
pub(super) struct RegionRecord {
    /// Of a root the buffer or image, or 0; of a crop where it starts in its root.
    pub(super) value: u64,
    /// Of a root the requested bytes, of a crop its bytes.
    pub(super) size: u64,
    pub(super) detail: Option<RegionDetail>,
    /// A move writes this and the node in `link`.
    pub(super) block: BlockRef,
    /// Of a root its node, of a crop its root's slot, of a wrapped buffer its number, of a free slot the next one.
    pub(super) link: u32,
    pub(super) generation: u32,
    /// Unmaps of the region that are under way count too. A crop has none.
    pub(super) crops: u32,
    pub(super) maps: u16,
    /// Those of `maps` that are undone by id.
    pub(super) maps_by_id: u16,
    pub(super) description: u16,
    pub(super) kind: RecordKind,
    pub(super) state: RootState,
}

// With a node of 32 bytes for its place, a region costs 80 bytes.
const _: () = assert!(size_of::<RegionRecord>() == 48 || usize::BITS != 64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootView {
    pub(crate) resource: Option<ResourceHandle>,
    pub(crate) asked: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordView {
    Root(RootView, RegionPlace),
    Wrapped(WrappedBuffer),
}

impl RegionRecord {
    pub(super) const NEW: Self = Self {
        value: 0,
        size: 0,
        detail: None,
        block: BlockRef::new(RangePlacement::General, 0, 0),
        link: NONE,
        generation: 1,
        crops: 0,
        maps: 0,
        maps_by_id: 0,
        description: NO_DESCRIPTION,
        kind: RecordKind::Free,
        state: RootState::Live,
    };

    pub(super) const fn is_region(&self) -> bool {
        !matches!(self.kind, RecordKind::Free | RecordKind::Reserved)
    }

    pub(super) const fn is_root(&self) -> bool {
        matches!(self.kind, RecordKind::Bare | RecordKind::Buffer | RecordKind::Image)
    }

    pub(super) const fn is_used(&self) -> bool {
        self.crops > 0 || self.maps > 0
    }

    pub(super) fn resource(&self) -> Option<ResourceHandle> {
        match self.kind {
            RecordKind::Buffer => BufferHandle::from_raw(self.value).map(ResourceHandle::Buffer),
            RecordKind::Image => ImageHandle::from_raw(self.value).map(ResourceHandle::Image),
            _ => None,
        }
    }

    pub(super) const fn set_resource(&mut self, resource: Option<ResourceHandle>) {
        (self.kind, self.value) = match resource {
            None => (RecordKind::Bare, 0),
            Some(ResourceHandle::Buffer(buffer)) => (RecordKind::Buffer, buffer.as_raw()),
            Some(ResourceHandle::Image(image)) => (RecordKind::Image, image.as_raw()),
        };
    }

    pub(super) fn root(&self, slot: u32) -> (u32, u64) {
        match self.kind {
            RecordKind::Crop => (self.link, self.value),
            _ => (slot, 0),
        }
    }

    pub(super) fn view(&self) -> RootView {
        RootView { resource: self.resource(), asked: self.size }
    }

    pub(super) const fn place(&self, slot: u32) -> RegionPlace {
        RegionPlace { block: self.block, node: self.link, slot }
    }

    pub(super) const fn key(&self, slot: u32) -> RegionKey {
        RegionKey { slot, generation: self.generation }
    }

    pub(super) fn remove_map(&mut self, by_id: bool) -> Result<(), GpuMisuse> {
        let maps = self.maps.checked_sub(1).ok_or(GpuMisuse::NotMapped)?;
        self.maps_by_id = self.maps_by_id.checked_sub(u16::from(by_id)).ok_or(GpuMisuse::NotMapped)?;
        self.maps = maps;
        Ok(())
    }

    pub(super) fn begin_removal(&mut self, wait: bool) -> Result<RemovalTime, GpuMisuse> {
        let is_used = self.is_used();
        if self.state.is_live() && is_used && !wait {
            return Err(if self.crops > 0 { GpuMisuse::HasCrops } else { GpuMisuse::Mapped });
        }
        self.state.begin_removal(is_used).ok_or(GpuMisuse::Stale)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WrappedBuffer {
    pub(crate) buffer: BufferHandle,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) backing: Option<Backing>,
    pub(crate) foreign: Option<u32>,
}

/// The memory behind a wrapped buffer.
///
/// The memory stays the application's. With `mapped` the allocator uses that pointer and never maps or unmaps the
/// memory. Without it the allocator maps the whole object with the first mapping of a wrapped region, and unmaps it
/// with the last: the application must not map it meanwhile (VUID-vkMapMemory-memory-00678). It must not be memory of
/// the allocator's own.
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

const CHUNK_RECORDS: usize = 64;
/// Larger numbers are the pools' own, and [`NONE`].
const MAX_RECORDS: u32 = crate::pool::MOVE_TARGET;
const NONE: u32 = u32::MAX;

/// In reserve it has one slot.
pub(super) struct RecordTable {
    records: Chunked<RegionRecord, CHUNK_RECORDS>,
    free: u32,
}

impl RecordTable {
    pub(super) const fn new() -> Self {
        Self { records: Chunked::new(), free: NONE }
    }

    pub(super) fn get(&self, number: u32) -> Option<&RegionRecord> {
        self.records.get(number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut RegionRecord> {
        self.records.get_mut(number)
    }

    pub(super) fn named(&self, key: RegionKey) -> Result<&RegionRecord, GpuMisuse> {
        self.get(key.slot)
            .filter(|record| record.is_region() && record.generation == key.generation)
            .ok_or(GpuMisuse::Stale)
    }

    pub(super) fn named_mut(&mut self, key: RegionKey) -> Result<&mut RegionRecord, GpuMisuse> {
        self.get_mut(key.slot)
            .filter(|record| record.is_region() && record.generation == key.generation)
            .ok_or(GpuMisuse::Stale)
    }

    pub(super) fn live(&mut self, key: RegionKey) -> Result<&mut RegionRecord, GpuMisuse> {
        let record = self.named_mut(key)?;
        if record.state.is_live() { Ok(record) } else { Err(GpuMisuse::Stale) }
    }

    pub(super) fn root_at(&self, at: RegionPlace) -> Option<&RegionRecord> {
        (self.get(at.slot)).filter(|record| record.is_root() && record.place(at.slot) == at)
    }

    pub(super) fn root_mut(&mut self, key: RegionKey) -> Option<&mut RegionRecord> {
        (self.named_mut(key).ok()).filter(|record| record.is_root())
    }

    pub(super) fn reserve(&mut self) -> Option<u32> {
        let number = self.free;
        let slot = self.get_mut(number)?;
        slot.kind = RecordKind::Reserved;
        self.free = slot.link;
        Some(number)
    }

    /// The slot's generation stays.
    pub(super) fn fill(&mut self, number: u32, record: RegionRecord) -> Option<RegionKey> {
        let slot = self.get_mut(number)?;
        *slot = RegionRecord { generation: slot.generation, ..record };
        Some(slot.key(number))
    }

    /// The content must have been moved out. The next generation is for a slot that was `used`.
    pub(super) fn release(&mut self, number: u32, used: bool) {
        let next = self.free;
        let Some(slot) = self.get_mut(number) else {
            return;
        };
        let generation = slot.generation + u32::from(used);
        *slot = RegionRecord { link: next, generation, ..RegionRecord::NEW };
        if generation <= LAST_GENERATION {
            self.free = number;
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &RegionRecord)> {
        (0..self.records.len()).filter_map(|number| self.get(number).map(|record| (number, record)))
    }
}

impl GrowableTable for RecordTable {
    fn missing(&self) -> Option<Layout> {
        let can_grow = self.records.len() < MAX_RECORDS;
        (can_grow && self.free == NONE).then(|| self.records.missing())
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let (first, free) = (self.records.len(), self.free);
        let last = first + CHUNK_RECORDS as u32 - 1;
        let unneeded = self.records.grow_with(block, |number| RegionRecord {
            link: if number == last { free } else { number + 1 },
            ..RegionRecord::NEW
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
        assert_eq!(table.get(77).unwrap().generation, 2);
        table.get_mut(77).unwrap().generation = LAST_GENERATION;
        table.release(77, true);
        fill(&mut table, &memory).unwrap();
        assert_ne!(table.reserve(), Some(77), "used up");
        free_table(&mut table, &memory);
        assert!(table.reserve().is_none() && table.get(0).is_none());
    }
}
