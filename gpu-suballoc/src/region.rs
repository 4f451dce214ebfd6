//! Regions: device memory of a user, until it is freed.

use core::ptr::NonNull;

use crate::device::{BufferHandle, ImageHandle, MemoryHandle, ResourceHandle};
pub use crate::id::RangePlacement;
use crate::id::RegionId;
use crate::map_count::Address;
use crate::memory_type::PropertyFlags;

/// A piece of device memory, with the buffer or image that is bound to it, if any: owned, wrapped, or a crop of
/// another.
///
/// It is move-only, so that it is freed once. Dropping it frees nothing: pass it to
/// [`GpuAllocator::free`](crate::GpuAllocator::free) or a similar call, or it stays in the leak list.
#[doc(alias("VmaAllocation", "Allocation", "suballocation"))]
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping a region does not free it: pass it to GpuAllocator::free"]
pub struct Region {
    pub(crate) id: RegionId,
    pub(crate) memory: Option<MemoryHandle>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) resource: Option<ResourceHandle>,
    pub(crate) buffer_offset: u64,
    pub(crate) memory_type: Option<u32>,
    pub(crate) is_dedicated: bool,
    pub(crate) properties: PropertyFlags,
    pub(crate) mapped: Option<Address>,
    pub(crate) ownership: Ownership,
}

/// The owner of a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// The allocator, which frees it with the region.
    Owned,
    /// The application: the allocator never destroys, frees or unmaps it.
    Wrapped,
    /// Another region, which lives at least as long.
    CropAlias,
}

impl Region {
    /// Its id for tables, aliases and C; stale for ever after the region is freed.
    #[must_use]
    pub const fn id(&self) -> RegionId {
        self.id
    }

    /// Its memory object, for binding, not for mapping or freeing; `None` for a wrapped buffer without a backing.
    #[must_use]
    pub const fn memory(&self) -> Option<MemoryHandle> {
        self.memory
    }

    /// Its start, in bytes from the start of the memory object; 0 if that is not known.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The requested bytes: of a buffer its size, of an image those that it requires.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The buffer that is bound to it, or to its root.
    #[inline]
    #[must_use]
    pub const fn buffer(&self) -> Option<BufferHandle> {
        ResourceHandle::buffer(self.resource)
    }

    /// The image that is bound to it.
    #[inline]
    #[must_use]
    pub const fn image(&self) -> Option<ImageHandle> {
        ResourceHandle::image(self.resource)
    }

    /// Its start, in bytes from the start of its buffer (`VkBufferCopy`), or without a buffer from the start of its
    /// root.
    #[must_use]
    pub const fn copy_offset(&self) -> u64 {
        self.buffer_offset
    }

    /// Index of its memory type; `None` for a wrapped buffer.
    #[must_use]
    pub const fn memory_type(&self) -> Option<u32> {
        self.memory_type
    }

    /// The properties of its memory; `None` for a wrapped buffer without a backing.
    #[must_use]
    pub const fn memory_properties(&self) -> Option<PropertyFlags> {
        match self.memory {
            Some(_) => Some(self.properties),
            None => None,
        }
    }

    /// Whether it, or the root of a crop, has a memory object of its own.
    #[must_use]
    pub const fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// The first byte of a region that is [mapped while it lives](crate::RegionOptions::mapped), valid for
    /// [`size`](Region::size) bytes, as a [`Mapping`](crate::allocator::Mapping) is. Of a crop while its root lives; of
    /// a wrapped buffer as long as the pointer of its [backing](crate::allocator::Backing) is valid.
    #[must_use]
    pub const fn mapped(&self) -> Option<NonNull<u8>> {
        match self.mapped {
            Some(first) => Some(first.0),
            None => None,
        }
    }

    /// The owner of its memory.
    #[must_use]
    pub const fn ownership(&self) -> Ownership {
        self.ownership
    }
}
