//! The libraries of this process.

use std::ffi::{CStr, c_void};

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{GetModuleFileNameW, GetProcAddress};
use windows_sys::Win32::System::ProcessStatus::{K32EnumProcessModules, K32GetModuleInformation, MODULEINFO};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::text::from_wide;
use crate::os::loaded_files::LoadedPart;

const MAX_MODULES: usize = 1024;
const MAX_PATH: usize = 1 << 15;

pub(crate) fn parts() -> Vec<LoadedPart> {
    let mut modules = vec![0_usize; MAX_MODULES];
    let room = (MAX_MODULES * size_of::<HMODULE>()) as u32;
    let mut bytes = 0;
    // SAFETY: always the same number.
    let own = unsafe { GetCurrentProcess() };
    // SAFETY: this process, and so much room for modules, which are addresses.
    unsafe { K32EnumProcessModules(own, modules.as_mut_ptr().cast(), room, &raw mut bytes) };
    modules.truncate(bytes as usize / size_of::<HMODULE>());
    modules.into_iter().filter_map(part).collect()
}

/// A function of the module, or one of another module that it passes on.
pub(crate) fn symbol(part: &LoadedPart, name: &CStr) -> Option<*const c_void> {
    // SAFETY: a module of this process, and a name that ends with 0.
    let function = unsafe { GetProcAddress(handle(part.from), name.as_ptr().cast()) };
    function.map(|function| function as *const c_void)
}

fn handle(address: usize) -> HMODULE {
    std::ptr::with_exposed_provenance_mut(address)
}

fn part(address: usize) -> Option<LoadedPart> {
    let mut about = MODULEINFO::default();
    let mut path = vec![0; MAX_PATH];
    // SAFETY: always the same number.
    let own = unsafe { GetCurrentProcess() };
    // SAFETY: a module of this process, and room for what is told of it.
    let told = unsafe { K32GetModuleInformation(own, handle(address), &raw mut about, size_of::<MODULEINFO>() as u32) };
    // SAFETY: a module of this process, and so much room.
    let units = unsafe { GetModuleFileNameW(handle(address), path.as_mut_ptr(), MAX_PATH as u32) };
    (told != 0 && units != 0).then(|| LoadedPart {
        from: address,
        to: address + about.SizeOfImage as usize,
        file: from_wide(&path).to_string_lossy().into_owned(),
    })
}
