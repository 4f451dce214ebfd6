//! A hash of the calling place. It is cheaper than a site, and only distinguishes places.

use super::registers::Registers;
use super::walk::Bounds;
use super::{registers, thread_stack};

/// Calls that are hashed, if frame pointers chain.
const NEAR: usize = 2;
/// The depth of the stack distinguishes further calls. Only within a page: threads' stacks begin at the same position of a page.
const DEPTH: usize = 0xFFF;

/// A hash of the caller's calls and of the size. The calls are those of the function that this is inlined into. Allocates nothing; a few
/// nanoseconds.
#[inline(always)]
pub(crate) fn call_site(size: usize) -> usize {
    let from = registers::read();
    // The user mixes the hash.
    let start = size ^ (from.stack & DEPTH).rotate_left(20);
    thread_stack::with(|local| match local {
        Some(local) if from.stack != 0 => walk(start, from, local.bounds(from.stack)),
        _ => start,
    })
}

#[inline(always)]
fn walk(start: usize, from: Registers, bounds: Bounds) -> usize {
    let (mut site, mut frame) = (start, from.frame);
    // For two words, so that one comparison checks both.
    let room = bounds
        .top
        .wrapping_sub(from.stack)
        .wrapping_sub(2 * size_of::<usize>());
    for _ in 0..NEAR {
        if frame.wrapping_sub(from.stack) > room || !frame.is_multiple_of(align_of::<usize>()) {
            break;
        }
        let (Some(next), Some(back)) = (
            bounds.word(frame),
            bounds.word(frame.wrapping_add(size_of::<usize>())),
        ) else {
            break;
        };
        site = site.rotate_left(usize::BITS / 3) ^ back;
        frame = next;
    }
    site
}

#[cfg(all(test, feature = "std", not(miri)))]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[inline(never)]
    fn through(calls: usize, size: usize) -> usize {
        let site = if calls == 0 {
            call_site(size)
        } else {
            through(calls - 1, size)
        };
        black_box(site)
    }

    #[test]
    fn a_place_stays_the_same_and_others_differ() {
        if !registers::KNOWN {
            return;
        }
        let all: std::vec::Vec<[usize; 3]> = (0..5)
            .map(|_| [through(0, 64), through(1, 64), through(0, 65)])
            .collect();
        assert!(all.iter().all(|sites| *sites == all[0]), "{all:x?}");
        let [here, deeper, larger] = all[0];
        assert!(
            here != deeper && here != larger && deeper != larger,
            "{all:x?}"
        );
    }
}
