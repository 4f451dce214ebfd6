//! Blocks of 64 bytes that live in a ring: the oldest goes, or a random one, and a new one comes.

use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::NonNull;

use super::clock::thread_ns;
use super::subject::{Subject, write};

pub const LAYOUT: Layout = match Layout::from_size_align(64, 16) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// How many functions stand between the thread's first and the one that allocates: what a stack has to be walked
/// through.
const DEPTH: usize = 12;

pub struct Ring<'s, S: Subject> {
    subject: &'s S,
    blocks: Vec<NonNull<u8>>,
    at: usize,
    random: u64,
}

impl<'s, S: Subject> Ring<'s, S> {
    pub fn new(subject: &'s S, live: usize) -> Self {
        let mut ring = Self { subject, blocks: Vec::with_capacity(live), at: 0, random: 1 };
        deep(DEPTH, &mut || {
            for _ in 0..live {
                let block = subject.take(LAYOUT);
                write(block);
                ring.blocks.push(block);
            }
        });
        ring
    }

    /// ns a pair, in the order of age or in none.
    pub fn turn(&mut self, operations: usize, in_order: bool) -> f64 {
        let mut taken = 0;
        deep(DEPTH, &mut || {
            let before = thread_ns();
            if in_order {
                self.oldest(operations)
            } else {
                self.any(operations)
            }
            taken = thread_ns() - before;
        });
        taken as f64 / operations as f64
    }

    fn oldest(&mut self, operations: usize) {
        for _ in 0..operations {
            self.at = if self.at + 1 < self.blocks.len() { self.at + 1 } else { 0 };
            self.exchange(self.at);
        }
    }

    fn any(&mut self, operations: usize) {
        for _ in 0..operations {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = ((self.random >> 33) as usize * self.blocks.len()) >> 31;
            self.exchange(at);
        }
    }

    #[inline]
    fn exchange(&mut self, at: usize) {
        let place = &mut self.blocks[at];
        // SAFETY: the ring's own block, which is live.
        unsafe { self.subject.give(*place, LAYOUT) };
        *place = self.subject.take(LAYOUT);
        write(*place);
    }
}

impl<S: Subject> Drop for Ring<'_, S> {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            // SAFETY: the ring's own blocks, which are live.
            unsafe { self.subject.give(block, LAYOUT) };
        }
    }
}

/// Calls `f` at the end of a chain of calls.
#[inline(never)]
fn deep(depth: usize, f: &mut dyn FnMut()) {
    if depth == 0 {
        f()
    } else {
        deep(black_box(depth - 1), f)
    }
    // Not a tail call: the frame stays.
    black_box(depth);
}
