//! A report for people: the first line says all that matters.

#![forbid(unsafe_code)]

use core::fmt::{Display, Formatter, Result};

use super::block_info::{Actor, BlockInfo, BlockState};
use super::deliver::NAMES;
use super::detected_at::DetectedAt;
use super::guard_report::Report;
use super::modules::ModuleFrame;
use crate::mode::BackEnd;
use crate::os::{self, Access, BackEnds};
use crate::report_kind::ReportKind;

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "debug-guard: {}: ", self.kind().name())?;
        headline(self, f)?;
        writeln!(f, ", {}", self.moment().phrase())?;
        let found = self.moment() != DetectedAt::Instruction && !self.kind().is_about_a_pointer();
        write!(
            f,
            "  {}: {}, process {}",
            if found { "found by" } else { "by" },
            ActorName(&self.by()),
            self.process()
        )?;
        writeln!(f, "; address {:#x}", self.address())?;
        if let Some(block) = self.block() {
            self.life(block, f)?;
        }
        if let Some(changed) = self.changed() {
            write!(
                f,
                "  changed: {} byte{}, from ",
                changed.span,
                plural(changed.span)
            )?;
            match self.block() {
                Some(block) => write!(f, "{} the block", block.place_of(changed.first))?,
                None => write!(f, "{:#x}", changed.first)?,
            }
            writeln!(
                f,
                " on: expected {}, found {}",
                Hex(changed.expected()),
                Hex(changed.actual())
            )?;
        }
        if let (Some(block), Some(distance)) = (self.neighbour(), self.neighbour_distance()) {
            writeln!(
                f,
                "  nearby: {}, {distance} byte{} away",
                ActorLine(block),
                plural(distance)
            )?;
        }
        write!(f, "  guard: {:?}, ", self.guard())?;
        if let Some(mode) = self.mode() {
            write!(f, "mode {mode}, ")?;
        }
        write!(f, "back end {}", self.back_end())?;
        refusals(f)?;
        writeln!(f)?;
        for (what, stack) in self.stacks() {
            writeln!(
                f,
                "  stack of {what}{}:",
                if stack.whole { "" } else { " (not to its end)" }
            )?;
            for (number, pc) in stack.frames.iter().enumerate() {
                writeln!(f, "    #{number:<2} {}", ModuleFrame(self.modules, *pc))?;
            }
        }
        if self
            .stacks()
            .into_iter()
            .any(|(_, stack)| !stack.frames.is_empty())
        {
            f.write_str(NAMES)?;
        }
        Ok(())
    }
}

impl Report<'_> {
    /// The stacks that allocated and freed the block.
    fn life(&self, block: &BlockInfo<'_>, f: &mut Formatter<'_>) -> Result {
        let taken = block.allocated();
        writeln!(
            f,
            "  taken: by {}, allocation {}, {}",
            ActorName(&taken),
            taken.serial(),
            Ago(self.age(&taken))
        )?;
        let Some(given) = block.freed() else {
            return Ok(());
        };
        write!(
            f,
            "  freed: by {}, {}",
            ActorName(&given),
            Ago(self.age(&given))
        )?;
        if let BlockState::MovedTo(to) = block.state() {
            write!(f, "; a realloc moved it to {to:#x}")?;
        }
        writeln!(f)
    }
}

/// What happened, to which block, whose.
fn headline(report: &Report<'_>, f: &mut Formatter<'_>) -> Result {
    let address = report.address();
    match (report.kind(), report.block(), report.place()) {
        (ReportKind::DoubleFree, Some(block), _) => {
            write!(f, "{} of {}", second(report.moment()), ActorLine(block))
        }
        (ReportKind::DoubleFree, None, _) => write!(
            f,
            "{} of the block at {address:#x}",
            second(report.moment())
        ),
        (ReportKind::InteriorFree, Some(block), Some(place)) => {
            write!(
                f,
                "{} of a pointer that is not the start of a block but {place} {}",
                verb(report.moment()),
                ActorLine(block)
            )
        }
        (ReportKind::InteriorFree | ReportKind::ForeignFree, ..) => {
            write!(
                f,
                "{} of {address:#x}, which is no block of guard {:?}",
                verb(report.moment()),
                report.guard()
            )?;
            if !report.mapping().is_empty() {
                write!(f, " but lies in {}", report.mapping())?;
            }
            match (report.block(), report.place()) {
                (Some(block), Some(place)) => write!(f, ", {place} {}", ActorLine(block)),
                _ => Ok(()),
            }
        }
        (ReportKind::WrongGuard, block, _) => {
            write!(
                f,
                "{} through guard {:?} of ",
                verb(report.moment()),
                report.guard()
            )?;
            actor_line(block, address, f)?;
            match report.right_guard() {
                Some(right) => write!(f, ", which is guard {right:?}'s"),
                None => write!(f, ", which is another guard's"),
            }
        }
        (ReportKind::WrongOwner, block, _) => {
            write!(
                f,
                "{} through the callbacks of {:?} of ",
                verb(report.moment()),
                report.by().owner()
            )?;
            actor_line(block, address, f)
        }
        (
            ReportKind::SizeMismatch | ReportKind::AlignmentMismatch | ReportKind::ScopeMismatch,
            block,
            _,
        ) => {
            actor_line(block, address, f)?;
            let Some(back) = report.came_back() else {
                return f.write_str(" came back as something else");
            };
            match (report.kind(), back.scope) {
                (ReportKind::SizeMismatch, _) => {
                    write!(f, " came back as {} byte{}", back.size, plural(back.size))
                }
                (ReportKind::AlignmentMismatch, _) => {
                    write!(f, " came back with alignment {}", back.align)
                }
                (_, Some(scope)) => write!(f, " came back with scope {scope}"),
                (_, None) => write!(f, " came back with another scope"),
            }
        }
        (ReportKind::HeaderDamaged, block, _) => {
            f.write_str("the header in front of ")?;
            actor_line(block, address, f)?;
            f.write_str(" was overwritten")
        }
        (ReportKind::HeaderMoved, block, _) => {
            f.write_str("the header in front of ")?;
            actor_line(block, address, f)?;
            f.write_str(" was written for another address and copied here")
        }
        (_, block, place) => touch(report, block, place, f),
    }
}

/// Something was touched, or found changed.
fn touch(
    report: &Report<'_>,
    block: Option<&BlockInfo<'_>>,
    place: Option<super::address_position::AddressPosition>,
    f: &mut Formatter<'_>,
) -> Result {
    match report.moment() {
        DetectedAt::Instruction => f.write_str(report.access().map_or("access", Access::name))?,
        _ => f.write_str("bytes changed")?,
    }
    match (block, place) {
        (Some(block), Some(place)) => {
            let at = if matches!(place, super::address_position::AddressPosition::Inside(_)) {
                "at "
            } else {
                ""
            };
            write!(f, " {at}{place} {}", ActorLine(block))
        }
        _ => write!(f, " at {:#x}, where no block is or was", report.address()),
    }
}

fn actor_line(block: Option<&BlockInfo<'_>>, address: usize, f: &mut Formatter<'_>) -> Result {
    match block {
        Some(block) => write!(f, "{}", ActorLine(block)),
        None => write!(f, "the block at {address:#x}"),
    }
}

const fn verb(moment: DetectedAt) -> &'static str {
    match moment {
        DetectedAt::Reallocation => "realloc",
        DetectedAt::Query => "query",
        _ => "free",
    }
}

const fn second(moment: DetectedAt) -> &'static str {
    match moment {
        DetectedAt::Reallocation => "realloc, after its free,",
        DetectedAt::Query => "query, after its free,",
        _ => "second free",
    }
}

const fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// A block in one breath.
pub(super) struct ActorLine<'a, 'b>(pub(super) &'a BlockInfo<'b>);

impl Display for ActorLine<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let block = self.0;
        f.write_str(match block.state() {
            BlockState::Live => "",
            BlockState::Freed => "freed ",
            BlockState::MovedTo(_) => "reallocated ",
        })?;
        let size = block.size();
        write!(
            f,
            "block {:#x} ({size} byte{}, align {}",
            block.address(),
            plural(size),
            block.align()
        )?;
        write!(f, ", scope {}", block.scope())?;
        let taken = block.allocated();
        if !taken.owner().is_empty() {
            write!(f, ", of {:?}", taken.owner())?;
        }
        if let Some(label) = taken.label() {
            write!(f, " {label:?}")?;
        }
        if let Some(command) = taken.command() {
            write!(f, ", taken in {command}")?;
        }
        f.write_str(")")
    }
}

/// How long ago something was, in allocations.
struct Ago(u64);

impl Display for Ago {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "about {} allocation{} ago",
            self.0,
            if self.0 == 1 { "" } else { "s" }
        )
    }
}

/// A thread, and what it was doing.
struct ActorName<'a, 'b>(&'a Actor<'b>);

impl Display for ActorName<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0.thread() {
            0 => f.write_str("a thread")?,
            thread => {
                write!(f, "thread {thread}")?;
                let mut name = [0; 16];
                let name = os::thread_name(thread, &mut name);
                if !name.is_empty() {
                    write!(f, " {name:?}")?;
                }
            }
        }
        if !self.0.owner().is_empty() {
            write!(f, " for {:?}", self.0.owner())?;
        }
        if let Some(label) = self.0.label() {
            write!(f, " {label:?}")?;
        }
        match (self.0.command(), self.0.command_serial()) {
            (Some(command), Some(serial)) => write!(f, " in {command} #{serial}"),
            (Some(command), None) => write!(f, " in {command}"),
            (None, _) => Ok(()),
        }
    }
}

/// Bytes, two digits each.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The back ends that are better than the best that is offered, and why they are not.
fn refusals(f: &mut Formatter<'_>) -> Result {
    let back_ends = BackEnds::probe();
    BackEnd::ALL
        .into_iter()
        .try_for_each(|back_end| match back_ends.refusal(back_end) {
            Some(refusal) => write!(f, "; {back_end} is refused: {refusal}"),
            None => Ok(()),
        })
}
