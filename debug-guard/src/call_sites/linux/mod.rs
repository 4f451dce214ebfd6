mod stack;
mod tables;

pub(super) use stack::{StackMapping, read_registers, running_stack};
pub(super) use tables::pass;

pub(super) const REGISTERS_KNOWN: bool = true;
pub(super) const ADVICE: &str = "this program was compiled without frame pointers, ask for full stacks";
