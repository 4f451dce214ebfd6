use std::ffi::{CString, c_char, c_void};
use std::ptr;

use super::modules::{file_name, path_of, unloads};
use super::text::{from_wide, to_wide};
use super::{anonymous_bytes, each_variable, variable};
use crate::description::is_loader;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn LoadLibraryA(name: *const c_char) -> *mut c_void;
    fn FreeLibrary(module: *mut c_void) -> i32;
}

#[test]
fn wn8_a_variable_that_the_program_sets_is_seen_by_name_and_in_the_list() {
    let name = c"STEWARD_TEST_VARIABLE";
    assert!(variable(name).expect("memory").is_none());
    let long = "\u{e9}".repeat(5000);
    for value in ["short", &long] {
        // SAFETY: no other test reads it, and the system's calls have a lock.
        unsafe { std::env::set_var("STEWARD_TEST_VARIABLE", value) };
        let seen = variable(name).expect("memory").expect("it is set");
        assert_eq!(seen.as_str(), value);
        let mut listed = 0;
        let listing = each_variable(|variable| {
            listed += u32::from(variable == format!("STEWARD_TEST_VARIABLE={value}"));
            Ok(())
        });
        listing.expect("memory");
        assert_eq!(listed, 1);
    }
}

#[test]
fn wn8_text_goes_to_the_system_and_back() {
    let units = to_wide("a\u{1f600}").expect("memory");
    assert_eq!(&*units, [0x61, 0xd83d, 0xde00, 0]);
    let text = from_wide(&[0x61, 0xd83d, 0xde00]).expect("memory");
    assert_eq!(text.expect("text").as_str(), "a\u{1f600}");
    assert!(from_wide(&[0xd83d]).expect("memory").is_none());
}

#[test]
fn wn8_addresses_lie_in_the_files_that_were_loaded() {
    let own = wn8_addresses_lie_in_the_files_that_were_loaded as fn() as *const c_void;
    let path = path_of(own).expect("this test's file");
    assert_eq!(std::env::current_exe().expect("a path").to_str(), Some(path.as_str()));
    assert!(file_name(&path).ends_with(".exe") && !file_name(&path).contains('\\'));
    assert!(path_of(ptr::null()).is_none());
    assert!(is_loader(r"C:\Windows\System32\Vulkan-1.dll"));
    assert!(!is_loader(r"C:\vulkan-1.dll\driver.dll") && !is_loader(""));
}

#[test]
fn wn8_a_library_that_is_unloaded_is_counted() {
    let before = unloads();
    let name = CString::new("msimg32.dll").expect("a name");
    // SAFETY: a library of the system.
    let library = unsafe { LoadLibraryA(name.as_ptr()) };
    assert!(!library.is_null());
    let loaded = unloads();
    // SAFETY: loaded above.
    unsafe { FreeLibrary(library) };
    // Other tests may unload others.
    assert!(loaded >= before && unloads() > loaded);
}

#[test]
fn wn8_the_memory_of_the_process_is_known() {
    assert!(anonymous_bytes() > Some(4096));
}
