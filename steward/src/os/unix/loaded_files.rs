//! The shared libraries of this process. Linux only: elsewhere the list is empty.

use std::ffi::{CStr, c_void};
use std::fs;

use libloading::os::unix::{Library, RTLD_LAZY};

use crate::os::loaded_files::LoadedPart;

pub(crate) fn parts() -> Vec<LoadedPart> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(part).collect()
}

/// A function of the file's library, or of one that it needs.
pub(crate) fn symbol(part: &LoadedPart, name: &CStr) -> Option<*const c_void> {
    // SAFETY: a library that is already loaded is not initialised again, and no other one is loaded.
    let library = unsafe { Library::open(Some(&part.file), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?;
    // SAFETY: only the address is used.
    let symbol = unsafe { library.get::<*const c_void>(name) };
    Some(symbol.ok()?.into_raw())
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
        assert_eq!(part(line), Some(expected));
        for other in ["", "7f10-7f20 r-xp 0 0 0 [stack]", "7f10-7f20 rw-p 0 0 0 ", "x-y r 0 0 0 /a.so"] {
            assert_eq!(part(other), None, "{other}");
        }
    }
}
