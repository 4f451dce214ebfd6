//! Buffers that the application made: used like any other, never destroyed, freed or unmapped.

#![forbid(unsafe_code)]

use crate::region::{Ownership, Region, RegionContent};
use alloc_core::{HostAllocator, Rejected};

use super::GpuAllocator;
use crate::device::{BufferHandle, DeviceMemory};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RegionId, RegionPlaceKind, RegionSlot};
use crate::property_flags::PropertyFlags;
use crate::region_metadata::{Backing, WrappedBuffer};
use crate::request::RegionOptions;
use crate::setters::setters;

/// A buffer of the application's that is to be used as a region.
#[derive(Clone, Copy, Debug)]
pub struct WrapInfo<'n> {
    /// The buffer; `None` is `VK_NULL_HANDLE`, and refused.
    pub buffer: Option<BufferHandle>,
    /// Where the region starts, in bytes from the start of the buffer. Any will do.
    pub offset: u64,
    /// Bytes; `None` for all from `offset` to `buffer_size`.
    pub size: Option<u64>,
    /// Bytes of the whole buffer, if known: then nothing is wrapped past its end.
    pub buffer_size: Option<u64>,
    /// The memory behind it, if it is to be mapped or flushed.
    pub backing: Option<Backing>,
    /// What reports call it. Copied, up to 255 bytes.
    pub name: Option<&'n str>,
    /// A word of the caller's own, for reports.
    pub tag: u64,
}

impl<'n> WrapInfo<'n> {
    /// The first `size` bytes of a buffer of which nothing else is known.
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

    /// Bytes, once everything is checked.
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
        let in_memory = self.backing.is_none_or(|backing| {
            backing
                .offset
                .checked_add(end)
                .is_some_and(|end| end <= backing.memory_size)
        });
        if in_buffer && in_memory {
            Ok((buffer, size))
        } else {
            Err(GpuMisuse::Outside)
        }
    }
}

/// What a wrapped region was, now that the allocator has forgotten it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetachedBuffer {
    /// The application's buffer.
    pub buffer: BufferHandle,
    /// Where the region began in it.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Makes a region of a buffer of the application's. The same buffer may be wrapped any number of times, overlapping or not (the
    /// planes of an image, say): each is a region of its own.
    ///
    /// # Errors
    /// [`GpuMisuse::NullHandle`], [`GpuMisuse::ZeroSize`], [`GpuMisuse::Outside`] of what is known of buffer and memory; [`GpuMisuse::OwnMemory`] where
    /// the backing is a memory object of this allocator and `HOST_VISIBLE`; [`Limit::WrappedBytes`](crate::error::Limit::WrappedBytes); what the host allocator
    /// refuses. Nothing is left then.
    pub fn wrap(&self, info: &WrapInfo<'_>) -> Result<Region, GpuError> {
        let (buffer, size) = info.check()?;
        // It maps its own memory as a whole: what maps it beside that would map it twice. What cannot be mapped does no harm.
        let visible = info
            .backing
            .filter(|backing| backing.properties.contains(PropertyFlags::HOST_VISIBLE));
        if visible.is_some_and(|backing| self.pools.owns(backing.memory)) {
            return Err(GpuMisuse::OwnMemory.into());
        }
        let wrap = WrappedBuffer::new(buffer, info.offset, size, info.backing);
        let options = RegionOptions {
            name: info.name,
            tag: info.tag,
            ..RegionOptions::new()
        };
        let new = self.records.prepare_wrap(self.host(), wrap, &options)?;
        let key = self.records.insert_wrap(self.host(), new)?;
        Ok(wrap.region(key, self.tag))
    }

    /// Forgets a wrapped buffer, and says what it was; of a crop of one, forgets the crop alone. The application's buffer and memory
    /// are not touched.
    ///
    /// # Errors
    /// The region, which stays valid: [`GpuMisuse::NotWrapped`] for the allocator's own and their crops; [`GpuMisuse::HasCrops`] or
    /// [`GpuMisuse::Mapped`] while it is in use; otherwise as [`free`](GpuAllocator::free).
    pub fn detach(&self, region: Region) -> Result<DetachedBuffer, Rejected<Region, GpuError>> {
        let checked = self
            .root_is_wrapped(&region)
            .and_then(|()| region.buffer().ok_or(GpuMisuse::NotWrapped));
        let buffer = match checked {
            Ok(buffer) => buffer,
            Err(rule) => return Err(Rejected::new(region, rule)),
        };
        let (offset, size) = (region.copy_offset(), region.size());
        self.free(region)?;
        Ok(DetachedBuffer {
            buffer,
            offset,
            size,
        })
    }

    fn root_is_wrapped(&self, region: &Region) -> Result<(), GpuMisuse> {
        self.check_tag(region.id)?;
        let wrapped = match region.ownership() {
            Ownership::Owned => false,
            Ownership::Wrapped => true,
            Ownership::CropAlias => {
                self.crop_record(region.id)?.root_key.kind() == RegionPlaceKind::Wrapped
            }
        };
        if wrapped {
            Ok(())
        } else {
            Err(GpuMisuse::NotWrapped)
        }
    }
}

impl WrappedBuffer {
    /// The region that a wrapped buffer is to its user.
    pub(super) fn region(&self, key: RegionSlot, tag: u32) -> Region {
        Region {
            id: RegionId::new(tag, key),
            memory: self.backing.map(|backing| backing.memory),
            offset: self
                .backing
                .map_or(0, |backing| backing.offset + self.offset),
            size: self.size,
            resource: self.buffer.as_raw(),
            buffer_offset: self.offset,
            mapped: None,
            record: key.slot,
            memory_type: Region::NO_TYPE,
            content: RegionContent::Buffer,
        }
    }
}
