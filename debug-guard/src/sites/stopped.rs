//! The stack of a thread that the processor stopped, for the signal handler.

use super::registers::{self, Registers};
use super::walk::{self, Bounds};
use super::{calls, local};

/// Writes the stack of a thread that was stopped at `pc`, innermost first, and answers how many frames that are.
///
/// Follows the chain of frame pointers from the registers at that instruction. Async-signal-safe, takes no memory, reads nothing that
/// it does not know to be that stack's. To be called on that thread; it may run on another stack.
pub(crate) fn walk_from(pc: usize, frame: usize, stack: usize, frames: &mut [usize]) -> usize {
    let Some((first, rest)) = frames.split_first_mut() else { return 0 };
    *first = pc;
    let Some((_, top)) = local::bounds(stack).filter(|_| registers::KNOWN) else { return 1 };
    let mut count = 0_usize;
    let mut astray = false;
    // SAFETY: `chain` reads words between the stack pointer and the top of the stopped stack only.
    let read = |at| unsafe { walk::word(at) };
    walk::chain(Registers { stack, frame }, Bounds { mark: 0, top }, read, |back, _| {
        astray = astray || !calls::returns_to(back);
        if let Some(to) = rest.get_mut(count).filter(|_| !astray) {
            *to = back;
            count = count.wrapping_add(1);
        }
    });
    count.saturating_add(1)
}
