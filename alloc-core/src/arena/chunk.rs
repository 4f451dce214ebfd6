//! ```text
//!   0     8      16                         size
//!   | prev | size | blocks ..               |
//! ```

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::plan;
use crate::adapters::HostSource;

#[repr(C, align(16))]
pub(super) struct Header {
    prev: ArenaChunk,
    size: usize,
}

const _: () = assert!(size_of::<Header>() == plan::HEADER && align_of::<Header>() == plan::CHUNK_ALIGN);

/// A chunk, or none. Invariant: every non-null one is live, comes from [`ArenaChunk::allocate`], belongs to the arena,
/// and has a header that only this type writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ArenaChunk(*mut Header);

impl ArenaChunk {
    pub(super) const NONE: Self = Self(ptr::null_mut());

    pub(super) fn allocate(base: &impl HostSource, size: usize) -> Option<Self> {
        let block = base.allocate(plan::chunk_layout(size)?).ok()?.cast::<Header>();
        let chunk = Self(block.as_ptr());
        chunk.write(Self::NONE, size);
        Some(chunk)
    }

    /// The chunk must be empty, and may move. A refusal leaves it unchanged.
    pub(super) fn grow(self, base: &impl HostSource, size: usize) -> Option<Self> {
        let (old, new) = (self.layout()?, plan::chunk_layout(size)?);
        let block = NonNull::new(self.0.cast::<u8>())?;
        // SAFETY: the type's invariant; the new size is larger.
        let block = unsafe { base.grow(block, old, new) }.ok()?.cast::<Header>();
        let chunk = Self(block.as_ptr());
        chunk.write(Self::NONE, size);
        Some(chunk)
    }

    /// Neither the chunk nor a copy may be used again.
    /// # Safety
    /// The chunk came from `base`, or was transferred to it; nothing in it is used any more.
    pub(super) unsafe fn free(self, base: &impl HostSource) {
        if let (Some(block), Some(layout)) = (NonNull::new(self.0.cast::<u8>()), self.layout()) {
            // SAFETY: the type's invariant; this function's contract.
            unsafe { base.deallocate(block, layout) }
        }
    }

    fn write(self, prev: Self, size: usize) {
        // SAFETY: the type's invariant; `plan::exact` and `plan::shared` give no size below a header's.
        unsafe { self.0.write(Header { prev, size }) }
    }

    pub(super) fn is_none(self) -> bool {
        self.0.is_null()
    }

    #[inline]
    pub(super) fn size(self) -> usize {
        // SAFETY: the type's invariant.
        unsafe { self.0.as_ref() }.map_or(0, |header| header.size)
    }

    pub(super) fn prev(self) -> Self {
        // SAFETY: the type's invariant.
        unsafe { self.0.as_ref() }.map_or(Self::NONE, |header| header.prev)
    }

    pub(super) fn put_on(self, prev: Self) {
        self.write(prev, self.size());
    }

    fn layout(self) -> Option<Layout> {
        plan::chunk_layout(self.size())
    }

    /// The first byte behind the header, with provenance over the whole chunk.
    pub(super) fn low(self) -> *mut u8 {
        self.0.wrapping_add(1).cast()
    }

    /// 0 for none.
    #[inline(always)]
    pub(super) fn end(self) -> usize {
        self.0.addr().wrapping_add(self.size())
    }

    pub(super) fn stack(self) -> impl Iterator<Item = Self> {
        let some = |chunk: Self| (!chunk.is_none()).then_some(chunk);
        core::iter::successors(some(self), move |chunk| some(chunk.prev()))
    }
}
