//! A number for the place that asks, cheaper than its site: for those who only want to tell places apart.

use super::hash::mix;
use super::walk::word;
use super::{local, registers};

/// So many calls are looked at, where frame pointers chain.
const NEAR: usize = 3;
/// How deep the stack is tells further calls apart. Only within a page: threads' stacks begin anywhere, but at like places in a page.
const DEPTH: usize = 0xFFF;

/// Differs, but for chance, between requests that come through different calls or are for different sizes. Takes no memory; a few
/// nanoseconds.
#[inline(never)]
pub(crate) fn call_site(size: usize) -> usize {
    let from = registers::read();
    let mut calls = 0_u64;
    local::with(|local| {
        let Some(top) = local.filter(|_| from.stack != 0).map(|local| local.top(from.stack)) else { return };
        let last = top.saturating_sub(2 * size_of::<usize>());
        let (mut frame, mut lowest) = (from.frame, from.stack);
        for _ in 0..NEAR {
            if frame < lowest || frame > last || !frame.is_multiple_of(align_of::<usize>()) {
                return;
            }
            let at = frame.wrapping_add(size_of::<usize>());
            // One after the other, each in its place: which is which must tell, and one multiplication will do for all.
            // SAFETY: aligned, and between the stack pointer and the end of this thread's stack.
            calls = calls.rotate_left(21) ^ unsafe { word(at) } as u64;
            lowest = at;
            // SAFETY: as above.
            frame = unsafe { word(frame) };
        }
    });
    mix((from.stack & DEPTH) as u64 ^ (size as u64).rotate_left(12), calls) as usize
}
