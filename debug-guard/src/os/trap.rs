//! The system's description of a page, a mapping, a stopped access.

#![forbid(unsafe_code)]

/// What is in pages that were just provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The pattern that was handed in, in every page.
    #[cfg_attr(
        not(any(test, all(target_os = "linux", not(miri)))),
        expect(dead_code, reason = "nothing provides pages there")
    )]
    Pattern,
    /// Zeros; memory is taken page by page as they are touched.
    Zero,
}

/// What an access did.
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
    /// As reports write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }
}

/// An access that the processor refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    /// What was to be touched, to the byte.
    pub(crate) address: usize,
    /// Where the processor says it.
    pub(crate) access: Option<Access>,
    /// The instruction.
    pub(crate) pc: usize,
    /// The frame pointer and the stack pointer at the instruction.
    pub(crate) frame: usize,
    pub(crate) stack: usize,
}

/// What became of a [`Trap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Not ours: the former handler runs.
    No,
    /// The access can be made now: the instruction is run again.
    Resume,
}

/// A line of the process's map list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) start: usize,
    /// The first address behind it.
    pub(crate) end: usize,
    /// Of its first byte in the file.
    pub(crate) offset: u64,
    /// Where the file's first byte is mapped, if it is, and not above.
    pub(crate) base: Option<usize>,
    /// The file, or what the kernel calls it (`[stack]`); empty for anonymous memory.
    pub(crate) name: &'a str,
}
