//! Linear memory in a tree of blocks: suballocations one after the other, freed together.
//!
//! ```text
//!   block of the whole: | state, 24 | size, 8 | first suballocation | size | second | ..         child block, a further chunk: | size | .. |
//!                                             ^ the handle
//! ```
//! The handle is the address of the first suballocation, so it serves compilers that pass an object for the linear memory, and older ones
//! that pass the first suballocation.

use core::cell::Cell;
use core::ptr::NonNull;

use super::{Fill, TaggedBlock};
use crate::error::HostError;

const ALIGN: usize = 8;
/// In front of each suballocation: its size, for [`LinearBlocks::resize`].
const SIZE: usize = 8;
/// In front of the handle: the state, and the first suballocation's size.
const FRONT: usize = 32;
/// The payload of a chunk that is no larger for the sake of one suballocation.
const CHUNK: usize = 2048;

/// Where the next suballocation lies, as offsets in the chunk.
struct State {
    chunk: Cell<NonNull<u8>>,
    at: Cell<usize>,
    end: Cell<usize>,
}

const _: () = assert!(size_of::<State>() + SIZE <= FRONT && align_of::<State>() <= 16);

/// Linear memory by its handle: suballocations are aligned to 8 and not freed by themselves.
///
/// # Safety of all its functions
/// As those of [`TaggedBlock`]; the linear memory is live, and so is what is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct LinearBlocks(NonNull<u8>);

impl LinearBlocks {
    /// The size that the block of linear memory must have whose first suballocation has `first` bytes.
    ///
    /// # Errors
    /// [`HostError::TooLarge`].
    pub fn block_size(first: usize) -> Result<usize, HostError> {
        let first = padded(first)?;
        let whole = FRONT.checked_add(first).ok_or(HostError::TooLarge)?;
        Ok(whole.max(CHUNK))
    }

    /// Makes linear memory of a block, which holds nothing else. The first suballocation is [`first`](Self::first).
    ///
    /// # Safety
    /// The block is live, nobody else uses it, and its size is that of [`block_size`](Self::block_size) for `first`.
    #[must_use]
    pub unsafe fn init(block: TaggedBlock, first: usize) -> Self {
        let chunk = block.payload();
        // SAFETY: the block has at least `FRONT` bytes.
        let handle = Self(unsafe { chunk.add(FRONT) });
        // SAFETY: forwarded.
        let end = unsafe { block.size() };
        let at = FRONT.saturating_add(first.next_multiple_of(ALIGN));
        let state = State {
            chunk: Cell::new(chunk),
            at: Cell::new(at),
            end: Cell::new(end),
        };
        // SAFETY: the state lies in front of the handle, in the block, aligned to 16.
        unsafe { chunk.cast::<State>().write(state) };
        // SAFETY: the size lies between the state and the handle.
        unsafe { write_size(handle.0, first) };
        handle
    }

    /// The linear memory whose handle this is.
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
        // SAFETY: the block's payload begins that many bytes before the handle.
        TaggedBlock::from_payload(unsafe { self.0.sub(FRONT) })
    }

    /// A suballocation of `size` bytes.
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`], of a further chunk.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<NonNull<u8>, HostError> {
        let need = padded(size)?.checked_add(SIZE).ok_or(HostError::TooLarge)?;
        // SAFETY: forwarded.
        let state = unsafe { self.state() };
        let room = state.end.get().saturating_sub(state.at.get());
        let (chunk, at) = if need <= room {
            let at = state.at.get();
            state.at.set(at.saturating_add(need));
            (state.chunk.get(), at)
        } else {
            let length = need.max(CHUNK);
            // SAFETY: forwarded.
            let block = unsafe { self.block() };
            // SAFETY: forwarded.
            let chunk = unsafe { block.allocate(length, Fill::Undefined) }?.payload();
            // Whichever has more room goes on: a large suballocation does not end the chunk that was begun.
            let room = state.end.get().saturating_sub(state.at.get());
            if length.saturating_sub(need) > room {
                state.chunk.set(chunk);
                state.at.set(need);
                state.end.set(length);
            }
            (chunk, 0)
        };
        // SAFETY: the suballocation lies in the chunk, behind its size.
        let new = unsafe { chunk.add(at.saturating_add(SIZE)) };
        // SAFETY: the size's place is part of what was just set apart.
        unsafe { write_size(new, size) };
        if fill == Fill::Zeros {
            // SAFETY: the suballocation has `size` bytes.
            unsafe { new.write_bytes(0, size) };
        }
        Ok(new)
    }

    /// A suballocation of `size` bytes with as much of `old` as fits, which stays what it is.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    ///
    /// # Safety
    /// See the type; `old` is a suballocation of any linear memory.
    pub unsafe fn resize(self, old: NonNull<u8>, size: usize) -> Result<NonNull<u8>, HostError> {
        // SAFETY: forwarded.
        let new = unsafe { self.allocate(size, Fill::Undefined) }?;
        // SAFETY: the size of a suballocation stands in front of it.
        let place = unsafe { old.sub(SIZE) };
        // SAFETY: as above, aligned to 8.
        let kept = unsafe { place.cast::<usize>().read() }.min(size);
        // SAFETY: both are different suballocations with at least that many bytes.
        unsafe { old.copy_to_nonoverlapping(new, kept) };
        Ok(new)
    }

    /// # Safety
    /// See the type.
    unsafe fn state<'s>(self) -> &'s State {
        // SAFETY: the state begins that many bytes before the handle.
        let state = unsafe { self.0.sub(FRONT) };
        // SAFETY: written by `init`, and only reached through cells.
        unsafe { state.cast::<State>().as_ref() }
    }
}

/// # Safety
/// The 8 bytes in front of `of`, which is aligned to 8, are the caller's.
unsafe fn write_size(of: NonNull<u8>, size: usize) {
    // SAFETY: forwarded.
    let place = unsafe { of.sub(SIZE) };
    // SAFETY: forwarded.
    unsafe { place.cast::<usize>().write(size) };
}

fn padded(size: usize) -> Result<usize, HostError> {
    size.checked_next_multiple_of(ALIGN)
        .ok_or(HostError::TooLarge)
}
