//! The file and offset of an address of code: `path+0x1234`, as addr2line and debuggers take it.
//!
//! ```text
//!   map list:   base ............ text ...        file:   ELF header, segment table: offset 0 is meant for address v
//!               offset 0          offset x
//!                                   ^ pc          pc - (base - v) is what the file's own tables call this instruction
//! ```

use core::fmt;

use crate::os::{self, Mapping};

/// Maximum number of modules that a report names.
const MAX_MODULES: usize = 12;
/// Maximum bytes of a module's path; the end of a longer one is kept.
const PATH: usize = 160;

/// The modules of the frames of a report.
#[derive(Debug)]
pub(crate) struct Modules {
    list: [Module; MAX_MODULES],
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Module {
    start: usize,
    end: usize,
    /// The difference between an address and the file's own.
    bias: usize,
    path: [u8; PATH],
    path_len: usize,
}

impl Modules {
    pub(crate) const NONE: Self = Self {
        list: [Module {
            start: 0,
            end: 0,
            bias: 0,
            path: [0; PATH],
            path_len: 0,
        }; MAX_MODULES],
        len: 0,
    };

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == self.list.len()
    }

    /// Path and offset of an address whose module was [noted](Self::note).
    pub(crate) fn find(&self, pc: usize) -> Option<(&str, usize)> {
        let module = self.of(pc)?;
        let path = module.path.get(..module.path_len)?;
        Some((str::from_utf8(path).ok()?, pc.wrapping_sub(module.bias)))
    }

    fn of(&self, pc: usize) -> Option<&Module> {
        self.list
            .iter()
            .take(self.len)
            .find(|module| (module.start..module.end).contains(&pc))
    }

    /// Looks up the modules of all `frames`.
    pub(super) fn note_all(&mut self, frames: &[usize]) {
        frames.iter().for_each(|pc| self.note(*pc));
    }

    /// Looks up the module of `pc`, unless it is known or the list is full.
    pub(crate) fn note(&mut self, pc: usize) {
        if self.of(pc).is_some() {
            return;
        }
        let Some(place) = self.list.get_mut(self.len) else {
            return;
        };
        let mut name = [0; 256];
        let Some(text) = os::mapping_at(pc, &mut name) else {
            return;
        };
        let (kept, len) = tail(text.name);
        *place = Module {
            start: text.start,
            end: text.end,
            bias: bias(&text),
            path: kept,
            path_len: len,
        };
        self.len = self.len.saturating_add(1);
    }
}

/// The end of a path, [`PATH`] bytes at most.
fn tail(path: &str) -> ([u8; PATH], usize) {
    let mut from = path.len().saturating_sub(PATH);
    while !path.is_char_boundary(from) {
        from = from.saturating_add(1);
    }
    let mut kept = [0; PATH];
    let bytes = path.as_bytes().get(from..).unwrap_or_default();
    for (to, byte) in kept.iter_mut().zip(bytes) {
        *to = *byte;
    }
    (kept, bytes.len().min(PATH))
}

/// The difference between an address in `text` and the file's own address. If the beginning of the file is not mapped, the difference to
/// the offset in the file.
pub(crate) fn bias(text: &Mapping<'_>) -> usize {
    let by_offset = || text.start.wrapping_sub(text.offset as usize);
    text.base
        .and_then(|base| Some(base.wrapping_sub(first_address(base)?)))
        .unwrap_or_else(by_offset)
}

/// The intended base of the ELF file at `base`: the address of its segment with offset 0.
fn first_address(base: usize) -> Option<usize> {
    /// Sizes and places of a 64-bit file.
    const MAGIC: u64 = u64::from_le_bytes([0x7f, b'E', b'L', b'F', 2, 1, 0, 0]);
    const LOAD: u64 = 1;
    // A mapping may have gone meanwhile.
    let word = os::read_u64;
    if word(base)? & 0xffff_ffff_ffff != MAGIC & 0xffff_ffff_ffff {
        return None;
    }
    let table = base.wrapping_add(usize::try_from(word(base.wrapping_add(32))?).ok()?);
    // e_phentsize, e_phnum: 16 bits each at 54 and 56.
    let sizes = word(base.wrapping_add(52))?;
    let (size, count) = ((sizes >> 16) as u16, (sizes >> 32) as u16);
    (0..usize::from(count).min(64)).find_map(|n| {
        let entry = table.wrapping_add(n.wrapping_mul(usize::from(size)));
        let offset = word(entry.wrapping_add(8))?;
        let meant = word(entry.wrapping_add(16))?;
        (word(entry)? & 0xffff_ffff == LOAD && offset == 0).then(|| usize::try_from(meant).ok())?
    })
}

/// A frame as the text of reports has it.
pub(super) struct ModuleFrame<'a>(pub(super) &'a Modules, pub(super) usize);

impl fmt::Display for ModuleFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.find(self.1) {
            Some((path, offset)) if !path.is_empty() => {
                write!(f, "{:#x} {path}+{offset:#x}", self.1)
            }
            _ => write!(f, "{:#x}", self.1),
        }
    }
}
