//! Linear memory for values that end together: a pointer that moves down through chunks.

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::mem::{self, ManuallyDrop};
use core::ops::Deref;
use core::ptr::{self, NonNull};

use chunk::{ArenaChunk, DetachedChunks};

use crate::adapters::HostSource;
use crate::context::{ContextRef, transfer};
use crate::error::HostError;
use crate::host::dangling;

mod chunk;
mod plan;
mod values;

/// Linear memory over a context (or any [`HostSource`]): allocating moves a pointer, and everything is freed at once.
///
/// Blocks lie newest first, aligned to at least 8, in chunks that grow fourfold from 1 KiB to 64 KiB; a request of 16 KiB or more gets a chunk of
/// its own. When a chunk is refused, smaller ones are tried, down to the size of the request, so that a budget can be used up. The base
/// allocator accounts per chunk; [`bytes_used`](Arena::bytes_used) returns the bytes in use within them.
///
/// [`try_alloc`](Arena::try_alloc) and its siblings never drop, so they accept only types without a destructor;
/// [`try_own`](Arena::try_own) accepts the others, and drops them when the arena ends or is rewound. `&Arena` is an
/// [`Allocator`](crate::Allocator), so a [`TryVec`](crate::TryVec) can live in an arena. [`scope`](Arena::scope) rewinds the arena when it
/// ends.
///
/// Thread rules: one thread at a time (`Send` where the base is, never `Sync`). Dropping frees every chunk.
///
/// # Example
/// ```
/// use alloc_core::{Arena, FromGlobalAlloc, HostError, Scope, Scoped, TryVec};
/// # use std::alloc::System;
/// let mut arena = Arena::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command));
/// let kept = arena.try_alloc_str("lives as long as the arena")?.len();
/// {
///     let scratch = arena.scope();
///     let mut list = TryVec::new_in(&*scratch);
///     list.try_push(kept)?;
/// } // the list's memory is free again
/// arena.reset();
/// assert_eq!(arena.bytes_used(), 0);
/// # Ok::<(), HostError>(())
/// ```
///
/// A value that needs a destructor does not compile with `try_alloc`:
/// ```compile_fail
/// # use alloc_core::{Arena, FromGlobalAlloc, Scope, Scoped, TryVec};
/// # use std::alloc::System;
/// # let arena = Arena::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command));
/// let list: TryVec<u8, _> = TryVec::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object));
/// let _ = arena.try_alloc(list);
/// ```
pub struct Arena<A: HostSource> {
    /// The lowest block's address in the current chunk; null where there is none. Reaches the whole chunk.
    top: Cell<*mut u8>,
    /// The chunk that blocks come from, on those that came before.
    chunk: Cell<ArenaChunk>,
    /// Chunks of a single block each.
    own: Cell<ArenaChunk>,
    /// An empty chunk kept for later, or none.
    spare: Cell<ArenaChunk>,
    /// The newest value that is to be dropped, or null.
    owned: Cell<*mut values::Header>,
    base: A,
}

// SAFETY: the chunks belong to the arena alone, and nothing borrowed from it is left when it is moved; values that it drops are
// `Send`.
unsafe impl<A: HostSource + Send> Send for Arena<A> {}

impl<A: HostSource> Arena<A> {
    /// An arena that allocates its chunks from `base`; has none yet.
    pub const fn new_in(base: A) -> Self {
        Self {
            top: Cell::new(ptr::null_mut()),
            chunk: Cell::new(ArenaChunk::NONE),
            own: Cell::new(ArenaChunk::NONE),
            spare: Cell::new(ArenaChunk::NONE),
            owned: Cell::new(ptr::null_mut()),
            base,
        }
    }

    /// A block of `layout`, its content undefined. Size 0 is an aligned address that must not be used.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] when no chunk could hold it; the base's refusal.
    #[inline]
    pub fn try_alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>, HostError> {
        self.bump(layout).map_or_else(|| self.bump_slow(layout), Ok)
    }

    #[inline(always)]
    fn bump(&self, layout: Layout) -> Option<NonNull<u8>> {
        let top = self.top.get();
        let start = plan::place(top.addr(), self.chunk.get().addr(), layout)?;
        let block = top.with_addr(start);
        self.top.set(block);
        NonNull::new(block)
    }

    /// A block that ends when this is dropped, unless the arena was used since.
    #[inline]
    fn place(&self, layout: Layout) -> Result<UnwrittenPlace<'_, A>, HostError> {
        let before = self.mark();
        Ok(UnwrittenPlace {
            arena: self,
            block: self.try_alloc_layout(layout)?,
            before,
        })
    }

    /// Allocates a chunk for the block. A failure leaves the arena unchanged.
    #[cold]
    #[inline(never)]
    fn bump_slow(&self, layout: Layout) -> Result<NonNull<u8>, HostError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let exact = plan::exact(layout).ok_or(HostError::TooLarge)?;
        let spare = self.spare.get();
        if spare.size() >= exact {
            self.spare.set(ArenaChunk::NONE);
            self.enter(spare);
            return self.bump(layout).ok_or(HostError::TooLarge);
        }
        let mut size = plan::shared(self.chunk.get().size(), exact);
        while let Some(wanted) = size {
            if let Some(chunk) = ArenaChunk::allocate(&self.base, wanted) {
                self.enter(chunk);
                return self.bump(layout).ok_or(HostError::TooLarge);
            }
            size = plan::halved(wanted, exact);
        }
        self.own_chunk(layout, exact)
    }

    /// A chunk for one block alone. It goes beside the current one, whose free part stays in use.
    fn own_chunk(&self, layout: Layout, exact: usize) -> Result<NonNull<u8>, HostError> {
        let Some(chunk) =
            ArenaChunk::allocate(&self.base, exact).or_else(|| self.grow_spare(exact))
        else {
            return Err(plan::chunk_layout(exact)
                .map_or(HostError::TooLarge, |layout| self.base.refusal(layout)));
        };
        chunk.put_on(self.own.get());
        self.own.set(chunk);
        let end = chunk.end();
        let start = plan::place(end.addr(), chunk.addr(), layout).ok_or(HostError::TooLarge)?;
        NonNull::new(end.with_addr(start)).ok_or(HostError::TooLarge)
    }

    /// Enlarges the spare chunk, which charges only the difference. If that is refused, the spare stays.
    fn grow_spare(&self, exact: usize) -> Option<ArenaChunk> {
        /// Puts the chunk back, also when the base unwinds. Nobody has kept another one meanwhile: that needs `&mut Arena`.
        struct RestoreSpare<'a>(&'a Cell<ArenaChunk>, ArenaChunk);
        impl Drop for RestoreSpare<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        // Out of the arena during the call: if the base allocates from the arena, the block must not lie in the chunk that is being moved.
        let spare = RestoreSpare(&self.spare, self.spare.replace(ArenaChunk::NONE));
        let grown = spare.1.grow(&self.base, exact)?;
        mem::forget(spare);
        Some(grown)
    }

    /// Makes an empty chunk the current one.
    fn enter(&self, chunk: ArenaChunk) {
        chunk.put_on(self.chunk.get());
        self.chunk.set(chunk);
        self.top.set(chunk.end());
    }

    /// Ends all blocks, and drops the values that it [owns](Arena::try_own), newest first. Keeps the largest shared chunk, and frees the others.
    pub fn reset(&mut self) {
        // SAFETY: `&mut` proves that nothing borrowed from the arena is left.
        unsafe { self.rewind(&Mark::START) };
        let kept = self.spare.replace(ArenaChunk::NONE);
        if !kept.is_none() {
            self.enter(kept);
        }
    }

    /// Ends all blocks, drops the values that it [owns](Arena::try_own), newest first, and frees every chunk.
    pub fn release(&mut self) {
        /// At the end, also when a destructor unwinds.
        struct Spare<'a, A: HostSource>(&'a mut Arena<A>);
        impl<A: HostSource> Drop for Spare<'_, A> {
            fn drop(&mut self) {
                self.0.release_spare();
            }
        }
        let all = Spare(self);
        // SAFETY: `&mut` proves that nothing borrowed from the arena is left.
        unsafe { all.0.rewind(&Mark::START) };
    }

    /// Frees the empty chunk that a rewind may have kept.
    fn release_spare(&mut self) {
        // SAFETY: an empty chunk, now forgotten.
        unsafe { self.spare.replace(ArenaChunk::NONE).free(&self.base) };
    }

    fn mark(&self) -> Mark {
        Mark {
            top: self.top.get(),
            chunk: self.chunk.get(),
            own: self.own.get(),
            owned: self.owned.get(),
        }
    }

    /// Drops the values and ends the blocks newer than `mark`, frees their chunks and keeps the largest shared one as the spare.
    ///
    /// # Safety
    /// `mark` was taken from this arena, which has not been rewound beyond it since; no block that came after it is in use.
    unsafe fn rewind(&mut self, mark: &Mark) {
        /// Behind the destructors, also when one unwinds.
        struct Blocks<'a, A: HostSource>(&'a mut Arena<A>, &'a Mark);
        impl<A: HostSource> Drop for Blocks<'_, A> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: as promised to `rewind`; the values in these blocks are gone.
                unsafe { self.0.end_blocks(self.1) }
            }
        }
        let blocks = Blocks(self, mark);
        // SAFETY: the mark's value is one of this arena's, below what came since; nothing that came since is in use.
        unsafe { values::drop_down_to(mark.owned, &blocks.0.owned) };
    }

    /// # Safety
    /// As [`Arena::rewind`]; and no value behind `mark` is still to be dropped.
    unsafe fn end_blocks(&mut self, mark: &Mark) {
        // The arena forgets all of them before the first is freed, so that it is consistent if the base unwinds.
        self.top.set(mark.top);
        let mut own = DetachedChunks {
            newest: self.own.replace(mark.own),
            oldest: mark.own,
            base: &self.base,
        };
        let mut shared = DetachedChunks {
            newest: self.chunk.replace(mark.chunk),
            oldest: mark.chunk,
            base: &self.base,
        };
        while let Some(chunk) = own.pop() {
            // SAFETY: it came after the mark, and the arena has forgotten it.
            unsafe { chunk.free(&self.base) };
        }
        while let Some(chunk) = shared.pop() {
            let spare = self.spare.get();
            let (keep, surplus) = if chunk.size() > spare.size() {
                (chunk, spare)
            } else {
                (spare, chunk)
            };
            if keep == chunk {
                // The chunks below it may be freed next.
                keep.put_on(ArenaChunk::NONE);
                self.spare.set(keep);
            }
            // SAFETY: the spare is empty, or the chunk came after the mark; the arena has forgotten it.
            unsafe { surplus.free(&self.base) };
        }
    }

    /// Bytes that the arena holds of its base: all chunks with their headers. O(chunks).
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.chunks()
            .map(ArenaChunk::size)
            .fold(0, usize::saturating_add)
    }

    /// Blocks that the arena holds of its base. O(chunks).
    #[must_use]
    pub fn chunks_held(&self) -> usize {
        self.chunks().count()
    }

    /// Bytes of the chunks that no later block can use: blocks with their padding, and the unused ends of earlier chunks. Headers, the
    /// current chunk's free part and the spare do not count. O(chunks).
    #[must_use]
    pub fn bytes_used(&self) -> usize {
        let blocks = |chunk: ArenaChunk| chunk.size().saturating_sub(plan::HEADER);
        let all = self
            .chunk
            .get()
            .stack()
            .chain(self.own.get().stack())
            .map(blocks)
            .fold(0, usize::saturating_add);
        let below = self
            .top
            .get()
            .addr()
            .saturating_sub(self.chunk.get().addr());
        all.saturating_sub(below.saturating_sub(plan::HEADER))
    }

    fn chunks(&self) -> impl Iterator<Item = ArenaChunk> {
        [&self.chunk, &self.own, &self.spare]
            .into_iter()
            .flat_map(|stack| stack.get().stack())
    }

    /// The allocator of the chunks.
    pub const fn base(&self) -> &A {
        &self.base
    }

    /// The same chunks under another base.
    ///
    /// # Safety
    /// `base` can free the chunks: they were charged to it, and it has the same backing.
    unsafe fn with_base<B: HostSource>(self, base: B) -> Arena<B> {
        let old = ManuallyDrop::new(self);
        let (top, chunk, own, spare) = (
            old.top.clone(),
            old.chunk.clone(),
            old.own.clone(),
            old.spare.clone(),
        );
        let owned = old.owned.clone();
        let new = Arena {
            top,
            chunk,
            own,
            spare,
            owned,
            base,
        };
        // After the new arena was made: if the old base unwinds when it is dropped, the chunks already have an owner.
        // SAFETY: `old` is never used or dropped again; only its base is still to be dropped.
        drop(unsafe { ptr::read(&raw const old.base) });
        new
    }
}

/// A block whose value is not there yet: its initialiser may fail or unwind.
struct UnwrittenPlace<'a, A: HostSource> {
    arena: &'a Arena<A>,
    block: NonNull<u8>,
    before: Mark,
}

impl<A: HostSource> UnwrittenPlace<'_, A> {
    /// The block, which stays.
    #[inline]
    fn keep(self) -> NonNull<u8> {
        ManuallyDrop::new(self).block
    }
}

impl<A: HostSource> Drop for UnwrittenPlace<'_, A> {
    #[cold]
    fn drop(&mut self) {
        let (arena, before) = (self.arena, &self.before);
        let (own, chunk, at) = (arena.own.get(), arena.chunk.get(), self.block.as_ptr());
        // A block lies behind its chunk's header: without size it may be at the end of another chunk, where this one begins.
        let unused = if own.addr() < at.addr() && at.addr() < own.end().addr() {
            arena.own.set(before.own);
            own
        } else if at.addr() == arena.top.get().addr() {
            arena.top.set(before.top);
            if chunk == before.chunk {
                return;
            }
            arena.chunk.set(before.chunk);
            let spare = arena.spare.get();
            if chunk.size() > spare.size() {
                chunk.put_on(ArenaChunk::NONE);
                arena.spare.set(chunk);
                spare
            } else {
                chunk
            }
        } else {
            return;
        };
        // SAFETY: empty, or with this block alone, which was never written; the arena has forgotten it.
        unsafe { unused.free(&arena.base) };
    }
}

/// A state of an arena, for `rewind`.
struct Mark {
    top: *mut u8,
    chunk: ArenaChunk,
    own: ArenaChunk,
    owned: *mut values::Header,
}

impl Mark {
    /// Before the first block.
    const START: Self = Self {
        top: ptr::null_mut(),
        chunk: ArenaChunk::NONE,
        own: ArenaChunk::NONE,
        owned: ptr::null_mut(),
    };
}

impl<A: HostSource> Drop for Arena<A> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<A: HostSource> fmt::Debug for Arena<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("bytes_held", &self.bytes_held())
            .field("bytes_used", &self.bytes_used())
            .field("chunks_held", &self.chunks_held())
            .finish_non_exhaustive()
    }
}

/// A guard that allocates from an arena. Dropping it ends the blocks allocated through it, and drops the values that the arena
/// [owns](Arena::try_own) since then, newest first.
///
/// The drop frees the chunks allocated meanwhile, except the largest one of up to 64 KiB, which stays as a spare: a scope that is opened
/// again and again needs nothing from the base. Forgetting a scope (`mem::forget`) keeps its blocks until the arena ends.
///
/// It lends the arena shared only: a `&mut Arena` could be swapped for another arena, which would then be rewound to a wrong mark.
pub struct ArenaScope<'a, A: HostSource> {
    arena: &'a mut Arena<A>,
    mark: Mark,
}

impl<A: HostSource> Arena<A> {
    /// Opens a scope. The arena itself cannot be used until it ends; what was allocated before must not be borrowed.
    #[must_use = "the scope ends when it is dropped"]
    pub fn scope(&mut self) -> ArenaScope<'_, A> {
        let mark = self.mark();
        ArenaScope { arena: self, mark }
    }
}

impl<A: HostSource> ArenaScope<'_, A> {
    /// Opens a scope within this one.
    #[must_use = "the scope ends when it is dropped"]
    pub fn scope(&mut self) -> ArenaScope<'_, A> {
        self.arena.scope()
    }
}

impl<A: HostSource> Deref for ArenaScope<'_, A> {
    type Target = Arena<A>;

    #[inline]
    fn deref(&self) -> &Arena<A> {
        self.arena
    }
}

impl<A: HostSource> Drop for ArenaScope<'_, A> {
    fn drop(&mut self) {
        // SAFETY: the mark is this arena's; only scopes within this one could rewind it meanwhile, and no further than their own
        // marks. Whatever was allocated since borrows from this scope, so it is no longer in use.
        unsafe { self.arena.rewind(&self.mark) };
    }
}

impl<A: HostSource> fmt::Debug for ArenaScope<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arena.fmt(f)
    }
}

impl<A: ContextRef> Arena<A> {
    /// Moves the arena to another context: its chunks are charged to `other` and freed through it. No block is copied or moved, and owned
    /// values stay owned. O(chunks).
    ///
    /// Totals only grow: afterwards the totals of both contexts contain the chunks.
    ///
    /// # Errors
    /// The arena as it was, with [`Misuse::OtherBacking`](crate::Misuse::OtherBacking) when the contexts draw on different
    /// allocators, [`Misuse::OtherScope`](crate::Misuse::OtherScope) when they have different scopes, [`HostError::Closed`] when `other` is
    /// closed, [`HostError::OverBudget`] when a budget above `other` and not above this context has no room for the arena.
    pub fn move_to<B: ContextRef>(self, other: B) -> Result<Arena<B>, (Self, HostError)> {
        let (from, to) = (
            self.base.context_handle().node(),
            other.context_handle().node(),
        );
        let (mut blocks, mut bytes) = (0_u64, 0_u64);
        for chunk in self.chunks() {
            blocks = blocks.saturating_add(1);
            bytes = bytes.saturating_add(chunk.size() as u64);
        }
        match transfer(from, to, blocks, bytes) {
            // SAFETY: all chunks were just charged to `other`, which draws on the same backing and names the same scope.
            Ok(()) => Ok(unsafe { self.with_base(other) }),
            Err(error) => Err((self, error)),
        }
    }
}
