use core::ffi::c_void;
use core::ptr::without_provenance;

use super::calls::{FILE_NAME, GetCurrentProcess, MEM_IMAGE, MEM_MAPPED, NtQueryVirtualMemory, WideText};
use super::memory::{information_at, keeping_error};
use super::read::read_u64;
use super::text;
use crate::os::Mapping;

/// A longer path is not known.
const PATH: usize = 1024;
/// The path behind it can be opened by a program.
const DOS: &str = r"\??\";
/// The path behind it, below the kernel's root, can be opened by a program.
const ROOT: &str = r"\\?\GLOBALROOT";

/// The name of the pages' file is written into `text`, cut if necessary. Acquires no lock: the list of modules has
/// one. A module is one mapping, though a page of its code that was written on loading is a region of its own.
pub(crate) fn mapping_at(address: usize, text: &mut [u8]) -> Option<Mapping<'_>> {
    let about = information_at(address)?;
    let is_file = matches!(about.kind, MEM_IMAGE | MEM_MAPPED);
    let module = (about.kind == MEM_IMAGE).then_some(about.allocation_base);
    // A program may have overwritten its header.
    let holds = |(base, bytes): &(usize, usize)| address.wrapping_sub(*base) < *bytes;
    let image = module.and_then(|base| Some((base, image_bytes(base)?)));
    let (start, bytes) = image.filter(holds).unwrap_or((about.base, about.bytes));
    Some(Mapping {
        start,
        end: start.wrapping_add(bytes),
        offset: start.wrapping_sub(about.allocation_base) as u64,
        base: module,
        name: if is_file { file_name(address, text) } else { "" },
    })
}

/// `SizeOfImage` of the file's header, which `e_lfanew` finds.
fn image_bytes(base: usize) -> Option<usize> {
    let half = |address: usize| Some((read_u64(address)? & 0xffff_ffff) as usize);
    let header = base.wrapping_add(half(base.wrapping_add(0x3c))?);
    half(header.wrapping_add(0x50))
}

fn file_name(address: usize, text: &mut [u8]) -> &str {
    let mut name = WideText::<PATH>::new();
    // SAFETY: asks for a constant that stands for this process.
    let process = unsafe { GetCurrentProcess() };
    let mut length = 0;
    // SAFETY: writes into `name`, of this size.
    let status = keeping_error(|| unsafe {
        NtQueryVirtualMemory(
            process,
            without_provenance::<c_void>(address),
            FILE_NAME,
            (&raw mut name).cast(),
            size_of::<WideText<PATH>>(),
            &raw mut length,
        )
    });
    if status < 0 {
        return "";
    }
    as_text(name.units(), text)
}

fn as_text<'t>(units: &[u16], text: &'t mut [u8]) -> &'t str {
    let is_dos = DOS.encode_utf16().eq(units.iter().take(DOS.len()).copied());
    let (before, skipped) = if is_dos { ("", DOS.len()) } else { (ROOT, 0) };
    let units = units.iter().skip(skipped).copied();
    text::write(before.chars().chain(text::characters(units)), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_kernel_become_paths_that_programs_open() {
        let told = |path: &str, room: usize| {
            let units: std::vec::Vec<u16> = path.encode_utf16().collect();
            let mut text = [0; 128];
            std::string::String::from(as_text(&units, &mut text[..room]))
        };
        assert_eq!(told(r"\??\Z:\a\b.exe", 128), r"Z:\a\b.exe");
        assert_eq!(told(r"\Device\HarddiskVolume3\b.dll", 128), r"\\?\GLOBALROOT\Device\HarddiskVolume3\b.dll");
        assert_eq!(told(r"\??\Z:\ü.exe", 128), r"Z:\ü.exe");
        assert_eq!(told(r"\??\Z:\ü.exe", 4), r"Z:\", "no half of a letter");
        assert_eq!(told("", 0), "");
    }

    #[test]
    fn code_lies_in_this_file_and_nothing_at_8() {
        let code = code_lies_in_this_file_and_nothing_at_8 as fn() as usize;
        let mut text = [0; 512];
        let mapping = mapping_at(code, &mut text).expect("code is mapped");
        assert!((mapping.start..mapping.end).contains(&code));
        assert!(mapping.name.contains("debug_guard") && mapping.name.ends_with(".exe"), "{mapping:?}");
        let base = mapping.base.expect("of a module");
        assert_eq!((mapping.start, mapping.offset), (base, 0));
        // Data is in the same module, and in another region of pages.
        static DATA: std::sync::Mutex<u64> = std::sync::Mutex::new(0);
        let data = core::ptr::from_ref(&DATA).addr();
        assert!((mapping.start..mapping.end).contains(&data), "{mapping:?}");
        assert_ne!(information_at(data).map(|about| about.base), information_at(code).map(|about| about.base));
        assert!(std::fs::metadata(mapping.name).is_ok(), "{mapping:?}");
        assert_eq!(mapping_at(8, &mut [0; 64]), None);
        let local = 0_u8;
        let mut text = [0; 64];
        let stack = mapping_at(core::ptr::from_ref(&local).addr(), &mut text);
        assert_eq!(stack.expect("it is mapped").name, "");
    }
}
