use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use alloc_core::TryString;

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN,
    GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleFileNameW, GetModuleHandleExW,
};

use super::process::MAX_PATH;
use super::text::from_wide;
use crate::once::OnceAcrossForks;
use crate::record::Own;
use crate::settings::complain;

/// A driver calls this library's callbacks itself.
pub(crate) const fn c_library() -> usize {
    0
}

/// NULL would stand for the executable.
fn module_of(address: *const c_void, how: u32) -> Option<HMODULE> {
    if address.is_null() {
        return None;
    }
    let mut module = ptr::null_mut();
    let how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | how;
    // SAFETY: any address, and a place for the answer.
    let found = unsafe { GetModuleHandleExW(how, address.cast(), &raw mut module) };
    (found != 0 && !module.is_null()).then_some(module)
}

/// The path of the file with this address, which must not be unloaded meanwhile.
pub(crate) fn path_of(address: *const c_void) -> Option<TryString<Own>> {
    path_of_module(module_of(address, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT)?, |path| {
        from_wide(path).ok().flatten()
    })
}

/// NULL stands for the executable. `None` also for a path that is too long.
pub(super) fn path_of_module<R>(module: HMODULE, take: impl FnOnce(&[u16]) -> Option<R>) -> Option<R> {
    let mut path = [0; MAX_PATH];
    // SAFETY: NULL or a module, and so many units that may be written.
    let length = unsafe { GetModuleFileNameW(module, path.as_mut_ptr(), MAX_PATH as u32) } as usize;
    if length == 0 || length >= MAX_PATH {
        return None;
    }
    take(path.get(..length)?)
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['\\', '/']).next().unwrap_or(path)
}

pub(crate) fn is_loader(file: &str) -> bool {
    file.eq_ignore_ascii_case("vulkan-1.dll")
}

/// Addresses may be in other files after the number has changed.
pub(crate) fn unloads() -> u64 {
    static REGISTERED: OnceAcrossForks = OnceAcrossForks::new();
    static UNLOADS: AtomicU64 = AtomicU64::new(0);
    /// `LDR_DLL_NOTIFICATION_REASON_UNLOADED`.
    const UNLOADED: u32 = 2;

    #[link(name = "ntdll")]
    unsafe extern "system" {
        fn LdrRegisterDllNotification(
            flags: u32,
            notice: unsafe extern "system" fn(u32, *const c_void, *mut c_void),
            context: *mut c_void,
            cookie: *mut *mut c_void,
        ) -> i32;
    }

    unsafe extern "system" fn note(reason: u32, _: *const c_void, _: *mut c_void) {
        if reason == UNLOADED {
            UNLOADS.fetch_add(1, Ordering::Relaxed);
        }
    }

    REGISTERED.call_once(|| {
        let mut cookie = ptr::null_mut();
        // SAFETY: the function's library is never unloaded.
        let status =
            unsafe { LdrRegisterDllNotification(0, note, ptr::null_mut(), &raw mut cookie) };
        if status != 0 {
            complain(format_args!(
                "files that are unloaded are not noticed, so that stacks may name others: LdrRegisterDllNotification answers {status:#x}"
            ));
        }
    });
    UNLOADS.load(Ordering::Relaxed)
}

/// Programs unload the loader while threads of a driver, or what runs at the end, still call this library.
pub(crate) fn stay_loaded() {
    static PINNED: OnceAcrossForks = OnceAcrossForks::new();
    PINNED.call_once(|| {
        if module_of(stay_loaded as *const c_void, GET_MODULE_HANDLE_EX_FLAG_PIN).is_none() {
            let error = std::io::Error::last_os_error();
            complain(format_args!("the layer may be unloaded while it is called: GetModuleHandleExW fails: {error}"));
        }
    });
}
