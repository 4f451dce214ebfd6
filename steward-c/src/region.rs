//! Regions of device memory, by their ids.

use std::ffi::c_void;
use std::mem::offset_of;
use std::num::NonZeroU64;
use std::ptr::NonNull;

use gpu_suballoc::allocator::RegionInfo;
use gpu_suballoc::device::{BufferHandle, ExternalHandleTypes, ImageHandle, ImageInfo, MemoryHandle};
use gpu_suballoc::region::{Ownership, RangePlacement};
use gpu_suballoc::{
    BufferInfo, BufferUsage, GpuError, PropertyFlags, Region, RegionId, RegionOptions, ResourceRequirements,
};

use crate::ash::{ImageCreateInfo, image_info};
use crate::edge::{enter, text};
use crate::gpu::{Gpu, NO_ALLOCATOR, StewardGpu, gpu};
use crate::gpu_refusal::{misused, refused};
use crate::refusal::SUCCESS;
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
    pub image: u64,
    pub mapped: Option<NonNull<c_void>>,
    pub memory_bytes: u64,
    pub properties: u32,
    pub is_dedicated: u32,
    pub reserved: u64,
    pub slot_key: u64,
}

// SAFETY: numbers and an address or NULL, the first of them the size.
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
            image: info.image.map_or(0, ImageHandle::as_raw),
            mapped: info.mapped().map(NonNull::cast),
            memory_bytes: info.memory_size.unwrap_or(0),
            properties: info.memory_properties.map_or(0, PropertyFlags::as_raw),
            is_dedicated: u32::from(info.placement == RangePlacement::Dedicated),
            reserved: info.reserved,
            slot_key: id.slot_key().get(),
        }
    }
}

const fn id_of(id: RegionId) -> StewardRegionId {
    StewardRegionId { words: id.as_raw() }
}

pub(crate) const fn id(of: StewardRegionId) -> RegionId {
    RegionId::from_raw(of.words)
}

/// Creates no region if the caller has no place for its id, because it could never be freed.
///
/// # Safety
/// `raw` is NULL or a live allocator, `out` NULL or the caller's place.
unsafe fn store(
    raw: *const StewardGpu,
    out: *mut StewardRegion,
    make: impl FnOnce(&Gpu) -> Result<Region, GpuError>,
) -> i32 {
    const ID: usize = offset_of!(StewardRegion, id) + size_of::<StewardRegionId>();
    // SAFETY: NULL or a live allocator.
    let Some(gpu) = (unsafe { gpu(raw) }) else {
        return misused(NO_ALLOCATOR);
    };
    // SAFETY: NULL or the caller's place.
    if !unsafe { sized::has_room(out, ID) } {
        return misused(NO_REGION);
    }
    let region = match make(gpu) {
        Ok(region) => region,
        Err(error) => return refused(error),
    };
    let id = region.id();
    match gpu.info(id) {
        Ok(info) => {
            // SAFETY: the caller's place, which has room for the id.
            unsafe { sized::write(out, &StewardRegion::new(id, &info)) };
            SUCCESS // the caller frees it by its id
        }
        Err(rule) => {
            let _nobody_knows_it = gpu.free(region);
            refused(rule.into())
        }
    }
}

const NO_REGION: &str = "there is no place for the region, or its size is smaller than one with an id";

/// # Safety
/// `raw` is NULL or a live allocator; `request`, with the string and the chain that it names, and `out` are NULL or
/// live.
unsafe fn request(
    raw: *const StewardGpu,
    request: *const StewardRegionRequest,
    out: *mut StewardRegion,
    make: impl FnOnce(&Gpu, &StewardRegionRequest, &RegionOptions<'_>) -> Result<Region, GpuError>,
) -> i32 {
    // SAFETY: the caller's struct.
    let request = NonNull::new(request.cast_mut()).and_then(|of| unsafe { sized::read(of) });
    let Some(request) = request else {
        return misused("there is no request, or its size is not set");
    };
    // SAFETY: the caller's string.
    let name = unsafe { text(request.name) };
    // SAFETY: the caller's chain.
    match unsafe { request.options(name) } {
        // SAFETY: NULL or the caller's allocator and place.
        Ok(options) => unsafe { store(raw, out, |gpu| make(gpu, &request, &options)) },
        Err(sentence) => misused(sentence),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_alloc(
    gpu: *const StewardGpu,
    wanted: *const StewardRegionRequest,
    out: *mut StewardRegion,
) -> i32 {
    // SAFETY: NULL or a live allocator, and live structs of their sizes.
    enter(&"steward_region_alloc", || unsafe {
        request(gpu, wanted, out, |gpu, request, options| {
            gpu.allocate(&ResourceRequirements::new(request.bytes, 1), options)
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_create_buffer(
    gpu: *const StewardGpu,
    wanted: *const StewardRegionRequest,
    out: *mut StewardRegion,
) -> i32 {
    // SAFETY: NULL or a live allocator, and live structs of their sizes.
    enter(&"steward_region_create_buffer", || unsafe {
        request(gpu, wanted, out, |gpu, request, options| {
            let info = BufferInfo {
                external: ExternalHandleTypes::from_raw(request.external_types),
                ..BufferInfo::new(request.bytes, BufferUsage::from_raw(request.usage))
            };
            gpu.create_buffer(&info, options)
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_create_image(
    gpu: *const StewardGpu,
    info: *const ImageCreateInfo<'_>,
    wanted: *const StewardRegionRequest,
    out: *mut StewardRegion,
) -> i32 {
    enter(&"steward_region_create_image", || {
        // SAFETY: NULL or the caller's struct.
        let info = match unsafe { image_info(info) } {
            Ok(info) => info,
            Err(sentence) => return misused(sentence),
        };
        // SAFETY: NULL or a live allocator, and live structs of their sizes.
        unsafe {
            request(gpu, wanted, out, |gpu, request, options| {
                let external = ExternalHandleTypes::from_raw(request.external_types);
                gpu.create_image(&ImageInfo { external, ..info }, options)
            })
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_wrap(
    raw: *const StewardGpu,
    wanted: *const StewardWrapRequest,
    out: *mut StewardRegion,
) -> i32 {
    enter(&"steward_region_wrap", || {
        // SAFETY: the caller's struct.
        let wanted = NonNull::new(wanted.cast_mut()).and_then(|of| unsafe { sized::read(of) });
        let Some(wanted) = wanted else {
            return misused("there is no request, or its size is not set");
        };
        // SAFETY: the caller's string.
        match wanted.info(unsafe { text(wanted.name) }) {
            // SAFETY: NULL or the caller's allocator and place.
            Ok(info) => unsafe { store(raw, out, |gpu| gpu.wrap(&info)) },
            Err(sentence) => misused(sentence),
        }
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
    // SAFETY: NULL or a live allocator, and a place of its size.
    enter(&"steward_region_crop", || unsafe {
        store(raw, out, |gpu| gpu.crop_id(id(of), offset, bytes, element_bytes))
    })
}

/// # Safety
/// `raw` is NULL or a live allocator.
pub(crate) unsafe fn on(raw: *const StewardGpu, call: impl FnOnce(&Gpu) -> Result<(), GpuError>) -> i32 {
    // SAFETY: NULL or a live allocator.
    match unsafe { gpu(raw) }.map(call) {
        Some(Ok(())) => SUCCESS,
        Some(Err(error)) => refused(error),
        None => misused(NO_ALLOCATOR),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_free(raw: *const StewardGpu, of: StewardRegionId) -> i32 {
    // SAFETY: NULL or a live allocator.
    enter(&"steward_region_free", || unsafe { on(raw, |gpu| gpu.free_id(id(of))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_free_when_unused(raw: *const StewardGpu, of: StewardRegionId) -> i32 {
    // SAFETY: NULL or a live allocator.
    enter(&"steward_region_free_when_unused", || unsafe { on(raw, |gpu| gpu.free_id_when_unused(id(of))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_release(raw: *const StewardGpu, of: StewardRegionId) -> i32 {
    // SAFETY: NULL or a live allocator.
    enter(&"steward_region_release", || unsafe { on(raw, |gpu| gpu.release_id(id(of))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_info(
    raw: *const StewardGpu,
    of: StewardRegionId,
    out: *mut StewardRegion,
) -> i32 {
    enter(&"steward_region_info", || {
        // SAFETY: NULL or a live allocator.
        let info = unsafe { gpu(raw) }.map(|gpu| gpu.info(id(of)));
        let info = match info {
            Some(Ok(info)) => info,
            Some(Err(rule)) => return refused(rule.into()),
            None => return misused(NO_ALLOCATOR),
        };
        // SAFETY: NULL or the caller's place.
        if unsafe { sized::write(out, &StewardRegion::new(id(of), &info)) } { SUCCESS } else { misused(NO_REGION) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_of_key(raw: *const StewardGpu, slot_key: u64) -> StewardRegionId {
    enter(&"steward_region_of_key", || {
        // SAFETY: NULL or a live allocator.
        let gpu = unsafe { gpu(raw) };
        let id = NonZeroU64::new(slot_key).and_then(|key| Some(gpu?.id_of_key(key)));
        id.map_or(StewardRegionId::default(), id_of)
    })
}
