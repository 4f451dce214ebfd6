//! The process's own map list.

use super::memory::File;
use crate::os::Mapping;

const LIST: &core::ffi::CStr = c"/proc/self/maps";

/// How many mappings the process has now; 0 where the list cannot be read.
pub(crate) fn count_mappings() -> usize {
    let Some(file) = File::open(LIST) else { return 0 };
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

/// The mapping that holds `address`, its name written into `text` (cut where that is short). Async-signal-safe.
pub(crate) fn mapping_at(address: usize, text: &mut [u8]) -> Option<Mapping<'_>> {
    let file = File::open(LIST)?;
    let mut chunk = [0_u8; 1024];
    let mut line = Line::default();
    let mut named = 0;
    loop {
        let read = file.read(&mut chunk);
        if read == 0 {
            return None;
        }
        for &byte in chunk.iter().take(read) {
            if byte == b'\n' {
                if line.start <= address && address < line.end {
                    let name = text.get(..named).unwrap_or_default();
                    let name = match core::str::from_utf8(name) {
                        Ok(name) => name,
                        Err(error) => {
                            core::str::from_utf8(name.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
                        }
                    };
                    return Some(Mapping { start: line.start, end: line.end, offset: line.offset, name });
                }
                line = Line::default();
                named = 0;
            } else if line.takes(byte)
                && let Some(place) = text.get_mut(named)
            {
                *place = byte;
                named += 1;
            }
        }
    }
}

/// `start-end flags offset device inode     name`, byte by byte.
#[derive(Default)]
struct Line {
    start: usize,
    end: usize,
    offset: u64,
    field: u8,
    /// Between two fields.
    blank: bool,
}

impl Line {
    /// True when `byte` belongs to the name.
    fn takes(&mut self, byte: u8) -> bool {
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
            6 => return true,
            _ => {}
        }
        false
    }
}
