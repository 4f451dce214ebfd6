use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use alloc_core::TryString;

use crate::record::{Own, own};

/// Frames of its file are not the caller's.
pub(crate) fn c_library() -> usize {
    let free = libc::free as unsafe extern "C" fn(*mut c_void);
    free as usize
}

/// The path of the file with this address, which must not be unloaded meanwhile.
pub(crate) fn path_of(address: *const c_void) -> Option<TryString<Own>> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address, and a place for the answer.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a name of the dynamic linker, which stays while its file is loaded.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    TryString::try_from_str_in(path, own()).ok()
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(crate) fn is_loader(file: &str) -> bool {
    file.starts_with("libvulkan.so")
}

/// Addresses may be in other files after the number has changed. Takes some 40 ns.
pub(crate) fn unloads() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, unloads: *mut c_void) -> c_int {
        // SAFETY: the C library's struct, valid for the call.
        let number = unsafe { (*info).dlpi_subs };
        // SAFETY: the number below.
        unsafe { unloads.cast::<u64>().write(number) };
        1
    }
    let mut number = 0_u64;
    // SAFETY: a function that only writes the number.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut number).cast()) };
    number
}

/// The library was linked to stay (`build.rs`).
pub(crate) const fn stay_loaded() {}

#[cfg(test)]
mod tests {
    use crate::description::is_loader;

    #[test]
    fn the_loader_is_known_by_its_name() {
        assert!(is_loader("/usr/lib/x86_64-linux-gnu/libvulkan.so.1.3.239"));
        assert!(!is_loader("/usr/lib/libvulkan_lvp.so") && !is_loader(""));
    }
}
