//! Blocks that were not given back, as lists tell them.

#![forbid(unsafe_code)]

use core::fmt::{Display, Formatter, Result, Write};

use super::block_info::BlockInfo;
use super::modules::{Frame, Modules};
use super::text::Told;

/// Blocks that were not given back: all that were taken at the same place, by the same owner, for the same command.
#[derive(Clone, Copy, Debug)]
pub struct Leak<'a> {
    /// One of them.
    pub block: BlockInfo<'a>,
    /// How many there are.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Display for Leak<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let many = if self.blocks == 1 { "block" } else { "blocks" };
        write!(f, "{} {many}, {} bytes, not given back", self.blocks, self.bytes)?;
        if self.blocks == 1 { write!(f, ": {}", Told(&self.block)) } else { write!(f, ": as {}", Told(&self.block)) }
    }
}

impl Leak<'_> {
    /// Text for people, then a line of JSON.
    pub(super) fn write(&self, guard: &str, modules: &Modules, out: &mut dyn Write) -> Result {
        writeln!(out, "debug-guard: leak: {self}, guard {guard:?}")?;
        for (number, pc) in self.block.taken().stack().frames.iter().enumerate() {
            writeln!(out, "    #{number:<2} {}", Frame(modules, *pc))?;
        }
        self.json(guard, modules, out)?;
        out.write_char('\n')
    }
}
