//! What a loader sees of the driver.

use std::ffi::CString;

use ash::vk::{self, Handle as _};
use reference_driver::{get_instance_proc_addr, vk_icdNegotiateLoaderICDInterfaceVersion};

use crate::application::Running;

#[test]
fn rd1_versions_below_2_are_refused_and_above_5_lowered() {
    let negotiate = |mut version: u32| {
        // SAFETY: a local.
        let answer = unsafe { vk_icdNegotiateLoaderICDInterfaceVersion(&raw mut version) };
        (answer, version)
    };
    assert_eq!(negotiate(7), (vk::Result::SUCCESS, 5));
    assert_eq!(negotiate(3), (vk::Result::SUCCESS, 3));
    assert_eq!(negotiate(1).0, vk::Result::ERROR_INCOMPATIBLE_DRIVER);
}

#[test]
fn rd3_every_command_of_1_0_and_1_1_is_found_at_its_level() {
    let running = Running::new(None);
    let found = |instance: vk::Instance, name: &str| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the instance is NULL or lives.
        unsafe { get_instance_proc_addr(instance, name.as_ptr()) }.is_some()
    };
    let list = include_str!("commands.txt").lines();
    let commands: Vec<_> = list.filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(commands.len(), 165);
    let (none, instance) = (vk::Instance::null(), running.instance.handle());
    let of_device = |name: &str| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the device lives.
        unsafe { running.instance.get_device_proc_addr(running.device.handle(), name.as_ptr()) }.is_some()
    };
    for (level, name) in commands {
        assert!(found(instance, name), "{name}");
        assert_eq!(found(none, name), level == "global", "{name} without an instance");
        let on_device = level == "device" || name == "vkGetDeviceProcAddr";
        assert_eq!(of_device(name), on_device, "{name} of a device");
    }
    for name in ["vkCreateSwapchainKHR", "vkCmdDispatchIndirec", "", "vk"] {
        assert!(!found(instance, name) && !of_device(name), "{name}");
    }
}

/// Nothing of it is in the way of another library.
#[test]
#[cfg(target_os = "linux")]
fn rd1_the_library_exports_the_two_functions_of_a_driver_and_nothing_else() {
    let test = std::env::current_exe().expect("a path");
    let library = test.with_file_name("libreference_driver.so");
    let listed = std::process::Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output();
    let Ok(listed) = listed else {
        return testkit::skip("nm", "rd1", "there is no nm");
    };
    let text = String::from_utf8(listed.stdout).expect("names");
    let mut names: Vec<_> = text.lines().filter_map(|line| line.split(' ').next_back()).collect();
    names.sort_unstable();
    assert_eq!(names, ["vk_icdGetInstanceProcAddr", "vk_icdNegotiateLoaderICDInterfaceVersion"]);
}

/// The loader writes its own word at the front of each dispatchable handle; the driver finds its object all the same.
#[test]
fn rd2_the_loaders_word_is_written_once_and_never_read() {
    let running = Running::new(None);
    let word = std::ptr::with_exposed_provenance_mut::<usize>(running.instance.handle().as_raw() as usize);
    // SAFETY: a dispatchable handle is the address of a word.
    assert_eq!(unsafe { word.read() }, 0x01CD_C0DE);
    // SAFETY: what the loader does.
    unsafe { word.write(0) };
    // SAFETY: the instance lives.
    let devices = unsafe { running.instance.enumerate_physical_devices() };
    assert_eq!(devices.map(|devices| devices.len()), Ok(1));
}
