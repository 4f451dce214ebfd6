//! What a user holds: memory of a device, until it is given back.

use core::fmt;
use core::ptr::NonNull;

use crate::device::{BufferHandle, ImageHandle, MemoryHandle};
use crate::id::{NO_RECORD, RegionId, RegionPlaceKind};

/// A piece of device memory, with the buffer or image that is bound to it, if any: owned, wrapped, or a crop of another.
///
/// Move-only, so that nobody gives it back twice; not tied to its allocator's lifetime, so that it can be kept anywhere.
/// Dropping it gives nothing back: pass it to [`GpuAllocator::free`](crate::GpuAllocator::free) or one of its siblings, or it
/// stays in the leak list. Its [`id`](Region::id) can be kept in tables and be freed by instead.
#[derive(PartialEq, Eq)]
#[must_use = "a region that is dropped is not given back: pass it to GpuAllocator::free"]
pub struct Region {
    pub(crate) id: RegionId,
    pub(crate) memory: Option<MemoryHandle>,
    /// From the start of the memory object.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// A buffer, an image, or 0.
    pub(crate) resource: u64,
    /// From the start of the buffer.
    pub(crate) buffer_offset: u64,
    /// For regions of a shard and their crops: where the first byte of the region of the shard is mapped, by the shard.
    pub(crate) mapped: Option<NonNull<u8>>,
    /// Its record; `NO_RECORD` where none is known of.
    pub(crate) record: u32,
    pub(crate) memory_type: u8,
    pub(crate) content: RegionContent,
}

// SAFETY: the pointer is a number here; whoever reads or writes through it got it from `GpuAllocator::map`, whose rules say how.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; nothing is changed through a shared region.
unsafe impl Sync for Region {}

// What its user knows it by, and nothing of the books.
impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Region");
        shown
            .field("id", &self.id)
            .field("ownership", &self.ownership())
            .field("size", &self.size);
        if let Some(memory) = self.memory {
            shown.field("memory", &memory).field("offset", &self.offset);
        }
        if let Some(buffer) = self.buffer() {
            shown
                .field("buffer", &buffer)
                .field("copy_offset", &self.buffer_offset);
        }
        if let Some(image) = self.image() {
            shown.field("image", &image);
        }
        if let Some(memory_type) = self.memory_type() {
            shown.field("memory_type", &memory_type);
        }
        shown.finish()
    }
}

/// What a region's `resource` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum RegionContent {
    /// None: the user binds something of its own.
    Bare,
    /// A `VkBuffer`.
    Buffer,
    /// A `VkImage`.
    Image,
}

/// Whose memory a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// The allocator's: given back with the region.
    Owned,
    /// The application's: never destroyed, freed or unmapped by the allocator.
    Wrapped,
    /// A part of another region, which lives at least as long.
    CropAlias,
}

impl Region {
    /// Its name for tables, aliases and C; valid until the region is given back, and never again.
    #[inline]
    #[must_use]
    pub const fn id(&self) -> RegionId {
        self.id
    }

    /// The memory object it lies in; `None` for a wrapped buffer whose backing was not told. To be bound to, not to be mapped or freed.
    #[inline]
    #[must_use]
    pub const fn memory(&self) -> Option<MemoryHandle> {
        self.memory
    }

    /// Where it starts, in bytes from the start of the memory object; 0 where that is not known.
    #[inline]
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes; at least as many as were asked for.
    #[inline]
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The buffer that is bound to it: its own, the wrapped one, or that of the region it was cut from.
    #[inline]
    #[must_use]
    pub const fn buffer(&self) -> Option<BufferHandle> {
        match self.content {
            RegionContent::Buffer => BufferHandle::from_raw(self.resource),
            RegionContent::Bare | RegionContent::Image => None,
        }
    }

    /// The image that is bound to it.
    #[inline]
    #[must_use]
    pub const fn image(&self) -> Option<ImageHandle> {
        match self.content {
            RegionContent::Image => ImageHandle::from_raw(self.resource),
            RegionContent::Bare | RegionContent::Buffer => None,
        }
    }

    /// Where it starts, in bytes from the start of its buffer (`VkBufferCopy`): what was wrapped plus what was cropped. From the
    /// start of the region that it was cut from, where there is no buffer.
    #[inline]
    #[must_use]
    pub const fn copy_offset(&self) -> u64 {
        self.buffer_offset
    }

    /// Index of its memory type; `None` for a wrapped buffer, of which that is not known.
    #[inline]
    #[must_use]
    pub const fn memory_type(&self) -> Option<u32> {
        if self.memory_type == Self::NO_TYPE {
            None
        } else {
            Some(self.memory_type as u32)
        }
    }

    /// Whose memory it is.
    #[inline]
    #[must_use]
    pub const fn ownership(&self) -> Ownership {
        match self.id.kind() {
            RegionPlaceKind::Wrapped => Ownership::Wrapped,
            RegionPlaceKind::Crop => Ownership::CropAlias,
            _ => Ownership::Owned,
        }
    }

    /// Of a pool, with nothing but its place, as far as the region itself knows.
    pub(crate) const fn is_bare(&self) -> bool {
        self.record == NO_RECORD && self.id.kind().is_in_pool()
    }

    pub(crate) const NO_TYPE: u8 = u8::MAX;
}
