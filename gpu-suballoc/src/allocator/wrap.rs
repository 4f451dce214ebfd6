#![forbid(unsafe_code)]

use crate::region::{Ownership, Region};
use alloc_core::{HostAllocator, Rejected};

use super::GpuAllocator;
use crate::device::{BufferHandle, DeviceMemory, ResourceHandle};
use crate::error::{GpuError, GpuMisuse};
use crate::flags::setters;
use crate::id::{RegionId, RegionKey};
use crate::map_count::Address;
use crate::memory_type::PropertyFlags;
use crate::region_metadata::{Backing, RecordView, WrappedBuffer};
use crate::request::RegionOptions;

/// A buffer of the application for a region.
#[derive(Clone, Copy, Debug)]
pub struct WrapInfo<'n> {
    /// The buffer; `None` is `VK_NULL_HANDLE`, which is refused.
    pub buffer: Option<BufferHandle>,
    /// Start of the region, in bytes from the start of the buffer; any number.
    pub offset: u64,
    /// Bytes; `None` for all from `offset` to `buffer_size`.
    pub size: Option<u64>,
    /// Bytes of the whole buffer, if known.
    pub buffer_size: Option<u64>,
    /// The memory behind it, needed for mapping and flushing.
    pub backing: Option<Backing>,
    /// Its name in reports. Copied, up to 255 bytes.
    pub name: Option<&'n str>,
    /// The user's tag, for reports.
    pub tag: u64,
}

impl<'n> WrapInfo<'n> {
    /// The first `size` bytes of a buffer.
    #[must_use]
    pub fn new(buffer: impl Into<Option<BufferHandle>>, size: u64) -> Self {
        Self {
            buffer: buffer.into(),
            offset: 0,
            size: Some(size),
            buffer_size: None,
            backing: None,
            name: None,
            tag: 0,
        }
    }

    setters! {
        set {
            offset: u64,
            tag: u64,
        }
        some {
            buffer_size: u64,
            backing: Backing,
            name: &'n str,
        }
    }

    fn check(&self) -> Result<(BufferHandle, u64), GpuMisuse> {
        let buffer = self.buffer.ok_or(GpuMisuse::NullHandle)?;
        let size = match (self.size, self.buffer_size) {
            (Some(size), _) => size,
            (None, Some(whole)) => whole.checked_sub(self.offset).ok_or(GpuMisuse::Outside)?,
            (None, None) => 0,
        };
        if size == 0 {
            return Err(GpuMisuse::ZeroSize);
        }
        let end = self.offset.checked_add(size).ok_or(GpuMisuse::Outside)?;
        let in_buffer = self.buffer_size.is_none_or(|whole| end <= whole);
        let in_memory = self
            .backing
            .is_none_or(|backing| backing.offset.checked_add(end).is_some_and(|end| end <= backing.memory_size));
        if in_buffer && in_memory { Ok((buffer, size)) } else { Err(GpuMisuse::Outside) }
    }
}

/// A buffer that is no longer wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetachedBuffer {
    /// The application's buffer.
    pub buffer: BufferHandle,
    /// Start of the former region in it.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Creates a region of a buffer of the application, which may be wrapped any number of times.
    ///
    /// # Errors
    /// [`GpuMisuse::NullHandle`], [`GpuMisuse::ZeroSize`], [`GpuMisuse::Outside`] past the known end of buffer or
    /// memory; [`GpuMisuse::OwnMemory`] if the backing is this allocator's and `HOST_VISIBLE`;
    /// [`Limit::WrappedBytes`](crate::error::Limit::WrappedBytes); a refusal of the host allocator.
    pub fn wrap(&self, info: &WrapInfo<'_>) -> Result<Region, GpuError> {
        let (buffer, size) = info.check()?;
        // The allocator maps its memory objects itself, so a wrapped buffer would map one twice.
        let visible = info.backing.filter(|backing| backing.properties.contains(PropertyFlags::HOST_VISIBLE));
        if visible.is_some_and(|backing| self.pools().owns(backing.memory)) {
            return Err(GpuMisuse::OwnMemory.into());
        }
        let wrap = WrappedBuffer { buffer, offset: info.offset, size, backing: info.backing, foreign: None };
        let options = RegionOptions { name: info.name, tag: info.tag, ..RegionOptions::new() };
        let key = (self.records).insert_wrap(self.host(), wrap, &options)?;
        Ok(wrap.region(key, self.tag))
    }

    /// Frees a wrapped region, or a crop of one, and returns its buffer.
    ///
    /// # Errors
    /// The region: [`GpuMisuse::NotWrapped`] for the allocator's own and their crops; [`GpuMisuse::HasCrops`] or
    /// [`GpuMisuse::Mapped`] while it is in use; otherwise as [`free`](GpuAllocator::free).
    pub fn detach(&self, region: Region) -> Result<DetachedBuffer, Rejected<Region, GpuError>> {
        let checked = self.root_is_wrapped(&region).and_then(|()| region.buffer().ok_or(GpuMisuse::NotWrapped));
        let buffer = match checked {
            Ok(buffer) => buffer,
            Err(rule) => return Err(Rejected::new(region, rule)),
        };
        let (offset, size) = (region.copy_offset(), region.size());
        self.free(region)?;
        Ok(DetachedBuffer { buffer, offset, size })
    }

    fn root_is_wrapped(&self, region: &Region) -> Result<(), GpuMisuse> {
        self.check_tag(region.id)?;
        let (found, _) = self.records.look_up(region.id.key(), |_| ())?;
        let wrapped = matches!(found.root, RecordView::Wrapped(_));
        if wrapped { Ok(()) } else { Err(GpuMisuse::NotWrapped) }
    }
}

impl WrappedBuffer {
    pub(super) fn region(&self, key: RegionKey, tag: u32) -> Region {
        Region {
            id: RegionId::new(tag, key),
            memory: self.backing.map(|backing| backing.memory),
            offset: self.backing.map_or(0, |backing| backing.offset + self.offset),
            size: self.size,
            resource: Some(ResourceHandle::Buffer(self.buffer)),
            buffer_offset: self.offset,
            memory_type: None,
            is_dedicated: false,
            properties: self.backing.map_or(PropertyFlags::NONE, |backing| backing.properties),
            mapped: self.backing.and_then(|backing| {
                let first = Address(backing.mapped?);
                Some(first.offset(backing.offset + self.offset))
            }),
            ownership: Ownership::Wrapped,
        }
    }
}
