//! Freeing a tree: children before their parents, newer ones before older, as ralloc does; no recursion, no memory.
//!
//! What a destructor may find half-done: nothing. Each block is taken out of its parent when all below it are gone, and every block from the
//! top down to the one whose destructor runs is marked: freeing, stealing or resizing those changes nothing. What it adds below a dying block is found,
//! because the walk looks for children again when the destructor has returned.
//!
//! Most blocks have neither children nor a destructor. Nobody can come across those while they are freed (an allocator leaves the tree alone
//! meanwhile), so they are not marked.

use super::header::{Block, DYING};
use super::{domain, tables, tree};

/// # Safety
/// As [`TaggedBlock::free`](super::TaggedBlock::free); the block is not being freed.
pub(super) unsafe fn free(top: Block) {
    let was_counted = domain::is_counted(top, tree::parent(top));
    if top.is_plain_leaf() {
        tree::unlink(top);
        // SAFETY: forwarded; if it was not counted, its parent is of its domain, and lives.
        unsafe { domain::free(top, was_counted) };
        return;
    }
    // The parent may go before the top does: a destructor may free it.
    if !was_counted {
        domain::retain(top);
    }
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
            // SAFETY: whoever freed the top promised that its tree is used no more.
            unsafe { free_leaves(at) };
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
            unsafe { domain::free(at, domain::is_counted(at, parent)) };
        }
    }
}

impl Drop for Walk {
    /// After an allocator unwound: the rest goes all the same.
    fn drop(&mut self) {
        self.run();
    }
}

/// Frees the newest children of `at`, as long as they have neither children nor a destructor.
///
/// # Safety
/// The block is live; its children are used no more.
unsafe fn free_leaves(at: Block) {
    while let Some(child) = tree::newest_child(at).filter(|child| child.is_plain_leaf()) {
        tree::remove_newest(at, child);
        // SAFETY: live, without children, and linked nowhere any more; its parent is there.
        unsafe { domain::free(child, domain::is_counted(child, Some(at))) };
    }
}
