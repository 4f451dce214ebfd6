use core::ptr::{NonNull, null_mut};

use super::calls::{RtlCaptureContext, RtlLookupFunctionEntry, RtlVirtualUnwind, RuntimeFunction, ThreadContext};
use super::modules::mapping_at;
use super::read::read_u64;
use super::stack::running_stack;

const NO_HANDLER: u32 = 0;

/// A handler runs on the stack of the thread that it stopped.
pub(crate) fn unwinds_in_handlers() -> bool {
    true
}

pub(crate) struct UnwindContext {
    registers: ThreadContext,
    high: usize,
}

impl UnwindContext {
    /// Inlined, so that the registers are those of a function that still runs.
    #[inline(always)]
    pub(crate) fn capture() -> Self {
        let mut registers = ThreadContext::ZERO;
        // SAFETY: writes the registers.
        unsafe { RtlCaptureContext(&raw mut registers) };
        let (low, high) = running_stack();
        let stack = registers.stack();
        let high = if (low..high).contains(&stack) {
            high
        } else {
            mapping_at(stack, &mut []).map_or(0, |mapping| mapping.end)
        };
        Self { registers, high }
    }

    pub(crate) fn pc(&self) -> usize {
        self.registers.pc
    }

    pub(crate) fn stack(&self) -> usize {
        self.registers.stack()
    }

    pub(crate) fn frame(&self) -> usize {
        self.registers.frame()
    }

    /// Goes from a function that called another to its caller. Allocates nothing.
    pub(crate) fn step(&mut self) -> bool {
        let entry = self.entry();
        entry.is_some_and(|(function, base)| self.unwind(function, base))
    }

    /// Goes to the caller from the function that was stopped.
    pub(crate) fn step_from_stopped(&mut self) -> bool {
        match self.entry() {
            Some((function, base)) => self.unwind(function, base),
            None => self.leave_leaf(),
        }
    }

    /// The tables are found under a lock of the system that is held by who loads a module, and by nobody who accesses a
    /// guarded page.
    fn entry(&self) -> Option<(NonNull<RuntimeFunction>, usize)> {
        let mut base = 0;
        // SAFETY: looks for the function that holds the address.
        let function = unsafe { RtlLookupFunctionEntry(self.pc(), &raw mut base, null_mut()) };
        NonNull::new(function.cast_mut()).map(|function| (function, base))
    }

    fn unwind(&mut self, function: NonNull<RuntimeFunction>, base: usize) -> bool {
        let before = self.stack();
        // SAFETY: an entry of a loaded module, in which a thread is.
        let unwind = unsafe { function.as_ref() }.unwind as usize;
        if !self.is_frame_on_stack(base.wrapping_add(unwind)) {
            return false;
        }
        let (mut data, mut establisher) = (null_mut(), 0);
        // SAFETY: the registers of a function of this module; the stack pointer, where the reads begin, is below the
        // end of the stack. That the tables do not go beyond it is unchecked.
        unsafe {
            RtlVirtualUnwind(
                NO_HANDLER,
                base,
                self.registers.pc,
                function.as_ptr(),
                &raw mut self.registers,
                &raw mut data,
                &raw mut establisher,
                null_mut(),
            )
        };
        self.pc() == 0 || self.went_up(before)
    }

    /// A function without an entry calls nothing: its return address is at the stack pointer. So it is after a jump to
    /// nowhere.
    fn leave_leaf(&mut self) -> bool {
        let before = self.stack();
        let Some(back) = read_u64(before) else {
            return false;
        };
        self.registers.pc = back as usize;
        self.registers.set_stack(before.wrapping_add(size_of::<usize>()));
        self.went_up(before)
    }

    fn went_up(&self, before: usize) -> bool {
        let now = self.stack();
        before < now && now < self.high
    }

    /// A function's frame register, if it keeps one, has to point into the stack. The fourth byte of the function's
    /// information is the register's number, below the distance.
    fn is_frame_on_stack(&self, information: usize) -> bool {
        let Some(head) = read_u64(information) else {
            return false;
        };
        let register = (head >> 24) as usize & 0xF;
        let frame = self.registers.register(register);
        register == 0 || (self.stack() <= frame && frame < self.high)
    }
}
