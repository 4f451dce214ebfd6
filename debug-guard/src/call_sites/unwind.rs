//! One pass of the program's own unwinder, which also carries its panics and exceptions.
//!
//! It reads the tables that compilers write beside the code, so it walks modules that keep no frame pointers. It costs microseconds,
//! which is why stacks that it found are remembered (`unwind_trail.rs`). It stops at a function without tables, and says with which
//! registers, so that the chain of frame pointers can continue there.

use super::registers::Registers;
use super::walk::Bounds;
use super::walked_stack::WalkedStack;

#[cfg(all(
    feature = "std",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
mod tables {
    use core::ffi::{c_int, c_void};

    use super::{Bounds, Registers, WalkedStack};
    use crate::os::tables_without_lock;

    /// The unwinder's description of a frame.
    enum Frame {}

    // Itanium C++ ABI: Exception Handling, level I; `_Unwind_Backtrace` and `_Unwind_GetCFA` as libgcc and LLVM's libunwind have them.
    // Both know the frame pointer of every frame: it is one of the registers that a function saves, and is read where they saved it.
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            on_frame: extern "C" fn(*mut Frame, *mut c_void) -> c_int,
            data: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(frame: *mut Frame) -> usize;
        fn _Unwind_GetCFA(frame: *mut Frame) -> usize;
        fn _Unwind_GetGR(frame: *mut Frame, register: c_int) -> usize;
    }

    /// The frame pointer's number in the tables.
    const FRAME_POINTER: c_int = if cfg!(target_arch = "x86_64") { 6 } else { 29 };

    const GO_ON: c_int = 0;
    const STOP: c_int = 5; // _URC_END_OF_STACK

    /// Passes the return address and the registers of each frame to `each`, innermost first, until it returns [`STOP`].
    fn backtrace<F: FnMut(usize, Registers) -> c_int>(mut each: F) {
        extern "C" fn on_frame<F: FnMut(usize, Registers) -> c_int>(
            frame: *mut Frame,
            data: *mut c_void,
        ) -> c_int {
            // SAFETY: the closure of `backtrace`, which waits; nothing else uses it.
            let each = unsafe { &mut *data.cast::<F>() };
            // SAFETY: the frame that the unwinder is at.
            let back = unsafe { _Unwind_GetIP(frame) };
            // SAFETY: as above.
            let stack = unsafe { _Unwind_GetCFA(frame) };
            // SAFETY: as above; a register that every frame has.
            let frame = unsafe { _Unwind_GetGR(frame, FRAME_POINTER) };
            each(back, Registers { stack, frame })
        }
        // SAFETY: `on_frame` follows the interface and gets back the closure, which outlives the call. The unwinder walks the stack of the
        // function that calls it, this one.
        unsafe { _Unwind_Backtrace(on_frame::<F>, (&raw mut each).cast()) };
    }

    /// Writes the frames from the one on that was stopped at `pc`. Returns how many there are, whether they are all up to `mark`, and the
    /// registers in the last one.
    ///
    /// To be called in the handler of the signal that stopped the thread: the unwinder passes the kernel's frame. Returns no frames if the
    /// unwinder would acquire a lock.
    pub(in super::super) fn pass_stopped(
        pc: usize,
        mark: usize,
        frames: &mut [usize],
    ) -> (usize, bool, Registers) {
        let (mut count, mut whole, mut last) = (0, false, Registers::default());
        if !tables_without_lock() {
            return (count, whole, last);
        }
        backtrace(|back, registers| {
            if count == 0 && back != pc {
                return GO_ON; // a frame of the handler
            }
            whole = if mark == 0 {
                back == 0
            } else {
                registers.stack > mark
            };
            let Some(to) = frames.get_mut(count).filter(|_| !whole && back != 0) else {
                return STOP;
            };
            *to = back;
            count = count.wrapping_add(1);
            last = registers;
            GO_ON
        });
        (count, whole, last)
    }

    struct Pass<'a> {
        found: &'a mut WalkedStack,
        stack: usize,
        bounds: Bounds,
        /// Where the search for the next return address begins: behind the one before.
        behind: usize,
    }

    /// Writes into `found` the frames whose return addresses stand at or above `stack`. Returns the registers in the last one.
    pub(in super::super) fn pass(
        found: &mut WalkedStack,
        stack: usize,
        bounds: Bounds,
    ) -> Registers {
        let mut last = Registers::default();
        let mut pass = Pass {
            found,
            stack,
            bounds,
            behind: stack,
        };
        backtrace(|back, registers| {
            last = registers;
            pass.frame(back, registers.stack)
        });
        last
    }

    impl Pass<'_> {
        /// A frame that continues at `back`; its callee's frame ends at `bottom`.
        fn frame(&mut self, back: usize, bottom: usize) -> c_int {
            if bottom <= self.stack {
                return GO_ON; // a frame of this library: the call of the unwinder itself
            }
            let mark = self.bounds.mark;
            let reached = if mark == 0 { back == 0 } else { bottom > mark };
            if reached || back == 0 {
                self.found.whole = reached;
                return STOP;
            }
            let slot = self.slot(back, bottom);
            let distance = slot.and_then(|at| at.checked_sub(self.stack));
            if self.found.push(back, distance) {
                GO_ON
            } else {
                STOP
            }
        }

        /// Where between the last one and `bottom` the return address stands: at the end on x86-64.
        fn slot(&mut self, back: usize, bottom: usize) -> Option<usize> {
            let word = size_of::<usize>();
            if bottom > self.bounds.top || !bottom.is_multiple_of(word) {
                return None;
            }
            let mut at = bottom;
            while let Some(lower) = at.checked_sub(word).filter(|lower| *lower >= self.behind) {
                at = lower;
                if self.bounds.word(at)? == back {
                    self.behind = at.saturating_add(word);
                    return Some(at);
                }
            }
            None
        }
    }
}

#[cfg(not(all(
    feature = "std",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
mod tables {
    use super::{Bounds, Registers, WalkedStack};

    /// No unwinder to ask.
    pub(in super::super) fn pass(_: &mut WalkedStack, _: usize, _: Bounds) -> Registers {
        Registers::default()
    }

    pub(in super::super) fn pass_stopped(
        _: usize,
        _: usize,
        _: &mut [usize],
    ) -> (usize, bool, Registers) {
        (0, false, Registers::default())
    }
}

pub(super) use tables::{pass, pass_stopped};
