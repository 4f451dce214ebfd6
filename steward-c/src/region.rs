//! Regions of device memory, by their ids.

use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null, null_mut};

use gpu_suballoc::{
    Backing, BufferHandle, BufferInfo, BufferUsage, DedicatedPolicy, GpuError, Lifetime,
    MemoryHandle, MemoryPreference, Ownership, PropertyFlags, Region, RegionId, RegionInfo,
    RegionOptions, ResourceKind, ResourceRequirements, WrapInfo,
};

use crate::edge::{enter, text};
use crate::gpu::{Gpu, StewardGpu, gpu, refused};
use crate::refusal::{SUCCESS, misused};
use crate::sized::{self, SizedStruct};

/// `steward_region_id`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StewardRegionId {
    pub words: [u32; 4],
}

/// `steward_region_request`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StewardRegionRequest {
    pub size: usize,
    pub bytes: u64,
    pub align: u64,
    pub memory_types: u32,
    pub usage: u32,
    pub required: u32,
    pub preferred: u32,
    pub avoided: u32,
    pub lifetime: i32,
    pub kind: i32,
    pub dedicated: i32,
    pub tag: u64,
    pub name: *const c_char,
}

impl Default for StewardRegionRequest {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            bytes: 0,
            align: 0,
            memory_types: 0,
            usage: 0,
            required: 0,
            preferred: 0,
            avoided: 0,
            lifetime: 0,
            kind: 0,
            dedicated: 0,
            tag: 0,
            name: null(),
        }
    }
}

// SAFETY: numbers and an address, the first of them the size.
unsafe impl SizedStruct for StewardRegionRequest {}

/// `steward_wrap_request`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StewardWrapRequest {
    pub size: usize,
    pub buffer: u64,
    pub offset: u64,
    pub bytes: u64,
    pub buffer_bytes: u64,
    pub memory: u64,
    pub memory_offset: u64,
    pub memory_bytes: u64,
    pub properties: u64,
    pub mapped: *mut c_void,
    pub tag: u64,
    pub name: *const c_char,
}

impl Default for StewardWrapRequest {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            buffer: 0,
            offset: 0,
            bytes: 0,
            buffer_bytes: 0,
            memory: 0,
            memory_offset: 0,
            memory_bytes: 0,
            properties: 0,
            mapped: null_mut(),
            tag: 0,
            name: null(),
        }
    }
}

// SAFETY: numbers and addresses, the first of them the size.
unsafe impl SizedStruct for StewardWrapRequest {}

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

const fn id(of: StewardRegionId) -> RegionId {
    RegionId::from_raw(of.words)
}

impl StewardRegionRequest {
    /// `None` where a word is none of the header's.
    fn options<'n>(&self, name: &'n str) -> Option<RegionOptions<'n>> {
        let [required, preferred, avoided] =
            [self.required, self.preferred, self.avoided].map(PropertyFlags::from_raw);
        let preference = MemoryPreference::requiring(required)
            .preferring(preferred)
            .avoiding(avoided);
        let lifetime = match self.lifetime {
            0 => Lifetime::Unknown,
            1 => Lifetime::Transient,
            2 => Lifetime::Persistent,
            _ => return None,
        };
        let kind = match self.kind {
            0 => ResourceKind::Linear,
            1 => ResourceKind::Optimal,
            2 => ResourceKind::Unknown,
            _ => return None,
        };
        let dedicated = match self.dedicated {
            0 => DedicatedPolicy::Allowed,
            1 => DedicatedPolicy::Never,
            2 => DedicatedPolicy::Preferred,
            3 => DedicatedPolicy::Required,
            _ => return None,
        };
        let options = RegionOptions::new()
            .preference(preference)
            .lifetime(lifetime)
            .kind(kind)
            .dedicated(dedicated)
            .tag(self.tag);
        Some(if name.is_empty() {
            options
        } else {
            options.name(name)
        })
    }

    /// Zeros are any alignment and any type.
    fn requirements(&self) -> ResourceRequirements {
        let types = match self.memory_types {
            0 => u32::MAX,
            types => types,
        };
        ResourceRequirements::new(self.bytes, self.align.max(1)).memory_types(types)
    }
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
        let info = wrap_info(&wanted, unsafe { text(wanted.name) });
        // SAFETY: NULL or the caller's place.
        unsafe { store(gpu, gpu.wrap(&info), out) }
    })
}

/// Zeros are what is not known.
fn wrap_info<'n>(wanted: &StewardWrapRequest, name: &'n str) -> WrapInfo<'n> {
    let known = |bytes: u64| (bytes != 0).then_some(bytes);
    let backing = MemoryHandle::from_raw(wanted.memory).map(|memory| Backing {
        memory,
        offset: wanted.memory_offset,
        memory_size: wanted.memory_bytes,
        properties: PropertyFlags::from_raw(wanted.properties as u32),
        mapped: NonNull::new(wanted.mapped.cast()),
    });
    WrapInfo {
        offset: wanted.offset,
        size: known(wanted.bytes),
        buffer_size: known(wanted.buffer_bytes),
        backing,
        name: Some(name).filter(|name| !name.is_empty()),
        tag: wanted.tag,
        ..WrapInfo::new(BufferHandle::from_raw(wanted.buffer), 0)
    }
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
unsafe fn on(raw: *const StewardGpu, call: impl FnOnce(&Gpu) -> Result<(), GpuError>) -> i32 {
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_map(
    raw: *const StewardGpu,
    of: StewardRegionId,
    out: *mut *mut c_void,
) -> i32 {
    enter("steward_region_map", || {
        let Some(out) = NonNull::new(out) else {
            return misused();
        };
        let write = |start: *mut u8| {
            // SAFETY: the caller's place.
            unsafe { out.write(start.cast()) }
        };
        write(null_mut());
        // SAFETY: forwarded.
        unsafe {
            on(raw, |gpu| {
                gpu.map_id(id(of)).map(|start| write(start.as_ptr()))
            })
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_unmap(raw: *const StewardGpu, of: StewardRegionId) -> i32 {
    // SAFETY: forwarded.
    enter("steward_region_unmap", || unsafe {
        on(raw, |gpu| gpu.unmap_id(id(of)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_flush(
    raw: *const StewardGpu,
    of: StewardRegionId,
    offset: u64,
    bytes: u64,
) -> i32 {
    // SAFETY: forwarded.
    enter("steward_region_flush", || unsafe {
        on(raw, |gpu| gpu.flush_id(id(of), offset, bytes))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_invalidate(
    raw: *const StewardGpu,
    of: StewardRegionId,
    offset: u64,
    bytes: u64,
) -> i32 {
    // SAFETY: forwarded.
    enter("steward_region_invalidate", || unsafe {
        on(raw, |gpu| gpu.invalidate_id(id(of), offset, bytes))
    })
}
