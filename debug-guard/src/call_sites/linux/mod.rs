mod stack;
mod tables;

pub(super) use stack::{StackMapping, read_registers};
pub(super) use tables::{is_signal_safe, pass};

pub(super) const REGISTERS_KNOWN: bool = true;
pub(super) const ADVICE: &str =
    "this program was compiled without frame pointers, ask for full stacks";
