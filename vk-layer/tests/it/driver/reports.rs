//! Device memory that the driver says it allocates for itself (`VK_EXT_device_memory_report`), where
//! `FAKE_DRIVER_REPORTS` is set.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};

use super::Handle;

/// `VkDeviceMemoryReportCallbackDataEXT`.
#[repr(C)]
pub(crate) struct ReportEvent {
    s_type: i32,
    p_next: *const c_void,
    flags: u32,
    event: i32,
    memory_object: u64,
    size: u64,
    object_type: i32,
    object: u64,
    heap: u32,
}

type Callback = unsafe extern "system" fn(*const ReportEvent, *mut c_void);

/// `VkDeviceDeviceMemoryReportCreateInfoEXT`.
#[repr(C)]
struct ReportCallback {
    s_type: i32,
    p_next: *const Self,
    flags: u32,
    callback: Callback,
    user_data: *mut c_void,
}

thread_local! {
    /// Those of the device that was created last.
    static CALLBACKS: RefCell<Vec<(Callback, *mut c_void)>> = const { RefCell::new(Vec::new()) };
}

fn is_offered() -> bool {
    std::env::var_os("FAKE_DRIVER_REPORTS").is_some()
}

/// Takes the callbacks out of the chain of a `VkDeviceCreateInfo`, and reports what it could not allocate.
pub(super) fn listen(info: *const c_void) {
    CALLBACKS.with_borrow_mut(Vec::clear);
    if !is_offered() {
        return;
    }
    let words = info.cast::<usize>();
    // SAFETY: a `VkDeviceCreateInfo`, whose tenth part of 8 bytes begins with the number of extensions.
    let info = unsafe { std::slice::from_raw_parts(words, 8) };
    let names: *const *const c_char = std::ptr::with_exposed_provenance(info[7]);
    let mut at: *const ReportCallback = std::ptr::with_exposed_provenance(info[1]);
    let mut found = Vec::new();
    let mut features = 0;
    // SAFETY: the chain's structs all begin so, and end with NULL.
    while let Some(one) = unsafe { at.as_ref() } {
        match one.s_type {
            // The feature's struct has it where the other one has its flags.
            1_000_284_000 => features += one.flags,
            1_000_284_001 => found.push((one.callback, one.user_data)),
            _ => {}
        }
        at = one.p_next;
    }
    if !names.is_null() {
        // SAFETY: one name at least.
        let name = unsafe { *names };
        // SAFETY: it ends with 0.
        let name = unsafe { CStr::from_ptr(name) };
        assert_eq!((name, info[6] as u32), (c"VK_EXT_device_memory_report", 1));
    }
    assert!(features <= 1, "in a chain once");
    if features == 0 {
        found.clear();
    }
    CALLBACKS.set(found);
    report(4, 0, 1 << 40, 10);
}

/// One event.
pub(super) fn report(event: i32, memory_object: u64, size: u64, object_type: i32) {
    let data = ReportEvent {
        s_type: 1_000_284_002,
        p_next: std::ptr::null(),
        flags: 0,
        event,
        memory_object,
        size,
        object_type,
        object: 1,
        heap: 0,
    };
    for (callback, user_data) in CALLBACKS.with_borrow(Clone::clone) {
        // SAFETY: a callback of the device that lives, and what came with it.
        unsafe { callback(&raw const data, user_data) };
    }
}

/// `vkEnumerateDeviceExtensionProperties`: the one extension, or none.
pub(super) unsafe extern "system" fn extensions(
    _: Handle,
    _: *const c_char,
    count: *mut u32,
    properties: *mut [u8; 260],
) -> i32 {
    // SAFETY: the caller's pointer.
    unsafe { count.write(u32::from(is_offered())) };
    if is_offered() && !properties.is_null() {
        let mut one = [0; 260];
        let name = c"VK_EXT_device_memory_report".to_bytes();
        one[..name.len()].copy_from_slice(name);
        // SAFETY: the caller's array, of one at least.
        unsafe { properties.write_unaligned(one) };
    }
    0
}
