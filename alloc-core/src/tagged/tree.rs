//! Links between blocks. Every function takes no memory and touches a bounded number of blocks, but for those that say so.

use super::TaggedBlock;
use super::block::{Block, DYING, PARENT};

/// The block above. O(1): the parent of a block with children stands in its newest child.
pub(super) fn parent(block: Block) -> Option<Block> {
    match newest_child(block) {
        Some(child) => child.header().prev.get(),
        None => block.header().link.get(),
    }
}

pub(super) fn newest_child(block: Block) -> Option<Block> {
    block
        .has(PARENT)
        .then(|| block.header().link.get())
        .flatten()
}

/// The block's children, newest first.
pub(super) fn children(block: Block) -> impl Iterator<Item = Block> {
    core::iter::successors(newest_child(block), |child| child.header().next.get())
}

fn set_parent(block: Block, parent: Option<Block>) {
    match newest_child(block) {
        Some(child) => child.header().prev.set(parent),
        None => block.header().link.set(parent),
    }
}

/// Links a block that has no parent below `above`, as its newest child.
pub(super) fn add_child(above: Block, new: Block) {
    put_first(above, new, new);
    set_parent(new, Some(above));
}

/// Puts a chain of siblings, from its newest to its oldest, before the other children. Their parents are not set.
fn put_first(above: Block, newest: Block, oldest: Block) {
    let grand = parent(above);
    let former = newest_child(above);
    if let Some(former) = former {
        former.header().prev.set(Some(oldest));
    }
    oldest.header().next.set(former);
    newest.header().prev.set(grand);
    above.header().link.set(Some(newest));
    above.set(PARENT);
}

/// Takes a block out from under its parent; it has none afterwards.
pub(super) fn unlink(block: Block) {
    let Some(above) = parent(block) else { return };
    let (older, newer) = (block.header().next.take(), block.header().prev.take());
    if newest_child(above) == Some(block) {
        // `newer` is the parent of the parent here.
        match older {
            Some(older) => {
                older.header().prev.set(newer);
                above.header().link.set(Some(older));
            }
            None => {
                above.clear(PARENT);
                above.header().link.set(newer);
            }
        }
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

/// As [`TaggedBlock::steal`].
pub(super) fn steal(block: Block, above: Option<Block>) -> bool {
    if block.has(DYING) || above.is_some_and(|above| is_below(above, block)) {
        return false;
    }
    unlink(block);
    if let Some(above) = above {
        add_child(above, block);
    }
    true
}

/// As [`TaggedBlock::adopt`].
pub(super) fn adopt(above: Block, from: Block) -> bool {
    if from.has(DYING) || is_below(above, from) {
        return false;
    }
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

/// True when `block` is `top` or lies below it. O(1) where `top` has no children, else O(depth).
fn is_below(block: Block, top: Block) -> bool {
    block == top
        || newest_child(top).is_some()
            && core::iter::successors(Some(block), |block| parent(*block)).any(|at| at == top)
}

/// A linked block, header and all, was copied from `old`, whose memory is not read: what pointed there points at `new` now.
/// O(children).
pub(super) fn relocate(old: Block, new: Block) {
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
    /// The newest child of the block, and of a child, by [`next_older`](Self::next_older), its next older sibling: a walk over children.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn newest_child(self) -> Option<Self> {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        newest_child(block).map(|child| Self::from_payload(child.payload()))
    }

    /// The next older sibling.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn next_older(self) -> Option<Self> {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        block
            .header()
            .next
            .get()
            .map(|sibling| Self::from_payload(sibling.payload()))
    }
}
