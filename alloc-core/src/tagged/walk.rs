//! Freeing a tree: children before their parents, newer ones before older, as ralloc does; no recursion, no memory.
//!
//! What a destructor may find half-done: nothing. Each block is taken out of its parent when all below it are gone, and every block from the
//! top down to the one whose destructor runs is marked: freeing, stealing or resizing those changes nothing. What it adds below a dying block is found,
//! because the walk looks for children again when the destructor has returned.

use super::block::{Block, DYING};
use super::{domain, tables, tree};

/// # Safety
/// As [`TaggedBlock::free`](super::TaggedBlock::free); the block is not being freed.
pub(super) unsafe fn free(top: Block) {
    tree::unlink(top);
    top.set(DYING);
    Walk { at: Some(top) }.run();
}

/// Frees what is below `at`, `at`, and everything above it.
struct Walk {
    at: Option<Block>,
}

impl Walk {
    fn run(&mut self) {
        while let Some(at) = self.at {
            if let Some(child) = tree::newest_child(at) {
                child.set(DYING);
                self.at = Some(child);
                continue;
            }
            let number = at.destructor_number();
            if let Some(destructor) = tables::destructor(number) {
                at.set_destructor_number(0);
                // SAFETY: whoever freed the top promised that the destructors of its tree may be called with their payloads.
                unsafe { destructor(at.payload().as_ptr().cast()) };
                // It may have added children.
                continue;
            }
            self.at = tree::parent(at);
            tree::unlink(at);
            // SAFETY: live, without children, and linked nowhere any more.
            unsafe { domain::free(at) };
        }
    }
}

impl Drop for Walk {
    /// After an allocator unwound: the rest goes all the same.
    fn drop(&mut self) {
        self.run();
    }
}
