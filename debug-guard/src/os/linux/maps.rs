use super::memory::File;
use crate::os::Mapping;

const LIST: &core::ffi::CStr = c"/proc/self/maps";

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
        lines += chunk.iter().take(read).filter(|&&byte| byte == b'\n').count();
    }
}

/// The mapping's name is written into `text`, cut if necessary. Async-signal-safe.
pub(crate) fn mapping_at(address: usize, text: &mut [u8]) -> Option<Mapping<'_>> {
    let file = File::open(LIST)?;
    let (line, named) = search(&file, address, text)?;
    let name = text.get(..named).unwrap_or_default();
    let name = match core::str::from_utf8(name) {
        Ok(name) => name,
        Err(error) => core::str::from_utf8(name.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default(),
    };
    Some(Mapping { start: line.start, end: line.end, offset: line.offset, base: line.base, name })
}

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

/// `start-end flags offset device inode name`, byte by byte.
#[derive(Clone, Copy, Default)]
struct MapLine {
    start: usize,
    end: usize,
    offset: u64,
    /// 0 without a file.
    device: u64,
    inode: u64,
    /// Where offset 0 of the file is mapped, if that is not above.
    base: Option<usize>,
    field: u8,
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
            // The inode is only compared, so that its digits are decimal does not matter.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_lies_in_this_file_and_nothing_at_8() {
        let code = code_lies_in_this_file_and_nothing_at_8 as fn() as usize;
        let local = 0_u8;
        for address in [
            code,
            core::ptr::from_ref(&local).addr(),
            core::ptr::from_ref(&LIST).addr(),
            8,
            libc::abort as *const () as usize,
        ] {
            let mut text = [0; 256];
            let found = mapping_at(address, &mut text);
            assert_eq!(found.is_some(), address != 8);
            assert!(found.is_none_or(|found| (found.start..found.end).contains(&address)));
        }
        let mut text = [0; 256];
        let mapping = mapping_at(code, &mut text).expect("code is mapped");
        assert!(
            mapping.name.contains("debug_guard") && mapping.base.is_some_and(|base| base <= mapping.start),
            "{mapping:?}"
        );
    }
}
