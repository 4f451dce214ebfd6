//! Chunks: blocks of the base allocator with a header, in singly linked stacks.
//!
//! ```text
//!   0     8      16                         size
//!   | prev | size | blocks ..               |
//! ```

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::plan;
use crate::adapters::HostSource;

/// In front of a chunk's blocks. Aligned and sized as `plan` says.
#[repr(C, align(16))]
pub(super) struct Header {
    /// The chunk below this one in its stack.
    prev: ArenaChunk,
    /// Of the whole chunk, header included.
    size: usize,
}

const _: () =
    assert!(size_of::<Header>() == plan::HEADER && align_of::<Header>() == plan::CHUNK_ALIGN);

/// A chunk, or none. The arena owns it; every non-null one is live and comes from [`ArenaChunk::allocate`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ArenaChunk(*mut Header);

impl ArenaChunk {
    pub(super) const NONE: Self = Self(ptr::null_mut());

    /// A chunk of `size` bytes from `base`, or `None` when it is refused.
    pub(super) fn allocate(base: &impl HostSource, size: usize) -> Option<Self> {
        let block = base
            .allocate(plan::chunk_layout(size)?)
            .ok()?
            .cast::<Header>();
        let chunk = Self(block.as_ptr());
        chunk.write(Self::NONE, size);
        Some(chunk)
    }

    /// Makes an empty chunk larger, which may move it. `None`: refused, and the chunk is unchanged.
    pub(super) fn grow(self, base: &impl HostSource, size: usize) -> Option<Self> {
        let (old, new) = (self.layout()?, plan::chunk_layout(size)?);
        let block = NonNull::new(self.0.cast::<u8>())?;
        // SAFETY: a live block of `base` with this layout; the caller asks for more.
        let block = unsafe { base.grow(block, old, new) }.ok()?.cast::<Header>();
        let chunk = Self(block.as_ptr());
        chunk.write(Self::NONE, size);
        Some(chunk)
    }

    /// Frees the chunk. Neither it nor a copy may be used again.
    ///
    /// # Safety
    /// The chunk came from `base`, or was transferred to it, and nothing in it is used any more.
    pub(super) unsafe fn free(self, base: &impl HostSource) {
        if let (Some(block), Some(layout)) = (NonNull::new(self.0.cast::<u8>()), self.layout()) {
            // SAFETY: live, of `base`, with the layout it was taken with.
            unsafe { base.deallocate(block, layout) }
        }
    }

    fn write(self, prev: Self, size: usize) {
        // SAFETY: a live chunk (the type's invariant); `plan::exact` and `plan::shared` give no size below a header's.
        unsafe { self.0.write(Header { prev, size }) }
    }

    pub(super) fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// The whole chunk's size; 0 for none.
    #[inline]
    pub(super) fn size(self) -> usize {
        // SAFETY: null or live (the type's invariant); headers are written through this type alone.
        unsafe { self.0.as_ref() }.map_or(0, |header| header.size)
    }

    /// The chunk below this one in its stack.
    pub(super) fn prev(self) -> Self {
        // SAFETY: null or live (the type's invariant); headers are written through this type alone.
        unsafe { self.0.as_ref() }.map_or(Self::NONE, |header| header.prev)
    }

    /// Puts this chunk on top of the stack that begins with `prev`.
    pub(super) fn put_on(self, prev: Self) {
        self.write(prev, self.size());
    }

    fn layout(self) -> Option<Layout> {
        plan::chunk_layout(self.size())
    }

    /// One past the last byte, with the right to reach the whole chunk; null for none.
    pub(super) fn end(self) -> *mut u8 {
        self.0.cast::<u8>().wrapping_add(self.size())
    }

    /// The address of the header; 0 for none.
    #[inline(always)]
    pub(super) fn addr(self) -> usize {
        self.0.addr()
    }

    /// This chunk and those below it.
    pub(super) fn stack(self) -> impl Iterator<Item = Self> {
        let some = |chunk: Self| (!chunk.is_none()).then_some(chunk);
        core::iter::successors(some(self), move |chunk| some(chunk.prev()))
    }
}

/// Chunks of a stack, down to `oldest`, that an arena has forgotten. Those that are not popped are freed, also when the base unwinds.
pub(super) struct DetachedChunks<'a, A: HostSource> {
    pub(super) newest: ArenaChunk,
    pub(super) oldest: ArenaChunk,
    pub(super) base: &'a A,
}

impl<A: HostSource> DetachedChunks<'_, A> {
    pub(super) fn pop(&mut self) -> Option<ArenaChunk> {
        let chunk = self.newest;
        if chunk == self.oldest {
            return None;
        }
        self.newest = chunk.prev();
        Some(chunk)
    }
}

impl<A: HostSource> Drop for DetachedChunks<'_, A> {
    fn drop(&mut self) {
        while let Some(chunk) = self.pop() {
            // SAFETY: an empty chunk of the base that nobody else knows.
            unsafe { chunk.free(self.base) };
        }
    }
}
