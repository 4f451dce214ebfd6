//! The stack support of this process, found by trying.

use core::fmt;
use core::hint::black_box;
use core::sync::atomic::{AtomicU8, Ordering};

use super::walk::WalkStart;
use super::{registers, stack, thread_stack, unwind};

/// The [`Stacks`](crate::Stacks) that work in this process.
///
/// Frame pointers depend on how code is compiled (`-C force-frame-pointers=yes`, `-fno-omit-frame-pointer`). The result is for this
/// library; a driver may be compiled without, and then only [`Stacks::Full`](crate::Stacks::Full) sees its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackSupport {
    /// [`Stacks::Fast`](crate::Stacks::Fast) sees callers.
    pub fast: bool,
    /// [`Stacks::Full`](crate::Stacks::Full) sees callers.
    pub full: bool,
}

impl StackSupport {
    /// Walks a known chain of calls in both ways, once a process. Allocates nothing; the unwinder may, from the C library, the first time.
    #[must_use]
    pub fn of_this_process() -> Self {
        static KNOWN: AtomicU8 = AtomicU8::new(0);
        let known = match KNOWN.load(Ordering::Relaxed) {
            0 => {
                let now = try_both();
                KNOWN.store(now, Ordering::Relaxed);
                now
            }
            known => known,
        };
        Self {
            fast: known & FAST != 0,
            full: known & FULL != 0,
        }
    }
}

impl fmt::Display for StackSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.fast, self.full) {
            (true, true) => "stacks are walked by frame pointers, and by the unwinder where those end",
            (true, false) => "stacks are walked by frame pointers; there is no unwinder",
            (false, true) => {
                "stacks are walked by the unwinder only: this program was compiled without frame pointers, ask for full stacks"
            }
            (false, false) => "no stack can be walked: compile with frame pointers, on Linux on x86-64 or AArch64",
        })
    }
}

const TRIED: u8 = 1;
const FAST: u8 = 2;
const FULL: u8 = 4;

/// Maximum bytes of a function of the chain below.
const LONGEST: usize = 1024;

fn try_both() -> u8 {
    black_box(outer(black_box(1)))
}

/// The chain: three functions that differ, so that none is merged, and that do something after their call, so that none is a tail call.
#[inline(never)]
fn outer(depth: u8) -> u8 {
    let answer = middle(black_box(depth.wrapping_add(2)));
    black_box(answer)
}

#[inline(never)]
fn middle(depth: u8) -> u8 {
    let answer = inner(black_box(depth.wrapping_mul(3)));
    black_box(answer) | black_box(0)
}

#[inline(never)]
fn inner(depth: u8) -> u8 {
    let answer = look();
    black_box(depth);
    black_box(answer)
}

#[inline(never)]
fn look() -> u8 {
    let from = registers::read();
    let mut answer = TRIED;
    thread_stack::with(|local| {
        let Some(local) = local else { return };
        let bounds = local.bounds(from.stack);
        if from.stack == 0 || bounds.top == 0 {
            return;
        }
        let mut frames = [0; 8];
        stack::chained(WalkStart { from, bounds }, &mut frames, 0);
        if is_the_chain(&frames) {
            answer |= FAST;
        }
        let mut frames = [0; 8];
        local.once(|| unwind::pass(|_, at| at.stack > from.stack, bounds.mark, &mut frames));
        if is_the_chain(&frames) {
            answer |= FULL;
        }
    });
    answer
}

/// True when the frames are those of the chain, one after the other.
fn is_the_chain(frames: &[usize]) -> bool {
    let chain: [fn(u8) -> u8; 3] = [inner, middle, outer];
    frames.iter().zip(chain).all(|(frame, function)| {
        let begin = function as usize;
        (begin..begin.saturating_add(LONGEST)).contains(frame)
    })
}
