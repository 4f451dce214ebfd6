//! The layer between a program and a driver of one process: what a loader does for a layer, in small.
//!
//! ```text
//!   program -> first -> the layer -> below -> end: the loader, a driver's own library, or a linked driver
//! ```
//!
//! The layer finds an instance or a device by the first word of a handle. A loader writes it. Where the end is a
//! driver, it is written here, since drivers leave that word to the loader.

use std::ffi::{CStr, c_char, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::{fmt, sync};

use vk_callbacks::check::Opened;
use vk_callbacks::raw::RawCallbacks;
use vk_report::guard_run::Layers;
use vk_report::report::origins::StackCapture;

use crate::chain::{
    ERROR_INITIALIZATION_FAILED, GetProcAddr, LOADER_DEVICE, LOADER_INSTANCE, LayerCreateInfo, LayerLink, SUCCESS,
    VoidFunction,
};
use crate::commands::{known_row, row};
use crate::hooks::{get_instance_proc_addr, has_panicked_ever};
use crate::once::ValueAcrossForks;
use crate::parent::Parent;
use crate::{guarding, tape, timeline};

type Callbacks = *const RawCallbacks;
type Handle = *mut c_void;
type Info = *const c_void;

type CreateInstance = unsafe extern "system" fn(Info, Callbacks, *mut Handle) -> i32;
type CreateDevice = unsafe extern "system" fn(Handle, Info, Callbacks, *mut Handle) -> i32;
type Enumerate<T> = unsafe extern "system" fn(Handle, *mut u32, *mut T) -> i32;
type GetQueue = unsafe extern "system" fn(Handle, u32, u32, *mut Handle);
type GetQueue2 = unsafe extern "system" fn(Handle, Info, *mut Handle);
type AllocateBuffers = unsafe extern "system" fn(Handle, Info, *mut Handle) -> i32;

const INSTANCE_INFO: usize = 8;
const DEVICE_INFO: usize = 9;

const CREATE_DEVICE: usize = known_row("vkCreateDevice");

/// What is observed beside the accounts.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Whether the end is a loader, or the driver itself. Findings name the driver or the implementation.
    pub opened: Opened,
    /// Records the call stack of each block of the driver.
    #[expect(clippy::disallowed_types, reason = "the program's own; the layer only holds it")]
    pub stacks: Option<sync::Arc<StackCapture>>,
    /// Records each call, for [`write_trace`].
    pub records: bool,
    /// The layer's settings, by name: the environment and settings files are those of a program's own layer.
    pub settings: &'static [(&'static str, &'static str)],
}

struct Chain {
    end: GetProcAddr,
    /// The end's `vkGetDeviceProcAddr`, which serves all instances.
    device_end: AtomicPtr<()>,
    observation: Observation,
}

static CHAIN: ValueAcrossForks<Chain> = ValueAcrossForks::new();

/// Puts the layer before `end`, the `vkGetInstanceProcAddr` of a loader or driver, and returns the
/// `vkGetInstanceProcAddr` for the program.
///
/// A process has one end, that of the first call; for the same `end` later calls return the same. The layer writes its
/// report when the last instance is destroyed. Peaks of kinds are exact.
///
/// `None` if the process has another end.
///
/// # Safety
/// `end` follows Vulkan's rules for as long as the process lives, and is what `observation` says.
pub unsafe fn chain(end: GetProcAddr, observation: Observation) -> Option<GetProcAddr> {
    let chain = CHAIN.get_or_make(|| Chain { end, device_end: AtomicPtr::new(ptr::null_mut()), observation });
    (chain.end as usize == end as usize).then_some(first as GetProcAddr)
}

/// The program enters a part of this name. From the first one on no phase begins by itself.
pub fn phase(name: &'static str) {
    timeline::begin_named_phase(name);
}

/// The guard and the planned failures below the accounts, for other memory that is to lie over them. `None` without
/// either.
#[must_use]
pub fn layers() -> Option<&'static Layers> {
    guarding::layers_of_process()
}

/// Whether any of the layer's own work has panicked: then what it reports is not whole.
#[must_use]
pub fn has_panicked() -> bool {
    has_panicked_ever()
}

/// Appends what was recorded until now as a trace of format 2 about `driver`. `false` if nothing is recorded, or
/// without memory.
#[must_use]
pub fn write_trace(driver: &str, out: &mut dyn fmt::Write) -> bool {
    tape::tape().is_some_and(|tape| tape.write(driver, out).is_ok())
}

#[inline]
pub(crate) fn observation() -> Option<&'static Observation> {
    CHAIN.get().map(|chain| &chain.observation)
}

fn is_direct(chain: &Chain) -> bool {
    chain.observation.opened == Opened::Directly
}

macro_rules! void {
    ($function:expr, $type:ty) => {
        // SAFETY: a function's address; its caller casts it back.
        Some(unsafe { transmute::<$type, VoidFunction>($function) })
    };
}

macro_rules! command {
    ($found:expr, $type:ty $(, $refusal:expr)?) => {{
        let Some(found) = $found else {
            return $($refusal)?;
        };
        // SAFETY: the command of that name has this signature.
        unsafe { transmute::<VoidFunction, $type>(found) }
    }};
}

/// # Safety
/// NULL, or a live instance of the end.
unsafe fn of_end(instance: Handle, name: &CStr) -> Option<VoidFunction> {
    // SAFETY: NULL or a live instance; the name ends with 0.
    unsafe { (CHAIN.get()?.end)(instance, name.as_ptr()) }
}

/// # Safety
/// A live device of the end.
unsafe fn of_device_end(device: Handle, name: &CStr) -> Option<VoidFunction> {
    let end = CHAIN.get()?.device_end.load(Ordering::Acquire);
    if end.is_null() {
        return None;
    }
    // SAFETY: a function of this type, stored when the device was created.
    let end = unsafe { transmute::<*mut (), GetProcAddr>(end) };
    // SAFETY: a live device of the end; the name ends with 0.
    unsafe { end(device, name.as_ptr()) }
}

unsafe extern "system" fn first(instance: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: Vulkan requires a name that ends with 0.
    let text = unsafe { CStr::from_ptr(name) };
    match text.to_bytes() {
        b"vkGetInstanceProcAddr" => void!(first, GetProcAddr),
        b"vkCreateInstance" => void!(create_instance, CreateInstance),
        b"vkCreateDevice" if !instance.is_null() => void!(create_device, CreateDevice),
        // SAFETY: NULL.
        _ if instance.is_null() => unsafe { of_end(instance, text) },
        // SAFETY: Vulkan requires a live instance.
        _ => unsafe { get_instance_proc_addr(instance, name) },
    }
}

/// # Safety
/// `info` is a create info of `WORDS` words, and lives as long as the copy is used.
unsafe fn with_link<const WORDS: usize>(info: Info, link: &mut LayerCreateInfo) -> [MaybeUninit<usize>; WORDS] {
    // SAFETY: a create info has `WORDS` words; padding need not be initialised.
    let mut copy = unsafe { info.cast::<[MaybeUninit<usize>; WORDS]>().read() };
    if let Some(p_next) = copy.get_mut(1) {
        // SAFETY: the second word of each create info is a pointer.
        link.base.p_next = ptr::with_exposed_provenance_mut(unsafe { p_next.assume_init() });
        p_next.write(ptr::from_mut(link).expose_provenance());
    }
    copy
}

/// A loader would take a link of ours for its own.
///
/// # Safety
/// `info` is a create info of `WORDS` words, and lives as long as the copy is used.
unsafe fn without_link<const WORDS: usize>(info: Info) -> [MaybeUninit<usize>; WORDS] {
    // SAFETY: a create info has `WORDS` words; padding need not be initialised.
    let mut copy = unsafe { info.cast::<[MaybeUninit<usize>; WORDS]>().read() };
    if let Some(p_next) = copy.get_mut(1) {
        // SAFETY: the second word of each create info is a pointer.
        let chain = ptr::with_exposed_provenance::<LayerCreateInfo>(unsafe { p_next.assume_init() });
        // SAFETY: NULL, or a struct, which is a link where its type says so.
        let behind = unsafe { LayerCreateInfo::behind_link(chain) };
        if let Some(behind) = behind {
            p_next.write(behind.expose_provenance());
        }
    }
    copy
}

unsafe extern "system" fn create_instance(info: Info, allocator: Callbacks, out: *mut Handle) -> i32 {
    let mut link = LayerLink::new(below, None);
    let mut first = LayerCreateInfo::new(LOADER_INSTANCE, &mut link);
    // SAFETY: Vulkan requires this command's info.
    let info = unsafe { with_link::<INSTANCE_INFO>(info, &mut first) };
    // SAFETY: NULL.
    let layer = unsafe { get_instance_proc_addr(ptr::null_mut(), c"vkCreateInstance".as_ptr()) };
    let create = command!(layer, CreateInstance, ERROR_INITIALIZATION_FAILED);
    // SAFETY: the program's arguments, with a loader's link.
    unsafe { create(info.as_ptr().cast(), allocator, out) }
}

unsafe extern "system" fn create_device(physical: Handle, info: Info, allocator: Callbacks, out: *mut Handle) -> i32 {
    let mut link = LayerLink::new(below, Some(below_device));
    let mut first = LayerCreateInfo::new(LOADER_DEVICE, &mut link);
    // SAFETY: Vulkan requires this command's info.
    let info = unsafe { with_link::<DEVICE_INFO>(info, &mut first) };
    // SAFETY: NULL.
    let layer = unsafe { get_instance_proc_addr(ptr::null_mut(), c"vkCreateDevice".as_ptr()) };
    let create = command!(layer, CreateDevice, ERROR_INITIALIZATION_FAILED);
    // SAFETY: the program's arguments, with a loader's link.
    unsafe { create(physical, info.as_ptr().cast(), allocator, out) }
}

unsafe extern "system" fn below(instance: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: the layer's name ends with 0.
    let text = unsafe { CStr::from_ptr(name) };
    match text.to_bytes() {
        b"vkCreateInstance" => void!(create_instance_below, CreateInstance),
        b"vkCreateDevice" => void!(create_device_below, CreateDevice),
        // SAFETY: the layer passes NULL or the end's instance.
        name => marking(name).or_else(|| unsafe { of_end(instance, text) }),
    }
}

unsafe extern "system" fn below_device(device: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: the layer's name ends with 0.
    let text = unsafe { CStr::from_ptr(name) };
    // SAFETY: the layer passes the end's device.
    marking(text.to_bytes()).or_else(|| unsafe { of_device_end(device, text) })
}

/// The function writes the first words of what a driver's command returns.
fn marking(name: &[u8]) -> Option<VoidFunction> {
    if !CHAIN.get().is_some_and(is_direct) {
        return None;
    }
    match name {
        b"vkEnumeratePhysicalDevices" => void!(enumerate_devices, Enumerate<Handle>),
        b"vkEnumeratePhysicalDeviceGroups" => {
            void!(enumerate_groups::<false>, Enumerate<DeviceGroup>)
        }
        b"vkEnumeratePhysicalDeviceGroupsKHR" => {
            void!(enumerate_groups::<true>, Enumerate<DeviceGroup>)
        }
        b"vkGetDeviceQueue" => void!(get_queue, GetQueue),
        b"vkGetDeviceQueue2" => void!(get_queue_2, GetQueue2),
        b"vkAllocateCommandBuffers" => void!(allocate_buffers, AllocateBuffers),
        _ => None,
    }
}

/// # Safety
/// A live dispatchable handle of a driver, or NULL.
unsafe fn mark(handle: Handle, parent: Handle) {
    if !handle.is_null() {
        // Another thread may have got the same queue, and use it already.
        // SAFETY: the first word of a driver's handle is the loader's, and there is none; ours is only used as an
        // atomic.
        let word = unsafe { AtomicUsize::from_ptr(handle.cast()) };
        word.store(parent.expose_provenance(), Ordering::Relaxed);
    }
}

unsafe extern "system" fn create_instance_below(info: Info, allocator: Callbacks, out: *mut Handle) -> i32 {
    // SAFETY: NULL.
    let found = unsafe { of_end(ptr::null_mut(), c"vkCreateInstance") };
    let create = command!(found, CreateInstance, ERROR_INITIALIZATION_FAILED);
    // SAFETY: the layer passes on this command's info.
    let info = unsafe { without_link::<INSTANCE_INFO>(info) };
    // SAFETY: the command's own arguments.
    let result = unsafe { create(info.as_ptr().cast(), allocator, out) };
    if result == SUCCESS && CHAIN.get().is_some_and(is_direct) {
        // SAFETY: the command has written it.
        let instance = unsafe { *out };
        // SAFETY: a driver's live instance, which the program does not have yet.
        unsafe { mark(instance, instance) };
    }
    result
}

unsafe extern "system" fn create_device_below(
    physical: Handle,
    info: Info,
    allocator: Callbacks,
    out: *mut Handle,
) -> i32 {
    // SAFETY: a live physical device, which was marked.
    let parent = unsafe { Parent::of(row(CREATE_DEVICE), physical) };
    let Some((chain, parent)) = CHAIN.get().zip(parent) else {
        return ERROR_INITIALIZATION_FAILED;
    };
    let instance = ptr::with_exposed_provenance_mut(parent.handle);
    // SAFETY: a live instance.
    let found = unsafe { of_end(instance, c"vkCreateDevice") };
    let create = command!(found, CreateDevice, ERROR_INITIALIZATION_FAILED);
    // SAFETY: a live instance.
    let of_device = unsafe { of_end(instance, c"vkGetDeviceProcAddr") };
    let of_device = of_device.map_or(ptr::null_mut(), |function| function as *mut ());
    chain.device_end.store(of_device, Ordering::Release);
    // SAFETY: the layer passes on this command's info.
    let info = unsafe { without_link::<DEVICE_INFO>(info) };
    // SAFETY: the command's own arguments.
    let result = unsafe { create(physical, info.as_ptr().cast(), allocator, out) };
    if result == SUCCESS && is_direct(chain) {
        // SAFETY: the command has written it.
        let device = unsafe { *out };
        // SAFETY: a driver's live device, which the program does not have yet.
        unsafe { mark(device, device) };
    }
    result
}

unsafe extern "system" fn enumerate_devices(instance: Handle, count: *mut u32, out: *mut Handle) -> i32 {
    // SAFETY: Vulkan requires a live instance.
    let found = unsafe { of_end(instance, c"vkEnumeratePhysicalDevices") };
    let enumerate = command!(found, Enumerate<Handle>, ERROR_INITIALIZATION_FAILED);
    // SAFETY: the command's own arguments.
    let result = unsafe { enumerate(instance, count, out) };
    if result >= 0 {
        // SAFETY: the command has written so many handles, or there is no array.
        unsafe { mark_all(count, out, instance) };
    }
    result
}

/// # Safety
/// `count` may be read, and `out` is NULL or points to so many handles.
unsafe fn mark_all(count: *const u32, out: *const Handle, parent: Handle) {
    // SAFETY: `count` may be read.
    let count = unsafe { *count };
    // SAFETY: NULL or so many handles.
    let handles = unsafe { crate::chain::slice_of(out, count) };
    for handle in handles {
        // SAFETY: each is 0 or a live handle.
        unsafe { mark(*handle, parent) };
    }
}

#[repr(C)]
struct DeviceGroup {
    s_type: i32,
    p_next: *const c_void,
    count: u32,
    devices: [Handle; 32],
    subset_allocation: u32,
}

unsafe extern "system" fn enumerate_groups<const OF_EXTENSION: bool>(
    instance: Handle,
    count: *mut u32,
    out: *mut DeviceGroup,
) -> i32 {
    let name = if OF_EXTENSION { c"vkEnumeratePhysicalDeviceGroupsKHR" } else { c"vkEnumeratePhysicalDeviceGroups" };
    // SAFETY: Vulkan requires a live instance.
    let found = unsafe { of_end(instance, name) };
    let enumerate = command!(found, Enumerate<DeviceGroup>, ERROR_INITIALIZATION_FAILED);
    // SAFETY: the command's own arguments.
    let result = unsafe { enumerate(instance, count, out) };
    if result >= 0 {
        // SAFETY: the command has written the count.
        let count = unsafe { *count };
        // SAFETY: it has written so many groups, or there is no array.
        for group in unsafe { crate::chain::slice_of(out, count) } {
            // SAFETY: the group's count and handles were written; it has at most 32 devices.
            unsafe { mark_all(&raw const group.count, group.devices.as_ptr(), instance) };
        }
    }
    result
}

unsafe extern "system" fn get_queue(device: Handle, family: u32, index: u32, out: *mut Handle) {
    // SAFETY: Vulkan requires a live device.
    let found = unsafe { of_device_end(device, c"vkGetDeviceQueue") };
    let get = command!(found, GetQueue);
    // SAFETY: the command's own arguments.
    unsafe { get(device, family, index, out) };
    // SAFETY: the command has written it.
    let queue = unsafe { *out };
    // SAFETY: a live queue of the device.
    unsafe { mark(queue, device) };
}

unsafe extern "system" fn get_queue_2(device: Handle, info: Info, out: *mut Handle) {
    // SAFETY: Vulkan requires a live device.
    let found = unsafe { of_device_end(device, c"vkGetDeviceQueue2") };
    let get = command!(found, GetQueue2);
    // SAFETY: the command's own arguments.
    unsafe { get(device, info, out) };
    // SAFETY: the command has written it.
    let queue = unsafe { *out };
    // SAFETY: a live queue of the device.
    unsafe { mark(queue, device) };
}

#[repr(C)]
struct BufferAllocateInfo {
    s_type: i32,
    p_next: *const c_void,
    pool: u64,
    level: i32,
    count: u32,
}

unsafe extern "system" fn allocate_buffers(device: Handle, info: Info, out: *mut Handle) -> i32 {
    // SAFETY: Vulkan requires a live device.
    let found = unsafe { of_device_end(device, c"vkAllocateCommandBuffers") };
    let allocate = command!(found, AllocateBuffers, ERROR_INITIALIZATION_FAILED);
    // SAFETY: the command's own arguments.
    let result = unsafe { allocate(device, info, out) };
    if result == SUCCESS {
        // SAFETY: Vulkan requires this command's info.
        let info = unsafe { &*info.cast::<BufferAllocateInfo>() };
        // SAFETY: the command has written so many.
        unsafe { mark_all(&raw const info.count, out, device) };
    }
    result
}
