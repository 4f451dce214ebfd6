//! The stack of the calling thread, or of one that a signal stopped.
//!
//! Where the unwinder's tables end, as in a driver built without any, the chain of frame pointers continues from the
//! registers that it reports; the chain alone is used where it finds more.

use super::system::{REGISTERS_KNOWN, pass};
use super::thread_stack::{self, Registers, ThreadStack};
use super::walk::{self, Bounds, End, WalkStart};
use crate::os;

const STOPPED_FRAMES: usize = 64;

/// Writes the frames, innermost first, and to `slots` where the unwinder's stand above the stack pointer. Returns their
/// number, and whether they reach the mark, or without one the thread's first frame. `None` if the unwinder is at work
/// on this thread: it allocates.
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

/// Writes the stack of a thread that was stopped at `pc`, innermost frame first. Returns the number of frames, and
/// whether they reach the frame that `mark` points into, or the thread's first if that is 0.
///
/// Async-signal-safe: it reads without faults, since any number may be in the registers. The unwinder allocates
/// nothing unless the program has registered tables of its own.
pub(crate) fn walk_from(pc: usize, frame: usize, stack: usize, mark: usize, frames: &mut [usize]) -> (usize, bool) {
    let Some(first) = frames.first_mut() else {
        return (0, false);
    };
    *first = pc;
    let Some(top) = thread_stack::top(stack).filter(|_| REGISTERS_KNOWN) else {
        return (1, false);
    };
    let start = WalkStart { from: Registers { stack, frame }, bounds: Bounds::other(top).up_to(mark) };
    let room = frames.len().min(STOPPED_FRAMES);
    let frames = frames.get_mut(..room).unwrap_or_default();
    // The unwinder passes the handler's frames first.
    let mut begun = false;
    let begins = |back, _| {
        begun = begun || back == pc;
        begun
    };
    let pass = |local: &ThreadStack| {
        let allowed = os::unwinds_in_handlers();
        allowed.then(|| local.once(|| pass(begins, mark, frames)))?
    };
    let unwound = thread_stack::with(pass);
    improved(unwound.unwrap_or_default(), start, frames, 1)
}

fn improved(
    (mut count, mut whole, last): (usize, bool, Registers),
    start: WalkStart,
    frames: &mut [usize],
    given: usize,
) -> (usize, bool) {
    if !whole && count > 0 && last.stack >= start.from.stack {
        let from = WalkStart { from: last, ..start };
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

/// Ends where an address follows no call.
pub(super) fn chained(start: WalkStart, frames: &mut [usize], count: usize) -> (usize, bool) {
    let rest = frames.get_mut(count..).unwrap_or_default();
    let (found, end) = walk::frames(start, rest, &mut []);
    let calls = walk::count_calls(rest.get(..found).unwrap_or_default());
    (count + calls, end == End::Reached && calls == found)
}
