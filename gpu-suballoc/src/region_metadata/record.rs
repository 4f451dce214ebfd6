//! What is kept of a region beyond its place: one record of 56 bytes for those that need it, none for the others.

#![forbid(unsafe_code)]

use core::ptr::NonNull;

use super::detail::RegionDetail;
use super::foreign::ForeignMemory;
use super::root_state::RootState;
use crate::device::{BufferHandle, MemoryHandle};
use crate::id::{RegionPlace, RegionPlaceKind, RegionSlot};
use crate::property_flags::PropertyFlags;
use crate::region::RegionContent;

/// The last generation of a slot; one that has used it up is retired.
pub(super) const LAST_GENERATION: u32 = (1 << 24) - 1;

/// A slot of the table.
pub(super) enum RegionRecord {
    /// Nothing.
    Free { next: u32, generation: u32 },
    /// Promised to a call that is under way.
    Reserved { generation: u32 },
    /// A region of the allocator's own.
    Root(RootRecord),
    /// A buffer of the application's.
    Wrapped(WrappedRecord),
    /// A part of one of the two.
    Crop(CropRecord),
}

/// A region of the allocator's own that has a buffer or image, a name, crops or mappings.
pub(super) struct RootRecord {
    /// The buffer or image, or 0.
    pub(super) resource: u64,
    /// Bytes that were asked for; 0 where that was not noted.
    pub(super) asked: u64,
    pub(super) detail: Option<RegionDetail>,
    pub(super) key: RegionSlot,
    pub(super) crops: u32,
    /// In the index: the next one of the same bucket.
    pub(super) next: u32,
    /// Of the slot.
    pub(super) generation: u32,
    pub(super) maps: u16,
    /// Of these, the ones that are undone by id.
    pub(super) maps_by_id: u16,
    /// How it was made, an index of the kinds; `Kinds::NONE` where that is not known.
    pub(super) kind: u16,
    pub(super) content: RegionContent,
    pub(super) state: RootState,
}

impl RootRecord {
    /// Whether crops or mappings use it.
    pub(super) const fn is_used(&self) -> bool {
        self.crops > 0 || self.maps > 0
    }

    /// Whether a key names it. Of a region in a block, node and generation say which one it is in its pool; its block may be another by now.
    pub(super) fn is_named(&self, key: RegionSlot) -> bool {
        let is_general = |key: RegionSlot| key.kind() == RegionPlaceKind::General;
        self.key == key
            || is_general(self.key)
                && is_general(key)
                && self.key.place.pool() == key.place.pool()
                && (self.key.slot, self.key.generation) == (key.slot, key.generation)
    }
}

/// A wrapped buffer.
pub(super) struct WrappedRecord {
    pub(super) buffer_info: NonNull<WrappedBuffer>,
    pub(super) detail: Option<RegionDetail>,
    pub(super) crops: u32,
    pub(super) generation: u32,
    pub(super) maps: u16,
    pub(super) maps_by_id: u16,
    pub(super) state: RootState,
}

/// What is known of a wrapped buffer; its block of memory comes with the wrapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrappedBuffer {
    pub(crate) buffer: BufferHandle,
    /// From the start of the buffer.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) backing: Option<Backing>,
    /// How its memory is mapped, where that is left to the allocator.
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

/// The memory behind a wrapped buffer, as far as the application tells.
///
/// The memory stays the application's. With `mapped` it is used through that pointer, and never mapped or unmapped here. Without
/// it the allocator maps the whole object when a wrapped region of it is mapped first, and unmaps it with the last: the
/// application must not map it meanwhile, as no memory object may be mapped twice (VUID-vkMapMemory-memory-00678). For that reason it is
/// no memory of the allocator's own either: a region of that is mapped as what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The memory object that the buffer is bound to.
    pub memory: MemoryHandle,
    /// Where the buffer starts, in bytes from the start of the memory object.
    pub offset: u64,
    /// Bytes of the whole memory object.
    pub memory_size: u64,
    /// What its memory type can do.
    pub properties: PropertyFlags,
    /// Where the application has mapped the start of the memory object, for as long as the buffer is wrapped.
    pub mapped: Option<NonNull<u8>>,
}

/// A part of a root.
pub(super) struct CropRecord {
    /// From the start of the root.
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) detail: Option<RegionDetail>,
    pub(super) root: u32,
    pub(super) generation: u32,
    pub(super) maps: u16,
    pub(super) maps_by_id: u16,
    pub(super) is_pending_free: bool,
}

impl WrappedRecord {
    /// The id that it has in slot `number`, all of which is compared.
    pub(super) fn key(&self, number: u32) -> RegionSlot {
        RegionSlot {
            place: RegionPlace::WRAPPED,
            slot: number,
            generation: self.generation,
        }
    }
}

impl CropRecord {
    /// As for wrapped buffers.
    pub(super) fn key(&self, number: u32) -> RegionSlot {
        RegionSlot {
            place: RegionPlace::CROP,
            slot: number,
            generation: self.generation,
        }
    }
}

// One line of 64 bytes holds one; a table of them is what a buffer costs beyond its place.
const _: () = assert!(size_of::<RegionRecord>() <= 64);
