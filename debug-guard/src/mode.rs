#![forbid(unsafe_code)]

use core::fmt;

/// How a block is guarded.
///
/// | mode | a byte too far | used after its free | freed twice or wrongly | time and bytes of a block |
/// |-|-|-|-|-|
/// | [`Off`](Self::Off) | never | never | never | some ns; none, or 96 bytes where other modes serve the same guard |
/// | [`Sampled`](Self::Sampled) | as Strict, of the blocks chosen | as Strict, of those | of those | some ns, and for those chosen as Strict |
/// | [`Cookie`](Self::Cookie) | writes, at its free | writes, at the end of quarantine | at that free | some ten ns; 104 to 119 bytes |
/// | [`Fence`](Self::Fence) | at the instruction on the page's side | writes, at the end of quarantine | at that free | some 100 ns; a page |
/// | [`Strict`](Self::Strict) | at the instruction on the page's side | at the instruction | at that free | one to two µs; a page, and addresses |
///
/// The page's side is the one that [`Placement`] says. On the other side, and in the bytes that alignment leaves
/// between block and page, a write is found at the block's free and a read never. What of a fenced block lies above
/// its first page is stopped at the instruction after its free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mode {
    /// Forwarded to the allocator behind, and counted.
    Off,
    /// A few blocks of each call site are guarded as [`Strict`](Self::Strict) does; the others pass, and so does a free
    /// of an unknown pointer. Leaks are not listed. For production.
    #[doc(alias("GWP-ASan"))]
    Sampled,
    /// A keyed header in front and a tail directly behind the last byte; freed blocks are poisoned and quarantined.
    #[doc(alias("canary", "redzone"))]
    Cookie,
    /// A page of its own between two inaccessible ones; freed blocks are poisoned and quarantined.
    #[default]
    Fence,
    /// As [`Fence`](Self::Fence), and the page is inaccessible after the free.
    #[doc(alias("quarantine", "use after free"))]
    Strict,
}

/// The position of a fenced block in its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// Against the page behind, as far as alignment permits: an overflow is stopped at the instruction.
    #[default]
    Right,
    /// Against the page in front: an underflow is stopped at the instruction.
    Left,
    /// Right and left by turns: a repeated mistake is stopped on either side.
    Alternate,
}

/// How much is recorded of allocating and freeing calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stacks {
    /// Nothing.
    Off,
    /// The chain of frame pointers, which ends at the first function without one: some nanoseconds. Rust compiles
    /// them in only with `-C force-frame-pointers=yes`.
    Fast,
    /// The program's unwinder, which needs no frame pointers: some microseconds, a third of one a frame. Where its
    /// tables end, the chain of frame pointers continues. On x86-64 a stack of the thread's own that was unwound lately
    /// is known again: about as fast as [`Fast`](Self::Fast).
    #[default]
    Full,
}

/// The kernel feature that makes a guard's pages inaccessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BackEnd {
    /// userfaultfd with `UFFDIO_MOVE` (Linux 6.8): a freed page moves to its next place; no mapping a block.
    UserfaultfdMove,
    /// userfaultfd with `UFFDIO_COPY` (Linux 5.11 for users without privileges); no mapping a block.
    UserfaultfdCopy,
    /// `MADV_GUARD_INSTALL` (Linux 6.13); no mapping a block.
    GuardMarkers,
    /// `mprotect`: two mappings a block, so only as many as `vm.max_map_count` leaves.
    Mprotect,
    /// `VirtualAlloc` (Windows): a freed page's memory is decommitted. No count of mappings limits it.
    VirtualAlloc,
    /// None: blocks get cookies instead of pages.
    Cookies,
}

impl BackEnd {
    /// The name of the back end in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserfaultfdMove => "userfaultfd-move",
            Self::UserfaultfdCopy => "userfaultfd-copy",
            Self::GuardMarkers => "guard-markers",
            Self::Mprotect => "mprotect",
            Self::VirtualAlloc => "virtual-alloc",
            Self::Cookies => "cookies",
        }
    }
}

impl Mode {
    /// The name of the mode, as reports and command lines write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sampled => "sampled",
            Self::Cookie => "cookie",
            Self::Fence => "fence",
            Self::Strict => "strict",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for BackEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
