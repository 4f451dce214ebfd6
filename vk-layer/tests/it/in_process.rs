//! The layer between a program and a driver of one process, without a loader.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::{fs, ptr};

use VkLayer_steward_memory::in_process::{Observation, chain, phase, write_trace};
use VkLayer_steward_memory::{GetProcAddr, VoidFunction};
use serde_json::{Value, json};
use testkit::Child;
use vk_callbacks::check::Opened;
use vk_callbacks::raw::RawCallbacks;
use vk_report::report::Report;
use vk_report::report::origins::{SiteRecorder, StackCapture};

use crate::driver::{
    create_object, create_without_table, destroy, destroy_object, next_device_proc_addr, next_instance_proc_addr,
};

const NONE: *const RawCallbacks = ptr::null();
type Handle = *mut c_void;
type Enumerate = unsafe extern "system" fn(Handle, *mut u32, *mut c_void) -> i32;
type GetQueue = unsafe extern "system" fn(Handle, u32, u32, *mut Handle);
type GetQueue2 = unsafe extern "system" fn(Handle, *const c_void, *mut Handle);
type Allocate = unsafe extern "system" fn(Handle, *const c_void, *mut Handle) -> i32;
type Create = unsafe extern "system" fn(Handle, *const c_void, *const RawCallbacks, *mut Handle) -> i32;
type CreateInstance = unsafe extern "system" fn(*const c_void, *const RawCallbacks, *mut Handle) -> i32;
type Submit = unsafe extern "system" fn(Handle, u32, *const c_void, u64) -> i32;

/// A dispatchable handle of a driver, whose first word it leaves to the loader.
fn dispatchable() -> Handle {
    Box::into_raw(Box::new([0_usize; 4])).cast()
}

unsafe extern "system" fn enumerate(_: Handle, count: *mut u32, out: *mut c_void) -> i32 {
    if !out.is_null() {
        // SAFETY: the caller's array of two handles.
        unsafe { out.cast::<[Handle; 2]>().write([(); 2].map(|()| dispatchable())) };
    }
    // SAFETY: the caller's number.
    unsafe { count.write(2) };
    0
}

/// One `VkPhysicalDeviceGroupProperties` of two devices.
unsafe extern "system" fn groups(_: Handle, count: *mut u32, out: *mut c_void) -> i32 {
    // SAFETY: the caller's number.
    unsafe { count.write(1) };
    let [first, second] = [(); 2].map(|()| dispatchable());
    let group = [0, 0, 2, first.expose_provenance(), second.expose_provenance()];
    // SAFETY: the caller's array of one group: two words of its head, the count, the first of its handles.
    unsafe { out.cast::<[usize; 5]>().write(group) };
    0
}

unsafe extern "system" fn queue(_: Handle, _: u32, _: u32, out: *mut Handle) {
    // SAFETY: the caller's pointer.
    unsafe { out.write(dispatchable()) };
}

unsafe extern "system" fn queue_2(_: Handle, _: *const c_void, out: *mut Handle) {
    // SAFETY: the caller's pointer.
    unsafe { out.write(dispatchable()) };
}

unsafe extern "system" fn buffers(_: Handle, info: *const c_void, out: *mut Handle) -> i32 {
    // SAFETY: the caller's `VkCommandBufferAllocateInfo`, of eight numbers, the count last.
    let info = unsafe { info.cast::<[u32; 8]>().read() };
    for at in 0..info[7] as usize {
        // SAFETY: within the caller's array.
        let place = unsafe { out.add(at) };
        // SAFETY: within the caller's array.
        unsafe { place.write(dispatchable()) };
    }
    0
}

macro_rules! void {
    ($function:expr, $type:ty) => {
        // SAFETY: the caller casts it back to its signature.
        Some(unsafe { transmute::<$type, VoidFunction>($function) })
    };
}

unsafe extern "system" fn end(instance: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkEnumeratePhysicalDevices" => void!(enumerate, Enumerate),
        b"vkEnumeratePhysicalDeviceGroups" | b"vkEnumeratePhysicalDeviceGroupsKHR" => {
            void!(groups, Enumerate)
        }
        b"vkGetDeviceProcAddr" => void!(device_end, GetProcAddr),
        // SAFETY: the caller's instance and name, as Vulkan has them.
        _ => unsafe { next_instance_proc_addr(instance, name) },
    }
}

unsafe extern "system" fn device_end(device: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetDeviceQueue" => void!(queue, GetQueue),
        b"vkGetDeviceQueue2" => void!(queue_2, GetQueue2),
        b"vkAllocateCommandBuffers" => void!(buffers, Allocate),
        // SAFETY: the caller's device and name, as Vulkan has them.
        _ => unsafe { next_device_proc_addr(device, name) },
    }
}

/// The program's view of the chain.
struct Program(GetProcAddr);

macro_rules! call {
    ($function:expr, $type:ty, $($argument:expr),*) => {{
        // SAFETY: the command has this signature.
        let function = unsafe { transmute::<VoidFunction, $type>($function.expect("a command")) };
        // SAFETY: a valid call.
        unsafe { function($($argument),*) }
    }};
}

impl Program {
    fn of(&self, instance: Handle, name: &CStr) -> Option<VoidFunction> {
        // SAFETY: NULL or a live instance.
        unsafe { (self.0)(instance, name.as_ptr()) }
    }

    fn of_device(&self, instance: Handle, device: Handle, name: &CStr) -> Option<VoidFunction> {
        let look_up = self.of(instance, c"vkGetDeviceProcAddr");
        call!(look_up, GetProcAddr, device, name.as_ptr())
    }

    fn instance(&self) -> Handle {
        let mut instance = ptr::null_mut();
        let info = [1_usize, 0, 0, 0, 0, 0, 0, 0];
        let create = self.of(ptr::null_mut(), c"vkCreateInstance");
        let result = call!(create, CreateInstance, info.as_ptr().cast(), NONE, &raw mut instance);
        assert_eq!(result, 0);
        instance
    }

    /// A device of the physical device with this place, and its queues and command buffers.
    fn device(&self, instance: Handle, place: usize) -> (Handle, Vec<Handle>) {
        let mut physical = [ptr::null_mut::<c_void>(); 2];
        let mut count = 2;
        let enumerate = self.of(instance, c"vkEnumeratePhysicalDevices");
        call!(enumerate, Enumerate, instance, &raw mut count, ptr::null_mut());
        call!(enumerate, Enumerate, instance, &raw mut count, physical.as_mut_ptr().cast());
        let info = [3_usize, 0, 0, 0, 0, 0, 0, 0, 0];
        let create = self.of(instance, c"vkCreateDevice");
        let mut device = ptr::null_mut();
        let result = call!(create, Create, physical[place], info.as_ptr().cast(), NONE, &raw mut device);
        assert_eq!(result, 0);
        let of_device = |name| self.of_device(instance, device, name);
        let mut handles = [ptr::null_mut(); 5];
        let [queue, queue_2, buffers @ ..] = &mut handles;
        call!(of_device(c"vkGetDeviceQueue"), GetQueue, device, 0, 0, queue);
        call!(of_device(c"vkGetDeviceQueue2"), GetQueue2, device, ptr::null(), queue_2);
        let info: [u64; 4] = [40, 0, 9, 3 << 32];
        let allocate = of_device(c"vkAllocateCommandBuffers");
        assert_eq!(call!(allocate, Allocate, device, info.as_ptr().cast(), buffers.as_mut_ptr()), 0);
        (device, handles.into())
    }
}

fn first_word(handle: Handle) -> usize {
    // SAFETY: a handle that begins with a word.
    unsafe { handle.cast::<usize>().read() }
}

/// Two instances at once; a device of each, the second one's of its second physical device.
fn live(program: &Program) {
    phase("instances");
    let instances = [program.instance(), program.instance()];
    phase("devices");
    for (number, instance) in instances.into_iter().enumerate() {
        let (device, handles) = program.device(instance, number);
        assert!(handles.iter().all(|handle| first_word(*handle) == device.addr()));
        let mut group = [0_usize; 36];
        let mut count = 1;
        for name in [c"vkEnumeratePhysicalDeviceGroups", c"vkEnumeratePhysicalDeviceGroupsKHR"] {
            let enumerate = program.of(instance, name);
            call!(enumerate, Enumerate, instance, &raw mut count, group.as_mut_ptr().cast());
            for device in &group[3..5] {
                let device = ptr::with_exposed_provenance_mut(*device);
                assert_eq!(first_word(device), instance.addr());
            }
        }
        phase("buffers");
        let of_device = |name| program.of_device(instance, device, name).expect("a command");
        let (create, end) = (of_device(c"vkCreateBuffer"), of_device(c"vkDestroyBuffer"));
        let made: Vec<_> = (0..=number).map(|_| create_object(create, device, NONE).expect("a buffer")).collect();
        let submit = Some(of_device(c"vkQueueSubmit"));
        assert_eq!(call!(submit, Submit, handles[1], 0, ptr::null(), 0), 0);
        made.into_iter().for_each(|buffer| destroy_object(end, device, buffer, NONE));
        phase("devices");
        destroy(of_device(c"vkDestroyDevice"), device, NONE);
    }
    for instance in instances {
        let end = program.of(instance, c"vkDestroyInstance");
        destroy(end.expect("a command"), instance, NONE);
    }
}

#[test]
fn ly83_the_layer_observes_several_instances_of_a_driver_in_one_process() {
    let test = "ly83_the_layer_observes_several_instances_of_a_driver_in_one_process";
    const FOLDER: &str = "FAKE_FOLDER";
    if Child::is_child(test) {
        let folder = std::env::var(FOLDER).expect("a folder");
        let json: &'static str = format!("{folder}/report.json").leak();
        let settings = Box::leak(Box::new([("json", json), ("brackets", "all")]));
        let stacks = StackCapture::new(SiteRecorder::default()).expect("memory");
        let observation =
            Observation { opened: Opened::Directly, stacks: Some(stacks.clone()), records: true, settings: &*settings };
        create_without_table(true);
        // SAFETY: a driver that lives as long as the process.
        let first = unsafe { chain(end, observation.clone()) }.expect("the first");
        // SAFETY: a driver that lives as long as the process.
        let other = unsafe { chain(next_instance_proc_addr, observation) };
        assert!(other.is_none(), "one end a process");
        live(&Program(first));
        let mut trace = String::new();
        assert!(write_trace("fake", &mut trace));
        fs::write(format!("{folder}/trace"), trace).expect("a file");
        let sites = stacks.with(|recorder| recorder.sites());
        let text = serde_json::to_string(&sites).expect("JSON");
        return fs::write(format!("{folder}/sites.json"), text).expect("a file");
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A setting of the environment is for a program's own layer.
    let child = Child::this_test(test).env(FOLDER, folder.path()).env("VK_STEWARD_MEMORY_CHECK", "false");
    child.run().assert_code(0);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    let layer: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    // Each device is its instance's, and what is on it.
    for (number, instance) in layer["program"]["instances"].as_array().expect("two").iter().enumerate() {
        let devices = instance["devices"].as_array().expect("a list");
        assert_eq!(devices.len(), 1, "{layer:#}");
        let kinds = devices[0]["kinds"].as_array().expect("a list");
        let buffers = kinds.iter().find(|kind| kind["kind"] == "VkBuffer");
        let buffers = buffers.expect("buffers");
        assert_eq!(buffers["total_blocks"], number + 1, "{layer:#}");
        // The exact peak, of two scopes or one.
        let peak = (number as u64 + 1) * 48;
        assert_eq!((&buffers["peak_bytes"], &buffers["peak_slack"]), (&json!(peak), &json!(0)));
    }
    let report: Report = serde_json::from_str(&read("report.json")).expect("a report");
    let phases: Vec<_> = report
        .phases
        .iter()
        .map(|phase| (&*phase.name, phase.blocks, phase.peak_bytes / 48, phase.peak_slack))
        .collect();
    let expected = [
        ("instances", 2, 2, 0),
        ("devices", 1, 3, 0),
        ("buffers", 1, 4, 0),
        ("devices", 1, 3, 0),
        ("buffers", 2, 5, 0),
        ("devices", 0, 3, 0),
    ];
    assert_eq!(phases, expected);
    // Of each device: the queues, three commands for the groups and buffers, and the submit; they count beside those
    // with callbacks.
    let commands: u64 = report.phases.iter().map(|phase| phase.commands).sum();
    assert!(commands > 4 + 2 + 6, "{commands}");
    assert_eq!(report.fullest_phase, "devices");
    let check = report.program.and_then(|program| program.check);
    assert!(check.is_some() && report.findings.is_empty() && report.unjudged.is_none());
    let trace = read("trace");
    assert!(trace.contains("vkCreateBuffer") && trace.contains("vkQueueSubmit"), "{trace}");
    let sites: Value = serde_json::from_str(&read("sites.json")).expect("JSON");
    let sites = sites["sites"].as_array().expect("sites");
    let of_buffers = |site: &&Value| site["context"] == "VkBuffer";
    let commands: Vec<_> = sites.iter().filter(of_buffers).map(|site| &site["command"]).collect();
    assert!(!commands.is_empty() && commands.iter().all(|command| *command == "vkCreateBuffer"));
}
