//! Allocators of device memory: creating and closing them, and their statistics.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::ptr::{NonNull, null, null_mut};

use alloc_core::{ContextHandle, TryBox};
use gpu_suballoc::allocator::OutstandingRegions;
use gpu_suballoc::report::{GpuStats, MemoryTotals};
use gpu_suballoc::{AllocatorOptions, AshDevice, GpuAllocator, GpuError};
use vk_callbacks::raw::RawCallbacks;

use crate::account::{Sink, StewardWriterFn};
use crate::ash::{StewardGetInstanceProcAddrFn, load};
use crate::edge::{StewardContext, context, enter};
use crate::gpu_refusal::{GpuRefusal, misused, refused, refused_because};
use crate::refusal::{SUCCESS, UNKNOWN};
use crate::sized::{self, SizedStruct};

/// An allocator of device memory.
#[repr(C)]
pub struct StewardGpu {
    _incomplete: [u8; 0],
}

pub(crate) type Gpu = GpuAllocator<AshDevice, ContextHandle>;

/// `steward_gpu_device`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StewardGpuDevice {
    pub size: usize,
    pub get_instance_proc_addr: Option<StewardGetInstanceProcAddrFn>,
    pub instance: *mut c_void,
    pub physical_device: *mut c_void,
    pub device: *mut c_void,
    pub callbacks: *const RawCallbacks,
    pub api_version: u32,
    pub features: u32,
}

impl Default for StewardGpuDevice {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            get_instance_proc_addr: None,
            instance: null_mut(),
            physical_device: null_mut(),
            device: null_mut(),
            callbacks: null(),
            api_version: 0,
            features: 0,
        }
    }
}

// SAFETY: a size, a function or NULL, addresses and numbers.
unsafe impl SizedStruct for StewardGpuDevice {}

/// `steward_gpu_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardGpuStats {
    pub size: usize,
    pub blocks: u64,
    pub block_bytes: u64,
    pub dedicated: u64,
    pub regions: u64,
    pub region_bytes: u64,
    pub wrapped: u64,
    pub wrapped_bytes: u64,
    pub crops: u64,
    pub host_bytes: u64,
    pub budget: u64,
    pub budget_used: u64,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardGpuStats {}

/// `steward_gpu_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StewardGpuOptions {
    pub size: usize,
    pub max_bytes: u64,
    pub first_block: u64,
    pub max_block: u64,
    pub nearest_multiple: u64,
    pub keep_empty: u64,
    pub max_reusable_bytes: u64,
    pub max_blocks: u32,
    pub max_reusable: u32,
    pub granule: u32,
    pub margin: u32,
}

impl Default for StewardGpuOptions {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            max_bytes: 0,
            first_block: 0,
            max_block: 0,
            nearest_multiple: 0,
            keep_empty: 0,
            max_reusable_bytes: 0,
            max_blocks: 0,
            max_reusable: 0,
            granule: 0,
            margin: 0,
        }
    }
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardGpuOptions {}

impl StewardGpuOptions {
    /// 0 is the default. The largest number of `keep_empty` and of `max_reusable` is none.
    fn options(&self) -> AllocatorOptions {
        let mut options = AllocatorOptions::default();
        let given = |number: u64| (number != 0).then_some(number);
        let small = |number: u32| (number != 0).then_some(number);
        let memory = &mut options.memory;
        memory.max_bytes = given(self.max_bytes).unwrap_or(memory.max_bytes);
        memory.first_block = given(self.first_block);
        memory.max_block = given(self.max_block);
        memory.nearest_multiple = self.nearest_multiple;
        memory.keep_empty = given(self.keep_empty).map(|bytes| match bytes {
            u64::MAX => 0,
            bytes => bytes,
        });
        memory.max_allocations = small(self.max_blocks).unwrap_or(memory.max_allocations);
        memory.granule = small(self.granule).unwrap_or(memory.granule);
        memory.margin = self.margin;
        options.max_reusable_bytes = given(self.max_reusable_bytes).unwrap_or(options.max_reusable_bytes);
        match self.max_reusable {
            0 => {}
            u32::MAX => options.reuse = false,
            number => options.max_reusable_buffers = number,
        }
        options
    }
}

pub(crate) const NO_ALLOCATOR: &str = "the allocator is NULL";

/// The allocator behind an address; `None` for NULL.
///
/// # Safety
/// `raw` is NULL or a live allocator.
pub(crate) unsafe fn gpu<'g>(raw: *const StewardGpu) -> Option<&'g Gpu> {
    // SAFETY: NULL, or written by `create` and not ended.
    unsafe { raw.cast::<Gpu>().as_ref() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_new(
    owner: *const StewardContext,
    device: *const StewardGpuDevice,
    options: *const c_char,
    out: *mut *mut StewardGpu,
) -> i32 {
    enter(&"steward_gpu_new", || {
        // SAFETY: the caller's string.
        let options = unsafe { options_of(options) };
        // SAFETY: NULL or live objects, and a device that outlives the allocator.
        unsafe { store(owner, device, options, out) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_new_with(
    owner: *const StewardContext,
    device: *const StewardGpuDevice,
    options: *const StewardGpuOptions,
    out: *mut *mut StewardGpu,
) -> i32 {
    enter(&"steward_gpu_new_with", || {
        let options = match NonNull::new(options.cast_mut()) {
            None => Ok(AllocatorOptions::default()),
            // SAFETY: the caller's struct.
            Some(options) => unsafe { sized::read(options) }
                .map(|options| options.options())
                .ok_or(GpuRefusal::Mistake("the size of steward_gpu_options is not set")),
        };
        // SAFETY: NULL or live objects, and a device that outlives the allocator.
        unsafe { store(owner, device, options, out) }
    })
}

/// # Safety
/// The pointers are those of `steward_gpu_new`.
unsafe fn store(
    owner: *const StewardContext,
    device: *const StewardGpuDevice,
    options: Result<AllocatorOptions, GpuRefusal>,
    out: *mut *mut StewardGpu,
) -> i32 {
    let Some(out) = NonNull::new(out) else {
        return misused("there is no place for the allocator");
    };
    // SAFETY: the caller's place.
    unsafe { out.write(null_mut()) };
    // SAFETY: the caller's struct.
    let device = NonNull::new(device.cast_mut()).and_then(|of| unsafe { sized::read(of) });
    // SAFETY: NULL or a live owner.
    let owner = unsafe { context(owner) };
    let options = match options {
        Ok(options) => options,
        Err(refusal) => return refused_because(refusal),
    };
    let Some(device) = device else {
        return misused("there is no steward_gpu_device, or its size is not set");
    };
    let Some(owner) = owner else {
        return misused("there is no context to take book-keeping from");
    };
    // SAFETY: the caller's device, which outlives the allocator.
    match unsafe { create(&owner.handle(), &device, options) } {
        Ok(gpu) => {
            // SAFETY: the caller's place.
            unsafe { out.write(gpu.cast().as_ptr()) };
            SUCCESS
        }
        Err(result) => result,
    }
}

/// Parses all of the text or fails: a cut-off number could mean "no limit".
///
/// # Safety
/// `text` is NULL or a string that ends with a zero, and is not written meanwhile.
unsafe fn options_of(text: *const c_char) -> Result<AllocatorOptions, GpuRefusal> {
    if text.is_null() {
        return Ok(AllocatorOptions::default());
    }
    // SAFETY: a string with an end.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok("") => Ok(AllocatorOptions::default()),
        Ok(text) => text.parse().map_err(GpuRefusal::Options),
        Err(_) => Err(GpuRefusal::Mistake(
            "the options are no UTF-8: write up to five decimal numbers with colons between them",
        )),
    }
}

/// # Safety
/// The device meets the header's requirements.
unsafe fn create(
    memory: &ContextHandle,
    device: &StewardGpuDevice,
    options: AllocatorOptions,
) -> Result<NonNull<Gpu>, i32> {
    // SAFETY: a device as the header requires.
    let device = unsafe { load(device) };
    let device = device.map_err(refused_because)?;
    // The place first, so that a created allocator always has one.
    let place = TryBox::try_new_in(MaybeUninit::<Gpu>::uninit(), memory.clone())
        .map_err(|rejected| refused(GpuError::Host(rejected.error)))?;
    // SAFETY: a device as the header requires.
    let gpu = unsafe { GpuAllocator::new(device, memory.clone(), options) };
    let gpu = gpu.map_err(|rejected| refused(rejected.error))?;
    let (place, _another_handle) = TryBox::into_raw_with_allocator(place);
    let place = place.cast::<Gpu>();
    // SAFETY: the box's own room for it.
    unsafe { place.write(gpu) };
    Ok(place)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_close(raw: *mut StewardGpu) -> i32 {
    // SAFETY: NULL or a live allocator that no other call uses.
    enter(&"steward_gpu_close", || unsafe {
        end(raw, |gpu| match gpu.close() {
            Ok((_device, memory)) => ControlFlow::Break(memory),
            Err(rejected) => ControlFlow::Continue((rejected.value, rejected.error)),
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_abandon(raw: *mut StewardGpu) {
    // SAFETY: NULL or a live allocator that no other call uses.
    enter(&"steward_gpu_abandon", || unsafe {
        end(raw, |gpu| ControlFlow::Break(gpu.abandon().1));
    });
}

/// The place is freed, unless `close` returns the allocator.
///
/// # Safety
/// `raw` is NULL or a live allocator that is not used meanwhile, nor after a success.
unsafe fn end(
    raw: *mut StewardGpu,
    close: impl FnOnce(Gpu) -> ControlFlow<ContextHandle, (Gpu, OutstandingRegions)>,
) -> i32 {
    let Some(place) = NonNull::new(raw.cast::<Gpu>()) else {
        return misused(NO_ALLOCATOR);
    };
    // SAFETY: written by `create`; no other call uses it.
    match close(unsafe { place.read() }) {
        ControlFlow::Break(memory) => {
            // SAFETY: allocated there by `create`; the value was moved out.
            drop(unsafe { TryBox::from_raw_in(place.cast::<MaybeUninit<Gpu>>(), memory) });
            SUCCESS
        }
        ControlFlow::Continue((back, left)) => {
            // SAFETY: the place that it was moved out of.
            unsafe { place.write(back) };
            refused_because(GpuRefusal::NotClosed(left))
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_trim(raw: *const StewardGpu, bytes: u64) -> u64 {
    enter(&"steward_gpu_trim", || {
        // SAFETY: NULL or a live allocator.
        unsafe { gpu(raw) }.map_or(0, |gpu| gpu.trim(bytes))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_usage(raw: *const StewardGpu, heap: i32, out: *mut StewardGpuStats) -> i32 {
    enter(&"steward_gpu_usage", || {
        // SAFETY: NULL or a live allocator.
        let Some(gpu) = (unsafe { gpu(raw) }) else {
            return misused(NO_ALLOCATOR);
        };
        let Some(mut stats) = of_heap(&gpu.stats(), heap) else {
            return misused("the device has no such heap");
        };
        if let Some(of) = u32::try_from(heap).ok().and_then(|heap| gpu.heap_budget(heap)) {
            (stats.budget, stats.budget_used) = (of.budget, of.usage);
        }
        // SAFETY: NULL or the caller's place.
        if unsafe { sized::write(out, &stats) } {
            SUCCESS
        } else {
            misused("there is no place for the numbers, or its size is not set")
        }
    })
}

/// -1 is all heaps together.
fn of_heap(stats: &GpuStats, heap: i32) -> Option<StewardGpuStats> {
    let (totals, host_bytes): (&MemoryTotals, u64) = match usize::try_from(heap) {
        Ok(heap) => (stats.heaps.get(heap)?, 0),
        Err(_) if heap == -1 => (&stats.total, stats.host_bytes),
        Err(_) => return None,
    };
    Some(StewardGpuStats {
        size: size_of::<StewardGpuStats>(),
        blocks: totals.blocks,
        block_bytes: totals.block_bytes,
        dedicated: totals.dedicated,
        regions: totals.regions,
        region_bytes: totals.region_bytes,
        wrapped: totals.wrapped,
        wrapped_bytes: totals.wrapped_bytes,
        crops: totals.crops,
        host_bytes,
        ..StewardGpuStats::default()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_set_frame(raw: *const StewardGpu, frame: u32) -> bool {
    enter(&"steward_gpu_set_frame", || {
        // SAFETY: NULL or a live allocator.
        unsafe { gpu(raw) }.is_some_and(|gpu| gpu.set_frame(frame))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_json(
    raw: *const StewardGpu,
    writer: Option<StewardWriterFn>,
    user: *mut c_void,
) -> i32 {
    enter(&"steward_gpu_json", || {
        // SAFETY: NULL or a live allocator.
        let gpu = unsafe { gpu(raw) };
        let (Some(gpu), Some(writer)) = (gpu, writer) else {
            return misused("there is no allocator, or no function that writes");
        };
        match gpu.memory_map() {
            Ok(map) => {
                let written = gpu.write_json(&map, &mut Sink { writer, user });
                written.map_or(UNKNOWN, |()| SUCCESS)
            }
            Err(error) => refused(error),
        }
    })
}
