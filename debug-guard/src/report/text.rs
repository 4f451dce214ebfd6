#![forbid(unsafe_code)]

use core::fmt::{Display, Formatter, Result, Write};

use super::block_info::{Actor, BlockInfo, Stack};
use super::deliver::NAMES;
use super::guard_report::{AddressPosition, DetectedAt, Report};
use crate::block::BlockState;
use crate::os::{self, Access, BackEnds};
use crate::report_kind::ReportKind;

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "debug-guard: {}: ", self.kind.name())?;
        self.headline(f)?;
        writeln!(f, ", {}", self.detected_at.phrase())?;
        let found = self.detected_at != DetectedAt::Instruction && !self.kind.is_about_a_pointer();
        write!(f, "  {}: {}, process {}", if found { "found by" } else { "by" }, ActorName(&self.by), self.process)?;
        writeln!(f, "; address {:#x}", self.address)?;
        if let Some(block) = &self.block {
            self.life(block, f)?;
        }
        if let Some(changed) = &self.changed {
            let (span, s) = (changed.span, plural(changed.span));
            write!(f, "  changed: {span} byte{s}, from ")?;
            match &self.block {
                Some(block) => write!(f, "{} the block", block.place_of(changed.first))?,
                None => write!(f, "{:#x}", changed.first)?,
            }
            writeln!(f, " on: expected {}, found {}", Hex(changed.expected()), Hex(changed.actual()))?;
        }
        if let (Some(block), Some(distance)) = (&self.neighbour, self.neighbour_distance) {
            let s = plural(distance);
            writeln!(f, "  nearby: {}, {distance} byte{s} away", BlockLine(block))?;
        }
        write!(f, "  guard: {:?}, ", self.guard)?;
        if let Some(mode) = self.mode {
            write!(f, "mode {mode}, ")?;
        }
        write!(f, "back end {}", self.back_end)?;
        for (back_end, refusal) in BackEnds::probe().refusals() {
            write!(f, "; {back_end} is refused: {refusal}")?;
        }
        for (event, stack) in self.stacks() {
            write_stack(f, event, stack)?;
        }
        writeln!(f)?;
        if self.stacks().next().is_some() {
            f.write_str(NAMES)?;
        }
        Ok(())
    }
}

impl Report<'_> {
    fn life(&self, block: &BlockInfo<'_>, f: &mut Formatter<'_>) -> Result {
        let allocated = &block.allocated;
        write!(f, "  taken: by {}, allocation {}, ", ActorName(allocated), allocated.serial)?;
        self.ago(allocated, f)?;
        writeln!(f)?;
        let Some(freed) = &block.freed else {
            return Ok(());
        };
        write!(f, "  freed: by {}, ", ActorName(freed))?;
        self.ago(freed, f)?;
        if let BlockState::MovedTo(to) = block.state {
            write!(f, "; a realloc moved it to {to:#x}")?;
        }
        writeln!(f)
    }

    fn ago(&self, event: &Actor<'_>, f: &mut Formatter<'_>) -> Result {
        let age = self.age(event);
        let s = if age == 1 { "" } else { "s" };
        write!(f, "about {age} allocation{s} ago")
    }

    fn headline(&self, f: &mut Formatter<'_>) -> Result {
        let (verb, second) = match self.detected_at {
            DetectedAt::Reallocation => ("realloc", "realloc, after its free,"),
            DetectedAt::Query => ("query", "query, after its free,"),
            _ => ("free", "second free"),
        };
        let placed = self.block.zip(self.place);
        match (self.kind, placed) {
            (ReportKind::DoubleFree, _) => {
                write!(f, "{second} of ")?;
                self.block_line(f)
            }
            (ReportKind::InteriorFree, Some((block, place))) => {
                write!(f, "{verb} of a pointer that is not the start of a block but {place} {}", BlockLine(&block))
            }
            (ReportKind::InteriorFree | ReportKind::ForeignFree, _) => {
                write!(f, "{verb} of {:#x}, which is no block of guard {:?}", self.address, self.guard)?;
                if !self.mapping.is_empty() {
                    write!(f, " but lies in {}", self.mapping)?;
                }
                match placed {
                    Some((block, place)) => write!(f, ", {place} {}", BlockLine(&block)),
                    None => Ok(()),
                }
            }
            (ReportKind::WrongGuard, _) => {
                write!(f, "{verb} through guard {:?} of ", self.guard)?;
                self.block_line(f)?;
                match self.right_guard {
                    Some(right) => write!(f, ", which is guard {right:?}'s"),
                    None => write!(f, ", which is another guard's"),
                }
            }
            (ReportKind::WrongOwner, _) => {
                write!(f, "{verb} through the callbacks of {:?} of ", self.by.owner)?;
                self.block_line(f)
            }
            (ReportKind::SizeMismatch | ReportKind::AlignmentMismatch | ReportKind::ScopeMismatch, _) => {
                self.block_line(f)?;
                f.write_str(" came back ")?;
                let Some(back) = self.free_args else {
                    return f.write_str("as something else");
                };
                match (self.kind, back.scope) {
                    (ReportKind::SizeMismatch, _) => {
                        write!(f, "as {} byte{}", back.size, plural(back.size))
                    }
                    (ReportKind::AlignmentMismatch, _) => {
                        write!(f, "with alignment {}", back.align)
                    }
                    (_, Some(scope)) => write!(f, "with scope {scope}"),
                    (_, None) => f.write_str("with another scope"),
                }
            }
            (ReportKind::HeaderDamaged, _) => self.header(f, "was overwritten"),
            (ReportKind::HeaderMoved, _) => self.header(f, "was written for another address and copied here"),
            _ => self.touch(f),
        }
    }

    fn header(&self, f: &mut Formatter<'_>, fate: &str) -> Result {
        f.write_str("the header in front of ")?;
        self.block_line(f)?;
        write!(f, " {fate}")
    }

    fn touch(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self.detected_at {
            DetectedAt::Instruction => self.access.map_or("access", Access::name),
            _ => "bytes changed",
        })?;
        match self.block.zip(self.place) {
            Some((block, place)) => {
                let at = if matches!(place, AddressPosition::Inside(_)) { "at " } else { "" };
                write!(f, " {at}{place} {}", BlockLine(&block))
            }
            None => write!(f, " at {:#x}, where no block is or was", self.address),
        }
    }

    fn block_line(&self, f: &mut Formatter<'_>) -> Result {
        match &self.block {
            Some(block) => BlockLine(block).fmt(f),
            None => write!(f, "the block at {:#x}", self.address),
        }
    }
}

fn write_stack(out: &mut dyn Write, event: &str, stack: Stack<'_>) -> Result {
    let end = if stack.whole { "" } else { " (not to its end)" };
    write!(out, "\n  stack of {event}{end}:")?;
    for (number, pc) in stack.frames.iter().enumerate() {
        write!(out, "\n    #{number:<2} {pc:#x}")?;
        if let Some((path, offset)) = stack.module(*pc).map(|module| module.place(*pc)) {
            write!(out, " {path}+{offset:#x}")?;
        }
    }
    Ok(())
}

const fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

pub(super) struct BlockLine<'a, 'b>(pub(super) &'a BlockInfo<'b>);

impl Display for BlockLine<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let BlockInfo { address, size, align, scope, allocated, .. } = self.0;
        f.write_str(match self.0.state {
            BlockState::Live => "",
            BlockState::Freed => "freed ",
            BlockState::MovedTo(_) => "reallocated ",
        })?;
        let s = plural(*size);
        write!(f, "block {address:#x} ({size} byte{s}, align {align}, scope {scope}")?;
        if !allocated.owner.is_empty() {
            write!(f, ", of {:?}", allocated.owner)?;
        }
        if let Some(label) = allocated.label {
            write!(f, " {label:?}")?;
        }
        if let Some(command) = allocated.command {
            write!(f, ", taken in {command}")?;
        }
        f.write_str(")")
    }
}

struct ActorName<'a, 'b>(&'a Actor<'b>);

impl Display for ActorName<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let actor = self.0;
        match actor.thread {
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
        if !actor.owner.is_empty() {
            write!(f, " for {:?}", actor.owner)?;
        }
        if let Some(label) = actor.label {
            write!(f, " {label:?}")?;
        }
        match (actor.command, actor.command_serial) {
            (Some(command), Some(serial)) => write!(f, " in {command} #{serial}"),
            (Some(command), None) => write!(f, " in {command}"),
            (None, _) => Ok(()),
        }
    }
}

pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Blocks that were not freed, of one call site, owner and command.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Leak<'a> {
    /// One of the blocks.
    pub block: BlockInfo<'a>,
    /// The number of blocks.
    pub blocks: u64,
    /// The bytes of all blocks.
    pub bytes: u64,
}

/// Writes the blocks and the stack that allocated them. Allocates nothing.
impl Display for Leak<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.headline(f)?;
        self.frames(f)?;
        if self.stack().frames.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", NAMES.trim_end())
    }
}

impl Leak<'_> {
    pub(super) fn write(&self, (guard, json): (&str, bool), out: &mut dyn Write) -> Result {
        out.write_str("debug-guard: leak: ")?;
        self.headline(out)?;
        write!(out, ", guard {guard:?}")?;
        self.frames(out)?;
        out.write_char('\n')?;
        if json {
            self.json(guard, out)?;
            out.write_char('\n')?;
        }
        Ok(())
    }

    fn headline(&self, out: &mut dyn Write) -> Result {
        let Self { block, blocks, bytes } = self;
        let (many, as_one) = if *blocks == 1 { ("block", "") } else { ("blocks", "as ") };
        let unit = if *bytes == 1 { "byte" } else { "bytes" };
        write!(out, "{blocks} {many}, {bytes} {unit}, not given back: {as_one}{}", BlockLine(block))
    }

    fn frames(&self, out: &mut dyn Write) -> Result {
        match self.stack() {
            Stack { frames: [], .. } => Ok(()),
            stack => write_stack(out, "the allocation", stack),
        }
    }

    pub(super) fn stack(&self) -> Stack<'_> {
        self.block.allocated.stack
    }
}
