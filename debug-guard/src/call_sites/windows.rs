//! Windows on x86-64: every module carries the tables by which its functions are unwound, so no frame pointers are needed.

use super::thread_stack::Registers;
use crate::os::{self, OwnStack, UnwindContext};

pub(super) const REGISTERS_KNOWN: bool = true;
pub(super) const ADVICE: &str =
    "there is no chain of frame pointers on this system, ask for full stacks";

pub(super) struct StackMapping {
    pub(super) low: usize,
    pub(super) high: usize,
    stays: bool,
}

impl StackMapping {
    pub(super) fn at(stack: usize) -> Option<Self> {
        let OwnStack {
            low,
            high,
            is_fiber,
        } = os::own_stack();
        if (low..high).contains(&stack) {
            let stays = !is_fiber;
            return Some(Self { low, high, stays });
        }
        let other = os::mapping_at(stack, &mut [])?;
        Some(Self {
            low: other.start,
            high: other.end,
            stays: false,
        })
    }

    pub(super) fn own(&self) -> Option<(usize, usize)> {
        self.stays.then_some((self.low, self.high))
    }
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

/// A handler runs on the stack of the thread that it stopped, as any function that this thread calls.
pub(super) fn is_signal_safe() -> bool {
    true
}

#[inline(never)]
pub(super) fn pass(
    mut begins: impl FnMut(usize, Registers) -> bool,
    mark: usize,
    frames: &mut [usize],
) -> (usize, bool, Registers) {
    let (mut count, mut whole, mut last) = (0, false, Registers::default());
    let mut context = UnwindContext::capture();
    while context.step() {
        let (back, registers) = (
            context.pc(),
            Registers {
                stack: context.stack(),
                frame: context.frame(),
            },
        );
        if begins(back, registers) {
            whole = if mark == 0 {
                back == 0
            } else {
                registers.stack > mark
            };
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
