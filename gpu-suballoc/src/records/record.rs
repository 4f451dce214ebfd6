//! What is kept of a region beyond its place: one record of 56 bytes for those that need it, none for the others.

#![forbid(unsafe_code)]

use core::ptr::NonNull;

use super::detail::Detail;
use super::foreign::Foreign;
use crate::allocator::Content;
use crate::device::{BufferHandle, MemoryHandle};
use crate::id::{Place, PlaceKind, RegionId};
use crate::property_flags::PropertyFlags;

/// No record: the word of a bare region, and the end of a list. Some numbers below are the pools' own.
pub(crate) const NIL: u32 = u32::MAX;
/// The last generation of a slot; one that has used it up is retired.
pub(super) const LAST_GENERATION: u32 = (1 << 24) - 1;

/// A slot of the table.
pub(super) enum Record {
    /// Nothing.
    Free { next: u32, generation: u32 },
    /// Promised to a call that is under way.
    Taken { generation: u32 },
    /// A region of the allocator's own.
    Root(Root),
    /// A buffer of the application's.
    Wrapped(Wrapped),
    /// A part of one of the two.
    Crop(Crop),
}

/// An id without the allocator's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) place: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Key {
    pub(crate) fn of(id: RegionId) -> Self {
        Self { place: id.place().pack(), slot: id.slot(), generation: id.generation() }
    }

    pub(crate) fn kind(self) -> PlaceKind {
        Place::unpack(self.place).kind
    }

    pub(super) fn is_crop(self) -> bool {
        self.kind() == PlaceKind::Crop
    }

    pub(crate) fn id(self, tag: u32) -> RegionId {
        RegionId::new(tag, Place::unpack(self.place), self.slot, self.generation)
    }
}

/// A region of the allocator's own that has a buffer or image, a name, crops or mappings.
pub(super) struct Root {
    /// The buffer or image, or 0.
    pub(super) resource: u64,
    /// Bytes that were asked for; 0 where that was not noted.
    pub(super) asked: u64,
    pub(super) detail: Option<Detail>,
    pub(super) key: Key,
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
    pub(super) content: Content,
    pub(super) state: State,
}

/// How far the life of a root has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Somebody's.
    Live,
    /// Given back while in use: goes with the last crop or mapping.
    Waiting,
    /// Nobody's, kept with its buffer for the next exact fit.
    Parked,
    /// Being taken apart by one call.
    Going,
}

/// A wrapped buffer.
pub(super) struct Wrapped {
    pub(super) facts: NonNull<Wrap>,
    pub(super) detail: Option<Detail>,
    pub(super) crops: u32,
    pub(super) generation: u32,
    pub(super) maps: u16,
    pub(super) maps_by_id: u16,
    pub(super) state: State,
}

/// What is known of a wrapped buffer; its block of memory comes with the wrapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrap {
    pub(crate) buffer: BufferHandle,
    /// From the start of the buffer.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) backing: Option<Backing>,
    /// How its memory is mapped, where that is left to the allocator.
    pub(super) foreign: Option<NonNull<Foreign>>,
}

impl Wrap {
    pub(crate) const fn new(buffer: BufferHandle, offset: u64, size: u64, backing: Option<Backing>) -> Self {
        Self { buffer, offset, size, backing, foreign: None }
    }
}

/// The memory behind a wrapped buffer, as far as the application tells.
///
/// The memory stays the application's. With `mapped` it is used through that pointer, and never mapped or unmapped here. Without
/// it the allocator maps the whole object when a wrapped region of it is mapped first, and unmaps it with the last: the
/// application must not map it meanwhile, as no memory object may be mapped twice (VUID-vkMapMemory-memory-00678).
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
pub(super) struct Crop {
    /// From the start of the root.
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) detail: Option<Detail>,
    pub(super) root: u32,
    pub(super) generation: u32,
    pub(super) maps: u16,
    pub(super) maps_by_id: u16,
    pub(super) waiting: bool,
}

// One line of 64 bytes holds one; a table of them is what a buffer costs beyond its place.
const _: () = assert!(size_of::<Record>() <= 64);
