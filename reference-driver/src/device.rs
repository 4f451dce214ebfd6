use core::sync::atomic::AtomicBool;

use alloc_core::Scope;
use ash::vk;
use vk_callbacks::driver::{DeviceDomain, ObjectPlace};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{CallbackAllocator, FallbackChain, Object};

use crate::edge::{answer, commands, get, list, raw, refused, slice, typed};
use crate::instance::{Instance, PhysicalDevice, create_instance_object, destroy_instance_object};
use crate::objects::is_up;

pub(crate) type PAllocator = *const vk::AllocationCallbacks<'static>;

pub(crate) struct Device {
    pub(crate) domain: DeviceDomain,
    /// The instance outlives the device (valid usage).
    pub(crate) instance: &'static Instance,
    queue: u64,
}

/// The submitting thread does the work (RD11).
pub(crate) struct Queue {
    /// Set when a submit fails.
    pub(crate) lost: AtomicBool,
}

/// The callbacks are copied (V5, V6).
///
/// # Safety
/// As `CallbackAllocator::from_ptr`.
pub(crate) unsafe fn own(p_allocator: PAllocator) -> Result<Option<CallbackAllocator>, vk::Result> {
    // SAFETY: this function's contract; ash's struct is the same.
    unsafe { CallbackAllocator::from_ptr(callbacks(p_allocator)) }.map_err(refused)
}

pub(crate) fn callbacks(p_allocator: PAllocator) -> *const RawCallbacks {
    #[cfg(planted)]
    crate::defects::given(p_allocator.cast());
    p_allocator.cast()
}

impl Device {
    pub(crate) fn is_lost(&self) -> bool {
        // SAFETY: the queue lives as long as its device, and is only shared.
        let queue = unsafe { get::<Queue>(self.queue) };
        queue.is_some_and(|queue| is_up(&queue.lost))
    }

    pub(crate) fn chain<'a>(&'a self, own: Option<&'a CallbackAllocator>) -> FallbackChain<'a> {
        self.domain.chain(&self.instance.domain, own)
    }
}

fn create_device_object(
    physical: &PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    p_allocator: PAllocator,
) -> Result<u64, vk::Result> {
    // SAFETY: valid usage: so many names.
    let names = unsafe { slice(info.pp_enabled_extension_names, info.enabled_extension_count) };
    for name in names {
        // SAFETY: valid usage: names end with a NUL.
        let name = unsafe { core::ffi::CStr::from_ptr(*name) };
        if name != vk::EXT_PIPELINE_CREATION_CACHE_CONTROL_NAME {
            return Err(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
        }
    }
    // SAFETY: the instance outlives the device.
    let instance: Option<&'static Instance> = unsafe { get::<Instance>(physical.instance) };
    let instance = instance.ok_or(vk::Result::ERROR_UNKNOWN)?;
    // SAFETY: valid usage of vkCreateDevice.
    let domain = unsafe { DeviceDomain::new(callbacks(p_allocator)) }.map_err(refused)?;
    let chain = domain.chain(&instance.domain, None);
    let place = ObjectPlace::allocate(&chain, Scope::Device).map_err(refused)?;
    let queue = Queue { lost: AtomicBool::new(false) };
    let queue = match Object::create_with_scope(&chain, Scope::Device, queue) {
        Ok(queue) => queue.into_handle(),
        Err(rejected) => {
            // SAFETY: the chain that it was allocated with.
            let _ = unsafe { place.free(&chain) };
            return Err(refused(rejected.error));
        }
    };
    Ok(place.fill(Device { domain, instance, queue }).into_handle())
}

fn destroy_device_object(device: u64, p_allocator: PAllocator) {
    // SAFETY: valid usage: the handle's last use.
    let Some(object) = (unsafe { Object::<Device>::from_handle(device) }) else {
        return;
    };
    let (place, device) = object.vacate();
    // SAFETY: valid usage of vkDestroyDevice.
    let passed = unsafe { DeviceDomain::new(callbacks(p_allocator)) };
    let passed = passed.ok().filter(|passed| passed.own().is_some());
    let domain = passed.as_ref().unwrap_or(&device.domain);
    let chain = domain.chain(&device.instance.domain, None);
    // SAFETY: the queue's last use.
    if let Some(queue) = unsafe { Object::<Queue>::from_handle(device.queue) } {
        // SAFETY: compatible callbacks (V42).
        let _ = unsafe { queue.destroy(&chain) };
    }
    // SAFETY: compatible callbacks (V42).
    let _ = unsafe { place.free(&chain) };
}

commands! {
    fn create_instance(info: *const vk::InstanceCreateInfo<'_> as read _, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Instance as write _) -> vk::Result {
        *out = vk::Instance::null();
        if info.enabled_extension_count > 0 {
            return vk::Result::ERROR_EXTENSION_NOT_PRESENT;
        }
        answer(create_instance_object(p_allocator.cast()).map(|handle| *out = typed(handle)))
    }
    fn destroy_instance(instance: vk::Instance, p_allocator: *const vk::AllocationCallbacks<'_>) {
        destroy_instance_object(raw(instance), p_allocator.cast());
    }
    fn enumerate_physical_devices(instance: vk::Instance as object Instance, count: *mut u32 as write _, out: *mut vk::PhysicalDevice) -> vk::Result {
        // SAFETY: valid usage: room for `count` values, or NULL.
        unsafe { list(&[typed::<vk::PhysicalDevice>(instance.physical)], count, out) }
    }
    fn enumerate_physical_device_groups(instance: vk::Instance as object Instance, count: *mut u32 as write _, out: *mut vk::PhysicalDeviceGroupProperties<'_>) -> vk::Result {
        if !out.is_null() && *count > 0 {
            // SAFETY: valid usage: room for `count` values.
            let group = unsafe { &mut *out };
            group.physical_device_count = 1;
            group.physical_devices[0] = typed(instance.physical);
            group.subset_allocation = vk::FALSE;
        } else if !out.is_null() {
            return vk::Result::INCOMPLETE;
        }
        *count = 1;
        vk::Result::SUCCESS
    }
    fn create_device(physical: vk::PhysicalDevice as object PhysicalDevice, info: *const vk::DeviceCreateInfo<'_> as read _, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Device as write _) -> vk::Result {
        *out = vk::Device::null();
        answer(create_device_object(physical, info, p_allocator.cast()).map(|handle| *out = typed(handle)))
    }
    fn destroy_device(device: vk::Device, p_allocator: *const vk::AllocationCallbacks<'_>) {
        destroy_device_object(raw(device), p_allocator.cast());
    }
    fn get_device_queue(device: vk::Device as object Device, _family: u32, _index: u32, out: *mut vk::Queue as write _) {
        *out = typed(device.queue);
    }
    fn get_device_queue2(device: vk::Device as object Device, _info: *const vk::DeviceQueueInfo2<'_>, out: *mut vk::Queue as write _) {
        *out = typed(device.queue);
    }
    fn queue_wait_idle(_queue: vk::Queue) -> vk::Result { vk::Result::SUCCESS }
    fn device_wait_idle(_device: vk::Device) -> vk::Result { vk::Result::SUCCESS }
    fn queue_bind_sparse(_queue: vk::Queue, _count: u32, _infos: *const vk::BindSparseInfo<'_>, _fence: vk::Fence) -> vk::Result {
        vk::Result::ERROR_UNKNOWN
    }
    fn get_device_group_peer_memory_features(_device: vk::Device, _heap: u32, _local: u32, _remote: u32, out: *mut vk::PeerMemoryFeatureFlags as write _) {
        *out = vk::PeerMemoryFeatureFlags::empty();
    }
}
