//! A loader and a driver that are made up: they note what reaches them, and allocate through the callbacks that they get.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::ptr;

use VkLayer_steward_memory::{NegotiateLayerInterface, vkNegotiateLoaderLayerInterfaceVersion};
use vk_callbacks::RawCallbacks;

pub(crate) type VoidFunction = unsafe extern "system" fn();
pub(crate) type GetProcAddr =
    unsafe extern "system" fn(*mut c_void, *const c_char) -> Option<VoidFunction>;
type Callbacks = *const RawCallbacks;
type Handle = *mut c_void;

/// One command that reached the driver, with the user data of its callbacks: `None` for NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) command: &'static str,
    pub(crate) user_data: Option<usize>,
}

#[derive(Default)]
struct DriverNotes {
    seen: Vec<Seen>,
    fail_creation: bool,
    /// Instances and devices have no table of the loader: nobody can find them.
    has_no_table: bool,
    /// The table of the next instance or device, where it is not one of its own.
    table: Option<usize>,
    /// With which handle `vkCreateDevice` was looked up.
    device_looked_up_with: usize,
    /// The callbacks of the device and of the command pool that were created last.
    device: Option<RawCallbacks>,
    pool: Option<RawCallbacks>,
    /// What was deferred: the callbacks, as they came, and the array of so many handles.
    deferred: Option<(Callbacks, usize, *mut u64)>,
    /// What the last command without callbacks was called with.
    arguments: Vec<u64>,
    /// The address of the last create info.
    info: usize,
    /// Done once, by the next command that creates an object.
    meanwhile: Option<Box<dyn FnOnce()>>,
}

thread_local! {
    /// Each test has a thread, and a driver on it.
    static DRIVER: RefCell<DriverNotes> = RefCell::default();
}

/// What reached the driver since the last time.
pub(crate) fn seen() -> Vec<Seen> {
    DRIVER.with_borrow_mut(|driver| std::mem::take(&mut driver.seen))
}

pub(crate) fn fail_creation(fail: bool) {
    DRIVER.with_borrow_mut(|driver| driver.fail_creation = fail);
}

pub(crate) fn create_without_table(without: bool) {
    DRIVER.with_borrow_mut(|driver| driver.has_no_table = without);
}

/// The next instance or device of this thread gets the table that another one had, as if the loader had freed that.
pub(crate) fn create_with_table_of(other: Handle) {
    DRIVER.with_borrow_mut(|driver| driver.table = Some(other.addr()));
}

/// The next command of this thread that creates an object does this before it is back.
pub(crate) fn do_meanwhile(work: impl FnOnce() + 'static) {
    DRIVER.with_borrow_mut(|driver| driver.meanwhile = Some(Box::new(work)));
}

/// The address of the create info that reached the driver last.
pub(crate) fn last_info() -> usize {
    DRIVER.with_borrow(|driver| driver.info)
}

fn note_info(info: *const c_void) {
    DRIVER.with_borrow_mut(|driver| driver.info = info.addr());
}

/// What the last command without callbacks was called with.
pub(crate) fn arguments() -> Vec<u64> {
    DRIVER.with_borrow_mut(|driver| std::mem::take(&mut driver.arguments))
}

pub(crate) fn device_looked_up_with() -> usize {
    DRIVER.with_borrow(|driver| driver.device_looked_up_with)
}

/// Notes the command. Says whether it is to fail.
fn note(command: &'static str, callbacks: Callbacks) -> bool {
    // SAFETY: NULL or live callbacks, as the driver gets them.
    let user_data = unsafe { callbacks.as_ref() }.map(|callbacks| callbacks.p_user_data.addr());
    DRIVER.with_borrow_mut(|driver| {
        driver.seen.push(Seen { command, user_data });
        driver.fail_creation
    })
}

/// A block for an object: through the callbacks, or the driver's own.
fn allocate(callbacks: Callbacks) -> *mut usize {
    // SAFETY: NULL or live callbacks.
    match unsafe { callbacks.as_ref() } {
        None => Box::into_raw(Box::new([0_usize; 4])).cast(),
        Some(callbacks) => {
            let allocation = callbacks.pfn_allocation.expect("a function");
            // SAFETY: live callbacks; 1 is the scope of objects.
            let block = unsafe { allocation(callbacks.p_user_data, 32, 8, 1) }.cast::<usize>();
            if overflows() && !block.is_null() {
                // SAFETY: not the block's own byte: what a guard is there to report. It lies in the block's padding, or in its redzone.
                unsafe { block.cast::<u8>().wrapping_add(32).write_volatile(1) };
            }
            if std::env::var_os("FAKE_DRIVER_FREES_MALLOC").is_some() {
                free_malloc_through(callbacks);
            }
            block
        }
    }
}

/// Frees through callbacks, and reallocates, what it allocated by `malloc`, and frees it as it should afterwards.
fn free_malloc_through(callbacks: &RawCallbacks) {
    let (free, reallocation) = (callbacks.pfn_free, callbacks.pfn_reallocation);
    // SAFETY: any size.
    let foreign = unsafe { libc::malloc(64) };
    assert!(!foreign.is_null());
    // SAFETY: 64 bytes that were just allocated.
    unsafe { foreign.cast::<u8>().write_bytes(7, 64) };
    // SAFETY: live callbacks; that the block is none of theirs is what the layer is to find.
    unsafe { free.expect("a function")(callbacks.p_user_data, foreign) };
    // SAFETY: as above; 1 is the scope of objects.
    let moved =
        unsafe { reallocation.expect("a function")(callbacks.p_user_data, foreign, 128, 8, 1) };
    assert!(moved.is_null());
    // SAFETY: 64 bytes that nobody has freed.
    assert_eq!(unsafe { foreign.cast::<[u8; 64]>().read() }, [7; 64]);
    // SAFETY: the block of `malloc` above.
    unsafe { libc::free(foreign) };
}

/// Whether the driver writes a byte behind each block.
fn overflows() -> bool {
    std::env::var_os("FAKE_DRIVER_OVERFLOWS").is_some()
}

fn free(callbacks: Callbacks, block: *mut usize) {
    // SAFETY: NULL or live callbacks.
    match unsafe { callbacks.as_ref() } {
        // SAFETY: from `allocate`, when it got NULL as well.
        None => drop(unsafe { Box::from_raw(block.cast::<[usize; 4]>()) }),
        Some(callbacks) => {
            let free = callbacks.pfn_free.expect("a function");
            // SAFETY: from `allocate` with these callbacks.
            unsafe { free(callbacks.p_user_data, block.cast()) };
        }
    }
}

/// Creates a dispatchable object: its first word is its own address, as if the loader's table were there.
fn create_dispatchable(command: &'static str, callbacks: Callbacks, object: *mut Handle) -> i32 {
    if note(command, callbacks) {
        return -3;
    }
    let block = allocate(callbacks);
    if block.is_null() {
        return -1;
    }
    let table = DRIVER.with_borrow_mut(|driver| match driver.table.take() {
        Some(other) => other,
        None if driver.has_no_table => 0,
        None => block.expose_provenance(),
    });
    // SAFETY: 32 bytes that were just allocated.
    unsafe { block.write(table) };
    // SAFETY: the caller's pointer.
    unsafe { object.write(block.cast()) };
    0
}

unsafe extern "system" fn create_instance(
    info: *const c_void,
    callbacks: Callbacks,
    object: *mut Handle,
) -> i32 {
    note_info(info);
    create_dispatchable("vkCreateInstance", callbacks, object)
}

unsafe extern "system" fn create_device(
    _: Handle,
    info: *const c_void,
    callbacks: Callbacks,
    object: *mut Handle,
) -> i32 {
    note_info(info);
    // SAFETY: NULL or live callbacks.
    let copy = unsafe { callbacks.as_ref() }.copied();
    DRIVER.with_borrow_mut(|driver| driver.device = copy);
    create_dispatchable("vkCreateDevice", callbacks, object)
}

/// The first word goes with the object: who looks for it by that afterwards finds nobody.
fn end_dispatchable(callbacks: Callbacks, object: Handle) {
    // SAFETY: from `create_dispatchable`, and live.
    unsafe { object.cast::<usize>().write(0) };
    free(callbacks, object.cast());
}

unsafe extern "system" fn destroy_instance(object: Handle, callbacks: Callbacks) {
    note("vkDestroyInstance", callbacks);
    end_dispatchable(callbacks, object);
}

unsafe extern "system" fn destroy_device(object: Handle, callbacks: Callbacks) {
    note("vkDestroyDevice", callbacks);
    end_dispatchable(callbacks, object);
}

/// Defines a command that creates one object, and the one that destroys it.
macro_rules! object {
    ($create:ident $destroy:ident $create_name:literal $destroy_name:literal) => {
        unsafe extern "system" fn $create(
            _: Handle,
            info: *const c_void,
            callbacks: Callbacks,
            object: *mut u64,
        ) -> i32 {
            note_info(info);
            if note($create_name, callbacks) {
                return -1;
            }
            if let Some(work) = DRIVER.with_borrow_mut(|driver| driver.meanwhile.take()) {
                work();
            }
            let block = allocate(callbacks);
            // SAFETY: the caller's pointer.
            unsafe { object.write(block.addr() as u64) };
            if block.is_null() { -1 } else { 0 }
        }

        unsafe extern "system" fn $destroy(_: Handle, object: u64, callbacks: Callbacks) {
            note($destroy_name, callbacks);
            free(callbacks, ptr::with_exposed_provenance_mut(object as usize));
        }
    };
}

object!(create_buffer destroy_buffer "vkCreateBuffer" "vkDestroyBuffer");
object!(allocate_memory free_memory "vkAllocateMemory" "vkFreeMemory");
object!(create_surface destroy_surface "vkCreateXcbSurfaceKHR" "vkDestroySurfaceKHR");
object!(create_messenger destroy_messenger "vkCreateDebugUtilsMessengerEXT" "vkDestroyDebugUtilsMessengerEXT");

/// Writes three pipelines, of which the second failed.
unsafe extern "system" fn create_pipelines(
    _: Handle,
    _: u64,
    count: u32,
    _: *const c_void,
    callbacks: Callbacks,
    objects: *mut u64,
) -> i32 {
    note("vkCreateComputePipelines", callbacks);
    // SAFETY: the caller's array.
    let objects = unsafe { std::slice::from_raw_parts_mut(objects, count as usize) };
    objects.fill(0);
    objects[0] = allocate(callbacks).addr() as u64;
    objects[2] = allocate(callbacks).addr() as u64;
    -1
}

/// As `create_pipelines`, once the operation is joined, if there is one.
unsafe extern "system" fn create_deferred_pipelines(
    device: Handle,
    operation: u64,
    cache: u64,
    count: u32,
    infos: *const c_void,
    callbacks: Callbacks,
    objects: *mut u64,
) -> i32 {
    if operation == 0 {
        // SAFETY: forwarded.
        return unsafe { create_pipelines(device, cache, count, infos, callbacks, objects) };
    }
    note("vkCreateRayTracingPipelinesKHR", callbacks);
    let deferred = (callbacks, count as usize, objects);
    DRIVER.with_borrow_mut(|driver| {
        driver.deferred = Some(deferred);
        driver.arguments.clear();
    });
    1_000_268_002
}

/// The first join is told that others have work to do still.
pub(crate) unsafe extern "system" fn join(_: Handle, operation: u64) -> i32 {
    let has_joined = DRIVER.with_borrow_mut(|driver| {
        let before = std::mem::replace(&mut driver.arguments, vec![operation]);
        before == [operation]
    });
    if !has_joined {
        return 1_000_268_001;
    }
    let deferred = DRIVER.with_borrow_mut(|driver| driver.deferred.take());
    if let Some((callbacks, count, objects)) = deferred {
        // SAFETY: the caller's array, which stays until here.
        let objects = unsafe { std::slice::from_raw_parts_mut(objects, count) };
        objects.fill(0);
        objects[0] = allocate(callbacks).addr() as u64;
        objects[2] = allocate(callbacks).addr() as u64;
    }
    0
}

unsafe extern "system" fn deferred_result(_: Handle, _: u64) -> i32 {
    DRIVER.with_borrow(|driver| i32::from(driver.deferred.is_some()))
}

unsafe extern "system" fn concurrency(_: Handle, _: u64) -> u32 {
    DRIVER.with_borrow(|driver| u32::from(driver.deferred.is_some()))
}

unsafe extern "system" fn create_operation(
    device: Handle,
    callbacks: Callbacks,
    object: *mut u64,
) -> i32 {
    // SAFETY: forwarded.
    unsafe { create_buffer(device, ptr::null(), callbacks, object) }
}

unsafe extern "system" fn destroy_pipeline(_: Handle, object: u64, callbacks: Callbacks) {
    note("vkDestroyPipeline", callbacks);
    free(callbacks, ptr::with_exposed_provenance_mut(object as usize));
}

unsafe extern "system" fn create_pool(
    device: Handle,
    info: *const c_void,
    callbacks: Callbacks,
    object: *mut u64,
) -> i32 {
    // SAFETY: NULL or live callbacks.
    let copy = unsafe { callbacks.as_ref() }.copied();
    DRIVER.with_borrow_mut(|driver| driver.pool = copy);
    // SAFETY: forwarded.
    unsafe { create_buffer(device, info, callbacks, object) }
}

/// Allocates and frees a block.
fn allocate_and_free(callbacks: Option<RawCallbacks>) {
    let callbacks = callbacks.as_ref().map_or(ptr::null(), ptr::from_ref);
    free(callbacks, allocate(callbacks));
}

/// Records: allocates from the command pool's callbacks.
///
/// Never inlined: tests compare its address, and an optimising compiler makes copies of small functions, each with its own.
#[inline(never)]
pub(crate) unsafe extern "system" fn draw(_: Handle) {
    allocate_and_free(DRIVER.with_borrow(|driver| driver.pool));
}

/// As `draw`, in a command that is none of recording.
unsafe extern "system" fn reset_pool(_: Handle, pool: u64, flags: u32) -> i32 {
    DRIVER.with_borrow_mut(|driver| driver.arguments = vec![pool, flags.into()]);
    allocate_and_free(DRIVER.with_borrow(|driver| driver.pool));
    0
}

/// As lavapipe does: a thread of the driver's own frees what it took.
unsafe extern "system" fn wait_idle(_: Handle) -> i32 {
    struct Callbacks(RawCallbacks);
    // SAFETY: callbacks may be called on any thread.
    unsafe impl Send for Callbacks {}
    let callbacks = DRIVER.with_borrow(|driver| driver.device).map(Callbacks);
    let worker = std::thread::spawn(move || {
        let callbacks = callbacks;
        allocate_and_free(callbacks.map(|callbacks| callbacks.0));
    });
    worker.join().expect("a worker that ends");
    -4
}

/// 15 parameters and no fewer, of which some are no words, as of `vkCmdTraceRaysNV`.
unsafe extern "system" fn trace_rays(
    _: Handle,
    a: u64,
    b: u32,
    c: u64,
    d: u32,
    e: u64,
    f: u64,
    g: u32,
    h: u64,
    i: u64,
    j: u32,
    k: u64,
    l: u32,
    m: u32,
    n: u32,
) {
    let [b, d, g, j, l, m, n] = [b, d, g, j, l, m, n].map(u64::from);
    let all = vec![a, b, c, d, e, f, g, h, i, j, k, l, m, n];
    DRIVER.with_borrow_mut(|driver| driver.arguments = all);
}

unsafe extern "system" fn set_depth_bias(_: Handle, a: f32, b: f32, c: f32) {
    let all = [a, b, c].map(|float| u64::from(float.to_bits()));
    DRIVER.with_borrow_mut(|driver| driver.arguments = all.to_vec());
}

unsafe extern "system" fn bind_many(_: Handle, count: u32, _: *const [u64; 5]) -> i32 {
    // What is bound three times at once is too much.
    if count == 3 { -2 } else { 0 }
}

unsafe extern "system" fn map(
    _: Handle,
    _: u64,
    _: u64,
    _: u64,
    _: u32,
    _: *mut *mut c_void,
) -> i32 {
    0
}

unsafe extern "system" fn submit(_: Handle, _: u32, _: *const c_void, _: u64) -> i32 {
    0
}

unsafe extern "system" fn unmap(_: Handle, _: u64) {}

/// Writes two binaries.
unsafe extern "system" fn create_binaries(
    _: Handle,
    _: *const c_void,
    callbacks: Callbacks,
    list: *mut BinaryList,
) -> i32 {
    note("vkCreatePipelineBinariesKHR", callbacks);
    // SAFETY: the caller's struct.
    let list = unsafe { &*list };
    // SAFETY: the caller's array.
    let handles = unsafe { std::slice::from_raw_parts_mut(list.handles, list.count as usize) };
    handles.fill_with(|| allocate(callbacks).addr() as u64);
    0
}

/// `VkPipelineBinaryHandlesInfoKHR`.
#[repr(C)]
pub(crate) struct BinaryList {
    pub(crate) s_type: i32,
    pub(crate) p_next: *const c_void,
    pub(crate) count: u32,
    pub(crate) handles: *mut u64,
}

/// A command that nobody knows. Never inlined, as `draw`.
#[inline(never)]
pub(crate) unsafe extern "system" fn unknown(_: Handle) {}

macro_rules! void {
    ($function:expr) => {
        // SAFETY: cast back to its signature by whoever calls it.
        Some(unsafe { transmute::<*const (), VoidFunction>($function as *const ()) })
    };
}

/// `VkPhysicalDeviceProperties`: version 1.2.3 of both, and the name.
unsafe extern "system" fn properties(_: Handle, properties: *mut u32) {
    let version = 1 << 22 | 2 << 12 | 3;
    let name = u32::from_ne_bytes(*b"fake");
    let words = [version, version, 7, 0, 0, name, 0];
    // SAFETY: the caller's struct, which begins with so many words.
    unsafe { properties.copy_from(words.as_ptr(), words.len()) };
}

unsafe extern "system" fn next_instance_proc_addr(
    instance: Handle,
    name: *const c_char,
) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkCreateInstance" if instance.is_null() => void!(create_instance),
        b"vkDestroyInstance" => void!(destroy_instance),
        b"vkGetDeviceProcAddr" => void!(next_device_proc_addr),
        b"vkGetPhysicalDeviceProperties" => void!(properties),
        b"vkCreateDevice" => {
            DRIVER.with_borrow_mut(|driver| driver.device_looked_up_with = instance.addr());
            void!(create_device)
        }
        b"vkCreateXcbSurfaceKHR" => void!(create_surface),
        b"vkDestroySurfaceKHR" => void!(destroy_surface),
        b"vkCreateDebugUtilsMessengerEXT" => void!(create_messenger),
        b"vkDestroyDebugUtilsMessengerEXT" => void!(destroy_messenger),
        _ => None,
    }
}

unsafe extern "system" fn next_device_proc_addr(
    _: Handle,
    name: *const c_char,
) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkDestroyDevice" => void!(destroy_device),
        b"vkCreateBuffer" => void!(create_buffer),
        b"vkDestroyBuffer" => void!(destroy_buffer),
        b"vkAllocateMemory" => void!(allocate_memory),
        b"vkFreeMemory" => void!(free_memory),
        b"vkBindBufferMemory2" => void!(bind_many),
        b"vkMapMemory" => void!(map),
        b"vkUnmapMemory" => void!(unmap),
        b"vkCreatePipelineBinariesKHR" => void!(create_binaries),
        b"vkDestroyPipelineBinaryKHR" => void!(destroy_buffer),
        b"vkCreateComputePipelines" => void!(create_pipelines),
        b"vkDestroyPipeline" => void!(destroy_pipeline),
        b"vkCreateRayTracingPipelinesKHR" => void!(create_deferred_pipelines),
        b"vkCreateDeferredOperationKHR" => void!(create_operation),
        b"vkDestroyDeferredOperationKHR" => void!(destroy_buffer),
        b"vkDeferredOperationJoinKHR" => void!(join),
        b"vkGetDeferredOperationResultKHR" => void!(deferred_result),
        b"vkGetDeferredOperationMaxConcurrencyKHR" => void!(concurrency),
        b"vkCreateCommandPool" => void!(create_pool),
        b"vkDestroyCommandPool" => void!(destroy_buffer),
        b"vkResetCommandPool" => void!(reset_pool),
        b"vkQueueSubmit" => void!(submit),
        b"vkDeviceWaitIdle" => void!(wait_idle),
        b"vkCmdDraw" => void!(draw),
        b"vkCmdTraceRaysNV" => void!(trace_rays),
        b"vkCmdSetDepthBias" => void!(set_depth_bias),
        b"vkFrobnicateEXT" => void!(unknown),
        _ => None,
    }
}

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

pub(crate) const LINK: Link = Link {
    next: ptr::null(),
    instance: Some(next_instance_proc_addr),
    device: Some(next_device_proc_addr),
};

impl LinkInfo {
    pub(crate) fn new(s_type: i32, link: &Link) -> Self {
        Self {
            s_type,
            p_next: ptr::null(),
            function: 0,
            link,
        }
    }
}

impl CreateInfo {
    pub(crate) fn new(chain: &mut LinkInfo) -> Self {
        Self {
            s_type: 1,
            p_next: ptr::from_mut(chain).cast(),
            rest: [0; 8],
        }
    }
}

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
        let mut interface = interface(2);
        // SAFETY: a struct that may be written.
        assert_eq!(
            // SAFETY: a struct that may be written.
            unsafe { vkNegotiateLoaderLayerInterfaceVersion(&raw mut interface) },
            0
        );
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
        type Function = unsafe extern "system" fn(*const c_void, Callbacks, *mut Handle) -> i32;
        let mut chain = LinkInfo::new(47, &LINK);
        let info = CreateInfo::new(&mut chain);
        let function = self.of_instance(ptr::null_mut(), c"vkCreateInstance");
        // SAFETY: the command has this signature.
        let function = unsafe { transmute::<VoidFunction, Function>(function.expect("a hook")) };
        let mut instance = ptr::null_mut();
        // SAFETY: as the loader calls a layer.
        let result = unsafe { function((&raw const info).cast(), callbacks, &raw mut instance) };
        if result != 0 {
            return Err(result);
        }
        assert!(chain.link.is_null(), "the link was moved on");
        Ok(instance)
    }

    pub(crate) fn create_device(
        &self,
        instance: Handle,
        callbacks: Callbacks,
    ) -> Result<Handle, i32> {
        type Function =
            unsafe extern "system" fn(Handle, *const c_void, Callbacks, *mut Handle) -> i32;
        let mut chain = LinkInfo::new(48, &LINK);
        let info = CreateInfo::new(&mut chain);
        let function = self.of_instance(instance, c"vkCreateDevice");
        // SAFETY: the command has this signature.
        let function = unsafe { transmute::<VoidFunction, Function>(function.expect("a hook")) };
        let mut device = ptr::null_mut();
        // The instance stands for its physical device, too: both begin with the same word.
        // SAFETY: as the loader calls a layer.
        let result = unsafe {
            function(
                instance,
                (&raw const info).cast(),
                callbacks,
                &raw mut device,
            )
        };
        if result != 0 {
            return Err(result);
        }
        assert!(chain.link.is_null(), "the link was moved on");
        Ok(device)
    }

    pub(crate) fn destroy_instance(&self, instance: Handle, callbacks: Callbacks) {
        let function = self
            .of_instance(instance, c"vkDestroyInstance")
            .expect("a hook");
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
pub(crate) fn create_object(
    function: VoidFunction,
    parent: Handle,
    callbacks: Callbacks,
) -> Result<u64, i32> {
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

pub(crate) fn destroy_object(
    function: VoidFunction,
    parent: Handle,
    object: u64,
    callbacks: Callbacks,
) {
    type Function = unsafe extern "system" fn(Handle, u64, Callbacks);
    // SAFETY: the command has this signature.
    let function = unsafe { transmute::<VoidFunction, Function>(function) };
    // SAFETY: a live parent, and an object of its.
    unsafe { function(parent, object, callbacks) };
}
