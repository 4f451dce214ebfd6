//! ```text
//!   block of the whole: | state, 24 | size, 8 | first suballocation | size | second | ..         child block, a further chunk: | size | .. |
//!                                             ^ the handle
//!   without sizes:      | state, 24 |         | first suballocation | second | ..
//! ```
//! The handle is the address of the first suballocation, which older compilers pass for the linear memory. They resize
//! suballocations and need a size in front of each; others need suballocations that follow one another directly.

use core::cell::Cell;
use core::ptr::NonNull;

use super::{Fill, TaggedBlock};
use crate::error::{HostError, Misuse};

const ALIGN: usize = 8;
const SIZE: usize = 8;
const FRONT: usize = 32;
const CHUNK: usize = 2048;
/// A bit of `LinearState::chunk`.
const UNSIZED: usize = 1;

struct LinearState {
    at: Cell<NonNull<u8>>,
    room: Cell<usize>,
    /// A multiple of [`ALIGN`], and [`UNSIZED`].
    chunk: Cell<usize>,
}

const _: () = assert!(size_of::<LinearState>() + SIZE <= FRONT && align_of::<LinearState>() <= 16);

/// Linear memory by its handle: suballocations are aligned to 8 and not freed by themselves.
///
/// # Safety of all its functions
/// The tree rule of [`TaggedBlock`], for the memory's block and all that is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[doc(alias("linear_ctx", "linear_context"))]
pub struct LinearBlocks(NonNull<u8>);

impl LinearBlocks {
    /// The block size for linear memory whose first suballocation has `first` bytes.
    pub fn block_size(first: usize) -> Result<usize, HostError> {
        let first = padded(first)?;
        let whole = FRONT.checked_add(first).ok_or(HostError::TooLarge)?;
        Ok(whole.max(CHUNK))
    }

    /// Makes a block linear memory with a [`first`](Self::first) suballocation.
    ///
    /// # Safety
    /// See the type. The block has no other use, and the size [`block_size`](Self::block_size) for `first`.
    #[must_use]
    pub unsafe fn init(block: TaggedBlock, first: usize) -> Self {
        let used = FRONT.saturating_add(first.next_multiple_of(ALIGN));
        // SAFETY: this function's contract.
        let handle = unsafe { Self::init_state(block, used, CHUNK) };
        // SAFETY: the size lies between the state and the handle.
        unsafe { write_size(handle.0, first) };
        handle
    }

    /// As [`block_size`](Self::block_size), for [`init_unsized`](Self::init_unsized): every chunk has room for `chunk`
    /// bytes.
    pub fn unsized_block_size(chunk: usize) -> Result<usize, HostError> {
        let room = padded(chunk)?.max(CHUNK);
        FRONT.checked_add(room).ok_or(HostError::TooLarge)
    }

    /// Makes a block linear memory whose suballocations have nothing in front, and cannot be [resized](Self::resize).
    /// The handle is not a suballocation.
    ///
    /// # Safety
    /// See the type. The block has no other use, and a size of [`unsized_block_size`](Self::unsized_block_size).
    #[must_use]
    pub unsafe fn init_unsized(block: TaggedBlock) -> Self {
        // SAFETY: the tree rule.
        let chunk = unsafe { block.size() }.saturating_sub(FRONT);
        // SAFETY: this function's contract.
        unsafe { Self::init_state(block, FRONT, chunk | UNSIZED) }
    }

    /// # Safety
    /// As [`init`](Self::init); the block has at least `used` bytes, at least [`FRONT`].
    unsafe fn init_state(block: TaggedBlock, used: usize, chunk: usize) -> Self {
        let payload = block.payload();
        // SAFETY: the tree rule.
        let size = unsafe { block.size() };
        // SAFETY: this function's contract.
        let at = unsafe { payload.add(used) };
        let state =
            LinearState { at: Cell::new(at), room: Cell::new(size.saturating_sub(used)), chunk: Cell::new(chunk) };
        // SAFETY: the state lies at the begin of the block, aligned to 16.
        unsafe { payload.cast::<LinearState>().write(state) };
        // SAFETY: the block has at least the front.
        Self(unsafe { payload.add(FRONT) })
    }

    /// The linear memory with this handle.
    #[must_use]
    pub const fn from_first(first: NonNull<u8>) -> Self {
        Self(first)
    }

    /// The handle: the first suballocation.
    #[must_use]
    pub const fn first(self) -> NonNull<u8> {
        self.0
    }

    /// The block of the whole, to be freed or stolen.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn block(self) -> TaggedBlock {
        // SAFETY: the payload begins so far before the handle.
        TaggedBlock::from_payload(unsafe { self.0.sub(FRONT) })
    }

    /// A suballocation; one of 0 bytes may share its address with another.
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`], for a further chunk.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    #[doc(alias("linear_alloc_child"))]
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<NonNull<u8>, HostError> {
        // SAFETY: the tree rule.
        if let Some(new) = unsafe { self.allocate_in_chunk(size, fill) } {
            return Ok(new);
        }
        // SAFETY: the tree rule.
        let start = unsafe { self.further_chunk(size) }?;
        // SAFETY: the chunk's first bytes are reserved.
        Ok(unsafe { self.place(start, size, fill) })
    }

    /// As [`allocate`](Self::allocate) if the current chunk has room, else does nothing. Calls no allocator.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    #[must_use]
    pub unsafe fn allocate_in_chunk(self, size: usize, fill: Fill) -> Option<NonNull<u8>> {
        // SAFETY: the tree rule.
        let state = unsafe { self.state() };
        let need = state.need(size).ok()?;
        let (at, room) = (state.at.get(), state.room.get());
        if need > room {
            return None;
        }
        // SAFETY: the chunk goes on for `room` bytes.
        state.at.set(unsafe { at.add(need) });
        state.room.set(room.saturating_sub(need));
        // SAFETY: just reserved.
        Some(unsafe { self.place(at, size, fill) })
    }

    /// # Safety
    /// See the type; at `start` are the bytes of [`LinearState::need`], reserved for it.
    #[inline]
    unsafe fn place(self, start: NonNull<u8>, size: usize, fill: Fill) -> NonNull<u8> {
        // SAFETY: the tree rule.
        let front = unsafe { self.state() }.front();
        // SAFETY: that many bytes are reserved, and `size` more.
        let new = unsafe { start.add(front) };
        if front != 0 {
            // SAFETY: the size's bytes are reserved.
            unsafe { write_size(new, size) };
        }
        if fill == Fill::Zeros {
            // SAFETY: the suballocation has `size` bytes.
            unsafe { new.write_bytes(0, size) };
        }
        new
    }

    #[cold]
    unsafe fn further_chunk(self, size: usize) -> Result<NonNull<u8>, HostError> {
        // SAFETY: the tree rule.
        let state = unsafe { self.state() };
        let need = state.need(size)?;
        // SAFETY: the tree rule.
        let block = unsafe { self.block() };
        let length = need.max(state.chunk.get() & !UNSIZED);
        // SAFETY: the tree rule.
        let chunk = unsafe { block.allocate(length, Fill::Undefined) }?.payload();
        // A large suballocation does not end a chunk with more room left.
        let room = length.saturating_sub(need);
        if room > state.room.get() {
            // SAFETY: the chunk has at least that many bytes.
            state.at.set(unsafe { chunk.add(need) });
            state.room.set(room);
        }
        Ok(chunk)
    }

    /// Allocates `size` bytes and copies as much of `old` as fits; `old` stays valid.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`Misuse::UnknownSize`] without sizes.
    ///
    /// # Safety
    /// See the type; `old` is a suballocation of any linear memory with sizes.
    pub unsafe fn resize(self, old: NonNull<u8>, size: usize) -> Result<NonNull<u8>, HostError> {
        // SAFETY: the tree rule.
        if unsafe { self.state() }.front() == 0 {
            return Err(HostError::Misuse(Misuse::UnknownSize));
        }
        // SAFETY: the tree rule.
        let new = unsafe { self.allocate(size, Fill::Undefined) }?;
        // SAFETY: the size of a suballocation stands in front of it.
        let place = unsafe { old.sub(SIZE) };
        // SAFETY: written with the suballocation, aligned to 8.
        let kept = unsafe { place.cast::<usize>().read() }.min(size);
        // SAFETY: two suballocations of so many bytes.
        unsafe { old.copy_to_nonoverlapping(new, kept) };
        Ok(new)
    }

    unsafe fn state<'s>(self) -> &'s LinearState {
        // SAFETY: the state begins so far before the handle.
        let state = unsafe { self.0.sub(FRONT) };
        // SAFETY: written by `init`; reached only through cells.
        unsafe { state.cast::<LinearState>().as_ref() }
    }
}

impl LinearState {
    #[inline]
    fn need(&self, size: usize) -> Result<usize, HostError> {
        let whole = padded(size)?.checked_add(self.front());
        whole.ok_or(HostError::TooLarge)
    }

    fn front(&self) -> usize {
        if self.chunk.get() & UNSIZED == 0 { SIZE } else { 0 }
    }
}

/// # Safety
/// The 8 bytes in front of `of`, which is aligned to 8, are the caller's.
unsafe fn write_size(of: NonNull<u8>, size: usize) {
    // SAFETY: this function's contract.
    let place = unsafe { of.sub(SIZE) };
    // SAFETY: this function's contract.
    unsafe { place.cast::<usize>().write(size) };
}

fn padded(size: usize) -> Result<usize, HostError> {
    size.checked_next_multiple_of(ALIGN).ok_or(HostError::TooLarge)
}
