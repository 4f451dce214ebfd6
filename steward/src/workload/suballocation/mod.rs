//! Buffers of gpu-suballoc: sub-allocated, wrapped and cropped, uploaded to, copied between on the queue, and read
//! back.
//!
//! ```text
//!   host --write--> upload |....[ crop of a crop of a crop ]....| --copy--> odd
//!                                      | copy                                 |
//!                               on the device                                 |
//!                                      | copy                                 |
//!        the application's buffer |..[ wrapped |..[ crop ]..| ]               |
//!                                      | copy                                 | copy
//!                     read back |..[ crop ]..........|........................| --read--> host, which compares
//! ```
//!
//! All offsets are odd multiples of a word, as far from any alignment as copies allow.

pub(super) mod defragmentation;
mod memory_report;

use std::alloc::System;
use std::marker::PhantomData;
use std::ops::Deref;

use alloc_core::FromGlobalAlloc;
use ash::vk::{self, Handle as _};
use gpu_suballoc::allocator::WrapInfo;
use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::device::BufferHandle;
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, BufferUsage as Usage, GpuAllocator, GpuError, Lifetime, MemoryPreference,
    PropertyFlags, Region, RegionOptions,
};

use super::commands::Recorder;
use super::device::Device;
use super::error::WorkloadError;
use super::expect::{Inputs, WORDS};
use super::memory::{device_local, for_buffers};
use super::object::Guard;
use super::resources::buffer;
use vk_report::report::DeviceMemory;

const WORD: u64 = size_of::<u32>() as u64;
const UPLOADED: u64 = WORDS as u64 * WORD;
/// The offsets of three nested crops; the innermost begins at their sum in the upload.
const CROPPED_AT: [u64; 3] = [1004, 500, 36];
const THROUGH: u64 = 1024;
/// Bytes that are copied the short way: no multiple of any granule.
const ODD: u64 = 1000;
const ROOM: u64 = 3000;
/// The first offset is of the crop, the second of the odd bytes in the read-back buffer.
const READ_AT: [u64; 2] = [132, 2180];

/// Bytes of the first block. A round needs little, and software drivers allocate device memory from this process's
/// heap.
const FIRST_BLOCK: u64 = 256 << 10;

type Allocator = GpuAllocator<AshDevice, FromGlobalAlloc<System>>;

pub(super) struct Suballocator<'d> {
    allocator: Allocator,
    device: PhantomData<&'d Device<'d>>,
}

impl<'d> Suballocator<'d> {
    pub(super) fn new(device: &'d Device<'d>) -> Result<Self, WorkloadError> {
        let memory = MemoryOptions { first_block: Some(FIRST_BLOCK), ..MemoryOptions::default() };
        Self::with(device, memory)
    }

    fn with(device: &'d Device<'d>, memory: MemoryOptions) -> Result<Self, WorkloadError> {
        let (instance, physical) = (device.instance(), device.physical());
        // Of no version in between is a feature used.
        let options = AshOptions::new(vk::API_VERSION_1_1);
        let entry = instance.entry();
        // SAFETY: all four belong together, and the device borrows the others; its version is at least this one.
        let ours = unsafe { AshDevice::new(entry, instance, physical.handle, device, options) };
        let options = AllocatorOptions { memory, ..AllocatorOptions::default() };
        // SAFETY: every info below is valid for any device; `Transfers` drops wrapped buffers after the regions that
        // use them, and after the round's work has ended.
        let made = unsafe { GpuAllocator::new(ours, FromGlobalAlloc::SYSTEM, options) };
        let allocator = made.map_err(|refused| refused_by("the sub-allocator", refused.error))?;
        Ok(Self { allocator, device: PhantomData })
    }

    pub(super) fn memory_report(&self) -> DeviceMemory {
        memory_report::memory_report(&self.allocator)
    }

    /// No region may be left.
    pub(super) fn close(self) -> Result<(), WorkloadError> {
        let left = |outstanding: gpu_suballoc::allocator::OutstandingRegions| WorkloadError::LeftBehind {
            regions: outstanding.regions.saturating_add(outstanding.wrapped).saturating_add(outstanding.crops),
        };
        self.allocator.close().map(drop).map_err(|refused| left(refused.error))
    }

    fn buffer<'a>(
        &'a self,
        (name, size, usage): (&'static str, u64, Usage),
        options: RegionOptions<'_>,
    ) -> Result<OwnedRegion<'a>, WorkloadError> {
        let made = self.allocator.create_buffer(&BufferInfo::new(size, usage), &options.name(name));
        self.own(name, made)
    }

    fn write(&self, region: &Region, word: impl Fn(u32) -> u32) -> Result<(), WorkloadError> {
        let mapping =
            self.allocator.map(region).map_err(|error| refused_by("the mapping of what is uploaded", error))?;
        let words = mapping.as_ptr().cast::<u32>();
        for index in 0..(region.size() / WORD) as u32 {
            // SAFETY: inside the mapping.
            let place = unsafe { words.add(index as usize) };
            // SAFETY: regions begin at granules, so words are aligned; the device does not use the buffer now.
            unsafe { place.write(word(index)) };
        }
        self.allocator
            .flush(region, 0, region.size())
            .map_err(|error| refused_by("the flush of what is uploaded", error))
    }

    /// Calls `look` with the number of the part, the index and the word. A part is an offset and a number of bytes.
    fn read(
        &self,
        region: &Region,
        parts: &[(u64, u64)],
        mut look: impl FnMut(usize, u32, u32) -> Result<(), WorkloadError>,
    ) -> Result<u64, WorkloadError> {
        let mapping =
            self.allocator.map(region).map_err(|error| refused_by("the mapping of what is read back", error))?;
        self.allocator
            .invalidate(region, 0, region.size())
            .map_err(|error| refused_by("the invalidation of what is read back", error))?;
        let words = mapping.as_ptr().cast::<u32>();
        let mut seen = 0;
        for (part, (at, bytes)) in parts.iter().enumerate() {
            for index in 0..(bytes / WORD) as u32 {
                // SAFETY: inside the mapping: all parts lie in the buffer.
                let place = unsafe { words.add((at / WORD) as usize + index as usize) };
                // SAFETY: mapped and aligned; the device has finished its writes; any bits are a word.
                look(part, index, unsafe { place.read() })?;
                seen += 1;
            }
        }
        Ok(seen)
    }

    fn crop<'a>(&'a self, of: &Region, (offset, size): (u64, u64)) -> Result<OwnedRegion<'a>, WorkloadError> {
        self.own("a crop", self.allocator.crop(of, offset, size, WORD))
    }

    fn own<'a>(&'a self, what: &'static str, made: Result<Region, GpuError>) -> Result<OwnedRegion<'a>, WorkloadError> {
        let region = made.map_err(|error| refused_by(what, error))?;
        Ok(OwnedRegion { allocator: &self.allocator, region: Some(region) })
    }
}

fn refused_by(what: &'static str, reason: GpuError) -> WorkloadError {
    WorkloadError::Suballocation { what, reason }
}

struct OwnedRegion<'a> {
    allocator: &'a Allocator,
    region: Option<Region>,
}

impl Deref for OwnedRegion<'_> {
    type Target = Region;
    fn deref(&self) -> &Region {
        self.region.as_ref().unwrap_or_else(|| unreachable!("only drop removes the region"))
    }
}

impl OwnedRegion<'_> {
    fn refresh(&mut self) -> Result<(), GpuError> {
        self.region.as_mut().map_or(Ok(()), |region| self.allocator.refresh(region))
    }
}

impl Drop for OwnedRegion<'_> {
    fn drop(&mut self) {
        let freed = self.refresh().and_then(|()| {
            self.region.take().map_or(Ok(()), |region| self.allocator.free(region).map_err(|refused| refused.error))
        });
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

/// Fields are in reverse order of creation.
pub(super) struct Transfers<'a, 'd> {
    read_part: OwnedRegion<'a>,
    wrapped_part: OwnedRegion<'a>,
    /// Nested crops, the innermost first: it is copied.
    parts: [OwnedRegion<'a>; 3],
    wrapped: OwnedRegion<'a>,
    read_back: OwnedRegion<'a>,
    odd: OwnedRegion<'a>,
    device_local: OwnedRegion<'a>,
    upload: OwnedRegion<'a>,
    _application: (Guard<'d, vk::DeviceMemory>, Guard<'d, vk::Buffer>),
}

impl<'a, 'd> Transfers<'a, 'd> {
    pub(super) fn new(by: &'a Suballocator<'d>, device: &'d Device<'d>, inputs: Inputs) -> Result<Self, WorkloadError> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let own = buffer(device, UPLOADED, usage)?;
        let fast = device_local();
        let (memory, _) = for_buffers(device, "the application's buffer", [*own], fast)?;
        let wrap = BufferHandle::from_raw(own.as_raw());

        let seen = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE);
        let cached = seen.preferring(PropertyFlags::HOST_CACHED);
        let both = Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
        let options = |preference| RegionOptions::new().preference(preference);
        let upload =
            by.buffer(("upload", UPLOADED, Usage::TRANSFER_SRC), options(seen).lifetime(Lifetime::Transient))?;
        let on_device = by.buffer(("on the device", ROOM, both), options(fast))?;
        let odd = by.buffer(("odd", ODD, both), options(fast).lifetime(Lifetime::Persistent))?;
        let read_back = by.buffer(("read back", UPLOADED, Usage::TRANSFER_DST), options(cached))?;
        let wrapped = WrapInfo { buffer_size: Some(UPLOADED), ..WrapInfo::new(wrap, ROOM) };
        let wrapped =
            by.own("the wrapped buffer", by.allocator.wrap(&wrapped.offset(268).name("the application's")))?;
        let [first, second, third] = CROPPED_AT;
        let outer = by.crop(&upload, (first, ROOM))?;
        let middle = by.crop(&outer, (second, 2048))?;
        let inner = by.crop(&middle, (third, THROUGH))?;
        let wrapped_part = by.crop(&wrapped, (100, 2048))?;
        let read_part = by.crop(&read_back, (READ_AT[0], 2044))?;

        by.write(&upload, |index| inputs.uploaded(index))?;
        let (parts, _application) = ([inner, middle, outer], (memory, own));
        Ok(Self {
            read_part,
            wrapped_part,
            parts,
            wrapped,
            read_back,
            odd,
            device_local: on_device,
            upload,
            _application,
        })
    }

    pub(super) fn record_out(&self, to: &Recorder<'_>) {
        let [inner, ..] = &self.parts;
        copy(to, (inner, 0), (&self.device_local, 2 * WORD), THROUGH);
        copy(to, (&self.upload, 0), (&self.odd, 0), ODD);
        between_copies(to);
        copy(to, (&self.device_local, 2 * WORD), (&self.wrapped_part, 0), THROUGH);
    }

    pub(super) fn record_back(&self, to: &Recorder<'_>) {
        between_copies(to);
        copy(to, (&self.wrapped_part, 0), (&self.read_part, 0), THROUGH);
        copy(to, (&self.odd, 0), (&self.read_back, READ_AT[1]), ODD);
    }

    /// Calls `look` with the words that were copied through all buffers, then with the odd ones, each with its index in
    /// the upload.
    pub(super) fn read(
        &self,
        by: &Suballocator<'_>,
        mut look: impl FnMut(&'static str, u32, u32) -> Result<(), WorkloadError>,
    ) -> Result<u64, WorkloadError> {
        debug_assert_eq!(self.wrapped.size(), ROOM);
        let first = (CROPPED_AT.iter().sum::<u64>() / WORD) as u32;
        let parts = [(READ_AT[0], THROUGH), (READ_AT[1], ODD)];
        by.read(&self.read_back, &parts, |part, index, found| match part {
            0 => look("cropped", first + index, found),
            _ => look("odd", index, found),
        })
    }
}

fn between_copies(to: &Recorder<'_>) {
    use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
    to.memory_barrier(
        (Stage::TRANSFER, Access::TRANSFER_WRITE),
        (Stage::TRANSFER, Access::TRANSFER_READ | Access::TRANSFER_WRITE),
    );
}

fn copy(to: &Recorder<'_>, from: (&Region, u64), into: (&Region, u64), size: u64) {
    let place = |(region, offset): (&Region, u64)| (handle(region.buffer()), region.copy_offset() + offset);
    to.copy_buffer(place(from), place(into), size);
}

fn handle(buffer: Option<BufferHandle>) -> vk::Buffer {
    buffer.map_or(vk::Buffer::null(), |buffer| vk::Buffer::from_raw(buffer.as_raw()))
}
