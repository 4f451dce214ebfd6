//! The shared libraries of this process, and which are drivers or layers. Linux and Windows: elsewhere the list is
//! empty.

#![forbid(unsafe_code)]

use std::ffi::{CStr, c_void};

use super::system::loaded_files::{parts, symbol};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoadedPart {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) file: String,
}

/// What a library of this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VulkanPart {
    Driver,
    Layer,
}

pub(crate) struct LoadedFiles(Vec<LoadedPart>);

impl LoadedFiles {
    pub(crate) fn read() -> Self {
        Self(parts())
    }

    pub(crate) fn file_of(&self, address: *const c_void) -> Option<&str> {
        let at = address.addr();
        let part = self.0.iter().find(|part| (part.from..part.to).contains(&at));
        part.map(|part| part.file.as_str())
    }

    /// Each file is listed once; `loader` is neither a driver nor a layer.
    pub(crate) fn vulkan_parts(&self, loader: Option<&str>) -> Vec<(VulkanPart, String)> {
        let mut parts: Vec<_> = self.0.iter().filter(|part| Some(part.file.as_str()) != loader).collect();
        parts.sort_by_key(|part| &part.file);
        parts.dedup_by_key(|part| &part.file);
        parts.into_iter().filter_map(|part| Some((self.kind(part)?, part.file.clone()))).collect()
    }

    /// Functions of libraries that this one needs do not count.
    fn kind(&self, part: &LoadedPart) -> Option<VulkanPart> {
        let has = |name: &CStr| symbol(part, name).is_some_and(|it| self.file_of(it) == Some(&part.file));
        if has(c"vk_icdGetInstanceProcAddr") || has(c"vk_icdNegotiateLoaderICDInterfaceVersion") {
            return Some(VulkanPart::Driver);
        }
        let is_layer = has(c"vkNegotiateLoaderLayerInterfaceVersion")
            || has(c"vkEnumerateInstanceLayerProperties") && has(c"vkGetInstanceProcAddr");
        is_layer.then_some(VulkanPart::Layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_part() {
        let part = LoadedPart { from: 0x7f10, to: 0x7f20, file: "/usr/lib/lib x.so.1".to_owned() };
        let files = LoadedFiles(vec![part]);
        let file = |at: usize| files.file_of(std::ptr::without_provenance(at));
        assert_eq!(file(0x7f1f), Some("/usr/lib/lib x.so.1"));
        assert_eq!(file(0x7f20), None);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn the_c_library_is_loaded_and_no_part_of_vulkan() {
        let files = LoadedFiles::read();
        let libc = files.0.iter().find(|part| part.file.contains("libc.so")).expect("it is loaded");
        assert!(symbol(libc, c"malloc").is_some());
        assert_eq!(files.kind(libc), None);
    }
}
