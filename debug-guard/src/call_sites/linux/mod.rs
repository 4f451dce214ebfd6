//! Linux on x86-64 and AArch64.

mod stack;
mod tables;

pub(super) use stack::{StackMapping, read_registers};
pub(super) use tables::{is_signal_safe, pass};

/// Stacks can be walked.
pub(super) const REGISTERS_KNOWN: bool = true;
/// What helps where the chain of frame pointers sees no callers.
pub(super) const ADVICE: &str =
    "this program was compiled without frame pointers, ask for full stacks";
