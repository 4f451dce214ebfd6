//! Leaks: blocks that were not freed, as lists show them.

#![forbid(unsafe_code)]

use core::fmt::{Display, Formatter, Result, Write};

use super::block_info::{BlockInfo, Stack};
use super::deliver::NAMES;
use super::text::{BlockLine, write_stack};

/// Blocks that were not freed: all of one call site, owner and command.
#[derive(Clone, Copy, Debug)]
pub struct Leak<'a> {
    /// One of them.
    pub block: BlockInfo<'a>,
    /// Number of blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// As reports write it: the blocks, the stack that allocated them, and how to get the names of its functions (`steward symbols`, which also
/// leaves out the frames of the guard and of the runtime). Allocates nothing.
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
    /// Text for people, then, if `json`, a line of JSON.
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
        let Self {
            block,
            blocks,
            bytes,
        } = self;
        let (many, as_one) = if *blocks == 1 {
            ("block", "")
        } else {
            ("blocks", "as ")
        };
        let unit = if *bytes == 1 { "byte" } else { "bytes" };
        write!(
            out,
            "{blocks} {many}, {bytes} {unit}, not given back: {as_one}{}",
            BlockLine(block)
        )
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
