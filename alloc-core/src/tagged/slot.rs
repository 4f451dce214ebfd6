//! A slot: what a collector with slabs allocates. Its tail stands where a block's does, with domain 0, so that whoever has the address of a
//! payload sees what it is.
//!
//! ```text
//!   block of the collector: | header | SlabLists |
//!   child block, a slab:    | header | Slab, 24 | tail, 8 | payload, aligned to 16 | tail | payload | ..   unused |
//!   tail: place of the payload in its slab, in units of 16, u16 | size u16 | bits u16: COLLECTED and the colour, 0: free | 0 u16
//! ```

use core::cell::Cell;
use core::ptr::NonNull;

use super::header::{Block, DESTRUCTOR_SHIFT, Tail};
use super::{tables, tree};

/// The largest payload that a slab has slots for.
pub(super) const MAX_SIZE: usize = 512;
/// Slots and slabs are multiples of this, and payloads aligned to it.
const UNIT: usize = 16;
const TAIL: usize = size_of::<Tail>();
/// A free slot has room for its [`FreeLinks`].
const MIN_STRIDE: usize = (TAIL + size_of::<FreeLinks>()).next_multiple_of(UNIT);
pub(super) const CLASS_COUNT: usize = class(MAX_SIZE) + 1;

/// Bytes from one slot to the next.
pub(super) const fn stride(size: usize) -> usize {
    let stride = size.saturating_add(TAIL).next_multiple_of(UNIT);
    if stride < MIN_STRIDE {
        MIN_STRIDE
    } else {
        stride
    }
}

/// Which list a free slot for `size` bytes is in.
pub(super) const fn class(size: usize) -> usize {
    stride(size).saturating_sub(MIN_STRIDE) / UNIT
}

/// At the begin of a slab's payload.
#[repr(C)]
pub(super) struct Slab {
    pub(super) older: Cell<Option<NonNull<Slab>>>,
    pub(super) newer: Cell<Option<NonNull<Slab>>>,
    /// Where the next slot begins, in bytes from the slab's begin.
    pub(super) used: Cell<u16>,
    pub(super) end: u16,
    /// Slots that are not free.
    pub(super) live: Cell<u16>,
}

/// Where a slab's first slot begins: behind the slab, and so that the payload is aligned, whatever the size of an address.
pub(super) const FIRST: usize = (size_of::<Slab>() + TAIL).next_multiple_of(UNIT) - TAIL;

const _: () = assert!((FIRST + TAIL).is_multiple_of(UNIT) && FIRST + TAIL >= 32);

/// In a free slot's payload.
#[repr(C)]
pub(super) struct FreeLinks {
    pub(super) next: Cell<Option<Block>>,
    pub(super) prev: Cell<Option<Block>>,
}

/// Whether the block has slabs. Its number of a destructor says so; it has none of its own.
pub(super) fn is_collector(block: Block) -> bool {
    block.destructor_number() == tables::COLLECTOR
}

/// The slot that begins `at` bytes behind a slab's begin.
///
/// # Safety
/// The slab is live, and long enough.
pub(super) unsafe fn at(slab: NonNull<Slab>, at: usize) -> Block {
    // SAFETY: forwarded.
    let payload = unsafe { slab.cast::<u8>().add(at.saturating_add(TAIL)) };
    // SAFETY: at least 32 bytes of the slab lie in front of every payload.
    unsafe { Block::of_payload(payload) }
}

/// Makes a slot of memory that is a slab's own.
///
/// # Safety
/// The slab has so many bytes behind `place`, which nobody uses.
pub(super) unsafe fn init(slab: NonNull<Slab>, place: usize) -> Block {
    // SAFETY: forwarded.
    let slot = unsafe { at(slab, place) };
    // SAFETY: forwarded.
    let tail = unsafe { slab.cast::<u8>().add(place) };
    let unit = (place.saturating_add(TAIL) / UNIT) as u32;
    // SAFETY: the slot's first bytes, aligned to 8.
    unsafe { tail.cast::<Tail>().write(Tail::of_slot(unit, 0)) };
    slot
}

pub(super) fn size(slot: Block) -> usize {
    (slot.tail().size.get() >> 16) as usize
}

/// Marks a slot as one that is in use for `size` bytes, in its collector's colour.
#[inline]
pub(super) fn set_live(slot: Block, size: usize, collector: Block) {
    let tail = slot.tail();
    let place = tail.size.get() & 0xffff;
    tail.size.set(place | (size as u32) << 16);
    tail.bits
        .set(collector.colour() | tables::COLLECTED << DESTRUCTOR_SHIFT);
}

/// Keeps its size, which says how long the slot is.
pub(super) fn set_free(slot: Block) {
    slot.tail().bits.set(0);
}

/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn slab_of(slot: Block) -> NonNull<Slab> {
    let units = slot.tail().size.get() & 0xffff;
    // SAFETY: the slab begins so many units before the payload.
    unsafe { slot.payload().sub(units as usize * UNIT) }.cast()
}

/// The block that the slot lies in.
///
/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn slab(slot: Block) -> Block {
    // SAFETY: forwarded.
    let slab = unsafe { slab_of(slot) };
    // SAFETY: a slab is the payload of a block.
    unsafe { Block::of_payload(slab.cast()) }
}

/// The collector that a slot was allocated by.
///
/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn collector(slot: Block) -> Option<Block> {
    // SAFETY: forwarded.
    tree::parent(unsafe { slab(slot) })
}

/// # Safety
/// The slot's slab is live, and the slot is free.
pub(super) unsafe fn links<'s>(slot: Block) -> &'s FreeLinks {
    // SAFETY: every slot has room for them, and they are only reached through cells.
    unsafe { slot.payload().cast::<FreeLinks>().as_ref() }
}
