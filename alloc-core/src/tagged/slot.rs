//! A slot: a small block in a slab of a collector. Its tail has the same place as a block's, with domain 0, so that a payload's address is
//! enough to tell a slot from a block.
//!
//! ```text
//!   block of the collector: | header | SlabLists |
//!   child block, a slab:    | header | Slab, 24 | tail, 8 | payload, aligned to 16 | tail | payload | ..   unused |
//!   tail: word u32 | bits u16: COLLECTED and the colour, 0: free | 0 u16
//!   word: 4 bits 0 | 6 bits, bytes to the next slot in units of 16 | 11 bits, place of the payload in its slab in units of 16 | 11 bits size
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
/// A free slot has room for the link to the next one.
const MIN_STRIDE: usize = (TAIL + size_of::<Option<Block>>()).next_multiple_of(UNIT);
pub(super) const CLASS_COUNT: usize = class(MAX_SIZE) + 1;

/// In a tail's word: bytes to the next slot, unshifted, because a walk over slots waits for this value.
const STRIDE_MASK: u32 = 0x3f0;
const PLACE_SHIFT: u32 = 10;
const PLACE_MASK: u32 = 0x7ff;
const SIZE_SHIFT: u32 = 21;

const _: () =
    assert!(stride(MAX_SIZE) <= STRIDE_MASK as usize && MAX_SIZE >> (32 - SIZE_SHIFT) == 0);

/// Bytes from one slot of that size to the next.
pub(super) const fn stride(size: usize) -> usize {
    let stride = size.saturating_add(TAIL).next_multiple_of(UNIT);
    if stride < MIN_STRIDE {
        MIN_STRIDE
    } else {
        stride
    }
}

/// The index of the list of free slots for `size` bytes.
pub(super) const fn class(size: usize) -> usize {
    class_of_stride(stride(size))
}

const fn class_of_stride(stride: usize) -> usize {
    stride.saturating_sub(MIN_STRIDE) / UNIT
}

/// Bytes from this slot to the next.
#[inline]
pub(super) fn own_stride(slot: Block) -> usize {
    (slot.tail().size.get() & STRIDE_MASK) as usize
}

/// The index of the list that the slot is in when it is free.
#[inline]
pub(super) fn own_class(slot: Block) -> usize {
    class_of_stride(own_stride(slot))
}

/// The state of a slab, at the beginning of its payload.
#[repr(C)]
pub(super) struct Slab {
    pub(super) older: Cell<Option<NonNull<Slab>>>,
    /// Offset of the next unused slot, in bytes.
    pub(super) used: Cell<u16>,
    pub(super) end: u16,
}

/// Offset of a slab's first slot, behind [`Slab`]: as many bytes lie in front of its payload as a header has.
pub(super) const FIRST: usize = 32 - TAIL;

const _: () = assert!((FIRST + TAIL).is_multiple_of(UNIT) && size_of::<Slab>() <= FIRST);

/// Whether the block is a collector with slabs: it then has a reserved destructor number.
pub(super) fn is_collector(block: Block) -> bool {
    block.destructor_number() == tables::COLLECTOR
}

/// The slot at offset `at` of a slab.
///
/// # Safety
/// The slab is live, and long enough.
#[inline]
pub(super) unsafe fn at(slab: NonNull<Slab>, at: usize) -> Block {
    // SAFETY: this function's contract: the slot's slab is live.
    let tail = unsafe { slab.cast::<u8>().add(at) };
    // SAFETY: this function's contract: the slot's slab is live.
    let payload = unsafe { tail.add(TAIL) };
    // SAFETY: at least 32 bytes of the slab lie in front of every payload.
    unsafe { Block::of_payload(payload) }
}

/// Makes a free slot at offset `place` of a slab.
///
/// # Safety
/// The slab has `stride` unused bytes at `place`.
pub(super) unsafe fn init(slab: NonNull<Slab>, place: usize, stride: usize) -> Block {
    // SAFETY: this function's contract: the slot's slab is live.
    let slot = unsafe { at(slab, place) };
    // SAFETY: this function's contract: the slot's slab is live.
    let tail = unsafe { slab.cast::<u8>().add(place) };
    let unit = (place.saturating_add(TAIL) / UNIT) as u32;
    let word = unit << PLACE_SHIFT | stride as u32 & STRIDE_MASK;
    // SAFETY: the slot's first bytes, aligned to 8.
    unsafe { tail.cast::<Tail>().write(Tail::of_slot(word, 0)) };
    slot
}

#[inline]
pub(super) fn size(slot: Block) -> usize {
    (slot.tail().size.get() >> SIZE_SHIFT) as usize
}

/// Marks a slot as live with `size` bytes, in its collector's colour.
#[inline]
pub(super) fn set_live(slot: Block, size: usize, collector: Block) {
    let tail = slot.tail();
    let rest = tail.size.get() & !(u32::MAX << SIZE_SHIFT);
    tail.size.set(rest | (size as u32) << SIZE_SHIFT);
    tail.bits.set(live_bits(collector));
}

/// The bits of a live slot in its collector's colour.
#[inline]
pub(super) fn live_bits(collector: Block) -> u16 {
    collector.colour() | tables::COLLECTED << DESTRUCTOR_SHIFT
}

#[inline]
pub(super) fn bits(slot: Block) -> u16 {
    slot.tail().bits.get()
}

/// Marks a slot as free, and links it to the `next` free one. Keeps its word, which has the slot's length.
pub(super) fn set_free(slot: Block, next: Option<Block>) {
    slot.tail().bits.set(0);
    // SAFETY: every slot has room for the link, and this one is free.
    unsafe { slot.payload().cast::<Option<Block>>().write(next) };
}

/// The free slot after this free one.
///
/// # Safety
/// The slot's slab is live, and the slot is free.
pub(super) unsafe fn next_free(slot: Block) -> Option<Block> {
    // SAFETY: written when the slot was freed.
    unsafe { slot.payload().cast::<Option<Block>>().read() }
}

/// The block that the slot lies in.
///
/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn slab(slot: Block) -> Block {
    let units = slot.tail().size.get() >> PLACE_SHIFT & PLACE_MASK;
    // SAFETY: the slab begins that many units before the payload.
    let slab = unsafe { slot.payload().sub(units as usize * UNIT) };
    // SAFETY: a slab is the payload of a block.
    unsafe { Block::of_payload(slab) }
}

/// The collector that a slot was allocated by.
///
/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn collector(slot: Block) -> Option<Block> {
    // SAFETY: this function's contract: the slot's slab is live.
    tree::parent(unsafe { slab(slot) })
}
