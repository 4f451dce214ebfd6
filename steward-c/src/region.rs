//! Regions of device memory, by their ids.

use std::ptr::NonNull;

use gpu_suballoc::{
    BufferHandle, BufferInfo, BufferUsage, GpuError, MemoryHandle, Ownership, Region, RegionId,
    RegionInfo, RegionOptions,
};

use crate::edge::{enter, text};
use crate::gpu::{Gpu, StewardGpu, gpu, refused};
use crate::refusal::{SUCCESS, misused};
use crate::region_request::{StewardRegionRequest, StewardWrapRequest};
use crate::sized::{self, SizedStruct};

/// `steward_region_id`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StewardRegionId {
    pub words: [u32; 4],
}

/// `steward_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardRegion {
    pub size: usize,
    pub id: StewardRegionId,
    pub root: StewardRegionId,
    pub bytes: u64,
    pub memory: u64,
    pub offset: u64,
    pub buffer: u64,
    pub buffer_offset: u64,
    pub memory_type: i32,
    pub ownership: i32,
    pub crops: u32,
    pub maps: u32,
    pub tag: u64,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardRegion {}

impl StewardRegion {
    fn new(id: RegionId, info: &RegionInfo) -> Self {
        let memory_type = info.memory_type.and_then(|index| i32::try_from(index).ok());
        Self {
            size: size_of::<Self>(),
            id: id_of(id),
            root: id_of(info.root),
            bytes: info.size,
            memory: info.memory.map_or(0, MemoryHandle::as_raw),
            offset: info.offset,
            buffer: info.buffer.map_or(0, BufferHandle::as_raw),
            buffer_offset: info.copy_offset,
            memory_type: memory_type.unwrap_or(-1),
            ownership: match info.ownership {
                Ownership::Owned => 0,
                Ownership::Wrapped => 1,
                Ownership::CropAlias => 2,
            },
            crops: info.crops(),
            maps: info.maps(),
            tag: info.tag(),
        }
    }
}

const fn id_of(id: RegionId) -> StewardRegionId {
    StewardRegionId { words: id.as_raw() }
}

pub(crate) const fn id(of: StewardRegionId) -> RegionId {
    RegionId::from_raw(of.words)
}

/// Writes what a new region is. One that the caller has no place for is freed again.
///
/// # Safety
/// `out` is NULL or the caller's place.
unsafe fn store(gpu: &Gpu, made: Result<Region, GpuError>, out: *mut StewardRegion) -> i32 {
    let region = match made {
        Ok(region) => region,
        Err(error) => return refused(error),
    };
    let id = region.id();
    let written = match gpu.info(id) {
        // SAFETY: forwarded.
        Ok(info) => unsafe { sized::write(out, &StewardRegion::new(id, &info)) },
        Err(_) => false,
    };
    if written {
        return SUCCESS; // the caller frees it by its id
    }
    let _nobody_knows_it = gpu.free(region);
    misused()
}

/// # Safety
/// As the functions that pass it on.
unsafe fn request(
    raw: *const StewardGpu,
    request: *const StewardRegionRequest,
    out: *mut StewardRegion,
    make: impl FnOnce(&Gpu, &StewardRegionRequest, &RegionOptions<'_>) -> Result<Region, GpuError>,
) -> i32 {
    // SAFETY: NULL or a live allocator.
    let gpu = unsafe { gpu(raw) };
    // SAFETY: the caller's struct.
    let request = NonNull::new(request.cast_mut()).and_then(|of| unsafe { sized::read(of) });
    let (Some(gpu), Some(request)) = (gpu, request) else {
        return misused();
    };
    // SAFETY: the caller's string.
    match request.options(unsafe { text(request.name) }) {
        // SAFETY: NULL or the caller's place.
        Some(options) => unsafe { store(gpu, make(gpu, &request, &options), out) },
        None => misused(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_alloc(
    gpu: *const StewardGpu,
    wanted: *const StewardRegionRequest,
    out: *mut StewardRegion,
) -> i32 {
    // SAFETY: forwarded.
    enter("steward_region_alloc", || unsafe {
        request(gpu, wanted, out, |gpu, request, options| {
            gpu.allocate(&request.requirements(), options)
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_create_buffer(
    gpu: *const StewardGpu,
    wanted: *const StewardRegionRequest,
    out: *mut StewardRegion,
) -> i32 {
    // SAFETY: forwarded.
    enter("steward_region_create_buffer", || unsafe {
        request(gpu, wanted, out, |gpu, request, options| {
            let usage = BufferUsage::from_raw(request.usage);
            gpu.create_buffer(&BufferInfo::new(request.bytes, usage), options)
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_wrap(
    raw: *const StewardGpu,
    wanted: *const StewardWrapRequest,
    out: *mut StewardRegion,
) -> i32 {
    enter("steward_region_wrap", || {
        // SAFETY: NULL or a live allocator.
        let gpu = unsafe { gpu(raw) };
        // SAFETY: the caller's struct.
        let wanted = NonNull::new(wanted.cast_mut()).and_then(|of| unsafe { sized::read(of) });
        let (Some(gpu), Some(wanted)) = (gpu, wanted) else {
            return misused();
        };
        // SAFETY: the caller's string.
        let info = wanted.info(unsafe { text(wanted.name) });
        // SAFETY: NULL or the caller's place.
        unsafe { store(gpu, gpu.wrap(&info), out) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_crop(
    raw: *const StewardGpu,
    of: StewardRegionId,
    offset: u64,
    bytes: u64,
    element_bytes: u64,
    out: *mut StewardRegion,
) -> i32 {
    enter("steward_region_crop", || {
        // SAFETY: NULL or a live allocator.
        match unsafe { gpu(raw) } {
            // SAFETY: NULL or the caller's place.
            Some(gpu) => unsafe {
                store(gpu, gpu.crop_id(id(of), offset, bytes, element_bytes), out)
            },
            None => misused(),
        }
    })
}

/// Runs a call on a region of an allocator.
///
/// # Safety
/// `raw` is NULL or a live allocator.
pub(crate) unsafe fn on(
    raw: *const StewardGpu,
    call: impl FnOnce(&Gpu) -> Result<(), GpuError>,
) -> i32 {
    // SAFETY: forwarded.
    match unsafe { gpu(raw) }.map(call) {
        Some(Ok(())) => SUCCESS,
        Some(Err(error)) => refused(error),
        None => misused(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_free(raw: *const StewardGpu, of: StewardRegionId) -> i32 {
    // SAFETY: forwarded.
    enter("steward_region_free", || unsafe {
        on(raw, |gpu| gpu.free_id(id(of)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_info(
    raw: *const StewardGpu,
    of: StewardRegionId,
    out: *mut StewardRegion,
) -> i32 {
    enter("steward_region_info", || {
        // SAFETY: NULL or a live allocator.
        let info = unsafe { gpu(raw) }.map(|gpu| gpu.info(id(of)));
        let info = match info {
            Some(Ok(info)) => info,
            Some(Err(rule)) => return refused(rule.into()),
            None => return misused(),
        };
        // SAFETY: NULL or the caller's place.
        if unsafe { sized::write(out, &StewardRegion::new(id(of), &info)) } {
            SUCCESS
        } else {
            misused()
        }
    })
}
