//! The layer as a library of Windows, over the fake driver: how it is loaded and how it ends. And what sets it there.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::transmute;
use std::os::windows::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs, ptr};

use VkLayer_steward_memory::NegotiateLayerInterface;
use serde_json::json;
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{Layer, create_object};
use crate::judging::{of_device, report_of};

const NONE: *const RawCallbacks = ptr::null();
type Negotiate = unsafe extern "system" fn(*mut NegotiateLayerInterface) -> i32;
type Module = *mut c_void;
type Key = *mut c_void;

const CURRENT_USER: Key = 0x8000_0001_u32 as i32 as isize as Key;
const LOCAL_MACHINE: Key = 0x8000_0002_u32 as i32 as isize as Key;
const ALL_ACCESS: u32 = 0xf_003f;
const DWORD: u32 = 4;
const TEXT: u32 = 1;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn LoadLibraryW(name: *const u16) -> Module;
    fn FreeLibrary(module: Module) -> i32;
    fn GetModuleHandleW(name: *const u16) -> Module;
    fn GetProcAddress(module: Module, name: *const c_char) -> *const c_void;
}

#[link(name = "advapi32")]
unsafe extern "system" {
    fn RegCreateKeyExW(
        parent: Key,
        name: *const u16,
        reserved: u32,
        class: *const u16,
        options: u32,
        access: u32,
        security: *const c_void,
        key: *mut Key,
        is_new: *mut u32,
    ) -> i32;
    fn RegSetValueExW(key: Key, name: *const u16, reserved: u32, kind: u32, value: *const u8, bytes: u32) -> i32;
    fn RegOverridePredefKey(hive: Key, with: Key) -> i32;
    fn RegDeleteTreeW(key: Key, name: *const u16) -> i32;
}

fn wide(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}

/// Where `cargo test` has put the library: beside the tests.
fn path() -> PathBuf {
    let test = env::current_exe().expect("a path");
    let library = test.with_file_name("VkLayer_steward_memory.dll");
    assert!(library.is_file(), "{} is not built", library.display());
    library
}

fn load() -> (Module, Layer) {
    // SAFETY: the layer's library, whose name a 0 ends.
    let module = unsafe { LoadLibraryW(wide(path()).as_ptr()) };
    assert!(!module.is_null());
    let name: &CStr = c"vkNegotiateLoaderLayerInterfaceVersion";
    // SAFETY: a library that is loaded, and a name that a 0 ends.
    let negotiate = unsafe { GetProcAddress(module, name.as_ptr()) };
    assert!(!negotiate.is_null());
    // SAFETY: the function has this signature.
    let negotiate = unsafe { transmute::<*const c_void, Negotiate>(negotiate) };
    (module, Layer::negotiated(negotiate))
}

#[test]
fn wn8_the_library_stays_and_reports_at_exit_what_is_alive() {
    let test = "wn8_the_library_stays_and_reports_at_exit_what_is_alive";
    let Some(report) = report_of(test, &[], || {
        let (module, layer) = load();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
        create_object(create, device, NONE).expect("a buffer");
        for _ in 0..3 {
            // SAFETY: the loader unloads a layer with its last instance.
            unsafe { FreeLibrary(module) };
        }
        let name = wide("VkLayer_steward_memory.dll");
        // SAFETY: a name that a 0 ends.
        assert_eq!(unsafe { GetModuleHandleW(name.as_ptr()) }, module);
        create_object(create, device, NONE).expect("the code is still there");
    }) else {
        return;
    };
    assert_eq!(report["program"]["has_ended"], true, "{report}");
    assert_eq!(of_device(&report, "VkBuffer")["objects_alive"], 2, "{report}");
    assert_eq!(report["program"]["library"], json!(path()), "{report}");
    assert_eq!(report["findings"], json!([]), "{report}");
}

#[test]
fn wn8_a_finding_names_the_file_that_called() {
    let test = "wn8_a_finding_names_the_file_that_called";
    let Some(report) = report_of(test, &[("FAKE_DRIVER_FREES_MALLOC", "1")], || {
        let (_, layer) = load();
        let instance = layer.create_instance(NONE).expect("an instance");
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let own = env::current_exe().expect("a path");
    let own = own.file_name().and_then(OsStr::to_str).expect("a name");
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 2, "{report}");
    for finding in findings {
        assert!(finding.to_string().contains(own), "{own} in {finding}");
    }
}

/// A part of the registry, for this process alone.
struct Registry {
    name: Vec<u16>,
    hive: Key,
    settings: Key,
}

impl Registry {
    fn new(hive: Key, settings: &str) -> Self {
        let name = wide(format!("Software\\Steward-test-{}", std::process::id()));
        let own = key(CURRENT_USER, &name);
        // SAFETY: a key that is open.
        assert_eq!(unsafe { RegOverridePredefKey(hive, own) }, 0);
        let settings = key(hive, &wide(settings));
        Self { name, hive, settings }
    }

    fn set(&self, name: &Path, kind: u32, value: &[u8]) {
        let name = wide(name);
        let bytes = u32::try_from(value.len()).expect("a few");
        // SAFETY: an open key, a name that a 0 ends, and so many bytes.
        let error = unsafe { RegSetValueExW(self.settings, name.as_ptr(), 0, kind, value.as_ptr(), bytes) };
        assert_eq!(error, 0);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // SAFETY: the hive is its own again.
        unsafe { RegOverridePredefKey(self.hive, ptr::null_mut()) };
        // SAFETY: a name that a 0 ends, of a key of this test alone.
        unsafe { RegDeleteTreeW(CURRENT_USER, self.name.as_ptr()) };
    }
}

fn key(parent: Key, name: &[u16]) -> Key {
    let mut key = ptr::null_mut();
    // SAFETY: an open key, a name that a 0 ends, and room for the new key.
    let error = unsafe {
        RegCreateKeyExW(
            parent,
            name.as_ptr(),
            0,
            ptr::null(),
            0,
            ALL_ACCESS,
            ptr::null(),
            &raw mut key,
            ptr::null_mut(),
        )
    };
    assert_eq!(error, 0);
    key
}

#[test]
fn wn8_settings_are_read_from_the_file_that_the_registry_names() {
    let test = "wn8_settings_are_read_from_the_file_that_the_registry_names";
    let Some(folder) = env::var_os("STEWARD_TEST_FOLDER").filter(|_| Child::is_child(test)) else {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Child::this_test(test).env("STEWARD_TEST_FOLDER", folder.path()).run();
        child.assert_code(0);
        let from = format!("settings are read from {}", folder.path().join("named").display());
        assert!(child.stderr.contains(&from), "{child}");
        assert!(folder.path().join("report.json").is_file(), "{child}");
        return;
    };
    let folder = Path::new(&folder);
    let file = |name: &str, text: &str| {
        fs::write(folder.join(name), text).expect("a file");
        folder.join(name)
    };
    let wrong = file("wrong", "steward_memory.json = none\n");
    let text = format!("steward_memory.json = {}\n", folder.join("report.json").display());
    let registry = Registry::new(LOCAL_MACHINE, r"Software\Khronos\Vulkan\Settings");
    // Not switched on, of another kind, and not there.
    registry.set(&wrong, DWORD, &1_u32.to_ne_bytes());
    registry.set(&folder.join("wrong as well"), TEXT, &[b'0', 0, b'0', 0, b'0', 0, 0, 0]);
    registry.set(&folder.join("missing"), DWORD, &0_u32.to_ne_bytes());
    registry.set(&file("named", &text), DWORD, &0_u32.to_ne_bytes());
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    layer.destroy_instance(instance, NONE);
}

#[test]
fn wn8_settings_are_read_from_a_named_folder_and_from_the_working_folder() {
    const NAMED: &str = "VK_LAYER_SETTINGS_PATH";
    let test = "wn8_settings_are_read_from_a_named_folder_and_from_the_working_folder";
    if let Some(folder) = env::var_os("STEWARD_TEST_FOLDER").filter(|_| Child::is_child(test)) {
        env::set_current_dir(&folder).expect("a folder");
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        return layer.destroy_instance(instance, NONE);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = |folder: &Path, report: &str| {
        let text = format!("steward_memory.json = {report}\n");
        fs::write(folder.join("vk_layer_settings.txt"), text).expect("a file");
    };
    let named = folder.path().join("named");
    fs::create_dir(&named).expect("a folder");
    settings(&named, "by name.json");
    settings(folder.path(), "by place.json");
    let child = || Child::this_test(test).env("STEWARD_TEST_FOLDER", folder.path());
    let report = |name: &str| folder.path().join(name).is_file();
    child().env(NAMED, &named).run().assert_code(0);
    assert!(report("by name.json") && !report("by place.json"));
    child().env_remove(NAMED).run().assert_code(0);
    assert!(report("by place.json"));
}

/// Under Wine each process is elevated.
#[test]
fn wn8_an_elevated_process_leaves_out_variables_that_its_user_has_in_the_registry() {
    let test = "wn8_an_elevated_process_leaves_out_variables_that_its_user_has_in_the_registry";
    let other = "VK_STEWARD_MEMORY_TEXT";
    if Child::is_child(test) {
        let key = env::var("STEWARD_TEST_KEY").expect("a key");
        let registry = Registry::new(CURRENT_USER, &key);
        for name in ["vk_steward_memory_json", "VK_LAYER_SETTINGS_PATH"] {
            registry.set(Path::new(name), TEXT, &[b'x', 0, 0, 0]);
        }
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        return layer.destroy_instance(instance, NONE);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [json, text, named] = ["json", "text", "named"].map(|name| folder.path().join(name));
    fs::write(&named, "steward_memory.interval = 1\n").expect("a file");
    for (key, is_left_out) in [("Environment", true), ("Volatile Environment", true), ("Elsewhere", false)] {
        let child = Child::this_test(test)
            .env("STEWARD_TEST_KEY", key)
            .env("VK_STEWARD_MEMORY_JSON", &json)
            .env("VK_LAYER_SETTINGS_PATH", &named)
            .env(other, &text)
            .run();
        child.assert_code(0);
        for name in ["VK_STEWARD_MEMORY_JSON", "VK_LAYER_SETTINGS_PATH"] {
            let said = format!("{name} is left out: it is from the user's part of the registry");
            assert_eq!(child.stderr.contains(&said), is_left_out, "{key}: {child}");
        }
        let read = child.stderr.contains("settings are read from");
        let files = [&json, &text].map(|file| fs::remove_file(file).is_ok());
        assert_eq!((read, files), (!is_left_out, [!is_left_out, true]), "{key}: {child}");
    }
}

#[test]
fn wn8_a_signal_is_refused_with_the_reason() {
    let test = "wn8_a_signal_is_refused_with_the_reason";
    if Child::is_child(test) {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        return layer.destroy_instance(instance, NONE);
    }
    let child =
        Child::this_test(test).env("VK_STEWARD_MEMORY_TEXT", "none").env("VK_STEWARD_MEMORY_SIGNAL", "USR2").run();
    child.assert_code(0);
    let said = "SIGUSR2 is no signal of Windows: it requests no report";
    assert!(child.stderr.contains(said), "{child}");
}
