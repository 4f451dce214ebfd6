#![forbid(unsafe_code)]

use core::fmt;

use crate::mode::{BackEnd, Mode};
use crate::os::OsRefusal;

/// Why options were refused, or no guard could be created. Rules count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardError {
    /// More rules than there is room for.
    TooManyRules {
        /// The number of rules.
        handed_over: usize,
    },
    /// An earlier rule matches all that this one does.
    RuleNeverMatches {
        /// The rule.
        rule: usize,
        /// The earlier rule.
        covered_by: usize,
    },
    /// The smallest size of the rule is above its largest.
    EmptySizeWindow {
        /// The rule.
        rule: usize,
    },
    /// A rule for a context without a name.
    EmptyName {
        /// The rule.
        rule: usize,
    },
    /// Leaks are to be listed without stacks.
    ListWithoutStacks,
    /// Leaks are to be listed, and no mode records blocks.
    ListOfPlainBlocks,
    /// The requested back end is not offered here.
    NotOffered {
        /// The back end.
        back_end: BackEnd,
        /// The system's reason.
        refusal: OsRefusal,
    },
    /// The requested back end cannot do the mode.
    BackEndCannot {
        /// The back end.
        back_end: BackEnd,
        /// The mode.
        mode: Mode,
    },
    /// A back end is requested, and no mode of the guard needs one.
    BackEndUnused {
        /// The back end.
        back_end: BackEnd,
    },
    /// [`Mode::Sampled`] without a block to fence.
    SamplesNothing,
    /// Fewer pages than one block needs, or fewer bytes than a page.
    NoPages,
    /// The descriptor for reports is negative.
    NoDescriptor,
    /// A list at exit is requested, and only Linux and Windows have it.
    NoExitHere,
    /// A descriptor other than the standard error, which only Linux has.
    OneDescriptorHere,
    /// [`OnReport::Panic`](crate::OnReport::Panic) in a global allocator.
    PanicInGlobal,
    /// The allocator behind a global guard allocated from the guard while that was set up.
    CalledBack,
    /// As many guards live as can.
    TooManyGuards,
    /// The allocator behind refused the guard's own memory.
    NoHostMemory {
        /// The size of the request.
        bytes: usize,
    },
}

/// A guard was not closed: blocks of it are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardInUse {
    /// The number of blocks.
    pub live_blocks: u64,
}

impl core::error::Error for GuardError {}

impl core::error::Error for GuardInUse {}

impl fmt::Display for GuardInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks are live: free them, `Guard::live` tells which, and close again", self.live_blocks)
    }
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooManyRules { handed_over: given } => {
                write!(f, "{given} rules, and a guard has room for {}: join some", super::options::MAX_RULES)
            }
            Self::RuleNeverMatches { rule, covered_by } => {
                write!(f, "rule {rule} never matches, since rule {covered_by} takes all of its blocks: put it first")
            }
            Self::EmptySizeWindow { rule } => write!(f, "rule {rule} takes no size: its smallest is above its largest"),
            Self::EmptyName { rule } => write!(f, "rule {rule} asks for a context without a name: give it one, or `*` for all"),
            Self::ListWithoutStacks => {
                f.write_str("leaks are told by call site and stacks are off: turn on `Stacks::Fast` or `Stacks::Full`")
            }
            Self::ListOfPlainBlocks => f.write_str(
                "leaks are told of blocks that are written down, and Off and Sampled alone write nothing down: use `Mode::Cookie`",
            ),
            Self::NotOffered { back_end, refusal } => {
                write!(f, "the back end {back_end} is not offered here, leave the choice open: {refusal}")
            }
            Self::BackEndCannot { back_end, mode } => {
                write!(f, "the back end {back_end} cannot do the mode {mode}: leave the choice open, or take another mode")
            }
            Self::BackEndUnused { back_end } => {
                write!(f, "no mode of the guard needs the back end {back_end}: leave it out, or use mode fence, strict or sampled")
            }
            Self::SamplesNothing => f.write_str("sampling one in 0, or with 0 slots, fences nothing: use `Mode::Off`"),
            Self::NoPages => f.write_str("a fenced block needs 3 pages of addresses and one of memory: allow more"),
            Self::NoDescriptor => f.write_str("a descriptor is 0 or above: leave `report_to` out for the standard error"),
            Self::NoExitHere => f.write_str("leaks are listed at exit on Linux and Windows only: leave `exit_leaks` out and ask `Guard::leaks` at the end"),
            Self::OneDescriptorHere => {
                f.write_str("reports go to other descriptors on Linux only: leave `report_to` out, or use `OnReport::Call`")
            }
            Self::CalledBack => {
                f.write_str("the allocator behind asked for memory of the program while the guard was set up: it must do without")
            }
            Self::PanicInGlobal => {
                f.write_str("a global allocator must not unwind: use `OnReport::Abort`, `Log` or `Call` instead of `Panic`")
            }
            Self::TooManyGuards => f.write_str("as many guards live as can: close one"),
            Self::NoHostMemory { bytes } => {
                write!(f, "the allocator behind refused {bytes} bytes that the guard needs for itself: give it more, or fewer modes")
            }
        }
    }
}
