//! Other systems and processors, and miri: no stack can be walked.

use super::thread_stack::Registers;

pub(super) const REGISTERS_KNOWN: bool = false;
pub(super) const ADVICE: &str = "ask for full stacks";

pub(super) struct StackMapping {
    pub(super) low: usize,
    pub(super) high: usize,
}

impl StackMapping {
    pub(super) fn at(_: usize) -> Option<Self> {
        None
    }

    pub(super) fn own(&self) -> Option<(usize, usize)> {
        None
    }
}

pub(super) fn running_stack() -> Option<(usize, usize)> {
    None
}

#[inline(always)]
pub(super) fn read_registers() -> Registers {
    Registers::default()
}

pub(super) fn pass(_: impl FnMut(usize, Registers) -> bool, _: usize, _: &mut [usize]) -> (usize, bool, Registers) {
    (0, false, Registers::default())
}
