//! The system's description of a page, a mapping, a stopped access.

#![forbid(unsafe_code)]

/// The content of newly provided pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, all(target_os = "linux", not(miri)))),
    expect(dead_code, reason = "only Linux provides pages with a pattern")
)]
pub(crate) enum Content {
    /// The pattern, in every page.
    Pattern,
    /// Zeros; memory is taken page by page as they are touched.
    Zero,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It read.
    Read,
    /// It wrote.
    Write,
    /// It was a jump there.
    Execute,
}

impl Access {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }
}

/// An access that the processor stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    /// The accessed address, to the byte.
    pub(crate) address: usize,
    /// `None` if the processor does not say it.
    pub(crate) access: Option<Access>,
    /// The instruction.
    pub(crate) pc: usize,
    /// The frame pointer and the stack pointer at the instruction.
    pub(crate) frame: usize,
    pub(crate) stack: usize,
}

/// The result of handling a [`Trap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Not the guard's: the former handler runs.
    No,
    /// The page is accessible now: the instruction is run again.
    Resume,
}

/// A line of the process's map list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) start: usize,
    /// The first address behind it.
    pub(crate) end: usize,
    /// The offset of its first byte in the file.
    pub(crate) offset: u64,
    /// The address of the file's first byte, if that is mapped and not above.
    pub(crate) base: Option<usize>,
    /// The file, or what the kernel calls it (`[stack]`); empty for anonymous memory.
    pub(crate) name: &'a str,
}
