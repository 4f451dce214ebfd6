//! A report: what went wrong, and all that is known of it.

#![forbid(unsafe_code)]

use core::fmt;

use super::address_position::AddressPosition;
use super::block_info::{Actor, BlockInfo, Stack};
use super::detected_at::DetectedAt;
use super::modules::Modules;
use super::registry::ReportingGuard;
use super::report_context::{FreeArgs, ReportContext};
use crate::block::{BlockPhase, Changed, Known};
use crate::mode::{BackEnd, Mode};
use crate::os;
use crate::os::Access;
use crate::report_kind::ReportKind;

/// What went wrong, and all that is known of it.
///
/// `Display` writes it for people, in lines; [`write_json`](Self::write_json) in one line for programs. Neither takes memory, so both
/// may be used in [`OnReport::Call`](crate::OnReport::Call), in a signal handler too.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    case: &'a ReportContext<'a>,
    block: Option<BlockInfo<'a>>,
    neighbour: Option<BlockInfo<'a>>,
    by: Actor<'a>,
    guard: &'static str,
    back_end: BackEnd,
    mode: Option<Mode>,
    process: u32,
    clock: u64,
    right_guard: Option<&'static str>,
    pub(super) modules: &'a Modules,
    mapping: &'a str,
}

impl<'a> Report<'a> {
    /// Of `case`, which `guard` found. `home` is the guard whose block it is, if that lives. `modules` are those that the frames lie in,
    /// `mapping` names what the address lies in.
    pub(super) fn new(
        guard: &'a dyn ReportingGuard,
        home: Option<&'a dyn ReportingGuard>,
        case: &'a ReportContext<'a>,
        modules: &'a Modules,
        mapping: &'a str,
    ) -> Self {
        let command = case
            .requester
            .map_or_else(|| guard.command(), |who| who.command);
        let by = Actor {
            thread: os::thread_id(),
            serial: 0,
            context: case.requester.and_then(|who| who.context),
            owner: case.requester.map_or("", |who| who.name),
            label: case.requester.and_then(|who| who.label),
            command: command.map(|command| command.name),
            command_serial: command.map(|command| command.serial),
            front: case.requester.map_or(0, |who| who.front as usize),
            stack: case.stack,
        };
        Self {
            case,
            block: case
                .fault
                .block
                .map(|known| BlockInfo::new(as_it_came(known, case), |id| home?.site(id))),
            neighbour: case
                .other
                .map(|known| BlockInfo::new(known, |id| home?.site(id)))
                .filter(|other| may_be_meant(distance(other, case.fault.address), case)),
            by,
            guard: guard.name(),
            back_end: case
                .fault
                .block
                .map_or_else(|| guard.back_end(), |known| known.back_end),
            mode: case.fault.block.map(|known| known.mode),
            process: os::process_id(),
            clock: guard.clock(),
            right_guard: case.fault.owner.and(home).map(ReportingGuard::name),
            modules,
            mapping,
        }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ReportKind {
        match (self.case.fault.kind, self.block) {
            // Behind a bridge a block of no bytes is one of its header alone.
            (ReportKind::Overflow, Some(block)) if block.front() > 0 && block.size() == 0 => {
                ReportKind::ZeroSizeAccess
            }
            (kind, _) => kind,
        }
    }

    /// When it was found.
    #[must_use]
    pub const fn moment(&self) -> DetectedAt {
        self.case.moment
    }

    /// What the instruction did that was stopped; `None` for what was found otherwise, and where the processor does not say.
    #[must_use]
    pub const fn access(&self) -> Option<Access> {
        self.case.access
    }

    /// The address that was accessed, found changed, or freed. Behind a C bridge: as the C caller knows it.
    #[must_use]
    pub fn address(&self) -> usize {
        let address = self.case.fault.address;
        if self.case.as_called || !self.kind().is_about_a_pointer() {
            return address;
        }
        match self.block {
            Some(block) => address.wrapping_add(block.front()),
            None => address.wrapping_add(self.by.front),
        }
    }

    /// The position of that address relative to the block.
    #[must_use]
    pub fn place(&self) -> Option<AddressPosition> {
        self.block.map(|block| block.place_of(self.address()))
    }

    /// The block it is about.
    #[must_use]
    pub const fn block(&self) -> Option<&BlockInfo<'a>> {
        self.block.as_ref()
    }

    /// Another block nearby, where it is not certain which one was meant.
    #[must_use]
    pub const fn neighbour(&self) -> Option<&BlockInfo<'a>> {
        self.neighbour.as_ref()
    }

    /// The call that accessed, freed or queried the block; for a late finding, the call that found it. Its serial is 0.
    #[must_use]
    pub const fn by(&self) -> Actor<'a> {
        self.by
    }

    /// How the block was freed, if this free is reported.
    #[must_use]
    pub fn came_back(&self) -> Option<FreeArgs> {
        let front = self.block.map_or(0, |block| block.front());
        self.case.came_back.map(|back| FreeArgs {
            size: back.size.saturating_sub(front),
            ..back
        })
    }

    /// The bytes that are not as the guard wrote them.
    #[must_use]
    pub const fn changed(&self) -> Option<&Changed> {
        self.case.fault.changed.as_ref()
    }

    /// The name of the guard that the block is really of, where it was given to another.
    #[must_use]
    pub const fn right_guard(&self) -> Option<&'static str> {
        self.right_guard
    }

    /// The name of the reporting guard.
    #[must_use]
    pub const fn guard(&self) -> &'static str {
        self.guard
    }

    /// What the block's pages were made untouchable with; without a block, the guard's.
    #[must_use]
    pub const fn back_end(&self) -> BackEnd {
        self.back_end
    }

    /// How the block was guarded.
    #[must_use]
    pub const fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// The process's number.
    #[must_use]
    pub const fn process(&self) -> u32 {
        self.process
    }

    /// What a pointer that is no block's lies in, as the system's map list calls it (`[stack]`, a file); "" where that has no name.
    /// `the guard's own pages` are those that the guard keeps for its blocks; [`block`](Self::block) then says whose page it is.
    #[must_use]
    pub const fn mapping(&self) -> &'a str {
        self.mapping
    }

    /// Bytes from the address to the neighbour's nearest byte.
    #[must_use]
    pub fn neighbour_distance(&self) -> Option<usize> {
        self.neighbour.map(|block| distance(&block, self.address()))
    }

    /// About how many allocations of the process's guards ago `deed` was done.
    #[must_use]
    pub const fn age(&self, deed: &Actor<'_>) -> u64 {
        self.clock.saturating_sub(deed.serial)
    }

    /// The stacks, with what they are of. Those that were not written down are left out.
    pub(super) fn stacks(&self) -> impl Iterator<Item = (&'static str, Stack<'a>)> + use<'a> {
        let here = match self.moment() {
            DetectedAt::Instruction => "the access",
            DetectedAt::Free if self.kind().is_about_a_pointer() => "this free",
            DetectedAt::Reallocation if self.kind().is_about_a_pointer() => "this realloc",
            DetectedAt::Query => "this query",
            _ => "where it was found",
        };
        let taken = self
            .block
            .map(|block| ("the allocation", block.allocated().stack()));
        let given = self
            .block
            .and_then(|block| block.freed())
            .map(|given| ("the free", given.stack()));
        let beside = self.neighbour.map(|block| {
            (
                "the allocation of the block nearby",
                block.allocated().stack(),
            )
        });
        [Some((here, self.by.stack())), taken, given, beside]
            .into_iter()
            .flatten()
            .filter(|(_, stack)| !stack.frames.is_empty())
    }
}

/// Further away no block was meant: four pages.
const NEARBY: usize = 16 << 10;

/// Whether another block, so many bytes away, may be the one that was meant: not where that of the report is much nearer.
fn may_be_meant(away: usize, case: &ReportContext<'_>) -> bool {
    const MIN_SHOWN_DISTANCE: usize = 64;
    let nearer = |known: Known| {
        away / MIN_SHOWN_DISTANCE > distance(&BlockInfo::new(known, |_| None), case.fault.address)
    };
    away <= NEARBY && !case.fault.block.is_some_and(nearer)
}

/// Bytes from `address` to the nearest byte of `block`.
fn distance(block: &BlockInfo<'_>, address: usize) -> usize {
    match block.place_of(address) {
        AddressPosition::Before(bytes) => bytes,
        AddressPosition::Inside(_) => 0,
        AddressPosition::Past(bytes) => bytes.saturating_add(1),
    }
}

/// A block that is just coming back is told as live, as it was, wherever its keeper stands with the free.
fn as_it_came(known: Known, case: &ReportContext<'_>) -> Known {
    let comes = matches!(case.moment, DetectedAt::Free | DetectedAt::Reallocation);
    let was_gone = matches!(
        case.fault.kind,
        ReportKind::UseAfterFree | ReportKind::DoubleFree
    );
    Known {
        state: if comes && !was_gone {
            BlockPhase::Live
        } else {
            known.state
        },
        ..known
    }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("kind", &self.kind())
            .field("moment", &self.moment())
            .field("access", &self.access())
            .field("address", &format_args!("{:#x}", self.address()))
            .field("block", &self.block)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}
