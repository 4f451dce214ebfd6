//! The file and offset of an address of code, `path+0x1234`, as addr2line and debuggers take it.
//!
//! ```text
//!   map list:   base ............ text ...        file:   ELF header, segment table: offset 0 is meant for address v
//!               offset 0          offset x
//!                                   ^ pc          pc - (base - v) is what the file's own tables call this instruction
//! ```

mod noted;

use crate::os::{self, Mapping};
pub(crate) use noted::{find, note};

/// The difference between an address in `text` and the file's own address, or its offset, if the file's beginning is
/// not mapped.
fn bias(text: &Mapping<'_>) -> usize {
    let by_offset = || text.start.wrapping_sub(text.offset as usize);
    text.base.and_then(|base| Some(base.wrapping_sub(first_address(base)?))).unwrap_or_else(by_offset)
}

/// The address that the ELF file at `base` was linked for.
fn first_address(base: usize) -> Option<usize> {
    const LOAD: u64 = 1;
    let word = os::read_u64;
    program_headers(base)?.find_map(|entry| {
        let offset = word(entry.wrapping_add(8))?;
        let meant = word(entry.wrapping_add(16))?;
        (word(entry)? & 0xffff_ffff == LOAD && offset == 0).then(|| usize::try_from(meant).ok())?
    })
}

fn program_headers(base: usize) -> Option<impl Iterator<Item = usize>> {
    const MAGIC: u64 = u64::from_le_bytes([0x7f, b'E', b'L', b'F', 2, 1, 0, 0]);
    // A mapping may disappear meanwhile.
    let word = os::read_u64;
    if word(base)? & 0xffff_ffff_ffff != MAGIC & 0xffff_ffff_ffff {
        return None;
    }
    let table = base.wrapping_add(usize::try_from(word(base.wrapping_add(32))?).ok()?);
    // e_phentsize, e_phnum: 16 bits each at 54 and 56.
    let sizes = word(base.wrapping_add(52))?;
    let (size, count) = ((sizes >> 16) as u16, (sizes >> 32) as u16);
    let entries = 0..usize::from(count).min(64);
    Some(entries.map(move |n| table.wrapping_add(n.wrapping_mul(usize::from(size)))))
}

const BUILD_ID: usize = 32;

/// The file that an address of code lies in, as mapped now.
///
/// ```
/// use debug_guard::Module;
///
/// let here = main as *const () as usize;
/// let mut name = [0; 4096];
/// # if cfg!(not(miri)) && cfg!(target_os = "linux") {
/// let module = Module::at(here, &mut name).ok_or("no file is mapped there")?;
/// assert!(module.addresses().contains(&here) && module.path().starts_with('/'));
/// # }
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'n> {
    path: &'n str,
    start: usize,
    end: usize,
    bias: usize,
    base: Option<usize>,
    build_id: [u8; BUILD_ID],
    build_id_len: usize,
}

impl<'n> Module<'n> {
    pub(super) const fn with_path<'p>(&self, path: &'p str) -> Module<'p> {
        Module { path, ..*self }
    }

    pub(super) const fn base(&self) -> Option<usize> {
        self.base
    }

    /// Looks `address` up in the list of mappings; `name` is room for the path, whose end is cut off if need be.
    /// `None` where nothing is mapped, or the system does not say. Allocates nothing. Takes a microsecond, before
    /// Linux 6.11 up to some hundred.
    #[must_use]
    pub fn at(address: usize, name: &'n mut [u8]) -> Option<Self> {
        let text = os::mapping_at(address, name)?;
        let (build_id, build_id_len) = build_id_of(&text);
        Some(Self {
            // Removed, or another file has its name now: the build id tells.
            path: text.name.strip_suffix(" (deleted)").unwrap_or(text.name),
            start: text.start,
            end: text.end,
            bias: bias(&text),
            base: text.base,
            build_id,
            build_id_len,
        })
    }

    /// The path is empty for memory that is no file's. The kernel's own code has a name in brackets.
    #[must_use]
    pub const fn path(&self) -> &'n str {
        self.path
    }

    /// The addresses of this part of the file.
    #[must_use]
    pub const fn addresses(&self) -> core::ops::Range<usize> {
        self.start..self.end
    }

    pub(crate) fn place(&self, address: usize) -> (&'n str, usize) {
        (self.path, address.wrapping_sub(self.bias))
    }

    /// The difference between an address and what the file's own tables call it.
    #[must_use]
    pub const fn bias(&self) -> usize {
        self.bias
    }

    /// The id that the linker gave the file, of 32 bytes at most; empty where it has none.
    #[must_use]
    pub fn build_id(&self) -> &[u8] {
        self.build_id.get(..self.build_id_len).unwrap_or_default()
    }
}

fn build_id_of(text: &Mapping<'_>) -> ([u8; BUILD_ID], usize) {
    let mut id = [0; BUILD_ID];
    let len = text.base.and_then(|base| copy_build_id(base, &mut id));
    (id, len.unwrap_or(0))
}

fn copy_build_id(base: usize, id: &mut [u8; BUILD_ID]) -> Option<usize> {
    let (at, length) = build_id(base)?;
    let length = length.min(BUILD_ID);
    for (place, to) in id.iter_mut().take(length).enumerate() {
        *to = os::read_u64(at.wrapping_add(place))? as u8;
    }
    Some(length)
}

/// The note with type 3 and the name `GNU`.
pub(super) fn build_id(base: usize) -> Option<(usize, usize)> {
    const NOTES: u64 = 4;
    const GNU: u64 = u32::from_le_bytes(*b"GNU\0") as u64;
    const BUILD_ID_NOTE: u64 = 3;
    let first = first_address(base)?;
    let half = |at: usize| Some(os::read_u64(at)? & 0xffff_ffff);
    program_headers(base)?.find_map(|entry| {
        if half(entry)? != NOTES {
            return None;
        }
        let address = usize::try_from(os::read_u64(entry.wrapping_add(16))?).ok()?;
        let mut at = base.wrapping_add(address.wrapping_sub(first));
        let length = usize::try_from(os::read_u64(entry.wrapping_add(40))?).ok()?;
        let end = at.wrapping_add(length.min(4096));
        while at.wrapping_add(12) <= end {
            let (name, bytes) = (half(at)? as usize, half(at.wrapping_add(4))? as usize);
            let content = at.wrapping_add(12).wrapping_add(name.next_multiple_of(4));
            let is_id = half(at.wrapping_add(8))? == BUILD_ID_NOTE;
            if is_id && name == 4 && half(at.wrapping_add(12))? == GNU {
                return Some((content, bytes));
            }
            at = content.wrapping_add(bytes.next_multiple_of(4));
        }
        None
    })
}
