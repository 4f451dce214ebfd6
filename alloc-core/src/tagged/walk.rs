//! Freeing a tree: children before their parents, newer ones before older, as ralloc does; no recursion, no memory.
//!
//! What a destructor may find half-done: nothing. Each block is taken out of its parent when all below it are gone, and every block from the
//! top down to the one whose destructor runs is marked: freeing, stealing or resizing those changes nothing. What it adds below a dying block is found,
//! because the walk looks for children again when the destructor has returned.
//!
//! Most blocks have neither children nor a destructor. Nobody can come across those while they are freed (an allocator leaves the tree alone
//! meanwhile), so they are not marked.

use super::header::{Block, DYING};
use super::{domain, memory, tables, tree};
use crate::threads::ThreadTable;

/// # Safety
/// As [`TaggedBlock::free`](super::TaggedBlock::free); the block is not being freed.
pub(super) unsafe fn free(top: Block, table: ThreadTable<'_>) {
    let was_counted = domain::is_counted(top, tree::parent(top));
    if top.is_plain_leaf() {
        tree::unlink(top);
        // SAFETY: forwarded; if it was not counted, its parent is of its domain, and lives.
        unsafe { memory::free(top, was_counted, table) };
        return;
    }
    // The parent may go before the top does: a destructor may free it.
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
    /// The thread's.
    table: ThreadTable<'t>,
}

impl Walk<'_> {
    fn run(&mut self) {
        while let Some(at) = self.at {
            // SAFETY: whoever freed the top promised that its tree is used no more.
            unsafe { memory::free_leaves(at, self.table) };
            if let Some(child) = tree::newest_child(at) {
                child.set(DYING);
                self.at = Some(child);
                continue;
            }
            if let Some(destructor) = tables::destructor(at.destructor_number()) {
                at.set_destructor_number(0);
                // SAFETY: whoever freed the top promised that the destructors of its tree may be called with their payloads.
                unsafe { destructor(at.payload().as_ptr().cast()) };
                // It may have added children.
                continue;
            }
            let parent = tree::parent(at);
            self.at = parent;
            tree::unlink(at);
            // SAFETY: live, without children, and linked nowhere any more; its parent is dying, and still there.
            unsafe { memory::free(at, domain::is_counted(at, parent), self.table) };
        }
    }
}

impl Drop for Walk<'_> {
    /// After an allocator unwound: the rest goes all the same.
    fn drop(&mut self) {
        self.run();
    }
}
