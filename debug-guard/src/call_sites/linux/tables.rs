use core::ffi::{c_int, c_void};

use super::super::thread_stack::Registers;

enum Frame {}

// Itanium C++ ABI: Exception Handling, level I; `_Unwind_Backtrace` and `_Unwind_GetCFA` as libgcc and LLVM have
// them.
unsafe extern "C" {
    fn _Unwind_Backtrace(on_frame: extern "C" fn(*mut Frame, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut Frame) -> usize;
    fn _Unwind_GetCFA(frame: *mut Frame) -> usize;
    fn _Unwind_GetGR(frame: *mut Frame, register: c_int) -> usize;
}

const FRAME_POINTER: c_int = if cfg!(target_arch = "x86_64") { 6 } else { 29 };

const GO_ON: c_int = 0;
const STOP: c_int = 5; // _URC_END_OF_STACK

fn backtrace<F: FnMut(usize, Registers) -> c_int>(mut each: F) {
    extern "C" fn on_frame<F: FnMut(usize, Registers) -> c_int>(frame: *mut Frame, data: *mut c_void) -> c_int {
        // SAFETY: the closure of `backtrace`, which waits; nothing else uses it.
        let each = unsafe { &mut *data.cast::<F>() };
        // SAFETY: the unwinder is at this frame.
        let back = unsafe { _Unwind_GetIP(frame) };
        // SAFETY: the unwinder is at this frame.
        let stack = unsafe { _Unwind_GetCFA(frame) };
        // SAFETY: the unwinder is at this frame, which has this register.
        let frame = unsafe { _Unwind_GetGR(frame, FRAME_POINTER) };
        each(back, Registers { stack, frame })
    }
    // SAFETY: `on_frame` gets the closure, which outlives the call.
    unsafe { _Unwind_Backtrace(on_frame::<F>, (&raw mut each).cast()) };
}

/// Writes the frames from the first for which `begins` is true. Returns their number, whether they reach `mark`, or
/// the thread's first if that is 0, and the registers in the last one.
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
        whole = if mark == 0 { back == 0 } else { registers.stack > mark };
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
