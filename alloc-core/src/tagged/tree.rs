//! Links between blocks. No function allocates; each touches a bounded number of blocks unless its comment states
//! otherwise.
//!
//! Trees are freed in ralloc's order, without recursion. A destructor sees a consistent tree: a block is unlinked when
//! all below it are freed, and every block from the top down to the one whose destructor runs is marked.
//!
//! Blocks with neither children nor a destructor are not marked: no code reaches them while they are freed.

use super::header::{Block, DYING, PARENT, Plan};
use super::{Fill, TaggedBlock, collector, domain, header};
use crate::error::HostError;
use crate::threads::ThreadTable;

/// O(1): a block with children has its parent's address in its newest child.
pub(super) fn parent(block: Block) -> Option<Block> {
    match newest_child(block) {
        Some(child) => child.header().prev.get(),
        None => block.header().link.get(),
    }
}

#[inline]
pub(super) fn newest_child(block: Block) -> Option<Block> {
    block.has(PARENT).then(|| block.header().link.get()).flatten()
}

pub(super) fn children(block: Block) -> impl Iterator<Item = Block> {
    core::iter::successors(newest_child(block), |child| child.header().next.get())
}

fn set_parent(block: Block, parent: Option<Block>) {
    match newest_child(block) {
        Some(child) => child.header().prev.set(parent),
        None => block.header().link.set(parent),
    }
}

#[inline]
pub(super) fn add_leaf(above: Block, new: Block) {
    put_first(above, new, new);
    new.header().link.set(Some(above));
}

fn add_child(above: Block, new: Block) {
    put_first(above, new, new);
    set_parent(new, Some(above));
}

/// Does not set the parents.
#[inline]
fn put_first(above: Block, newest: Block, oldest: Block) {
    let former = newest_child(above);
    let grand = match former {
        Some(former) => former.header().prev.replace(Some(oldest)),
        None => {
            above.set(PARENT);
            above.header().link.get()
        }
    };
    oldest.header().next.set(former);
    newest.header().prev.set(grand);
    above.header().link.set(Some(newest));
}

fn unlink(block: Block) {
    let Some(above) = parent(block) else { return };
    let (older, newer) = (block.header().next.take(), block.header().prev.take());
    if newest_child(above) == Some(block) {
        remove_newest_of(above, older, newer);
    } else {
        if let Some(newer) = newer {
            newer.header().next.set(older);
        }
        if let Some(older) = older {
            older.header().prev.set(newer);
        }
    }
    set_parent(block, None);
}

#[inline]
pub(super) fn remove_newest(above: Block, newest: Block) {
    let header = newest.header();
    remove_newest_of(above, header.next.get(), header.prev.get());
}

/// `grand` is the parent of `above`.
#[inline]
fn remove_newest_of(above: Block, older: Option<Block>, grand: Option<Block>) {
    match older {
        Some(older) => {
            older.header().prev.set(grand);
            above.header().link.set(Some(older));
        }
        None => {
            above.clear(PARENT);
            above.header().link.set(grand);
        }
    }
}

pub(super) fn steal(block: Block, above: Option<Block>) -> bool {
    let is_refused = |above: Block| above.is_slot() || is_below(above, block);
    if block.is_slot() || block.has(DYING) || above.is_some_and(is_refused) {
        return false;
    }
    move_below(block, above);
    true
}

/// `above` is not below the block. The block or its parent keeps its domain at every moment.
pub(super) fn move_below(block: Block, above: Option<Block>) {
    let was_counted = domain::is_counted(block, parent(block));
    let is_counted = domain::is_counted(block, above);
    if is_counted && !was_counted {
        domain::retain(block);
    }
    unlink(block);
    if let Some(above) = above {
        add_child(above, block);
    }
    if was_counted && !is_counted {
        domain::release_kept(block);
    }
}

/// The children's parent was `before` and is `now`.
fn recount_children(above: Block, before: Block, now: Block) {
    let (before, now) = (before.domain(), now.domain());
    if before != now {
        for child in children(above) {
            if child.domain() == before {
                domain::retain(child);
            } else if child.domain() == now {
                domain::release_kept(child);
            }
        }
    }
}

pub(super) fn adopt(above: Block, from: Block) -> bool {
    let is_slot = above.is_slot() || from.is_slot();
    if is_slot || from.has(DYING) || collector::is_collector(from) || is_below(above, from) {
        return false;
    }
    recount_children(from, from, above);
    let Some(newest) = newest_child(from) else {
        return true;
    };
    let grand = parent(from);
    let mut oldest = newest;
    for child in children(from) {
        set_parent(child, Some(above));
        oldest = child;
    }
    from.clear(PARENT);
    from.header().link.set(grand);
    put_first(above, newest, oldest);
    true
}

/// O(1) where `top` has no children, else O(depth).
fn is_below(block: Block, top: Block) -> bool {
    block == top
        || newest_child(top).is_some()
            && core::iter::successors(Some(block), |block| parent(*block)).any(|at| at == top)
}

/// `old` is not read. O(children).
fn relocate(old: Block, new: Block) {
    for child in children(new) {
        set_parent(child, Some(new));
    }
    let Some(above) = parent(new) else { return };
    if let Some(older) = new.header().next.get() {
        older.header().prev.set(Some(new));
    }
    if newest_child(above) == Some(old) {
        above.header().link.set(Some(new));
    } else if let Some(newer) = new.header().prev.get() {
        newer.header().next.set(Some(new));
    }
}

impl TaggedBlock {
    /// The newest child of the block. With [`next_older`](Self::next_older) it walks over the children, without a
    /// [collector](super::GcBlocks)'s slabs and the blocks in them.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn newest_child(self) -> Option<Self> {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        if block.is_slot() {
            return None;
        }
        first_known(newest_child(block))
    }

    /// The next older sibling.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn next_older(self) -> Option<Self> {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        if block.is_slot() {
            return None;
        }
        first_known(block.header().next.get())
    }
}

/// Skips slabs: freeing, moving or changing one would corrupt its collector.
fn first_known(first: Option<Block>) -> Option<TaggedBlock> {
    core::iter::successors(first, |sibling| sibling.header().next.get())
        .find(|sibling| sibling.destructor_number() != header::SLAB)
        .map(|sibling| TaggedBlock::from_payload(sibling.payload()))
}

/// # Safety
/// As [`TaggedBlock::free`](super::TaggedBlock::free); the block is not being freed.
pub(super) unsafe fn free(top: Block, table: ThreadTable<'_>) {
    let was_counted = domain::is_counted(top, parent(top));
    if top.is_plain_leaf() {
        unlink(top);
        // SAFETY: this function's contract; the parent of an uncounted block is of its domain.
        unsafe { domain::free(top, was_counted, table) };
        return;
    }
    // A destructor may free the parent before the top.
    if !was_counted {
        domain::retain(top);
    }
    unlink(top);
    top.set(DYING);
    let mut walk = Walk { at: Some(top), table };
    walk.run();
}

struct Walk<'t> {
    at: Option<Block>,
    table: ThreadTable<'t>,
}

impl Walk<'_> {
    fn run(&mut self) {
        while let Some(at) = self.at {
            // SAFETY: the contract of `free`.
            unsafe { domain::free_leaves(at, self.table) };
            if let Some(child) = newest_child(at) {
                child.set(DYING);
                self.at = Some(child);
                continue;
            }
            if let Some(destructor) = header::destructor(at.destructor_number()) {
                at.set_destructor_number(0);
                // SAFETY: the contract of `free`: destructors may be called.
                unsafe { destructor(at.payload().as_ptr().cast()) };
                continue;
            }
            let parent = parent(at);
            self.at = parent;
            unlink(at);
            // SAFETY: a leaf, no longer linked; its parent is not yet freed.
            unsafe { domain::free(at, domain::is_counted(at, parent), self.table) };
        }
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.run();
    }
}

/// The block is linked during the allocator's call: a callback must not use this tree.
///
/// # Safety
/// The block is live, and only this thread uses its tree.
pub(super) unsafe fn resize(block: Block, size: usize) -> Result<Block, HostError> {
    let (old, new) = (Plan::new(block.size())?, Plan::new(size)?);
    if old.front != new.front {
        // SAFETY: this function's contract.
        return unsafe { replace(block, size) };
    }
    // SAFETY: this function's contract; both headers have the same offset.
    let resized = match unsafe { domain::resize(block, &old, &new) } {
        Ok(resized) => resized,
        Err(error) if !domain::has_fallback(block, error) => return Err(error),
        // SAFETY: this function's contract.
        Err(_) => return unsafe { replace(block, size) },
    };
    // SAFETY: resized to the plan of this size.
    unsafe { resized.set_size(size) };
    if resized != block {
        relocate(block, resized);
    }
    Ok(resized)
}

/// The header must move in its memory, or a fallback serves a refused request.
///
/// # Safety
/// As [`resize`].
unsafe fn replace(block: Block, size: usize) -> Result<Block, HostError> {
    // SAFETY: the block is live, and so is its domain.
    let new = ThreadTable::with(|table| unsafe { domain::allocate(block.domain(), table, size, Fill::Undefined) })?;
    new.copy_links(block);
    let parent = parent(block);
    let was_counted = domain::is_counted(block, parent);
    if domain::is_counted(new, parent) {
        domain::retain(new);
    }
    let kept = block.size().min(size);
    // SAFETY: two live blocks that hold the kept bytes.
    unsafe { block.payload().copy_to_nonoverlapping(new.payload(), kept) };
    relocate(block, new);
    recount_children(new, block, new);
    // SAFETY: no longer linked; the parent of an uncounted block is of its domain.
    ThreadTable::with(|table| unsafe { domain::free(block, was_counted, table) });
    Ok(new)
}
