//! The layer calls these commands itself. They are looked up inside `vkCreateInstance`: later the loader answers with
//! the functions of the first layer, and layers that wrap physical devices crash when they are called from below.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::ptr;

use crate::chain::{BaseStruct, DeviceProperties, GetProcAddr, MAX_HEAPS, MemoryProperties, VoidFunction};

type PhysicalDevice = *mut c_void;
type GetProperties<T> = unsafe extern "system" fn(PhysicalDevice, *mut T);

pub(crate) type EnumerateExtensions =
    unsafe extern "system" fn(PhysicalDevice, *const c_char, *mut u32, *mut ExtensionProperties) -> i32;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ExtensionProperties {
    pub(crate) name: [c_char; 256],
    pub(crate) version: u32,
}

#[repr(C)]
struct MemoryProperties2 {
    base: BaseStruct,
    properties: MemoryProperties,
}

#[repr(C)]
struct BudgetProperties {
    base: BaseStruct,
    budgets: [u64; MAX_HEAPS],
    usages: [u64; MAX_HEAPS],
}

const MEMORY_PROPERTIES_2: i32 = 1_000_059_006;
const BUDGET_PROPERTIES: i32 = 1_000_237_000;

#[derive(Clone, Copy, Default)]
pub(crate) struct PhysicalDeviceCommands {
    memory_properties: Option<GetProperties<MemoryProperties>>,
    memory_properties_2: Option<GetProperties<MemoryProperties2>>,
    properties: Option<GetProperties<DeviceProperties>>,
    pub(crate) enumerate_extensions: Option<EnumerateExtensions>,
}

impl PhysicalDeviceCommands {
    /// # Safety
    /// Inside `vkCreateInstance`: `get_proc_addr` is the layer's below, and `instance` the instance that it has
    /// created.
    pub(crate) unsafe fn look_up(instance: *mut c_void, get_proc_addr: GetProcAddr) -> Self {
        let look_up = |name: &CStr| {
            // SAFETY: inside `vkCreateInstance`; the name ends with 0.
            unsafe { get_proc_addr(instance, name.as_ptr()) }
        };
        let memory_properties = look_up(c"vkGetPhysicalDeviceMemoryProperties");
        let memory_properties_2 = look_up(c"vkGetPhysicalDeviceMemoryProperties2")
            .or_else(|| look_up(c"vkGetPhysicalDeviceMemoryProperties2KHR"));
        let properties = look_up(c"vkGetPhysicalDeviceProperties");
        let enumerate = look_up(c"vkEnumerateDeviceExtensionProperties");
        Self {
            // SAFETY: the command has this signature.
            memory_properties: unsafe {
                transmute::<Option<VoidFunction>, Option<GetProperties<MemoryProperties>>>(memory_properties)
            },
            // SAFETY: the command has this signature.
            memory_properties_2: unsafe {
                transmute::<Option<VoidFunction>, Option<GetProperties<MemoryProperties2>>>(memory_properties_2)
            },
            // SAFETY: the command has this signature.
            properties: unsafe {
                transmute::<Option<VoidFunction>, Option<GetProperties<DeviceProperties>>>(properties)
            },
            // SAFETY: the command has this signature.
            enumerate_extensions: unsafe { transmute::<Option<VoidFunction>, Option<EnumerateExtensions>>(enumerate) },
        }
    }

    /// # Safety
    /// A physical device of the instance, as the layer below knows it.
    pub(crate) unsafe fn memory_properties(&self, device: PhysicalDevice) -> MemoryProperties {
        // SAFETY: a physical device of the instance.
        unsafe { properties(self.memory_properties, device) }
    }

    /// 0 for what is no heap.
    ///
    /// # Safety
    /// A physical device of the instance, as the layer below knows it, which has `VK_EXT_memory_budget`.
    pub(crate) unsafe fn budgets(&self, device: PhysicalDevice) -> [u64; MAX_HEAPS] {
        let mut budgets = BudgetProperties {
            base: BaseStruct { s_type: BUDGET_PROPERTIES, p_next: ptr::null_mut() },
            budgets: [0; MAX_HEAPS],
            usages: [0; MAX_HEAPS],
        };
        let mut memory = MemoryProperties2 {
            base: BaseStruct { s_type: MEMORY_PROPERTIES_2, p_next: (&raw mut budgets).cast() },
            properties: MemoryProperties::default(),
        };
        if let Some(get) = self.memory_properties_2 {
            // SAFETY: a physical device of the function's, and a chain that is ours.
            unsafe { get(device, &raw mut memory) };
        }
        budgets.budgets
    }

    /// # Safety
    /// A physical device of the instance, as the layer below knows it.
    pub(crate) unsafe fn properties(&self, device: PhysicalDevice) -> DeviceProperties {
        // SAFETY: a physical device of the instance.
        unsafe { properties(self.properties, device) }
    }
}

/// # Safety
/// A physical device that the function may be called on.
unsafe fn properties<T: Default>(get: Option<GetProperties<T>>, device: PhysicalDevice) -> T {
    let mut properties = T::default();
    if let Some(get) = get {
        // SAFETY: a physical device of the function's, and a struct that is ours.
        unsafe { get(device, &raw mut properties) };
    }
    properties
}
