use core::fmt;
use core::hint::black_box;
use core::sync::atomic::{AtomicU8, Ordering};

use super::system::{self, ADVICE};
use super::walk::WalkStart;
use super::{thread_stack, unwind};

/// The [`Stacks`](crate::Stacks) that work in this process.
///
/// Frame pointers depend on how code is compiled (`-C force-frame-pointers=yes`, `-fno-omit-frame-pointer`). The result
/// is for this library; only [`Stacks::Full`](crate::Stacks::Full) sees the callers of a driver that is compiled
/// without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackSupport {
    /// [`Stacks::Fast`](crate::Stacks::Fast) sees callers.
    pub fast: bool,
    /// [`Stacks::Full`](crate::Stacks::Full) sees callers.
    pub full: bool,
}

impl StackSupport {
    /// Walks its own stack in both ways, once a process. Allocates nothing; the unwinder may, from the C library, the
    /// first time.
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
        Self { fast: known & FAST != 0, full: known & FULL != 0 }
    }
}

impl fmt::Display for StackSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fast, self.full) {
            (true, true) => f.write_str("stacks are walked by frame pointers, and by the unwinder where those end"),
            (true, false) => f.write_str("stacks are walked by frame pointers; there is no unwinder"),
            (false, true) => write!(f, "stacks are walked by the unwinder only: {ADVICE}"),
            (false, false) => f.write_str(
                "no stack can be walked: compile with frame pointers, on Linux on x86-64 or AArch64, or on Windows on x86-64",
            ),
        }
    }
}

const TRIED: u8 = 1;
const FAST: u8 = 2;
const FULL: u8 = 4;

/// Frame pointers work where they find what the unwinder finds.
#[inline(never)]
fn try_both() -> u8 {
    let from = thread_stack::read_registers();
    let (mut fast, mut full) = ([0; 2], [0; 2]);
    thread_stack::with(|local| {
        let bounds = local.bounds(from.stack);
        unwind::chained(WalkStart { from, bounds }, &mut fast, 0);
        local.once(|| system::pass(|_, at| at.stack > from.stack, bounds.mark, &mut full));
    });
    let [_, caller] = full;
    match black_box(caller) {
        0 => TRIED,
        _ if fast == full => TRIED | FAST | FULL,
        _ => TRIED | FULL,
    }
}
