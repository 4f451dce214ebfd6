//! The layer, as the loader calls it.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::ptr;

use VkLayer_steward_memory::{NegotiateLayerInterface, vkNegotiateLoaderLayerInterfaceVersion};

use super::names::{next_device_proc_addr, next_instance_proc_addr};
use super::{Callbacks, GetProcAddr, Handle, VoidFunction};

/// A create info with the loader's link, as a layer gets it.
#[repr(C)]
pub(crate) struct LinkInfo {
    s_type: i32,
    p_next: *const c_void,
    function: i32,
    pub(crate) link: *const Link,
}

#[repr(C)]
pub(crate) struct Link {
    next: *const Link,
    instance: Option<GetProcAddr>,
    device: Option<GetProcAddr>,
}

/// `VkInstanceCreateInfo` or `VkDeviceCreateInfo`, of which only the chain is read.
#[repr(C)]
pub(crate) struct CreateInfo {
    s_type: i32,
    pub(crate) p_next: *const c_void,
    /// Flags, the application, layers and extensions, or what a device's has there: none of each.
    rest: [usize; 8],
}

pub(crate) const LINK: Link = Link::new(next_instance_proc_addr, next_device_proc_addr);

impl Link {
    pub(crate) const fn new(instance: GetProcAddr, device: GetProcAddr) -> Self {
        Self { next: ptr::null(), instance: Some(instance), device: Some(device) }
    }
}

impl LinkInfo {
    pub(crate) fn new(s_type: i32, link: &Link) -> Self {
        Self { s_type, p_next: ptr::null(), function: 0, link }
    }
}

impl CreateInfo {
    pub(crate) fn new(chain: &mut LinkInfo) -> Self {
        Self { s_type: 1, p_next: ptr::from_mut(chain).cast(), rest: [0; 8] }
    }

    /// Of a device, which enables this extension. The name is used as long as the value.
    pub(crate) fn enable(&mut self, names: &[*const c_char; 1]) {
        self.rest[4] = names.len();
        self.rest[5] = names.as_ptr().expose_provenance();
    }
}

type Negotiate = unsafe extern "system" fn(*mut NegotiateLayerInterface) -> i32;

/// The layer, as the loader knows it.
pub(crate) struct Layer {
    pub(crate) instance: GetProcAddr,
    pub(crate) device: GetProcAddr,
}

pub(crate) const fn interface(version: u32) -> NegotiateLayerInterface {
    NegotiateLayerInterface {
        s_type: 1,
        p_next: ptr::null_mut(),
        loader_layer_interface_version: version,
        pfn_get_instance_proc_addr: None,
        pfn_get_device_proc_addr: None,
        pfn_get_physical_device_proc_addr: None,
    }
}

impl Layer {
    pub(crate) fn new() -> Self {
        Self::negotiated(vkNegotiateLoaderLayerInterfaceVersion)
    }

    pub(crate) fn negotiated(negotiate: Negotiate) -> Self {
        let mut interface = interface(2);
        // SAFETY: a struct that may be written.
        assert_eq!(unsafe { negotiate(&raw mut interface) }, 0);
        Self {
            instance: interface.pfn_get_instance_proc_addr.expect("a function"),
            device: interface.pfn_get_device_proc_addr.expect("a function"),
        }
    }

    pub(crate) fn of_instance(&self, instance: Handle, name: &CStr) -> Option<VoidFunction> {
        // SAFETY: NULL or a live instance.
        unsafe { (self.instance)(instance, name.as_ptr()) }
    }

    pub(crate) fn of_device(&self, device: Handle, name: &CStr) -> Option<VoidFunction> {
        // SAFETY: a live device.
        unsafe { (self.device)(device, name.as_ptr()) }
    }

    pub(crate) fn create_instance(&self, callbacks: Callbacks) -> Result<Handle, i32> {
        let mut chain = LinkInfo::new(47, &LINK);
        let info = CreateInfo::new(&mut chain);
        let instance = self.create_instance_with(&info, callbacks)?;
        assert!(chain.link.is_null(), "the link was moved on");
        Ok(instance)
    }

    /// As the loader calls the layer, with this create info.
    pub(crate) fn create_instance_with(&self, info: &CreateInfo, callbacks: Callbacks) -> Result<Handle, i32> {
        type Function = unsafe extern "system" fn(*const c_void, Callbacks, *mut Handle) -> i32;
        let function = self.of_instance(ptr::null_mut(), c"vkCreateInstance");
        // SAFETY: the command has this signature.
        let function = unsafe { transmute::<VoidFunction, Function>(function.expect("a hook")) };
        let mut instance = ptr::null_mut();
        // SAFETY: as the loader calls a layer.
        let result = unsafe { function(ptr::from_ref(info).cast(), callbacks, &raw mut instance) };
        if result != 0 {
            return Err(result);
        }
        Ok(instance)
    }

    pub(crate) fn create_device(&self, instance: Handle, callbacks: Callbacks) -> Result<Handle, i32> {
        let mut chain = LinkInfo::new(48, &LINK);
        let info = CreateInfo::new(&mut chain);
        let device = self.create_device_with(instance, &info, callbacks)?;
        assert!(chain.link.is_null(), "the link was moved on");
        Ok(device)
    }

    /// As the loader calls the layer, with this create info.
    pub(crate) fn create_device_with(
        &self,
        instance: Handle,
        info: &CreateInfo,
        callbacks: Callbacks,
    ) -> Result<Handle, i32> {
        type Function = unsafe extern "system" fn(Handle, *const c_void, Callbacks, *mut Handle) -> i32;
        let function = self.of_instance(instance, c"vkCreateDevice");
        // SAFETY: the command has this signature.
        let function = unsafe { transmute::<VoidFunction, Function>(function.expect("a hook")) };
        let mut device = ptr::null_mut();
        // The instance stands for its physical device, too: both begin with the same word.
        // SAFETY: as the loader calls a layer.
        let result = unsafe { function(instance, ptr::from_ref(info).cast(), callbacks, &raw mut device) };
        if result != 0 {
            return Err(result);
        }
        Ok(device)
    }

    pub(crate) fn destroy_instance(&self, instance: Handle, callbacks: Callbacks) {
        let function = self.of_instance(instance, c"vkDestroyInstance").expect("a hook");
        destroy(function, instance, callbacks);
    }

    pub(crate) fn destroy_device(&self, device: Handle, callbacks: Callbacks) {
        let function = self.of_device(device, c"vkDestroyDevice").expect("a hook");
        destroy(function, device, callbacks);
    }
}

pub(crate) fn destroy(function: VoidFunction, object: Handle, callbacks: Callbacks) {
    type Function = unsafe extern "system" fn(Handle, Callbacks);
    // SAFETY: the command has this signature.
    let function = unsafe { transmute::<VoidFunction, Function>(function) };
    // SAFETY: a live instance or device, or NULL, with the callbacks that it was created with.
    unsafe { function(object, callbacks) };
}

/// Calls a command that creates one object below `parent`.
pub(crate) fn create_object(function: VoidFunction, parent: Handle, callbacks: Callbacks) -> Result<u64, i32> {
    type Function = unsafe extern "system" fn(Handle, *const c_void, Callbacks, *mut u64) -> i32;
    // `VkMemoryAllocateInfo`, the only info that the layer reads: 4096 bytes of type 0.
    let info: [u64; 4] = [5, 0, 4096, 0];
    // SAFETY: the command has this signature.
    let function = unsafe { transmute::<VoidFunction, Function>(function) };
    let mut object = 0;
    // SAFETY: a live parent, and pointers that are valid.
    match unsafe { function(parent, info.as_ptr().cast(), callbacks, &raw mut object) } {
        0 => Ok(object),
        error => Err(error),
    }
}

pub(crate) fn destroy_object(function: VoidFunction, parent: Handle, object: u64, callbacks: Callbacks) {
    type Function = unsafe extern "system" fn(Handle, u64, Callbacks);
    // SAFETY: the command has this signature.
    let function = unsafe { transmute::<VoidFunction, Function>(function) };
    // SAFETY: a live parent, and an object of its.
    unsafe { function(parent, object, callbacks) };
}
