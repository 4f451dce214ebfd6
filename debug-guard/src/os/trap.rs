#![forbid(unsafe_code)]

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, all(target_os = "linux", not(miri)))),
    expect(dead_code, reason = "only Linux provides pages with a pattern")
)]
pub(crate) enum Content {
    Pattern,
    /// Memory is allocated page by page as they are touched.
    Zero,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The access read.
    Read,
    /// The access wrote.
    Write,
    /// The access was a jump.
    Execute,
}

impl Access {
    /// The access's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    /// The address is exact to the byte.
    pub(crate) address: usize,
    pub(crate) access: Option<Access>,
    pub(crate) pc: usize,
    pub(crate) frame: usize,
    pub(crate) stack: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Not the guard's: the former handler runs.
    No,
    /// The page is accessible now: the instruction is run again.
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) offset: u64,
    /// The address of the file's first byte, if that is mapped and not above.
    pub(crate) base: Option<usize>,
    /// What the kernel calls it (`[stack]`) where it is no file; empty for anonymous memory.
    pub(crate) name: &'a str,
}
