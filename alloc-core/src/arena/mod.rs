use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::mem;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use chunk::ArenaChunk;

use crate::adapters::HostSource;
use crate::context::{ContextHandle, transfer};
use crate::error::HostError;
use crate::host::dangling;
use crate::unwind::{Defer, run_to_end};

mod chunk;
mod plan;
mod values;

/// Linear memory over a context (or any [`HostSource`]): allocating moves a pointer, and everything is freed at once.
///
/// Blocks are aligned to at least 8, in chunks that grow fourfold from 1 KiB to 64 KiB; a request of 16 KiB or more
/// gets a chunk of its own. A refused chunk is tried smaller, down to the size of the request.
///
/// [`try_alloc`](Arena::try_alloc) and its siblings never drop, and accept no type with a destructor;
/// [`try_own`](Arena::try_own) drops its values when the arena ends or is rewound. `&Arena` is an
/// [`Allocator`](crate::Allocator).
///
/// Thread rules: one thread at a time (`Send` where the base is, never `Sync`).
///
/// # Errors of all its functions
/// [`HostError::TooLarge`] when no chunk could hold the block; the base's refusal. `make` is called once there is room;
/// one that may fail adds its own error.
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
#[doc(alias("Bump", "bumpalo", "linear allocator"))]
pub struct Arena<A: HostSource> {
    /// One past the newest block of the current chunk, with provenance over the whole chunk; null without one.
    top: Cell<*mut u8>,
    chunk: Cell<ArenaChunk>,
    own: Cell<ArenaChunk>,
    spare: Cell<ArenaChunk>,
    owned: Cell<*mut values::Header>,
    base: A,
}

// SAFETY: the chunks belong to the arena alone; nothing borrowed from it is left when it moves; values that it drops
// are `Send`.
unsafe impl<A: HostSource + Send> Send for Arena<A> {}

impl<A: HostSource> Arena<A> {
    /// An arena over `base`, without a chunk yet.
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

    /// A block of `layout` with undefined content, an unusable address for size 0.
    #[inline]
    pub fn try_alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>, HostError> {
        self.bump(layout).map_or_else(|| self.bump_slow(layout), Ok)
    }

    #[inline(always)]
    fn bump(&self, layout: Layout) -> Option<NonNull<u8>> {
        let top = self.top.get();
        let start = plan::place(top.addr(), self.chunk.get().end(), layout)?;
        self.top.set(top.with_addr(plan::end(start, layout)));
        NonNull::new(top.with_addr(start))
    }

    /// If `make` fails or unwinds, the room is free again, unless `make` has used this arena.
    #[inline]
    fn room_for<T, E: From<HostError>>(
        &self,
        layout: Layout,
        make: impl FnOnce(NonNull<u8>) -> Result<T, E>,
    ) -> Result<(NonNull<u8>, T), E> {
        let before = self.mark();
        let block = self.try_alloc_layout(layout)?;
        let after = self.mark();
        let give_back = Defer(|| {
            if self.mark() == after {
                // SAFETY: the mark is this arena's; nothing came since but the block, which is unused.
                unsafe { self.rewind(&before) };
            }
        });
        let made = make(block)?;
        mem::forget(give_back);
        Ok((block, made))
    }

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

    fn own_chunk(&self, layout: Layout, exact: usize) -> Result<NonNull<u8>, HostError> {
        let Some(chunk) = ArenaChunk::allocate(&self.base, exact).or_else(|| self.grow_spare(exact)) else {
            return Err(plan::chunk_layout(exact).map_or(HostError::TooLarge, |layout| self.base.refusal(layout)));
        };
        chunk.put_on(self.own.get());
        self.own.set(chunk);
        let low = chunk.low();
        let start = plan::place(low.addr(), chunk.end(), layout).ok_or(HostError::TooLarge)?;
        NonNull::new(low.with_addr(start)).ok_or(HostError::TooLarge)
    }

    /// Growing the spare charges only the difference. If that is refused, the spare stays.
    fn grow_spare(&self, exact: usize) -> Option<ArenaChunk> {
        // The base may allocate from the arena during the call, but not in the chunk that moves.
        let spare = self.spare.replace(ArenaChunk::NONE);
        // Also when the base unwinds. Only `&mut Arena` could have put another one there.
        let restore = Defer(|| self.spare.set(spare));
        let grown = spare.grow(&self.base, exact)?;
        mem::forget(restore);
        Some(grown)
    }

    fn enter(&self, chunk: ArenaChunk) {
        chunk.put_on(self.chunk.get());
        self.chunk.set(chunk);
        self.top.set(chunk.low());
    }

    /// Ends all blocks and drops the [owned](Arena::try_own) values, newest first. Keeps the largest shared chunk, and
    /// frees the others.
    pub fn reset(&mut self) {
        // SAFETY: `&mut`: nothing borrowed from the arena is left.
        unsafe { self.rewind(&Mark::START) };
        let kept = self.spare.replace(ArenaChunk::NONE);
        if !kept.is_none() {
            self.enter(kept);
        }
    }

    /// As [`reset`](Arena::reset), and frees every chunk.
    pub fn release(&mut self) {
        // SAFETY: an empty chunk that a rewind may have kept, now forgotten.
        let _spare = Defer(|| unsafe { self.spare.replace(ArenaChunk::NONE).free(&self.base) });
        // SAFETY: `&mut`: nothing borrowed from the arena is left.
        unsafe { self.rewind(&Mark::START) };
    }

    fn mark(&self) -> Mark {
        Mark { top: self.top.get(), chunk: self.chunk.get(), own: self.own.get(), owned: self.owned.get() }
    }

    /// Frees the chunks of newer blocks, but keeps the largest shared one as the spare.
    ///
    /// # Safety
    /// `mark` is this arena's, which has not been rewound beyond it since; no newer block is in use.
    unsafe fn rewind(&self, mark: &Mark) {
        // SAFETY: this function's contract; the values in these blocks are gone by then.
        let _blocks = Defer(|| unsafe { self.end_blocks(mark) });
        // SAFETY: this function's contract; the mark's value is one of this arena's.
        unsafe { values::drop_down_to(mark.owned, &self.owned) };
    }

    /// # Safety
    /// As [`Arena::rewind`]; no value newer than `mark` is still to be dropped.
    unsafe fn end_blocks(&self, mark: &Mark) {
        // The arena is consistent if the base unwinds.
        self.top.set(mark.top);
        let (mut own, mut shared) = (self.own.replace(mark.own), self.chunk.replace(mark.chunk));
        run_to_end(|| {
            let surplus = if own != mark.own {
                let chunk = own;
                own = chunk.prev();
                chunk
            } else if shared != mark.chunk {
                let (chunk, spare) = (shared, self.spare.get());
                shared = chunk.prev();
                if chunk.size() > spare.size() {
                    chunk.put_on(ArenaChunk::NONE);
                    self.spare.set(chunk);
                    spare
                } else {
                    chunk
                }
            } else {
                return false;
            };
            // SAFETY: the spare is empty, or the chunk newer than the mark; the arena has forgotten it.
            unsafe { surplus.free(&self.base) };
            true
        });
    }

    /// Bytes of all chunks, headers included. O(chunks).
    #[must_use]
    #[doc(alias("allocated_bytes_including_metadata"))]
    pub fn bytes_held(&self) -> usize {
        self.chunks().map(ArenaChunk::size).fold(0, usize::saturating_add)
    }

    /// Blocks that the arena holds of its base. O(chunks).
    #[must_use]
    pub fn chunks_held(&self) -> usize {
        self.chunks().count()
    }

    /// Bytes that no later block can use: blocks with their padding, and the ends of earlier chunks, without headers.
    /// O(chunks).
    #[must_use]
    #[doc(alias("allocated_bytes"))]
    pub fn bytes_used(&self) -> usize {
        let blocks = |chunk: ArenaChunk| chunk.size().saturating_sub(plan::HEADER);
        let all = self.chunk.get().stack().chain(self.own.get().stack()).map(blocks).fold(0, usize::saturating_add);
        all.saturating_sub(self.chunk.get().end().saturating_sub(self.top.get().addr()))
    }

    fn chunks(&self) -> impl Iterator<Item = ArenaChunk> {
        [&self.chunk, &self.own, &self.spare].into_iter().flat_map(|stack| stack.get().stack())
    }

    /// The base allocator.
    #[must_use]
    pub const fn base(&self) -> &A {
        &self.base
    }
}

#[derive(PartialEq)]
struct Mark {
    top: *mut u8,
    chunk: ArenaChunk,
    own: ArenaChunk,
    owned: *mut values::Header,
}

impl Mark {
    const START: Self =
        Self { top: ptr::null_mut(), chunk: ArenaChunk::NONE, own: ArenaChunk::NONE, owned: ptr::null_mut() };
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

/// A guard that allocates from an arena. Dropping it ends the blocks allocated through it and drops the values
/// [owned](Arena::try_own) since, newest first.
///
/// The largest of the chunks allocated meanwhile, of up to 64 KiB, stays as a spare: a scope opened again and again
/// needs nothing from the base. Forgetting a scope (`mem::forget`) keeps its blocks until the arena ends.
///
/// It lends the arena shared only: a `&mut Arena` could be swapped for another, which would be rewound to a wrong mark.
#[must_use = "dropping a scope frees its blocks"]
pub struct ArenaScope<'a, A: HostSource> {
    arena: &'a mut Arena<A>,
    mark: Mark,
}

impl<A: HostSource> Arena<A> {
    /// Opens a scope. Nothing allocated before may be borrowed until it ends.
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
        // SAFETY: the mark is this arena's; only scopes within this one could rewind it meanwhile, to newer marks.
        // Newer blocks borrow from this scope.
        unsafe { self.arena.rewind(&self.mark) };
    }
}

impl<A: HostSource> fmt::Debug for ArenaScope<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arena.fmt(f)
    }
}

impl Arena<ContextHandle> {
    /// Moves the arena to another context: its chunks are charged to `other` and freed through it. No block moves.
    /// Afterwards the totals of both contexts contain the chunks. O(chunks).
    ///
    /// # Errors
    /// The arena is as it was. [`Misuse::OtherBacking`](crate::Misuse::OtherBacking) or
    /// [`Misuse::OtherScope`](crate::Misuse::OtherScope) where the contexts differ in these; [`HostError::Closed`];
    /// [`HostError::OverBudget`] when a budget above `other` alone has no room.
    pub fn move_to(&mut self, other: ContextHandle) -> Result<(), HostError> {
        let (mut blocks, mut bytes) = (0_u64, 0_u64);
        for chunk in self.chunks() {
            blocks = blocks.saturating_add(1);
            bytes = bytes.saturating_add(chunk.size() as u64);
        }
        transfer(self.base.node(), other.node(), blocks, bytes)?;
        drop(mem::replace(&mut self.base, other));
        Ok(())
    }
}
