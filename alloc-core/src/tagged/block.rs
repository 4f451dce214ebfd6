use core::ptr::NonNull;

use super::domain::DomainId;
use super::header::{Block, DYING};
use super::{Fill, TaggedDestructor, collector, domain, header, tree};
use crate::error::{HostError, Misuse};
use crate::threads::ThreadTable;

/// A block, by the address of its payload, which is aligned to 16.
///
/// Threads: one thread at a time uses a tree of blocks. A callback of the allocator behind the domain may use any tree
/// but the one that is being changed.
///
/// # Safety of all its functions
/// The *tree rule*: the block is live and was allocated here, and so are all other blocks that are passed; no other
/// thread uses their trees meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
#[doc(alias("ralloc_header"))]
pub struct TaggedBlock(NonNull<u8>);

impl TaggedBlock {
    /// The block with this payload.
    #[must_use]
    pub const fn from_payload(payload: NonNull<u8>) -> Self {
        Self(payload)
    }

    /// The payload.
    #[must_use]
    pub const fn payload(self) -> NonNull<u8> {
        self.0
    }

    /// Allocates a block of `size` bytes as the newest child of this one, in its domain.
    ///
    /// # Errors
    /// The refusal of the domain's context; [`HostError::TooLarge`]; [`Misuse::Held`] when this block lies in a
    /// collector's slab.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    #[doc(alias("ralloc_size", "rzalloc_size"))]
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<Self, HostError> {
        // SAFETY: the tree rule.
        ThreadTable::with(|table| unsafe { self.allocate_on(table, size, fill) })
    }

    /// As [`allocate`](Self::allocate), with the calling thread's table.
    ///
    /// # Safety
    /// See the type.
    #[inline(always)]
    pub unsafe fn allocate_on(self, table: ThreadTable<'_>, size: usize, fill: Fill) -> Result<Self, HostError> {
        // SAFETY: the tree rule.
        let parent = unsafe { self.block() };
        if parent.is_slot() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        // SAFETY: the parent lives, and so does its domain.
        let new = unsafe { domain::allocate(parent.domain(), table, size, fill) }?;
        if domain::is_counted(new, Some(parent)) {
            domain::retain(new);
        }
        tree::add_leaf(parent, new);
        Ok(Self(new.payload()))
    }

    /// Resizes the payload, keeping what fits. The block keeps its parent, place and children.
    ///
    /// O(1), and O(children) if the block moves.
    ///
    /// # Errors
    /// The block is unchanged. As [`allocate`](Self::allocate); [`Misuse::Dying`] for a block that is being freed.
    ///
    /// # Safety
    /// See the type.
    #[doc(alias("reralloc_size"))]
    pub unsafe fn resize(self, size: usize) -> Result<Self, HostError> {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        if block.is_slot() || collector::is_collector(block) {
            return Err(HostError::Misuse(Misuse::Held));
        }
        if block.has(DYING) {
            return Err(HostError::Misuse(Misuse::Dying));
        }
        // SAFETY: the tree rule.
        unsafe { tree::resize(block, size) }.map(|block| Self(block.payload()))
    }

    /// Frees the block and all below it: children before parents, newer ones before older. A block that is already
    /// being freed stays as it is.
    ///
    /// # Safety
    /// See the type. None of the blocks is used after this; their destructors obey the rules of [`TaggedDestructor`].
    #[doc(alias("ralloc_free"))]
    pub unsafe fn free(self) {
        // SAFETY: the tree rule.
        ThreadTable::with(|table| unsafe { self.free_on(table) });
    }

    /// As [`free`](Self::free), with the calling thread's table.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    pub unsafe fn free_on(self, table: ThreadTable<'_>) {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        if block.is_slot() {
            // SAFETY: the tree rule.
            unsafe { collector::free(block) };
        } else if !block.has(DYING) {
            // SAFETY: the tree rule.
            unsafe { tree::free(block, table) };
        }
    }

    /// Moves the block, with all below it, below `parent` as the newest child; with `None` it becomes the top of a
    /// tree. False, and nothing changed, if `parent` lies in the block's own subtree or the block is being freed.
    ///
    /// O(1) for a block without children, else O(depth of `parent`).
    ///
    /// # Safety
    /// See the type.
    #[doc(alias("ralloc_steal"))]
    #[must_use]
    pub unsafe fn steal(self, parent: Option<Self>) -> bool {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        // SAFETY: the tree rule.
        let parent = parent.map(|parent| unsafe { parent.block() });
        tree::steal(block, parent)
    }

    /// Moves all children of `from` to this block, in their order, before its own. False, and nothing changed, if this
    /// block is `from` or lies below it, or `from` is being freed.
    ///
    /// O(children of `from` + depth of this block).
    ///
    /// # Safety
    /// See the type.
    #[doc(alias("ralloc_adopt"))]
    #[must_use]
    pub unsafe fn adopt(self, from: Self) -> bool {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        // SAFETY: the tree rule.
        let from = unsafe { from.block() };
        tree::adopt(block, from)
    }

    /// The block above. O(1).
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    #[doc(alias("ralloc_parent"))]
    pub unsafe fn parent(self) -> Option<Self> {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        let parent = if block.is_slot() {
            // SAFETY: a live slot.
            unsafe { collector::collector(block) }
        } else {
            tree::parent(block)
        };
        parent.map(|parent| Self(parent.payload()))
    }

    /// Bytes of the payload, as requested.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn size(self) -> usize {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        if block.is_slot() { collector::size(block) } else { block.size() }
    }

    /// The domain that the block was allocated in.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn domain(self) -> DomainId {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        if block.is_slot() {
            // SAFETY: a live slot.
            unsafe { collector::slab(block) }.domain()
        } else {
            block.domain()
        }
    }

    /// Sets, replaces or removes the destructor of the block.
    ///
    /// # Errors
    /// The former destructor stays. [`Misuse::TableFull`] when the process has 4 092 other destructors.
    /// [`Misuse::Dying`] for a block that is being freed: it could be called without end. [`Misuse::Held`] for a block
    /// that a [collector](super::GcBlocks) frees.
    ///
    /// # Safety
    /// See the type.
    #[doc(alias("ralloc_set_destructor"))]
    pub unsafe fn set_destructor(self, destructor: Option<TaggedDestructor>) -> Result<(), HostError> {
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        if block.is_collected() || collector::is_collector(block) {
            return Err(HostError::Misuse(Misuse::Held));
        }
        if destructor.is_some() && block.has(DYING) {
            return Err(HostError::Misuse(Misuse::Dying));
        }
        let number = match destructor {
            Some(destructor) => header::number_of_destructor(destructor).ok_or(HostError::Misuse(Misuse::TableFull))?,
            None => 0,
        };
        block.set_destructor_number(number);
        Ok(())
    }

    pub(super) unsafe fn block(self) -> Block {
        // SAFETY: a payload has its header or tail in front.
        unsafe { Block::of_payload(self.0) }
    }
}
