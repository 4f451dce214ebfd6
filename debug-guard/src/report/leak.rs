//! Leaks: blocks that were not freed, as lists show them.

#![forbid(unsafe_code)]

use core::fmt::{Display, Formatter, Result, Write};

use super::block_info::{BlockInfo, Stack};
use super::modules::{ModuleFrame, Modules};
use super::text::ActorLine;

/// Blocks that were not freed: all of one call site, owner and command.
#[derive(Clone, Copy, Debug)]
pub struct Leak<'a> {
    /// One of them.
    pub block: BlockInfo<'a>,
    /// How many there are.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// As a report has it: what is left, and the stack of who took it, so that `steward symbols` can name its functions. Takes no memory.
impl Display for Leak<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut modules = Modules::NONE;
        self.stack().frames.iter().for_each(|pc| modules.note(*pc));
        self.headline(f)?;
        self.frames(&modules, f)
    }
}

impl Leak<'_> {
    /// Text for people, then, where that is wanted too, a line of JSON.
    pub(super) fn write(
        &self,
        (guard, json): (&str, bool),
        modules: &Modules,
        out: &mut dyn Write,
    ) -> Result {
        out.write_str("debug-guard: leak: ")?;
        self.headline(out)?;
        write!(out, ", guard {guard:?}")?;
        self.frames(modules, out)?;
        out.write_char('\n')?;
        if json {
            self.json(guard, modules, out)
                .and_then(|()| out.write_char('\n'))
        } else {
            Ok(())
        }
    }

    fn headline(&self, out: &mut dyn Write) -> Result {
        let (many, as_one) = if self.blocks == 1 {
            ("block", "")
        } else {
            ("blocks", "as ")
        };
        let bytes = if self.bytes == 1 { "byte" } else { "bytes" };
        write!(
            out,
            "{} {many}, {} {bytes}, not given back: {as_one}{}",
            self.blocks,
            self.bytes,
            ActorLine(&self.block)
        )
    }

    /// Each line of it begins with an end of line.
    fn frames(&self, modules: &Modules, out: &mut dyn Write) -> Result {
        let stack = self.stack();
        if stack.frames.is_empty() {
            return Ok(());
        }
        write!(
            out,
            "\n  stack of the allocation{}:",
            if stack.whole { "" } else { " (not to its end)" }
        )?;
        let mut frames = stack.frames.iter().enumerate();
        frames.try_for_each(|(number, pc)| {
            write!(out, "\n    #{number:<2} {}", ModuleFrame(modules, *pc))
        })
    }

    fn stack(&self) -> Stack<'_> {
        self.block.allocated().stack()
    }
}
