//! The shared libraries of this process, and which are drivers or layers. Linux only: elsewhere the list is empty.

use std::ffi::c_void;
#[cfg(target_os = "linux")]
use std::fs;

use crate::os::VulkanPart;

#[derive(Clone, Debug, PartialEq, Eq)]
struct LoadedPart {
    from: usize,
    to: usize,
    file: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedFiles(Vec<LoadedPart>);

impl LoadedFiles {
    pub(crate) fn read() -> Self {
        #[cfg(target_os = "linux")]
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        #[cfg(not(target_os = "linux"))]
        let maps = String::new();
        Self(maps.lines().filter_map(part).collect())
    }

    pub(crate) fn file_of(&self, address: *const c_void) -> Option<&str> {
        let at = address.addr();
        let part = self.0.iter().find(|part| (part.from..part.to).contains(&at));
        part.map(|part| part.file.as_str())
    }

    /// Each part is listed once; `loader` is neither a driver nor a layer.
    pub(crate) fn vulkan_parts(&self, loader: Option<&str>) -> Vec<(VulkanPart, String)> {
        let mut files: Vec<_> = self.0.iter().map(|part| part.file.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        let files = files.into_iter().filter(|file| Some(*file) != loader);
        files.filter_map(|file| Some((self.kind(file)?, file.to_owned()))).collect()
    }

    /// Functions of libraries that this one needs do not count.
    #[cfg(target_os = "linux")]
    fn kind(&self, file: &str) -> Option<VulkanPart> {
        use libloading::os::unix::{Library, RTLD_LAZY};
        // SAFETY: a library that is already loaded is not initialised again, and no other one is loaded.
        let library = unsafe { Library::open(Some(file), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?;
        let has = |name: &str| {
            // SAFETY: only the address is used.
            let symbol = unsafe { library.get::<*const c_void>(name) };
            symbol.is_ok_and(|symbol| self.file_of(symbol.into_raw()) == Some(file))
        };
        if has("vk_icdGetInstanceProcAddr") || has("vk_icdNegotiateLoaderICDInterfaceVersion") {
            return Some(VulkanPart::Driver);
        }
        let is_layer = has("vkNegotiateLoaderLayerInterfaceVersion")
            || has("vkEnumerateInstanceLayerProperties") && has("vkGetInstanceProcAddr");
        is_layer.then_some(VulkanPart::Layer)
    }

    #[cfg(not(target_os = "linux"))]
    fn kind(&self, _: &str) -> Option<VulkanPart> {
        None
    }
}

fn part(line: &str) -> Option<LoadedPart> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let file = rest.get(rest.find('/')?..)?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    file.contains(".so").then_some(LoadedPart { from: number(from)?, to: number(to)?, file: file.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_libraries_are_read() {
        let line = "7f10-7f20 r-xp 00000000 08:01 77                     /usr/lib/lib x.so.1";
        let expected = LoadedPart { from: 0x7f10, to: 0x7f20, file: "/usr/lib/lib x.so.1".to_owned() };
        assert_eq!(part(line), Some(expected.clone()));
        for other in ["", "7f10-7f20 r-xp 0 0 0 [stack]", "7f10-7f20 rw-p 0 0 0 ", "x-y r 0 0 0 /a.so"] {
            assert_eq!(part(other), None, "{other}");
        }
        let files = LoadedFiles(vec![expected]);
        let file = |at: usize| files.file_of(std::ptr::without_provenance(at));
        assert_eq!(file(0x7f1f), Some("/usr/lib/lib x.so.1"));
        assert_eq!(file(0x7f20), None);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn the_c_library_is_loaded_and_no_part_of_vulkan() {
        let files = LoadedFiles::read();
        let libc = files.0.iter().find(|part| part.file.contains("libc.so"));
        let file = &libc.expect("it is loaded").file;
        assert_eq!(files.kind(file), None);
    }
}
