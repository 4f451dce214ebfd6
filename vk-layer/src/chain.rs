//! The loader's interface to a layer, as in `vk_layer.h`, and the structs of Vulkan that the layer reads.

use std::ffi::{c_char, c_void};
use std::ptr::{self, NonNull};

use crate::hooks::{get_device_proc_addr, get_instance_proc_addr};

/// A command of any signature.
pub type VoidFunction = unsafe extern "system" fn();
/// `PFN_vkGetInstanceProcAddr` and `PFN_vkGetDeviceProcAddr`: the handle, the name.
pub type GetProcAddr = unsafe extern "system" fn(*mut c_void, *const c_char) -> Option<VoidFunction>;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const NOT_READY: i32 = 1;
pub(crate) const OPERATION_DEFERRED: i32 = 1_000_268_002;
pub(crate) const ERROR_OUT_OF_HOST_MEMORY: i32 = -1;
pub(crate) const ERROR_INITIALIZATION_FAILED: i32 = -3;

const INTERFACE_VERSION: u32 = 2;
const NEGOTIATE_STRUCT: i32 = 1;
const LINK_INFO: i32 = 0;
pub(crate) const LOADER_INSTANCE: i32 = 47;
pub(crate) const LOADER_DEVICE: i32 = 48;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NegotiateLayerInterface {
    /// 1.
    pub s_type: i32,
    /// No extension is defined.
    pub p_next: *mut c_void,
    /// In: the loader's version. Out: the version that both use.
    pub loader_layer_interface_version: u32,
    /// Looks up commands of an instance.
    pub pfn_get_instance_proc_addr: Option<GetProcAddr>,
    /// Looks up commands of a device.
    pub pfn_get_device_proc_addr: Option<GetProcAddr>,
    /// Looks up commands of a physical device; the layer has none, so that unknown commands pass it by.
    pub pfn_get_physical_device_proc_addr: Option<GetProcAddr>,
}

/// The loader's first call: agrees on version 2 of the interface and returns the functions that look up commands. Calls
/// nothing.
///
/// `VK_ERROR_INITIALIZATION_FAILED` for a loader below version 2, or another struct.
///
/// # Safety
/// `interface` is NULL, or points to a struct that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(interface: *mut NegotiateLayerInterface) -> i32 {
    // SAFETY: NULL, or the loader's struct, which may be read and written.
    let Some(interface) = (unsafe { interface.as_mut() }) else {
        return ERROR_INITIALIZATION_FAILED;
    };
    if interface.s_type != NEGOTIATE_STRUCT || interface.loader_layer_interface_version < INTERFACE_VERSION {
        return ERROR_INITIALIZATION_FAILED;
    }
    interface.loader_layer_interface_version = INTERFACE_VERSION;
    interface.pfn_get_instance_proc_addr = Some(get_instance_proc_addr);
    interface.pfn_get_device_proc_addr = Some(get_device_proc_addr);
    interface.pfn_get_physical_device_proc_addr = None;
    SUCCESS
}

#[repr(C)]
pub(crate) struct BaseStruct {
    pub(crate) s_type: i32,
    pub(crate) p_next: *mut BaseStruct,
}

#[cfg(test)]
impl BaseStruct {
    pub(crate) const fn new(s_type: i32, p_next: *mut Self) -> Self {
        Self { s_type, p_next }
    }
}

#[repr(C)]
pub(crate) struct LayerCreateInfo {
    pub(crate) base: BaseStruct,
    function: i32,
    link: *mut LayerLink,
}

#[repr(C)]
pub(crate) struct LayerLink {
    next: *mut LayerLink,
    get_instance_proc_addr: Option<GetProcAddr>,
    /// In a device's link. An instance's link has another function here, which is not used.
    get_device_proc_addr: Option<GetProcAddr>,
}

impl LayerLink {
    pub(crate) const fn new(instance: GetProcAddr, device: Option<GetProcAddr>) -> Self {
        Self { next: ptr::null_mut(), get_instance_proc_addr: Some(instance), get_device_proc_addr: device }
    }
}

impl LayerCreateInfo {
    pub(crate) const fn new(s_type: i32, link: *mut LayerLink) -> Self {
        Self { base: BaseStruct { s_type, p_next: ptr::null_mut() }, function: LINK_INFO, link }
    }

    /// What follows the first struct of a chain, if that holds a link.
    ///
    /// # Safety
    /// `chain` is NULL or begins a valid chain.
    pub(crate) unsafe fn behind_link(chain: *const Self) -> Option<*mut BaseStruct> {
        // SAFETY: NULL, or a struct, which begins so.
        let base = unsafe { chain.cast::<BaseStruct>().as_ref() }?;
        if ![LOADER_INSTANCE, LOADER_DEVICE].contains(&base.s_type) {
            return None;
        }
        // SAFETY: structs of these types are this large.
        let function = unsafe { (*chain).function };
        (function == LINK_INFO).then_some(base.p_next)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct NextLayer {
    pub(crate) get_instance_proc_addr: GetProcAddr,
    pub(crate) get_device_proc_addr: Option<GetProcAddr>,
}

/// # Safety
/// `first` is NULL, or begins a valid chain, which lives as long as the iterator.
pub(crate) unsafe fn structs(first: *const c_void) -> impl Iterator<Item = (i32, NonNull<BaseStruct>)> {
    let mut next = NonNull::new(first.cast_mut().cast::<BaseStruct>());
    std::iter::from_fn(move || {
        let at = next?;
        // SAFETY: a struct of a valid chain, which begins so; the last one's `p_next` is NULL.
        let base = unsafe { at.as_ref() };
        next = NonNull::new(base.p_next);
        Some((base.s_type, at))
    })
}

/// # Safety
/// `first` is NULL, or points to `count` elements that live as long as the answer is used.
pub(crate) unsafe fn slice_of<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not NULL, so `count` elements, which live for 'a.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// Returns the loader's link of type `s_type` in a create info, and advances it for the layer below.
///
/// # Safety
/// `info` is NULL or a create info as the loader hands it to a layer.
pub(crate) unsafe fn advance_link(info: *const c_void, s_type: i32) -> Option<NextLayer> {
    // SAFETY: NULL or a create info.
    for (_, at) in unsafe { structs(info) }.filter(|(this_type, _)| *this_type == s_type) {
        // SAFETY: the loader's own struct, which no other code uses meanwhile.
        let layer = unsafe { at.cast::<LayerCreateInfo>().as_mut() };
        if layer.function == LINK_INFO {
            // SAFETY: NULL or a link.
            let link = unsafe { layer.link.as_ref() }?;
            layer.link = link.next;
            return Some(NextLayer {
                get_instance_proc_addr: link.get_instance_proc_addr?,
                get_device_proc_addr: link.get_device_proc_addr,
            });
        }
    }
    None
}

/// How the layers below the next one, and at last the loader, look up their commands, once the link was advanced.
///
/// # Safety
/// `info` is NULL or a create info as the loader hands it to a layer, and lives as long as the iterator.
pub(crate) unsafe fn links_behind(info: *const c_void, s_type: i32) -> impl Iterator<Item = GetProcAddr> {
    // SAFETY: NULL or a create info, which lives as long as the iterator.
    let mut structs = unsafe { structs(info) }.filter(move |(this_type, _)| *this_type == s_type);
    let link = structs.find_map(|(_, at)| {
        // SAFETY: the loader's own struct, which no other code uses meanwhile.
        let layer = unsafe { at.cast::<LayerCreateInfo>().as_ref() };
        (layer.function == LINK_INFO).then_some(layer.link)
    });
    let mut next = link.unwrap_or(ptr::null_mut());
    std::iter::from_fn(move || {
        // SAFETY: the loader's list, which ends with NULL.
        let link = unsafe { next.as_ref() }?;
        next = link.next;
        link.get_instance_proc_addr
    })
}

pub(crate) const MAX_TYPES: usize = 32;
pub(crate) const MAX_HEAPS: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryProperties {
    type_count: u32,
    types: [MemoryType; MAX_TYPES],
    heap_count: u32,
    heaps: [MemoryHeap; MAX_HEAPS],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MemoryType {
    flags: u32,
    heap: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MemoryHeap {
    size: u64,
    flags: u32,
}

impl MemoryProperties {
    pub(crate) fn heap_sizes(&self) -> impl Iterator<Item = u64> {
        let heaps = self.heaps.iter().take(self.heap_count as usize);
        heaps.map(|heap| heap.size)
    }

    pub(crate) fn heap_of(&self, memory_type: u32) -> Option<usize> {
        let is_there = memory_type < self.type_count;
        let found = self.types.get(memory_type as usize).filter(|_| is_there)?;
        Some(found.heap as usize)
    }
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceProperties {
    pub(crate) api_version: u32,
    pub(crate) driver_version: u32,
    pub(crate) vendor: u32,
    device: u32,
    device_type: i32,
    pub(crate) device_name: [u8; 256],
    /// The cache's id, limits and properties of sparse memory: 544 bytes, aligned to 8.
    rest: [u64; 69],
}

impl Default for DeviceProperties {
    fn default() -> Self {
        Self {
            api_version: 0,
            driver_version: 0,
            vendor: 0,
            device: 0,
            device_type: 0,
            device_name: [0; 256],
            rest: [0; 69],
        }
    }
}

#[repr(C)]
pub(crate) struct InstanceCreateInfo {
    base: BaseStruct,
    flags: u32,
    application: *const c_void,
    pub(crate) layer_count: u32,
    pub(crate) layer_names: *const *const c_char,
}

#[repr(C)]
pub(crate) struct MemoryAllocateInfo {
    base: BaseStruct,
    pub(crate) allocation_size: u64,
    pub(crate) memory_type_index: u32,
}

pub(crate) type MemoryUses = [bool; MEMORY_USES.len()];

pub(crate) const WHOLE_SIZE: u64 = u64::MAX;

pub(crate) const MEMORY_USES: [&str; 3] = ["imported", "exported", "dedicated"];

impl MemoryAllocateInfo {
    #[cfg(test)]
    pub(crate) const fn new(p_next: *mut BaseStruct, allocation_size: u64, memory_type_index: u32) -> Self {
        Self { base: BaseStruct::new(5, p_next), allocation_size, memory_type_index }
    }

    /// # Safety
    /// The chain is valid.
    pub(crate) unsafe fn uses(&self) -> MemoryUses {
        let mut uses = [false; MEMORY_USES.len()];
        // SAFETY: the info's chain is valid.
        for (s_type, at) in unsafe { structs(self.base.p_next.cast()) } {
            let [imported, exported, dedicated] = &mut uses;
            match s_type {
                // Without a type of handle nothing is imported: handles of Windows, Zircon and Metal, and file
                // descriptors.
                1_000_073_000 | 1_000_364_000 | 1_000_602_000 | 1_000_074_000 => {
                    // SAFETY: structs of these types go on so.
                    *imported |= unsafe { handle_types(at) } != 0;
                }
                // Android's buffers, and host pointers, whose type of handle is one.
                1_000_129_003 | 1_000_178_000 => *imported = true,
                1_000_072_002 => {
                    // SAFETY: structs of this type go on so.
                    *exported |= unsafe { handle_types(at) } != 0;
                }
                1_000_127_001 => {
                    // SAFETY: a struct of this type.
                    let info = unsafe { at.cast::<DedicatedInfo>().as_ref() };
                    *dedicated |= (info.image, info.buffer) != (0, 0);
                }
                _ => {}
            }
        }
        uses
    }
}

/// # Safety
/// `at` is a struct of such a type.
unsafe fn handle_types(at: NonNull<BaseStruct>) -> u32 {
    // SAFETY: a struct of such a type goes on so.
    unsafe { at.cast::<HandleTypes>().as_ref() }.bits
}

#[repr(C)]
pub(crate) struct HandleTypes {
    base: BaseStruct,
    bits: u32,
}

#[repr(C)]
pub(crate) struct DedicatedInfo {
    base: BaseStruct,
    image: u64,
    buffer: u64,
}

#[cfg(test)]
impl HandleTypes {
    pub(crate) const fn new(s_type: i32, p_next: *mut BaseStruct, bits: u32) -> Self {
        let base = BaseStruct::new(s_type, p_next);
        Self { base, bits }
    }
}

#[cfg(test)]
impl DedicatedInfo {
    pub(crate) const fn new(p_next: *mut BaseStruct, image: u64, buffer: u64) -> Self {
        let base = BaseStruct::new(1_000_127_001, p_next);
        Self { base, image, buffer }
    }
}

#[repr(C)]
pub(crate) struct BindMemoryInfo {
    base: BaseStruct,
    resource: u64,
    pub(crate) memory: u64,
    offset: u64,
}

#[repr(C)]
pub(crate) struct MapMemoryInfo {
    base: BaseStruct,
    flags: u32,
    pub(crate) memory: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

#[repr(C)]
pub(crate) struct BufferCreateInfo {
    base: BaseStruct,
    flags: u32,
    pub(crate) size: u64,
}

#[repr(C)]
pub(crate) struct PoolAllocateInfo {
    base: BaseStruct,
    pub(crate) pool: u64,
}

#[repr(C)]
pub(crate) struct ObjectNameInfo {
    base: BaseStruct,
    pub(crate) object_type: i32,
    pub(crate) object: u64,
    pub(crate) name: *const c_char,
}

#[repr(C)]
pub(crate) struct PipelineBinaryList {
    base: BaseStruct,
    pub(crate) count: u32,
    pub(crate) handles: *mut u64,
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::{
        BaseStruct, DedicatedInfo, HandleTypes, LOADER_INSTANCE, LayerCreateInfo, LayerLink, MemoryAllocateInfo,
        advance_link,
    };

    #[test]
    fn ly20_the_chain_says_what_memory_is_for() {
        let uses = |p_next: *mut BaseStruct| {
            let info = MemoryAllocateInfo::new(p_next, 1, 0);
            // SAFETY: a chain of structs that live, or none.
            unsafe { info.uses() }
        };
        assert_eq!(uses(ptr::null_mut()), [false; 3]);
        for ((import, export), (image, buffer), expected) in
            [((1, 0), (0, 7), [true, false, true]), ((0, 1), (7, 0), [false, true, true]), ((0, 0), (0, 0), [false; 3])]
        {
            let mut last = HandleTypes::new(1_000_074_000, ptr::null_mut(), import);
            let mut other = BaseStruct::new(1_000_060_000, (&raw mut last).cast());
            let mut middle = HandleTypes::new(1_000_072_002, &raw mut other, export);
            let mut first = DedicatedInfo::new((&raw mut middle).cast(), image, buffer);
            assert_eq!(uses((&raw mut first).cast()), expected);
        }
    }

    #[test]
    fn ly2_of_several_structs_of_the_loader_the_one_with_links_is_advanced() {
        let mut link = LayerLink {
            next: ptr::dangling_mut(),
            get_instance_proc_addr: Some(super::get_instance_proc_addr),
            get_device_proc_addr: None,
        };
        let layer =
            |p_next, function, link| LayerCreateInfo { base: BaseStruct::new(LOADER_INSTANCE, p_next), function, link };
        let mut last = layer(ptr::null_mut(), super::LINK_INFO, &raw mut link);
        let mut other = BaseStruct::new(1, (&raw mut last).cast());
        let mut first = layer(&raw mut other, 1, ptr::without_provenance_mut(8));
        let info = BaseStruct::new(1, (&raw mut first).cast());
        // SAFETY: a chain of structs that live.
        let next = unsafe { advance_link((&raw const info).cast(), LOADER_INSTANCE) };
        assert!(next.is_some_and(|next| next.get_device_proc_addr.is_none()));
        assert_eq!(last.link, ptr::dangling_mut());
        assert_eq!(first.link.addr(), 8);
        // SAFETY: a chain of structs that live.
        let none = unsafe { advance_link((&raw const info).cast(), super::LOADER_DEVICE) };
        assert!(none.is_none());
        // SAFETY: NULL.
        assert!(unsafe { advance_link(ptr::null(), LOADER_INSTANCE) }.is_none());
    }
}
