//! Windows on x86-64: every module carries the tables by which its functions are unwound, so no frame pointers are
//! needed.

use super::thread_stack::Registers;
use crate::os;
use crate::os::system::{self, UnwindContext};

pub(super) const REGISTERS_KNOWN: bool = true;
pub(super) const ADVICE: &str = "there is no chain of frame pointers on this system, ask for full stacks";

pub(super) struct StackMapping {
    pub(super) low: usize,
    pub(super) high: usize,
}

impl StackMapping {
    pub(super) fn at(stack: usize) -> Option<Self> {
        let other = os::mapping_at(stack, &mut [])?;
        Some(Self { low: other.start, high: other.end })
    }

    /// A stack may end before the thread: a fiber's, a coroutine's.
    pub(super) fn own(&self) -> Option<(usize, usize)> {
        None
    }
}

#[inline(always)]
pub(super) fn running_stack() -> Option<(usize, usize)> {
    Some(system::running_stack())
}

#[inline(always)]
pub(super) fn read_registers() -> Registers {
    let (stack, frame): (usize, usize);
    // SAFETY: copies two registers.
    unsafe {
        core::arch::asm!("mov {}, rsp", "mov {}, rbp", out(reg) stack, out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    Registers { stack, frame }
}

#[inline(never)]
pub(super) fn pass(
    mut begins: impl FnMut(usize, Registers) -> bool,
    mark: usize,
    frames: &mut [usize],
) -> (usize, bool, Registers) {
    let (mut count, mut whole, mut last) = (0, false, Registers::default());
    let mut context = UnwindContext::capture();
    loop {
        // The first frame is the stopped one, or this library's, which has tables.
        let has_caller = if count == 1 { context.step_from_stopped() } else { context.step() };
        if !has_caller {
            break;
        }
        let (back, registers) = (context.pc(), Registers { stack: context.stack(), frame: context.frame() });
        if begins(back, registers) {
            whole = if mark == 0 { back == 0 } else { registers.stack > mark };
            let Some(to) = frames.get_mut(count).filter(|_| !whole && back != 0) else {
                break;
            };
            *to = back;
            count += 1;
            last = registers;
        } else if back == 0 {
            break;
        }
    }
    (count, whole, last)
}
