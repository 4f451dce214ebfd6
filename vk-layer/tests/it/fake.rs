//! The layer over a loader and a driver that are made up.

use std::alloc::System;
use std::ffi::{CString, c_void};
use std::mem::transmute;
use std::ptr;

use VkLayer_steward_memory::vkNegotiateLoaderLayerInterfaceVersion;
use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope};
use vk_callbacks::commands::CommandLevel;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, CommandRow};

use crate::driver::{
    CreateInfo, LINK, Layer, LinkInfo, VoidFunction, create_object, destroy, destroy_object, draw, fail_creation,
    interface, looked_up, seen,
};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
const NONE: *const RawCallbacks = ptr::null();

/// The callbacks that a command reached the driver with.
fn user_data(command: &str) -> Option<usize> {
    let seen = seen();
    let [one] = seen.as_slice() else {
        panic!("one command and no other: {seen:?}");
    };
    assert_eq!(one.command, command);
    one.user_data
}

/// Callbacks of the program.
fn program() -> Bridge {
    let context = Context::root_static(&SYSTEM, ContextOptions::new("program")).expect("memory");
    Bridge::new(context).expect("memory")
}

#[test]
fn ly1_the_negotiation_answers_version_2_or_refuses() {
    for (version, result) in [(0, -3), (1, -3), (2, 0), (3, 0), (u32::MAX, 0)] {
        let mut interface = interface(version);
        // SAFETY: a struct that may be written.
        let answer = unsafe { vkNegotiateLoaderLayerInterfaceVersion(&raw mut interface) };
        assert_eq!(answer, result, "{version}");
        let agreed = if result == 0 { 2 } else { version };
        assert_eq!(interface.loader_layer_interface_version, agreed);
        assert_eq!(interface.pfn_get_instance_proc_addr.is_some(), result == 0);
        assert_eq!(interface.pfn_get_device_proc_addr.is_some(), result == 0);
        assert!(interface.pfn_get_physical_device_proc_addr.is_none());
    }
    let mut other = interface(2);
    other.s_type = 2;
    // SAFETY: a struct that may be written, and NULL.
    assert_eq!(
        // SAFETY: a struct that may be written.
        unsafe { vkNegotiateLoaderLayerInterfaceVersion(&raw mut other) },
        -3
    );
    // SAFETY: NULL is refused.
    assert_eq!(
        // SAFETY: NULL is refused.
        unsafe { vkNegotiateLoaderLayerInterfaceVersion(ptr::null_mut()) },
        -3
    );
    assert_eq!(seen(), [], "nothing was called");
}

#[test]
fn ly2_the_chain_is_followed_and_a_failed_create_registers_nothing() {
    type Create = unsafe extern "system" fn(*const c_void, *const RawCallbacks, *mut *mut c_void) -> i32;
    let layer = Layer::new();
    let function = layer.of_instance(ptr::null_mut(), c"vkCreateInstance").expect("a hook");
    // SAFETY: the command has this signature.
    let create = unsafe { transmute::<VoidFunction, Create>(function) };
    let mut chain = LinkInfo::new(48, &LINK);
    let mut none = CreateInfo::new(&mut chain);
    let mut instance = ptr::null_mut();
    // A chain without a link of an instance, and none at all.
    for p_next in [none.p_next, ptr::null()] {
        none.p_next = p_next;
        // SAFETY: as the loader calls a layer.
        let result = unsafe { create((&raw const none).cast(), NONE, &raw mut instance) };
        assert_eq!((result, instance.is_null()), (-3, true));
    }
    fail_creation(true);
    assert_eq!(layer.create_instance(NONE), Err(-3));
    fail_creation(false);
    seen();

    let instance = layer.create_instance(NONE).expect("an instance");
    let names: Vec<_> = looked_up().into_iter().map(|(name, _)| name).collect();
    let of_devices = |name: &String| CommandRow::of(name).level == CommandLevel::Device;
    assert_eq!(names.iter().find(|name| of_devices(name)), None, "{names:?}");
    fail_creation(true);
    assert_eq!(layer.create_device(instance, NONE), Err(-3));
    fail_creation(false);
    looked_up();
    let device = layer.create_device(instance, NONE).expect("a device");
    // Never with NULL, and nothing else: what is looked up with an instance now is the first layer's.
    let expected = ("vkCreateDevice".to_owned(), instance.addr());
    assert_eq!(looked_up(), [expected]);
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    let names: Vec<_> = seen().into_iter().map(|seen| seen.command).collect();
    assert_eq!(names, ["vkCreateInstance", "vkCreateDevice", "vkCreateDevice", "vkDestroyDevice", "vkDestroyInstance"]);
}

#[test]
fn ly3_a_name_is_hooked_where_the_next_layer_has_it_and_else_answered_as_there() {
    let layer = Layer::new();
    assert!(layer.of_instance(ptr::null_mut(), c"vkNoSuch").is_none());
    assert!(layer.of_instance(ptr::null_mut(), c"vkCreateBuffer").is_none());
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    // The driver has these and no others, of the device.
    let there = [
        "vkAllocateMemory",
        "vkCreateBuffer",
        "vkCreateCommandPool",
        "vkCreateComputePipelines",
        "vkCreateDeferredOperationKHR",
        "vkCreatePipelineBinariesKHR",
        "vkCreateRayTracingPipelinesKHR",
        "vkDeferredOperationJoinKHR",
        "vkDestroyBuffer",
        "vkDestroyCommandPool",
        "vkDestroyDeferredOperationKHR",
        "vkDestroyDevice",
        "vkDestroyPipeline",
        "vkDestroyPipelineBinaryKHR",
        "vkFreeMemory",
        "vkResetCommandPool",
    ];
    for row in CommandRow::all() {
        let name = CString::new(row.name).expect("a name");
        assert_eq!(layer.of_device(device, &name).is_some(), there.contains(&row.name), "{}", row.name);
    }
    let drawn = layer.of_device(device, c"vkCmdDraw").expect("the driver's");
    assert_eq!(drawn as usize, draw as *const () as usize);
    assert!(layer.of_device(device, c"vkCmdDispatch").is_none());
    assert!(layer.of_instance(instance, c"vkCreateWaylandSurfaceKHR").is_none());
    // As the loader's end of the chain: these without an instance, or with one that is gone, and no other.
    let unknown = ptr::from_ref(&0_usize).cast_mut().cast();
    for handle in [ptr::null_mut(), unknown, ptr::without_provenance_mut(8), instance] {
        for name in [c"vkGetInstanceProcAddr", c"vkCreateInstance", c"vkCreateDevice"] {
            assert!(layer.of_instance(handle, name).is_some(), "{name:?} {handle:?}");
        }
    }
    for handle in [ptr::null_mut(), unknown] {
        for name in [c"vkGetDeviceProcAddr", c"vkDestroyInstance", c"vkEnumerateInstanceVersion", c"vkCreateBuffer"] {
            assert!(layer.of_instance(handle, name).is_none(), "{name:?} {handle:?}");
        }
    }
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

#[test]
fn ly4_objects_are_found_by_their_first_word_however_many_there_are() {
    let layer = Layer::new();
    let instances: Vec<_> = (0..600).map(|_| layer.create_instance(NONE).expect("an instance")).collect();
    let devices: Vec<_> =
        instances.iter().map(|instance| layer.create_device(*instance, NONE).expect("a device")).collect();
    seen();
    for device in devices.iter().rev() {
        let create = layer.of_device(*device, c"vkCreateBuffer").expect("a hook");
        let destroy = layer.of_device(*device, c"vkDestroyBuffer").expect("a hook");
        let buffer = create_object(create, *device, NONE).expect("a buffer");
        destroy_object(destroy, *device, buffer, NONE);
        layer.destroy_device(*device, NONE);
    }
    for instance in instances {
        layer.destroy_instance(instance, NONE);
    }
    assert_eq!(seen().len(), 600 * 4);
    // Destroying NULL ends no object.
    let instance = layer.create_instance(NONE).expect("an instance");
    let function = layer.of_instance(instance, c"vkDestroyInstance").expect("a hook");
    seen();
    destroy(function, ptr::null_mut(), NONE);
    assert_eq!(seen(), []);
    layer.destroy_instance(instance, NONE);
}

#[test]
fn ly12_what_the_loader_creates_gets_what_the_program_passed() {
    let layer = Layer::new();
    let (instance, program) = (layer.create_instance(NONE).expect("an instance"), program());
    let raw = program.raw();
    seen();
    for (create_name, destroy_name) in [
        (c"vkCreateXcbSurfaceKHR", c"vkDestroySurfaceKHR"),
        (c"vkCreateDebugUtilsMessengerEXT", c"vkDestroyDebugUtilsMessengerEXT"),
    ] {
        let create = layer.of_instance(instance, create_name).expect("a hook");
        let destroy = layer.of_instance(instance, destroy_name).expect("a hook");
        for callbacks in [NONE, &raw const raw] {
            let object = create_object(create, instance, callbacks).expect("an object");
            destroy_object(destroy, instance, object, callbacks);
            // SAFETY: NULL or the program's.
            let expected = unsafe { callbacks.as_ref() }.map(|raw| raw.p_user_data.addr());
            assert!(seen().iter().all(|seen| seen.user_data == expected));
        }
    }
    layer.destroy_instance(instance, NONE);
    program.close().expect("nothing is left");
}

#[test]
fn ly13_what_was_created_with_our_callbacks_is_destroyed_with_them() {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let of_instance = user_data("vkCreateInstance").expect("callbacks");
    let device = layer.create_device(instance, NONE).expect("a device");
    let of_device = user_data("vkCreateDevice").expect("callbacks");
    let mut kinds = vec![of_instance, of_device];
    for (create_name, destroy_name) in [(c"vkCreateBuffer", c"vkDestroyBuffer"), (c"vkAllocateMemory", c"vkFreeMemory")]
    {
        let create = layer.of_device(device, create_name).expect("a hook");
        let destroy = layer.of_device(device, destroy_name).expect("a hook");
        let object = create_object(create, device, NONE).expect("an object");
        let created_with = user_data(create_name.to_str().expect("a name")).expect("callbacks");
        destroy_object(destroy, device, object, NONE);
        let destroyed_with = user_data(destroy_name.to_str().expect("a name"));
        assert_eq!(destroyed_with, Some(created_with));
        // A refused command leaves nothing to destroy.
        fail_creation(true);
        assert_eq!(create_object(create, device, NONE), Err(-1));
        fail_creation(false);
        seen();
        kinds.push(created_with);
    }
    layer.destroy_device(device, NONE);
    assert_eq!(user_data("vkDestroyDevice"), Some(of_device));
    layer.destroy_instance(instance, NONE);
    assert_eq!(user_data("vkDestroyInstance"), Some(of_instance));
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 4, "each kind has callbacks of its own");
}

#[test]
fn the_programs_own_callbacks_reach_the_driver_as_they_are() {
    let layer = Layer::new();
    let (instance, program) = (layer.create_instance(NONE).expect("an instance"), program());
    let device = layer.create_device(instance, NONE).expect("a device");
    let raw = program.raw();
    seen();
    let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
    let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
    let before = program.usage().total();
    let buffer = create_object(create, device, &raw const raw).expect("a buffer");
    assert!(user_data("vkCreateBuffer").is_some());
    let usage = program.usage().total();
    // 32 bytes, behind the 16 of the program's bridge: the layer adds nothing.
    assert_eq!(usage.live_bytes - before.live_bytes, 48);
    assert_eq!(usage.total_blocks - before.total_blocks, 1);
    assert_eq!(program.live().scope(Scope::Object).bytes, 48);
    destroy_object(destroy, device, buffer, &raw const raw);
    assert!(user_data("vkDestroyBuffer").is_some());
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    program.close().expect("nothing is left");
}

#[test]
fn pipelines_of_a_command_that_failed_in_part_are_destroyed_as_they_were_created() {
    type Create = unsafe extern "system" fn(*mut c_void, u64, u32, *const c_void, *const RawCallbacks, *mut u64) -> i32;
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let create = layer.of_device(device, c"vkCreateComputePipelines").expect("a hook");
    let destroy = layer.of_device(device, c"vkDestroyPipeline").expect("a hook");
    // SAFETY: the command has this signature.
    let create = unsafe { transmute::<VoidFunction, Create>(create) };
    let mut pipelines = [1_u64; 3];
    seen();
    // SAFETY: a live device, and room for three.
    let result = unsafe { create(device, 0, 3, ptr::null(), NONE, pipelines.as_mut_ptr()) };
    assert_eq!(result, -1, "the driver's answer comes through");
    let created_with = user_data("vkCreateComputePipelines");
    assert!(created_with.is_some() && pipelines[1] == 0);
    for pipeline in [pipelines[0], pipelines[2]] {
        destroy_object(destroy, device, pipeline, NONE);
        assert_eq!(user_data("vkDestroyPipeline"), created_with);
    }
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}
