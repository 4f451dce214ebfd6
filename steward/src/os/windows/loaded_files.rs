//! The libraries of this process, and which are drivers or layers.

use std::ffi::{CStr, c_void};

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{GetModuleFileNameW, GetProcAddress};
use windows_sys::Win32::System::ProcessStatus::{K32EnumProcessModules, K32GetModuleInformation, MODULEINFO};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::text::from_wide;
use crate::os::VulkanPart;

const MAX_MODULES: usize = 1024;
const MAX_PATH: usize = 1 << 15;

#[derive(Clone, Debug, PartialEq, Eq)]
struct LoadedModule {
    from: usize,
    to: usize,
    file: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedFiles(Vec<LoadedModule>);

impl LoadedFiles {
    pub(crate) fn read() -> Self {
        let mut modules = vec![0_usize; MAX_MODULES];
        let room = (MAX_MODULES * size_of::<HMODULE>()) as u32;
        let mut bytes = 0;
        // SAFETY: always the same number.
        let own = unsafe { GetCurrentProcess() };
        // SAFETY: this process, and so much room for modules, which are addresses.
        unsafe { K32EnumProcessModules(own, modules.as_mut_ptr().cast(), room, &raw mut bytes) };
        modules.truncate(bytes as usize / size_of::<HMODULE>());
        Self(modules.into_iter().filter_map(module).collect())
    }

    pub(crate) fn file_of(&self, address: *const c_void) -> Option<&str> {
        let at = address.addr();
        let mut modules = self.0.iter();
        let module = modules.find(|module| (module.from..module.to).contains(&at));
        module.map(|module| module.file.as_str())
    }

    /// Each part is listed once; `loader` is neither a driver nor a layer.
    pub(crate) fn vulkan_parts(&self, loader: Option<&str>) -> Vec<(VulkanPart, String)> {
        let others = self.0.iter().filter(|part| Some(&*part.file) != loader);
        let mut parts: Vec<_> = others.filter_map(|part| Some((kind(part)?, part.file.clone()))).collect();
        parts.sort_by(|(_, one), (_, other)| one.cmp(other));
        parts
    }
}

fn handle(address: usize) -> HMODULE {
    std::ptr::with_exposed_provenance_mut(address)
}

fn module(address: usize) -> Option<LoadedModule> {
    let mut about = MODULEINFO::default();
    let mut path = vec![0; MAX_PATH];
    // SAFETY: always the same number.
    let own = unsafe { GetCurrentProcess() };
    // SAFETY: a module of this process, and room for what is told of it.
    let told = unsafe { K32GetModuleInformation(own, handle(address), &raw mut about, size_of::<MODULEINFO>() as u32) };
    // SAFETY: a module of this process, and so much room.
    let units = unsafe { GetModuleFileNameW(handle(address), path.as_mut_ptr(), MAX_PATH as u32) };
    (told != 0 && units != 0).then(|| LoadedModule {
        from: address,
        to: address + about.SizeOfImage as usize,
        file: from_wide(&path).to_string_lossy().into_owned(),
    })
}

fn kind(module: &LoadedModule) -> Option<VulkanPart> {
    let has = |name: &CStr| {
        // SAFETY: a module of this process, and a name that ends with 0. Only whether there is an address is used.
        unsafe { GetProcAddress(handle(module.from), name.as_ptr().cast()) }.is_some()
    };
    if has(c"vk_icdGetInstanceProcAddr") || has(c"vk_icdNegotiateLoaderICDInterfaceVersion") {
        return Some(VulkanPart::Driver);
    }
    let is_layer = has(c"vkNegotiateLoaderLayerInterfaceVersion")
        || has(c"vkEnumerateInstanceLayerProperties") && has(c"vkGetInstanceProcAddr");
    is_layer.then_some(VulkanPart::Layer)
}
