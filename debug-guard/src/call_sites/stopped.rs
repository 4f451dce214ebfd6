//! The stack of a stopped thread, for the signal handler.

use super::registers::{self, Registers};
use super::walk::{self, Bounds, End, WalkStart};
use super::{calls, thread_sites, unwind};

/// Maximum frames of the unwinder.
const MAX_FRAMES: usize = 64;

/// Writes the stack of a thread that was stopped at `pc`, innermost frame first. Returns the number of frames, and whether they reach the
/// frame that `mark` points into, or the thread's first if that is 0.
///
/// Follows the chain of frame pointers from the registers at that instruction, which is async-signal-safe, allocates nothing, and reads
/// in a way that cannot fault: what ran over its stack may have left any number in the registers. Unless it is at work on this thread already, the unwinder is asked too, for a chain
/// may end early or leave out callers, and its answer is taken where it tells more: from glibc 2.35 on, where it takes neither a lock nor
/// memory unless the program has registered tables of its own. Where its tables end, the chain is followed from there.
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
    let Some(top) = thread_sites::top(stack).filter(|_| registers::KNOWN) else {
        return (1, false);
    };
    let bounds = Bounds::other(top).up_to(mark);
    let (count, whole) = chained(
        WalkStart {
            from: Registers { stack, frame },
            bounds,
        },
        frames,
        1,
    );
    let mut unwound = [0; MAX_FRAMES];
    let (mut more, mut all, mut last) = (0, false, Registers::default());
    thread_sites::with(|local| {
        local.map(|local| {
            local.once(|| (more, all, last) = unwind::pass_stopped(pc, mark, &mut unwound))
        })
    });
    if more != 0 && !all && last.stack >= stack {
        (more, all) = chained(WalkStart { from: last, bounds }, &mut unwound, more);
    }
    let more = more.min(frames.len());
    if (all, more) <= (whole, count) {
        return (count, whole);
    }
    for (to, from) in frames.iter_mut().zip(unwound.iter().take(more)) {
        *to = *from;
    }
    (more, all)
}

/// Writes what the chain of frame pointers from `start` on tells behind the first `count` frames.
fn chained(start: WalkStart, frames: &mut [usize], mut count: usize) -> (usize, bool) {
    let mut astray = false;
    let end = walk::frames(start, |back, _| {
        astray = astray || !calls::returns_to(back);
        match frames.get_mut(count).filter(|_| !astray) {
            Some(to) => {
                *to = back;
                count = count.wrapping_add(1);
            }
            None => astray = true,
        }
    });
    (count, end == End::Reached && !astray)
}
