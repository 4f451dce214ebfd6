use super::super::thread_stack::Registers;
use crate::os;

/// The known part of the stack below the stack pointer.
const ROOM: usize = 64 << 10;

pub(in super::super) struct StackMapping {
    stack: usize,
    pub(in super::super) low: usize,
    /// The thread's control block, if it is in the mapping, else the mapping's end.
    pub(in super::super) high: usize,
    kind: StackKind,
}

enum StackKind {
    First,
    Block,
    /// The kernel may merge its mapping with a neighbour's memory, which may be unmapped later.
    Any,
}

impl StackMapping {
    pub(in super::super) fn at(stack: usize) -> Option<Self> {
        let mut name = [0; 16];
        let mapping = os::mapping_at(stack, &mut name)?;
        let block = thread_block();
        let (high, kind) = if mapping.name == "[stack]" {
            (mapping.end, StackKind::First)
        } else if stack < block && block < mapping.end {
            (block, StackKind::Block)
        } else {
            (mapping.end, StackKind::Any)
        };
        Some(Self { stack, low: mapping.start, high: high & !15, kind })
    }

    /// The part that is certainly the running thread's own as long as it lives.
    pub(in super::super) fn own(&self) -> Option<(usize, usize)> {
        match self.kind {
            StackKind::First => Some((self.low, self.high)),
            // The first thread's block is not on its stack, but among other memory.
            StackKind::Block if os::thread_id() != os::process_id() => self.below_block(),
            StackKind::Block | StackKind::Any => None,
        }
    }

    /// Guard pages may be markers within one mapping, which may contain another stack too.
    fn below_block(&self) -> Option<(usize, usize)> {
        let page = os::page_size();
        let first = self.stack & !page.wrapping_sub(1);
        let readable = |address| os::read_u64_by_kernel(address).is_some();
        if !(first..self.high).step_by(page).all(readable) {
            return None;
        }
        let least = self.low.max(first.saturating_sub(ROOM));
        let below = (least..first).step_by(page).rev().take_while(|at| readable(*at));
        Some((below.last().unwrap_or(first), self.high))
    }
}

/// Only the kernel knows it.
#[inline(always)]
pub(in super::super) fn running_stack() -> Option<(usize, usize)> {
    None
}

#[inline(always)]
pub(in super::super) fn read_registers() -> Registers {
    let (stack, frame): (usize, usize);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: copies two registers.
    unsafe {
        core::arch::asm!("mov {}, rsp", "mov {}, rbp", out(reg) stack, out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: copies two registers.
    unsafe {
        core::arch::asm!("mov {}, sp", "mov {}, x29", out(reg) stack, out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    Registers { stack, frame }
}

/// Linux's C libraries put the thread's control block above the stacks that they make.
fn thread_block() -> usize {
    let block: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the control block's first word is its own address (ELF thread-local storage, variant II).
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) block, options(readonly, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: copies a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) block, options(nomem, nostack, preserves_flags));
    }
    block
}
