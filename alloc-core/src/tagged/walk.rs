//! Freeing a tree: children before their parents, newer ones before older, as ralloc does, without recursion or allocation.
//!
//! A destructor always sees a consistent tree. A block is unlinked when all below it are freed, and every block from the top down to the one
//! whose destructor runs is marked: freeing, stealing or resizing those changes nothing. Blocks that the destructor adds below a dying block
//! are freed as well, because the walk looks for children again when the destructor has returned.
//!
//! Most blocks have neither children nor a destructor. They are not marked, because no code can reach them while they are freed: a callback of
//! the allocator must not use the tree.

use super::header::{Block, DYING};
use super::{domain, memory, tables, tree};
use crate::threads::ThreadTable;

/// # Safety
/// As [`TaggedBlock::free`](super::TaggedBlock::free); the block is not being freed.
pub(super) unsafe fn free(top: Block, table: ThreadTable<'_>) {
    let was_counted = domain::is_counted(top, tree::parent(top));
    if top.is_plain_leaf() {
        tree::unlink(top);
        // SAFETY: this function's contract; if it was not counted, its parent belongs to its domain, and is live.
        unsafe { memory::free(top, was_counted, table) };
        return;
    }
    // A destructor may free the parent before the top.
    if !was_counted {
        domain::retain(top);
    }
    tree::unlink(top);
    top.set(DYING);
    let mut walk = Walk {
        at: Some(top),
        table,
    };
    walk.run();
}

/// Frees what is below `at`, `at`, and everything above it.
struct Walk<'t> {
    at: Option<Block>,
    table: ThreadTable<'t>,
}

impl Walk<'_> {
    fn run(&mut self) {
        while let Some(at) = self.at {
            // SAFETY: the caller of `free` promised that the tree is not used any more.
            unsafe { memory::free_leaves(at, self.table) };
            if let Some(child) = tree::newest_child(at) {
                child.set(DYING);
                self.at = Some(child);
                continue;
            }
            if let Some(destructor) = tables::destructor(at.destructor_number()) {
                at.set_destructor_number(0);
                // SAFETY: the caller of `free` promised that the destructors of the tree may be called with their payloads.
                unsafe { destructor(at.payload().as_ptr().cast()) };
                // It may have added children.
                continue;
            }
            let parent = tree::parent(at);
            self.at = parent;
            tree::unlink(at);
            // SAFETY: live, without children, and no longer linked; its parent is dying, but not yet freed.
            unsafe { memory::free(at, domain::is_counted(at, parent), self.table) };
        }
    }
}

impl Drop for Walk<'_> {
    /// Frees the rest after the allocator has unwound.
    fn drop(&mut self) {
        self.run();
    }
}
