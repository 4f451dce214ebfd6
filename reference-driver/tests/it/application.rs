//! An application without a loader: instance, device, and callbacks that write down what they are asked for.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use ash::vk;
use reference_driver::get_instance_proc_addr;

/// The blocks of all callbacks that are compatible with one another.
#[derive(Default)]
pub(crate) struct Heap(RefCell<BTreeMap<usize, Layout>>);

/// One `pUserData`.
pub(crate) struct HeapCallbacks<'h> {
    heap: &'h Heap,
    pub(crate) requests: RefCell<Vec<(vk::SystemAllocationScope, usize)>>,
    pub(crate) frees: Cell<usize>,
    /// So many requests are served, then one is refused.
    pub(crate) refuse: Cell<Option<usize>>,
}

impl Heap {
    pub(crate) fn live(&self) -> usize {
        self.0.borrow().len()
    }
}

impl<'h> HeapCallbacks<'h> {
    pub(crate) fn new(heap: &'h Heap) -> Self {
        Self { heap, requests: RefCell::default(), frees: Cell::new(0), refuse: Cell::new(None) }
    }

    /// The struct for Vulkan.
    pub(crate) fn raw(&self) -> vk::AllocationCallbacks<'_> {
        vk::AllocationCallbacks::default()
            .user_data(ptr::from_ref(self).cast_mut().cast())
            .pfn_allocation(Some(allocation))
            .pfn_reallocation(Some(reallocation))
            .pfn_free(Some(free))
    }

    /// Scopes and sizes asked for since the last time, and how many blocks were freed.
    pub(crate) fn drain(&self) -> (Vec<(vk::SystemAllocationScope, usize)>, usize) {
        (self.requests.take(), self.frees.take())
    }

    fn allocate(&self, size: usize, align: usize, scope: vk::SystemAllocationScope) -> *mut c_void {
        let refuse = self.refuse.get();
        self.refuse.set(refuse.and_then(|left| left.checked_sub(1)));
        if refuse == Some(0) {
            return ptr::null_mut();
        }
        self.requests.borrow_mut().push((scope, size));
        let layout = Layout::from_size_align(size, align).expect("valid usage");
        // SAFETY: the driver asks for no block of size 0.
        let block = unsafe { alloc(layout) };
        self.heap.0.borrow_mut().insert(block.expose_provenance(), layout);
        block.cast()
    }

    fn release(&self, block: *mut c_void) -> Layout {
        let layout = self.heap.0.borrow_mut().remove(&block.addr());
        let layout = layout.expect("a live block of these callbacks");
        self.frees.set(self.frees.get() + 1);
        layout
    }
}

/// # Safety
/// The user data of `HeapCallbacks::raw`, which lives.
unsafe fn of<'a>(user_data: *mut c_void) -> &'a HeapCallbacks<'a> {
    // SAFETY: a `HeapCallbacks`, which lives as long as the driver may call.
    unsafe { &*user_data.cast::<HeapCallbacks<'a>>() }
}

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: the driver passes the user data of this struct.
    unsafe { of(user_data) }.allocate(size, align, scope)
}

unsafe extern "system" fn reallocation(
    user_data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: the driver passes the user data of this struct.
    let callbacks = unsafe { of(user_data) };
    let new = callbacks.allocate(size, align, scope);
    if !new.is_null() && !old.is_null() {
        let layout = callbacks.release(old);
        // SAFETY: both blocks are live, and the new one is another.
        unsafe { new.cast::<u8>().copy_from_nonoverlapping(old.cast(), layout.size().min(size)) };
        // SAFETY: allocated with this layout.
        unsafe { dealloc(old.cast(), layout) };
    }
    new
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: the driver passes the user data of this struct.
    let layout = unsafe { of(user_data) }.release(block);
    // SAFETY: allocated with this layout, and forgotten.
    unsafe { dealloc(block.cast(), layout) };
}

/// The driver's commands that need no instance.
pub(crate) fn entry() -> ash::Entry {
    let functions = ash::StaticFn { get_instance_proc_addr };
    // SAFETY: the driver's own function, linked.
    unsafe { ash::Entry::from_static_fn(functions) }
}

/// An instance and a device of it, which end with this.
pub(crate) struct Running<'c> {
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    callbacks: Option<vk::AllocationCallbacks<'c>>,
}

impl<'c> Running<'c> {
    /// Both with these callbacks.
    pub(crate) fn new(callbacks: Option<vk::AllocationCallbacks<'c>>) -> Self {
        let info = vk::InstanceCreateInfo::default();
        // SAFETY: a plain instance.
        let instance = unsafe { entry().create_instance(&info, callbacks.as_ref()) }.expect("memory");
        // SAFETY: it lives.
        let physical = unsafe { instance.enumerate_physical_devices() }.expect("one")[0];
        let device = device(&instance, physical, callbacks.as_ref()).expect("memory");
        Self { instance, physical, device, callbacks }
    }
}

/// A device with its one queue.
pub(crate) fn device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    callbacks: Option<&vk::AllocationCallbacks<'_>>,
) -> Result<ash::Device, vk::Result> {
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names = [vk::EXT_PIPELINE_CREATION_CACHE_CONTROL_NAME.as_ptr()];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
    // SAFETY: the one family, one queue, the one extension.
    unsafe { instance.create_device(physical, &info, callbacks) }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing of it is left.
        unsafe { self.device.destroy_device(self.callbacks.as_ref()) };
        // SAFETY: nothing of it is left.
        unsafe { self.instance.destroy_instance(self.callbacks.as_ref()) };
    }
}
