//! Contexts end before their parents, newer ones before older, without recursion or allocation at any depth. A
//! reference keeps the node that the walk has reached; contexts that other calls or threads end meanwhile are skipped.

use core::fmt;

use super::{CLOSED, ContextHandle, ContextNode, DRAINED, ORPHANED, tree};
use crate::error::Misuse;
use crate::owned::{bytes_freed_with, end_values};
use crate::sync::{Held, Ordering};
use crate::unwind::run_to_end;

pub(super) fn end_subtree(top: &ContextHandle) {
    tree::close(top.node());
    let mut at: Option<ContextHandle> = None;
    run_to_end(|| {
        if let Some(at) = &at {
            end_values(at.node());
            at.node().set_flags(DRAINED);
            if at == top {
                return false;
            }
        }
        let next = tree::next_to_drain(top.node_ptr(), at.as_ref().map(ContextHandle::node_ptr));
        drop(at.replace(ContextHandle::from_counted(next)));
        true
    });
}

/// Blocks, contexts and handles that are still alive in a context and those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outstanding {
    /// Bytes of live blocks, without what is freed with its context: records, owned values and their tables.
    pub bytes: u64,
    /// The number of these blocks.
    pub blocks: u64,
    /// Bytes of [`Foreign`](crate::Foreign) memory still declared, of all kinds; not in `bytes`.
    pub foreign_bytes: u64,
    /// Contexts below that still exist.
    pub contexts: u64,
    /// Handles to this context and those below.
    pub handles: u64,
}

impl Outstanding {
    /// True when nothing is outstanding.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.needs_backing() && self.foreign_bytes == 0
    }

    /// True if anything needs the backing allocator. Foreign memory does not: a driver that omits `pfnInternalFree`
    /// must not prevent a root from closing.
    #[must_use]
    pub const fn needs_backing(&self) -> bool {
        self.bytes != 0 || self.blocks != 0 || self.contexts != 0 || self.handles != 0
    }
}

impl fmt::Display for Outstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |count| if count == 1 { "" } else { "s" };
        let Self { bytes, blocks, contexts, handles, .. } = *self;
        write!(f, "{bytes} byte{} in {blocks} block{}, ", s(bytes), s(blocks))?;
        write!(f, "{contexts} context{}, {handles} handle{} outstanding", s(contexts), s(handles))?;
        if self.foreign_bytes > 0 {
            write!(f, ", and {} bytes taken elsewhere still declared", self.foreign_bytes)?;
        }
        Ok(())
    }
}

/// Why a context was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseError {
    /// Blocks, contexts or handles of the tree are outstanding.
    Outstanding(Outstanding),
    /// [`Misuse::NotARoot`].
    Misuse(Misuse),
}

impl CloseError {
    /// What is outstanding; empty if another error prevented closing.
    #[must_use]
    pub fn outstanding(self) -> Outstanding {
        match self {
            Self::Outstanding(outstanding) => outstanding,
            Self::Misuse(_) => Outstanding::default(),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outstanding(outstanding) => {
                write!(f, "{outstanding}: free them and close again, or abandon the root")
            }
            Self::Misuse(rule) => rule.fmt(f),
        }
    }
}

impl core::error::Error for CloseError {}

/// If nothing needs the backing allocator, closes the subtree under the same lock, so that a thread that ends an
/// ancestor skips it.
pub(super) fn seal(top: &ContextNode) -> Outstanding {
    let held = top.root().tree_lock.lock();
    let outstanding = under(&held, top);
    if !outstanding.needs_backing() {
        tree::each_under(&held, top, |node, _| node.set_flags(CLOSED));
        top.set_flags(DRAINED);
    }
    outstanding
}

pub(super) fn outstanding(top: &ContextNode) -> Outstanding {
    under(&top.root().tree_lock.lock(), top)
}

fn under(held: &Held<'_>, top: &ContextNode) -> Outstanding {
    let (mut references, mut others, mut contexts) = (0u64, 0u64, 0u64);
    let (mut bytes, mut blocks) = (0u64, 0u64);
    let mut subtract = |gone: (u64, u64)| {
        bytes = bytes.saturating_add(gone.0);
        blocks = blocks.saturating_add(gone.1);
    };
    tree::each_under(held, top, |node, depth| {
        references = references.saturating_add(node.references.load(Ordering::Acquire) as u64);
        others = others.saturating_add(u64::from(node.flags() & ORPHANED == 0));
        if depth > 0 {
            contexts = contexts.saturating_add(1);
        }
        subtract(bytes_freed_with(node));
        // The top's own record is in its account only if it is a root.
        if depth > 0 || node.is_root() {
            subtract(node.record());
        }
    });
    // In this order a thread's leaked block counts, or its handle, which it drops later.
    let sum = tree::subtree_usage_under(held, top);
    let routed = sum.total();
    Outstanding {
        bytes: routed.live_bytes.saturating_sub(bytes),
        blocks: routed.live_blocks.saturating_sub(blocks),
        foreign_bytes: sum.foreign_total().live_bytes,
        contexts,
        handles: references.saturating_sub(others).saturating_sub(contexts),
    }
}
