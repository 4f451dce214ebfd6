#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::Scope;

use super::block_info::{Actor, BlockInfo, Stack};
use super::registry::ReportingGuard;
use crate::block::{BlockState, GuardFinding, Known};
use crate::call_sites::RequesterInfo;
use crate::changed::Changed;
use crate::mode::{BackEnd, Mode};
use crate::os;
use crate::os::Access;
use crate::report_kind::ReportKind;

/// What went wrong, and all that is known of it.
///
/// `Display` writes it for people, in lines; [`write_json`](Self::write_json) in one line for programs. Neither
/// allocates: both may be used in [`OnReport::Call`](crate::OnReport::Call), also in a signal handler.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Report<'a> {
    /// The mistake.
    pub kind: ReportKind,
    /// When a finding was made.
    pub detected_at: DetectedAt,
    /// What the stopped instruction did; `None` for other findings, and if the processor does not say.
    pub access: Option<Access>,
    /// The address that was accessed, found changed, or freed. Behind a C bridge: as the C caller knows it.
    pub address: usize,
    /// The position of that address relative to the block.
    pub place: Option<AddressPosition>,
    /// The block it is about.
    pub block: Option<BlockInfo<'a>>,
    /// Another block nearby, if it is not certain which one was meant.
    pub neighbour: Option<BlockInfo<'a>>,
    /// Bytes from the address to the neighbour's nearest byte.
    pub neighbour_distance: Option<usize>,
    /// The call that accessed, freed or queried the block; for a late finding, the call that found it. Its serial is 0.
    pub by: Actor<'a>,
    /// How the block was freed, if this free is reported.
    pub free_args: Option<FreeArgs>,
    /// Bytes that are not as the guard wrote them.
    pub changed: Option<Changed>,
    /// The guard that owns the block, if another one was to free it.
    pub right_guard: Option<&'static str>,
    /// The reporting guard.
    pub guard: &'static str,
    /// The back end of the block's pages; without a block, the guard's.
    pub back_end: BackEnd,
    /// How the block was guarded.
    pub mode: Option<Mode>,
    /// The process's number.
    pub process: u32,
    /// The mapping of a pointer that is no block's, as the system's map list calls it (`[stack]`, a file); "" without a
    /// name. `the guard's own pages` are those that the guard keeps for its blocks; `block` then says whose page it is.
    pub mapping: &'a str,
    clock: u64,
}

impl<'a> Report<'a> {
    /// `home` is the guard that owns the block, if that guard lives.
    pub(super) fn new(
        guard: &'a dyn ReportingGuard,
        home: Option<&'a dyn ReportingGuard>,
        case: &'a ReportContext<'a>,
        mapping: &'a str,
    ) -> Self {
        let (finding, requester) = (&case.finding, case.requester);
        let command = requester.map_or_else(|| guard.command(), |requester| requester.command.copied());
        let by = Actor {
            thread: os::thread_id(),
            serial: 0,
            context: requester.and_then(|requester| requester.context),
            owner: requester.map_or("", |requester| requester.name),
            label: requester.and_then(|requester| requester.label),
            command: command.map(|command| command.name),
            command_serial: command.map(|command| command.serial),
            front: requester.map_or(0, |requester| requester.front as usize),
            stack: case.stack,
        };
        let site = |id| home?.site(id);
        let block = finding.block.map(|known| BlockInfo::new(as_it_came(known, case), site));
        let kind = match block {
            // Behind a bridge a block of no bytes is its header alone.
            Some(block) if finding.kind == ReportKind::Overflow && block.front > 0 && block.size == 0 => {
                ReportKind::ZeroSizeAccess
            }
            _ => finding.kind,
        };
        let front = block.map_or(by.front, |block| block.front);
        let address = if case.as_called || !kind.is_about_a_pointer() {
            finding.address
        } else {
            finding.address.wrapping_add(front)
        };
        let neighbour = case
            .other
            .map(|known| BlockInfo::new(known, site))
            .filter(|other| may_be_meant(distance(other, finding.address), case));
        Self {
            kind,
            detected_at: case.detected_at,
            access: case.access,
            address,
            place: block.map(|block| block.place_of(address)),
            block,
            neighbour,
            neighbour_distance: neighbour.map(|block| distance(&block, address)),
            by,
            free_args: case
                .free_args
                .map(|back| FreeArgs { size: back.size.saturating_sub(block.map_or(0, |block| block.front)), ..back }),
            changed: finding.changed,
            right_guard: finding.owner.and(home).map(ReportingGuard::name),
            guard: guard.name(),
            back_end: finding.block.map_or_else(|| guard.back_end(), |known| known.back_end),
            mode: block.map(|block| block.mode),
            process: os::process_id(),
            mapping,
            clock: guard.clock(),
        }
    }

    /// The age of an event, in allocations of the process's guards, approximately.
    #[must_use]
    pub const fn age(&self, event: &Actor<'_>) -> u64 {
        self.clock.saturating_sub(event.serial)
    }

    pub(super) fn stacks(&self) -> impl Iterator<Item = (&'static str, Stack<'a>)> + use<'a> {
        let is_pointer = self.kind.is_about_a_pointer();
        let here = match self.detected_at {
            DetectedAt::Instruction => "the access",
            DetectedAt::Free if is_pointer => "this free",
            DetectedAt::Reallocation if is_pointer => "this realloc",
            DetectedAt::Query => "this query",
            _ => "where it was found",
        };
        let (block, neighbour) = (self.block, self.neighbour);
        let freed = block.and_then(|block| block.freed);
        [
            Some((here, self.by)),
            block.map(|block| ("the allocation", block.allocated)),
            freed.map(|freed| ("the free", freed)),
            neighbour.map(|block| ("the allocation of the block nearby", block.allocated)),
        ]
        .into_iter()
        .flatten()
        .map(|(event, actor)| (event, actor.stack))
        .filter(|(_, stack)| !stack.frames.is_empty())
    }
}

const NEARBY: usize = 16 << 10;

/// A block of the report that is much nearer was meant.
fn may_be_meant(away: usize, case: &ReportContext<'_>) -> bool {
    const MIN_SHOWN_DISTANCE: usize = 64;
    let nearer =
        |known: Known| away / MIN_SHOWN_DISTANCE > distance(&BlockInfo::new(known, |_| None), case.finding.address);
    away <= NEARBY && !case.finding.block.is_some_and(nearer)
}

fn distance(block: &BlockInfo<'_>, address: usize) -> usize {
    match block.place_of(address) {
        AddressPosition::Before(bytes) => bytes,
        AddressPosition::Inside(_) => 0,
        AddressPosition::Past(bytes) => bytes.saturating_add(1),
    }
}

/// A block that is being freed is reported as live, however far its free is.
fn as_it_came(known: Known, case: &ReportContext<'_>) -> Known {
    let comes = matches!(case.detected_at, DetectedAt::Free | DetectedAt::Reallocation);
    let was_gone = matches!(case.finding.kind, ReportKind::UseAfterFree | ReportKind::DoubleFree);
    Known { state: if comes && !was_gone { BlockState::Live } else { known.state }, ..known }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("kind", &self.kind)
            .field("detected_at", &self.detected_at)
            .field("access", &self.access)
            .field("address", &format_args!("{:#x}", self.address))
            .field("block", &self.block)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

/// Only the first two fields are always set.
#[derive(Clone, Copy)]
pub(crate) struct ReportContext<'a> {
    pub(crate) finding: GuardFinding,
    pub(crate) detected_at: DetectedAt,
    pub(crate) access: Option<Access>,
    pub(crate) other: Option<Known>,
    pub(crate) free_args: Option<FreeArgs>,
    pub(crate) requester: Option<RequesterInfo<'a>>,
    pub(crate) stack: Stack<'a>,
    /// False if the bridge has subtracted its header.
    pub(crate) as_called: bool,
}

/// The arguments of a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreeArgs {
    /// In bytes.
    pub size: usize,
    /// In bytes.
    pub align: usize,
    /// `None` if the free names no scope.
    pub scope: Option<Scope>,
}

impl ReportContext<'_> {
    pub(crate) const fn new(finding: GuardFinding, detected_at: DetectedAt) -> Self {
        Self {
            finding,
            detected_at,
            access: None,
            other: None,
            free_args: None,
            requester: None,
            stack: Stack { frames: &[], whole: false, modules: 0 },
            as_called: false,
        }
    }
}

/// When a finding was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DetectedAt {
    /// At the access, stopped by an inaccessible page.
    Instruction,
    /// At the block's free.
    Free,
    /// At the block's reallocation.
    Reallocation,
    /// When the block left quarantine.
    Eviction,
    /// When it was queried: [`usable_size`](crate::GuardState::usable_size).
    Query,
    /// When all blocks were verified, on request or periodically: [`check_all`](crate::GuardState::check_all).
    Check,
    /// When the guard was closed, or the process ended.
    Exit,
}

impl DetectedAt {
    /// The moment's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Free => "free",
            Self::Reallocation => "reallocation",
            Self::Eviction => "eviction",
            Self::Query => "query",
            Self::Check => "check",
            Self::Exit => "exit",
        }
    }

    pub(super) const fn phrase(self) -> &'static str {
        match self {
            Self::Instruction => "at the instruction",
            Self::Free => "at free",
            Self::Reallocation => "at realloc",
            Self::Eviction => "at eviction from quarantine",
            Self::Query => "when it was asked about",
            Self::Check => "by check_all",
            Self::Exit => "at exit",
        }
    }
}

/// The position of an address relative to a block.
///
/// ```text
///        ... 2    1  | 0   1   ..  n-1 | 0    1  ..
///      in front of   |      into       | past the end of
///                    start             start + size
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressPosition {
    /// So many bytes in front of the block: 1 is the byte before it.
    Before(usize),
    /// At this offset from the block's first byte.
    Inside(usize),
    /// So many bytes past the block's end: 0 is the byte behind the last.
    Past(usize),
}

impl AddressPosition {
    pub(super) const fn of(address: usize, start: usize, size: usize) -> Self {
        match address.checked_sub(start) {
            None => Self::Before(start.wrapping_sub(address)),
            Some(offset) if offset < size => Self::Inside(offset),
            Some(offset) => Self::Past(offset.wrapping_sub(size)),
        }
    }

    /// The position's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before(_) => "before",
            Self::Inside(_) => "inside",
            Self::Past(_) => "past",
        }
    }

    /// The distance or offset.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Before(bytes) | Self::Inside(bytes) | Self::Past(bytes) => bytes,
        }
    }
}

impl fmt::Display for AddressPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.bytes() == 1 { "" } else { "s" };
        match self {
            Self::Before(bytes) => write!(f, "{bytes} byte{plural} in front of"),
            Self::Inside(offset) => write!(f, "offset {offset} into"),
            Self::Past(bytes) => write!(f, "{bytes} byte{plural} past the end of"),
        }
    }
}

#[cfg(test)]
mod address_position_tests {
    use std::string::ToString;

    use super::AddressPosition;

    #[test]
    fn every_byte_around_a_block_has_one_name() {
        let told = |address| AddressPosition::of(address, 100, 10).to_string();
        assert_eq!(told(98), "2 bytes in front of");
        assert_eq!(told(99), "1 byte in front of");
        assert_eq!(told(100), "offset 0 into");
        assert_eq!(told(109), "offset 9 into");
        assert_eq!(told(110), "0 bytes past the end of");
        assert_eq!(told(111), "1 byte past the end of");
        assert_eq!(told(112), "2 bytes past the end of");
        assert_eq!(AddressPosition::of(100, 100, 0), AddressPosition::Past(0), "a block of no bytes has none inside");
        assert_eq!(AddressPosition::of(0, usize::MAX, 0), AddressPosition::Before(usize::MAX));
        assert_eq!(AddressPosition::of(usize::MAX, 0, 0), AddressPosition::Past(usize::MAX));
    }
}
