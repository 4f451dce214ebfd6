//! One pass of the unwinder that the program has anyway: the one that carries its panics and exceptions.
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

    /// What the unwinder knows of a frame.
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

    struct Stopped<'a> {
        pc: usize,
        mark: usize,
        frames: &'a mut [usize],
        count: usize,
        whole: bool,
        last: Registers,
    }

    /// Writes the frames from the one on that was stopped at `pc`, and answers how many there are, whether they are all up to `mark`, and
    /// the registers in the last one.
    ///
    /// To be called in the handler of the signal that stopped it: the unwinder passes the kernel's frame. Tells nothing where the
    /// unwinder would take a lock.
    pub(in super::super) fn pass_stopped(
        pc: usize,
        mark: usize,
        frames: &mut [usize],
    ) -> (usize, bool, Registers) {
        let last = Registers::default();
        if !tables_without_lock() {
            return (0, false, last);
        }
        let mut stopped = Stopped {
            pc,
            mark,
            frames,
            count: 0,
            whole: false,
            last,
        };
        // SAFETY: as in `pass`.
        unsafe { _Unwind_Backtrace(on_stopped_frame, (&raw mut stopped).cast()) };
        (stopped.count, stopped.whole, stopped.last)
    }

    extern "C" fn on_stopped_frame(frame: *mut Frame, data: *mut c_void) -> c_int {
        // SAFETY: the `Stopped` of `pass_stopped`, which waits, and of nobody else.
        let stopped = unsafe { &mut *data.cast::<Stopped<'_>>() };
        // SAFETY: a frame that the unwinder is just telling of.
        let back = unsafe { _Unwind_GetIP(frame) };
        // SAFETY: as above.
        let bottom = unsafe { _Unwind_GetCFA(frame) };
        if stopped.count == 0 && back != stopped.pc {
            return GO_ON; // of the handler
        }
        stopped.whole = if stopped.mark == 0 {
            back == 0
        } else {
            bottom > stopped.mark
        };
        let Some(to) = stopped
            .frames
            .get_mut(stopped.count)
            .filter(|_| !stopped.whole && back != 0)
        else {
            return STOP;
        };
        *to = back;
        stopped.count = stopped.count.wrapping_add(1);
        // SAFETY: as above.
        stopped.last = unsafe { registers(frame, bottom) };
        GO_ON
    }

    /// The registers with which the code in `frame` goes on; its stack begins at `bottom`.
    ///
    /// # Safety
    /// The unwinder is just telling of this frame.
    unsafe fn registers(frame: *mut Frame, bottom: usize) -> Registers {
        Registers {
            stack: bottom,
            // SAFETY: the caller's; a register that every frame has.
            frame: unsafe { _Unwind_GetGR(frame, FRAME_POINTER) },
        }
    }

    struct Pass<'a> {
        last: Registers,
        found: &'a mut WalkedStack,
        stack: usize,
        bounds: Bounds,
        /// Where the search for the next return address begins: behind the one before.
        behind: usize,
    }

    /// Writes into `found` the frames whose return addresses stand at or above `stack`, and answers the registers in the last one.
    pub(in super::super) fn pass(
        found: &mut WalkedStack,
        stack: usize,
        bounds: Bounds,
    ) -> Registers {
        let mut pass = Pass {
            last: Registers::default(),
            found,
            stack,
            bounds,
            behind: stack,
        };
        // SAFETY: `on_frame` follows the interface and gets back the `Pass` that outlives the call. The unwinder walks the stack of the
        // function that calls it, this one.
        unsafe { _Unwind_Backtrace(on_frame, (&raw mut pass).cast()) };
        pass.last
    }

    extern "C" fn on_frame(frame: *mut Frame, data: *mut c_void) -> c_int {
        // SAFETY: the `Pass` of `pass`, which waits, and of nobody else.
        let pass = unsafe { &mut *data.cast::<Pass<'_>>() };
        // SAFETY: a frame that the unwinder is just telling of.
        let back = unsafe { _Unwind_GetIP(frame) };
        // SAFETY: as above.
        let bottom = unsafe { _Unwind_GetCFA(frame) };
        // SAFETY: as above.
        pass.last = unsafe { registers(frame, bottom) };
        pass.frame(back, bottom)
    }

    impl Pass<'_> {
        /// A frame that goes on at `back`; `bottom` is where its callee's frame ends.
        fn frame(&mut self, back: usize, bottom: usize) -> c_int {
            if bottom <= self.stack {
                return GO_ON; // of ours: the call of the unwinder itself
            }
            if self.bounds.mark != 0 && bottom > self.bounds.mark {
                // The command's mark lies in the frame before.
                self.found.whole = true;
                return STOP;
            }
            if back == 0 {
                self.found.whole = self.bounds.mark == 0;
                return STOP;
            }
            let slot = self.slot(back, bottom);
            if self
                .found
                .push(back, slot.and_then(|at| at.checked_sub(self.stack)))
            {
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
