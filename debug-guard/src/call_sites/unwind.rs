//! The stack of the calling thread, or of one that a signal stopped, as far as anything tells it.
//!
//! The program's own unwinder, which also carries its panics and exceptions, reads the tables that compilers write beside the code, so it walks
//! modules that keep no frame pointers. It costs microseconds. Where its tables end, as in a driver that is built without any, it says with which
//! registers, and the chain of frame pointers continues; and the chain alone is taken where it tells more.

use super::thread_stack::{self, Registers, ThreadStack};
use super::walk::{self, Bounds, End, WalkStart};

/// Maximum frames of a stopped thread.
const STOPPED_FRAMES: usize = 64;

/// Writes the frames of the calling thread, innermost first, and to `slots` where the unwinder's stand above the stack pointer. Returns
/// their number, and whether they reach the mark, or the thread's first frame without one. `None` if the unwinder is at work on this
/// thread: it allocates.
pub(super) fn walk(
    local: &ThreadStack,
    start: WalkStart,
    frames: &mut [usize],
    slots: &mut [u32],
) -> Option<(usize, bool)> {
    let stack = start.from.stack;
    let mut slots = slots.iter_mut();
    let begins = |_, registers: Registers| {
        // Frames of this library below: the call of the unwinder itself.
        let begun = registers.stack > stack;
        if begun && let Some(slot) = slots.next() {
            // x86-64 pushes the return address: a caller's stack begins behind it.
            *slot = walk::slot_of(registers.stack.wrapping_sub(size_of::<usize>()), stack);
        }
        begun
    };
    let unwound = local.once(|| pass(begins, start.bounds.mark, frames))?;
    Some(improved(unwound, start, frames, 0))
}

/// Writes the stack of a thread that was stopped at `pc`, innermost frame first. Returns the number of frames, and whether they reach the
/// frame that `mark` points into, or the thread's first if that is 0.
///
/// Async-signal-safe: allocates nothing, and reads in a way that cannot fault, for what ran over its stack may have left any number in the
/// registers. The unwinder is asked from glibc 2.35 on, where it acquires no lock and allocates nothing unless the program has registered
/// tables of its own.
///
/// To be called in the handler of the signal that stopped the thread; it may run on another stack.
pub(crate) fn walk_from(
    pc: usize,
    frame: usize,
    stack: usize,
    mark: usize,
    frames: &mut [usize],
) -> (usize, bool) {
    let Some(first) = frames.first_mut() else {
        return (0, false);
    };
    *first = pc;
    let Some(top) = thread_stack::top(stack).filter(|_| thread_stack::REGISTERS_KNOWN) else {
        return (1, false);
    };
    let start = WalkStart {
        from: Registers { stack, frame },
        bounds: Bounds::other(top).up_to(mark),
    };
    let room = frames.len().min(STOPPED_FRAMES);
    let frames = frames.get_mut(..room).unwrap_or_default();
    // The unwinder passes the handler's frames first.
    let mut begun = false;
    let begins = |back, _| {
        begun = begun || back == pc;
        begun
    };
    let pass = |local: &ThreadStack| {
        let allowed = is_signal_safe();
        allowed.then(|| local.once(|| pass(begins, mark, frames)))?
    };
    let unwound = thread_stack::with(pass);
    improved(unwound.unwrap_or_default(), start, frames, 1)
}

/// What the unwinder wrote, continued by the chain, or else the chain from `start` on behind the first `given` frames.
fn improved(
    (mut count, mut whole, last): (usize, bool, Registers),
    start: WalkStart,
    frames: &mut [usize],
    given: usize,
) -> (usize, bool) {
    if !whole && count > 0 && last.stack >= start.from.stack {
        let from = WalkStart {
            from: last,
            ..start
        };
        (count, whole) = chained(from, frames, count);
    }
    if !whole {
        let mut other = [0; walk::MAX_FRAMES + 1];
        let (more, all) = chained(start, &mut other, given);
        if (all, more) > (whole, count) {
            let kept = frames.iter_mut().zip(other).take(more).skip(given);
            count = given + kept.map(|(to, from)| *to = from).count();
            whole = all && count == more;
        }
    }
    (count, whole)
}

/// Writes the chain from `start` on behind the first `count` frames, as far as its addresses follow calls.
pub(super) fn chained(start: WalkStart, frames: &mut [usize], count: usize) -> (usize, bool) {
    let rest = frames.get_mut(count..).unwrap_or_default();
    let (found, end) = walk::frames(start, rest, &mut []);
    let calls = walk::count_calls(rest.get(..found).unwrap_or_default());
    (count + calls, end == End::Reached && calls == found)
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
mod tables {
    use core::ffi::{c_int, c_void};

    use super::Registers;
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

    /// True if the unwinder acquires no lock, so that it may be asked in a signal handler.
    pub(in super::super) fn is_signal_safe() -> bool {
        tables_without_lock()
    }

    /// Writes the frames from the one on for which `begins` is true. Returns their number, whether they are all up to `mark`, or to the
    /// thread's first if that is 0, and the registers in the last one.
    pub(in super::super) fn pass(
        mut begins: impl FnMut(usize, Registers) -> bool,
        mark: usize,
        frames: &mut [usize],
    ) -> (usize, bool, Registers) {
        let (mut count, mut whole, mut last) = (0, false, Registers::default());
        backtrace(|back, registers| {
            if !begins(back, registers) {
                return GO_ON;
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
            count += 1;
            last = registers;
            GO_ON
        });
        (count, whole, last)
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
mod tables {
    use super::Registers;

    pub(in super::super) fn is_signal_safe() -> bool {
        false
    }

    /// No unwinder to ask.
    pub(in super::super) fn pass(
        _: impl FnMut(usize, Registers) -> bool,
        _: usize,
        _: &mut [usize],
    ) -> (usize, bool, Registers) {
        (0, false, Registers::default())
    }
}

pub(super) use tables::{is_signal_safe, pass};
