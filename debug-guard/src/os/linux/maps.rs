//! The process's own map list.

use super::memory::File;
use crate::os::Mapping;

const LIST: &core::ffi::CStr = c"/proc/self/maps";

/// The number of mappings of the process; 0 if the list cannot be read.
pub(super) fn count_mappings() -> usize {
    let Some(file) = File::open(LIST) else {
        return 0;
    };
    let mut chunk = [0_u8; 4096];
    let mut lines = 0;
    loop {
        let read = file.read(&mut chunk);
        if read == 0 {
            return lines;
        }
        lines += chunk
            .iter()
            .take(read)
            .filter(|&&byte| byte == b'\n')
            .count();
    }
}

/// The mapping that holds `address`; its name is written into `text`, cut if necessary. Async-signal-safe.
pub(crate) fn mapping_at(address: usize, text: &mut [u8]) -> Option<Mapping<'_>> {
    let file = File::open(LIST)?;
    let (line, named) = match procmap_query::query(&file, address, text) {
        Some(answer) => answer?,
        None => search(&file, address, text)?,
    };
    let name = text.get(..named).unwrap_or_default();
    let name = match core::str::from_utf8(name) {
        Ok(name) => name,
        Err(error) => core::str::from_utf8(name.get(..error.valid_up_to()).unwrap_or_default())
            .unwrap_or_default(),
    };
    Some(Mapping {
        start: line.start,
        end: line.end,
        offset: line.offset,
        base: line.base,
        name,
    })
}

/// Reads the list from its beginning. Returns the line, and the length of the name in `text`.
fn search(file: &File, address: usize, text: &mut [u8]) -> Option<(MapLine, usize)> {
    let mut chunk = [0_u8; 1024];
    let mut line = MapLine::default();
    // The last line with offset 0: where the file of the lines after it begins.
    let mut first = MapLine::default();
    let mut named = 0;
    loop {
        let read = file.read(&mut chunk);
        if read == 0 {
            return None;
        }
        for &byte in chunk.iter().take(read) {
            if byte == b'\n' {
                if line.offset == 0 {
                    first = line;
                }
                if line.start <= address && address < line.end {
                    line.base = line.same_file(&first).then_some(first.start);
                    return Some((line, named));
                }
                line = MapLine::default();
                named = 0;
            } else if line.consumes(byte)
                && let Some(place) = text.get_mut(named)
            {
                *place = byte;
                named += 1;
            }
        }
    }
}

/// `start-end flags offset device inode     name`, byte by byte.
#[derive(Clone, Copy, Default)]
struct MapLine {
    start: usize,
    end: usize,
    offset: u64,
    /// Of the file; 0 without one.
    device: u64,
    inode: u64,
    /// Where offset 0 of the file is mapped, if that is not above.
    base: Option<usize>,
    field: u8,
    /// Between two fields.
    blank: bool,
}

impl MapLine {
    /// True when `byte` belongs to the name.
    fn consumes(&mut self, byte: u8) -> bool {
        if self.field >= 6 {
            return true;
        }
        if byte == b' ' || (byte == b'-' && self.field == 0) {
            self.blank = true;
            return false;
        }
        if core::mem::take(&mut self.blank) {
            self.field += 1;
        }
        let digit = u64::from(char::from(byte).to_digit(16).unwrap_or(0));
        match self.field {
            0 => self.start = (self.start << 4) | digit as usize,
            1 => self.end = (self.end << 4) | digit as usize,
            3 => self.offset = (self.offset << 4) | digit,
            4 => self.device = (self.device << 4) | digit,
            // Only compared, so that its digits are tens does not matter.
            5 => self.inode = (self.inode << 4) | digit,
            6 => return true,
            _ => {}
        }
        false
    }

    const fn same_file(&self, other: &Self) -> bool {
        self.inode != 0 && self.inode == other.inode && self.device == other.device
    }
}

/// Linux 6.11: queries one mapping, so that a process with thousands need not list them all.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod procmap_query {
    use super::{File, MapLine};
    use crate::os::linux::memory;

    /// `struct procmap_query` of linux/fs.h.
    #[repr(C)]
    #[derive(Default)]
    struct Query {
        size: u64,
        flags: u64,
        address: u64,
        start: u64,
        end: u64,
        access: u64,
        page_size: u64,
        offset: u64,
        inode: u64,
        major: u32,
        minor: u32,
        name_size: u32,
        build_id_size: u32,
        name: u64,
        build_id: u64,
    }

    const SIZE: usize = size_of::<Query>();
    const _: () = assert!(SIZE == 104);
    /// `_IOWR('f', 17, struct procmap_query)`
    const PROCMAP_QUERY: u64 = (3 << 30) | ((SIZE as u64) << 16) | ((b'f' as u64) << 8) | 17;

    /// Maximum mappings of the file that are queried below the requested one.
    const MAX_BELOW: usize = 8;

    /// `None` if the kernel has no such query, or the name has too little room.
    pub(super) fn query(
        file: &File,
        address: usize,
        text: &mut [u8],
    ) -> Option<Option<(MapLine, usize)>> {
        let (mut line, named) = match one(file, address, text) {
            Ok(found) => found,
            Err(libc::ENOENT) => return Some(None),
            Err(_) => return None,
        };
        let mut lowest = line;
        for _ in 0..MAX_BELOW {
            if lowest.offset == 0 {
                line.base = line.same_file(&lowest).then_some(lowest.start);
                break;
            }
            match one(file, lowest.start.wrapping_sub(1), &mut []) {
                Ok((below, _)) if below.same_file(&line) => lowest = below,
                _ => break,
            }
        }
        Some(Some((line, named)))
    }

    fn one(file: &File, address: usize, text: &mut [u8]) -> Result<(MapLine, usize), i32> {
        let mut query = Query {
            size: SIZE as u64,
            address: address as u64,
            name_size: u32::try_from(text.len()).unwrap_or(u32::MAX),
            name: if text.is_empty() {
                0
            } else {
                text.as_mut_ptr().expose_provenance() as u64
            },
            ..Query::default()
        };
        let errno = memory::errno();
        // SAFETY: reads and writes the query, and writes the name, of which it was told the size.
        let answer = unsafe { libc::ioctl(file.descriptor(), PROCMAP_QUERY as _, &raw mut query) };
        if answer != 0 {
            let refused = memory::errno();
            memory::set_errno(errno);
            return Err(refused);
        }
        let line = MapLine {
            start: query.start as usize,
            end: query.end as usize,
            offset: query.offset,
            device: (u64::from(query.major) << 32) | u64::from(query.minor),
            inode: query.inode,
            ..MapLine::default()
        };
        // Its size counts the zero at the end.
        let named = if text.is_empty() {
            0
        } else {
            (query.name_size as usize).saturating_sub(1)
        };
        Ok((line, named))
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod procmap_query {
    use super::{File, MapLine};

    pub(super) fn query(_: &File, _: usize, _: &mut [u8]) -> Option<Option<(MapLine, usize)>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is mapped at some addresses of this process, by asking and by reading the list.
    #[test]
    fn both_ways_of_looking_say_the_same() {
        let local = 0_u8;
        let code = both_ways_of_looking_say_the_same as fn() as usize;
        let mut compared = 0;
        for address in [
            code,
            core::ptr::from_ref(&local).addr(),
            core::ptr::from_ref(&LIST).addr(),
            8,
            libc::abort as *const () as usize,
        ] {
            let (mut asked, mut read) = ([0; 256], [0; 256]);
            let file = File::open(LIST).expect("a process can read its own list");
            let listed = search(&file, address, &mut read);
            match procmap_query::query(&file, address, &mut asked) {
                None => testkit::skip(
                    "map-query",
                    "both_ways_of_looking_say_the_same",
                    "this kernel cannot be asked for one mapping",
                ),
                Some(None) => assert!(listed.is_none(), "{address:#x}"),
                Some(Some((line, named))) => {
                    let (listed, other) = listed.expect("found by asking");
                    assert_eq!(asked.get(..named), read.get(..other), "{address:#x}");
                    let facts = |line: &MapLine| (line.start, line.end, line.offset, line.base);
                    assert_eq!(facts(&line), facts(&listed), "{address:#x}");
                    compared += 1;
                }
            }
            let mut text = [0; 256];
            let found = mapping_at(address, &mut text);
            assert_eq!(found.is_some(), address != 8);
        }
        assert!(compared == 0 || compared == 4);
        let mut text = [0; 256];
        let mapping = mapping_at(code, &mut text).expect("code is mapped");
        assert!(
            mapping.name.contains("debug_guard")
                && mapping.base.is_some_and(|base| base <= mapping.start),
            "{mapping:?}"
        );
    }
}
