//! Mapping, flushing and invalidating regions.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use crate::edge::enter;
use crate::gpu::StewardGpu;
use crate::gpu_refusal::misused;
use crate::region::{StewardRegionId, id, on};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_map(raw: *const StewardGpu, of: StewardRegionId, out: *mut *mut c_void) -> i32 {
    enter(&"steward_region_map", || {
        let Some(out) = NonNull::new(out) else {
            return misused("there is no place for the address");
        };
        let write = |start: *mut u8| {
            // SAFETY: the caller's place.
            unsafe { out.write(start.cast()) }
        };
        write(null_mut());
        // SAFETY: NULL or a live allocator.
        unsafe { on(raw, |gpu| gpu.map_id(id(of)).map(|start| write(start.as_ptr()))) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_unmap(raw: *const StewardGpu, of: StewardRegionId) -> i32 {
    // SAFETY: NULL or a live allocator.
    enter(&"steward_region_unmap", || unsafe { on(raw, |gpu| gpu.unmap_id(id(of))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_flush(
    raw: *const StewardGpu,
    of: StewardRegionId,
    offset: u64,
    bytes: u64,
) -> i32 {
    // SAFETY: NULL or a live allocator.
    enter(&"steward_region_flush", || unsafe { on(raw, |gpu| gpu.flush_id(id(of), offset, bytes)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_region_invalidate(
    raw: *const StewardGpu,
    of: StewardRegionId,
    offset: u64,
    bytes: u64,
) -> i32 {
    // SAFETY: NULL or a live allocator.
    enter(&"steward_region_invalidate", || unsafe { on(raw, |gpu| gpu.invalidate_id(id(of), offset, bytes)) })
}
