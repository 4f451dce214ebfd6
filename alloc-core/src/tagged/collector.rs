//! Blocks that a mark-and-sweep collector frees, for a compiler that cannot tell when it stops using them.
//!
//! The collector is a block. Small blocks of an [initialised](GcBlocks::init) collector lie in its slabs (see `slabs`), all others are
//! children with a reserved destructor number. The colour is one bit. The collector's bit is the colour of live blocks, and each sweep flips
//! it. A block has one colour, so a collected block cannot be a collector.
//!
//! A slab has contiguous slots of all sizes, and the collector lists of free slots.
//!
//! Slots are neither split nor joined, because compilers request few different sizes. A sweep frees the slabs in which it leaves nothing, except
//! the newest one, which is used again from its start.
//!
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

use super::header::{Block, DESTRUCTOR_SHIFT, DYING, MARKED, Tail};
use super::header::{COLLECTED, COLLECTOR, SLAB};
use super::{Fill, TaggedBlock, tree};
use crate::error::{HostError, Misuse};
use crate::threads::ThreadTable;

/// A collector: a block below which collected blocks are allocated. A sweep does not free its other children.
///
/// # Safety of all its functions
/// As those of [`TaggedBlock`]; the collector's block is live, and so are all other blocks that are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct GcBlocks(TaggedBlock);

impl GcBlocks {
    /// The size that a block must have for [`init`](Self::init).
    pub const BLOCK_SIZE: usize = size_of::<SlabLists>();

    /// Makes a block a collector with slabs: its blocks of up to 512 bytes lie in slabs of 4 to 32 KiB, with 8 bytes in front. Such a block
    /// can be freed and has a size, a domain and the collector as its parent; it cannot have children, be resized or be stolen. The
    /// collector itself has no destructor, and its children cannot be adopted.
    ///
    /// # Safety
    /// The block is live, new, without children, and has [`BLOCK_SIZE`](Self::BLOCK_SIZE) bytes, which have no other use.
    #[must_use]
    pub unsafe fn init(block: TaggedBlock) -> Self {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let header = unsafe { block.block() };
        // SAFETY: this function's contract; payloads are aligned to 16.
        unsafe { block.payload().cast().write(SlabLists::new()) };
        header.set_destructor_number(COLLECTOR);
        Self(block)
    }

    /// Uses `block` as a collector. It may be any block that is not collected itself.
    #[must_use]
    pub const fn new(block: TaggedBlock) -> Self {
        Self(block)
    }

    /// The collector's own block: freeing it frees all blocks of the collector.
    #[must_use]
    pub const fn block(self) -> TaggedBlock {
        self.0
    }

    /// Allocates a block that the sweep after the next [`begin_sweep`](Self::begin_sweep) frees unless it is [marked](Self::mark).
    /// [`TaggedBlock::free`] frees it earlier.
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`]; [`Misuse::Held`] if another collector collects this one's block; [`Misuse::Dying`] if this one has slabs
    /// and is being freed.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        if let Some(new) = unsafe { self.allocate_in_slab(size, fill) } {
            return Ok(new);
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        unsafe { self.allocate_further(size, fill) }
    }

    /// As [`allocate`](Self::allocate) if one of the collector's slabs has room for the block, else does nothing. Calls no allocator, and
    /// no C library function except for filling memory.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate_in_slab(self, size: usize, fill: Fill) -> Option<TaggedBlock> {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let collector = unsafe { self.0.block() };
        if !has_slot_for(collector, size) {
            return None;
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let new = unsafe { allocate_slot(collector, size) }?;
        Some(filled(new, size, fill))
    }

    /// # Safety
    /// See the type.
    #[inline(never)]
    unsafe fn allocate_further(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let collector = unsafe { self.0.block() };
        if has_slot_for(collector, size) {
            // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
            let new = unsafe { allocate_in_further(collector, size) }?;
            return Ok(filled(new, size, fill));
        }
        if collector.is_collected() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let new = unsafe { self.0.allocate(size, fill) }?;
        // SAFETY: just allocated.
        let block = unsafe { new.block() };
        block.set_destructor_number(COLLECTED);
        paint(block, collector);
        Ok(new)
    }

    /// Makes all present blocks unmarked; blocks allocated from now on are marked. Returns false, and changes nothing, if another collector
    /// collects this one's block.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn begin_sweep(self) -> bool {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let collector = unsafe { self.0.block() };
        if collector.is_collected() {
            return false;
        }
        if collector.has(MARKED) {
            collector.clear(MARKED);
        } else {
            collector.set(MARKED);
        }
        true
    }

    /// Keeps a block of this collector in the present sweep. Does nothing to a block that is not collected.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn mark(self, block: TaggedBlock) {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let block = unsafe { block.block() };
        if block.is_collected() {
            // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
            paint(block, unsafe { self.0.block() });
        }
    }

    /// Frees all unmarked blocks of this collector, with what is below them, newer ones before older. O(blocks of the collector).
    ///
    /// # Safety
    /// See the type; and as [`TaggedBlock::free`] for the unmarked blocks.
    pub unsafe fn end_sweep(self) {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        ThreadTable::with(|table| unsafe { self.end_sweep_on(table) });
    }

    /// # Safety
    /// As [`end_sweep`](Self::end_sweep).
    unsafe fn end_sweep_on(self, table: ThreadTable<'_>) {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let collector = unsafe { self.0.block() };
        if collector.is_slot() {
            return;
        }
        if is_collector(collector) {
            // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
            unsafe { sweep(collector, table) };
        }
        let is_dead = |block: &Block| {
            block.is_collected() && block.has(MARKED) != collector.has(MARKED) && !block.has(DYING)
        };
        let mut dead = tree::children(collector).filter(is_dead);
        let Some(first) = dead.next() else { return };
        // Chains the dead blocks, each below the next older one, and frees the oldest, so that no walk over siblings is under way during
        // calls of allocators.
        let mut dying = first;
        let mut at = first.header().next.get();
        while let Some(block) = at {
            at = block.header().next.get();
            if is_dead(&block) {
                tree::move_below(dying, Some(block));
                dying = block;
            }
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        unsafe { tree::free(dying, table) };
    }
}

/// Whether blocks of that size lie in slabs of the collector.
fn has_slot_for(collector: Block, size: usize) -> bool {
    is_collector(collector) && size <= MAX_SIZE
}

/// A new slot, filled.
#[inline]
fn filled(slot: Block, size: usize, fill: Fill) -> TaggedBlock {
    if fill == Fill::Zeros {
        // SAFETY: the slot has that many bytes.
        unsafe { slot.payload().write_bytes(0, size) };
    }
    TaggedBlock::from_payload(slot.payload())
}

/// Sets a block's colour to its collector's.
fn paint(block: Block, collector: Block) {
    block.set_colour(collector.colour());
}

/// Bytes of a collector's first slab. With [`FRONT`] added, each further slab is twice as long as the previous slab, up to [`MAX_SLAB`].
const MIN_SLAB: usize = (4 << 10) - FRONT;
const MAX_SLAB: usize = (32 << 10) - FRONT;
/// Room for the header of the slab's block and the C library's header: a slab and both headers together fill a power of two.
const FRONT: usize = 64;

/// The payload of a collector with slabs.
#[repr(C)]
struct SlabLists {
    newest: Cell<Option<NonNull<Slab>>>,
    free: [Cell<Option<Block>>; CLASS_COUNT],
}

impl SlabLists {
    pub(super) const fn new() -> Self {
        Self {
            newest: Cell::new(None),
            free: [const { Cell::new(None) }; CLASS_COUNT],
        }
    }

    /// Frees a slot that is in no list.
    fn push(&self, slot: Block) {
        if let Some(head) = self.free.get(own_class(slot)) {
            set_free(slot, head.get());
            head.set(Some(slot));
        }
    }
}

/// # Safety
/// The block is a live collector with slabs.
unsafe fn lists<'c>(collector: Block) -> &'c SlabLists {
    // SAFETY: written when the block became a collector; reached only through cells.
    unsafe { collector.payload().cast::<SlabLists>().as_ref() }
}

/// Allocates a slot in its collector's colour if a slab has room for it. Calls no allocator. The content is undefined.
///
/// # Safety
/// The block is a live collector with slabs, and only this thread uses its tree.
#[inline]
unsafe fn allocate_slot(collector: Block, size: usize) -> Option<Block> {
    if collector.has(DYING) {
        return None;
    }
    // SAFETY: this function's contract: a live collector with slabs, whose tree only this thread uses.
    let lists = unsafe { lists(collector) };
    let head = lists.free.get(class(size))?;
    let slot = match head.get() {
        Some(free) => {
            // SAFETY: a slot in a list is free, and lies in a live slab.
            head.set(unsafe { next_free(free) });
            free
        }
        // SAFETY: a collector's slabs are live.
        None => unsafe { unused(lists.newest.get()?, stride(size)) }?,
    };
    set_live(slot, size, collector);
    Some(slot)
}

/// As [`allocate_slot`], from a new slab.
///
/// # Errors
/// [`Misuse::Dying`] if the collector is being freed; the domain's refusal of a slab.
///
/// # Safety
/// As [`allocate_slot`].
#[cold]
unsafe fn allocate_in_further(collector: Block, size: usize) -> Result<Block, HostError> {
    if collector.has(DYING) {
        return Err(HostError::Misuse(Misuse::Dying));
    }
    // SAFETY: this function's contract: a live collector with slabs, whose tree only this thread uses.
    unsafe { further(collector) }?;
    // SAFETY: this function's contract. A slab has room for the longest slot.
    unsafe { allocate_slot(collector, size) }.ok_or(HostError::Misuse(Misuse::Held))
}

/// The next unused slot of a slab, if it has room for one.
///
/// # Safety
/// The slab is live.
#[inline]
unsafe fn unused(slab: NonNull<Slab>, stride: usize) -> Option<Block> {
    // SAFETY: this function's contract: a live collector with slabs, whose tree only this thread uses.
    let state = unsafe { slab.as_ref() };
    let at = usize::from(state.used.get());
    let end = at.saturating_add(stride);
    if end > usize::from(state.end) {
        return None;
    }
    state.used.set(end as u16);
    // SAFETY: the slab has `stride` unused bytes from `at`.
    Some(unsafe { init_slot(slab, at, stride) })
}

/// # Safety
/// As [`allocate_slot`].
unsafe fn further(collector: Block) -> Result<(), HostError> {
    // SAFETY: this function's contract: a live collector with slabs, whose tree only this thread uses.
    let lists = unsafe { lists(collector) };
    let older = lists.newest.get();
    let bytes = older.map_or(MIN_SLAB, |older| {
        // SAFETY: a collector's slabs are live.
        let last = usize::from(unsafe { older.as_ref() }.end);
        last.saturating_add(FRONT)
            .saturating_mul(2)
            .saturating_sub(FRONT)
            .min(MAX_SLAB)
    });
    let owner = TaggedBlock::from_payload(collector.payload());
    // SAFETY: this function's contract. A callback of the allocator must not use this tree.
    let block = unsafe { owner.allocate(bytes, Fill::Undefined) }?;
    let new = block.payload().cast::<Slab>();
    let slab = Slab {
        older: Cell::new(older),
        used: Cell::new(FIRST as u16),
        end: bytes as u16,
    };
    // SAFETY: the block is new, longer than this, and aligned to 16.
    unsafe { new.write(slab) };
    // SAFETY: the payload of the new block.
    unsafe { block.block() }.set_destructor_number(SLAB);
    lists.newest.set(Some(new));
    Ok(())
}

/// Frees a slot, to be used again. Does nothing if the slot is already free.
///
/// # Safety
/// The slot's slab is live, and only this thread uses its tree. The slot is not used after this.
pub(super) unsafe fn free(slot: Block) {
    // SAFETY: this function's contract.
    let collector = unsafe { collector(slot) };
    if let Some(collector) = collector.filter(|_| slot.is_collected()) {
        // SAFETY: a live slot has a live collector with slabs.
        unsafe { lists(collector) }.push(slot);
    }
}

/// All slots of a slab.
///
/// # Safety
/// The slab is live as long as the iterator is used.
unsafe fn slots(slab: NonNull<Slab>) -> impl Iterator<Item = Block> {
    // SAFETY: this function's contract: a live collector with slabs, whose tree only this thread uses.
    let used = usize::from(unsafe { slab.as_ref() }.used.get());
    let mut at = FIRST;
    core::iter::from_fn(move || {
        if at >= used {
            return None;
        }
        // SAFETY: slots lie one after the other up to there.
        let slot = unsafe { slot_at(slab, at) };
        at = at.wrapping_add(own_stride(slot));
        Some(slot)
    })
}

/// Frees all slots that do not have the collector's colour.
///
/// # Safety
/// The block is a live collector with slabs, only this thread uses its tree, and those slots are not used after this.
unsafe fn sweep(collector: Block, table: ThreadTable<'_>) {
    if collector.has(DYING) {
        return;
    }
    // SAFETY: this function's contract.
    let lists = unsafe { lists(collector) };
    // All free slots are put into the lists anew, so that none of a freed slab is left in one.
    lists.free.iter().for_each(|head| head.set(None));
    let kept = live_bits(collector);
    let mut newer: Option<&Slab> = None;
    let mut next = lists.newest.get();
    while let Some(slab) = next {
        // SAFETY: a collector's slabs are live.
        let state = unsafe { slab.as_ref() };
        next = state.older.get();
        // SAFETY: the slab is live.
        let all = || unsafe { slots(slab) };
        if all().any(|slot| bits(slot) == kept) {
            all()
                .filter(|slot| bits(*slot) != kept)
                .for_each(|slot| lists.push(slot));
        } else if let Some(newer) = newer {
            newer.older.set(next);
            // SAFETY: a slab is the payload of a block.
            let block = unsafe { Block::of_payload(slab.cast()) };
            // SAFETY: neither a list nor another slab refers to the slab any more.
            unsafe { tree::free(block, table) };
            continue;
        } else {
            // A slot that is wrongly freed again is known as free.
            all().for_each(|slot| set_free(slot, None));
            state.used.set(FIRST as u16);
        }
        newer = Some(state);
    }
}

/// The largest payload that a slab has slots for.
const MAX_SIZE: usize = 512;
/// Slots and slabs are multiples of this, and payloads aligned to it.
const UNIT: usize = 16;
const TAIL: usize = size_of::<Tail>();
/// A free slot has room for the link to the next one.
const MIN_STRIDE: usize = (TAIL + size_of::<Option<Block>>()).next_multiple_of(UNIT);
const CLASS_COUNT: usize = class(MAX_SIZE) + 1;

/// In a tail's word: bytes to the next slot, unshifted, because a walk over slots waits for this value.
const STRIDE_MASK: u32 = 0x3f0;
const PLACE_SHIFT: u32 = 10;
const PLACE_MASK: u32 = 0x7ff;
const SIZE_SHIFT: u32 = 21;

const _: () =
    assert!(stride(MAX_SIZE) <= STRIDE_MASK as usize && MAX_SIZE >> (32 - SIZE_SHIFT) == 0);

/// Bytes from one slot of that size to the next.
const fn stride(size: usize) -> usize {
    let stride = size.saturating_add(TAIL).next_multiple_of(UNIT);
    if stride < MIN_STRIDE {
        MIN_STRIDE
    } else {
        stride
    }
}

/// The index of the list of free slots for `size` bytes.
const fn class(size: usize) -> usize {
    class_of_stride(stride(size))
}

const fn class_of_stride(stride: usize) -> usize {
    stride.saturating_sub(MIN_STRIDE) / UNIT
}

/// Bytes from this slot to the next.
#[inline]
fn own_stride(slot: Block) -> usize {
    (slot.tail().size.get() & STRIDE_MASK) as usize
}

/// The index of the list that the slot is in when it is free.
#[inline]
fn own_class(slot: Block) -> usize {
    class_of_stride(own_stride(slot))
}

/// The state of a slab, at the beginning of its payload.
#[repr(C)]
struct Slab {
    pub(super) older: Cell<Option<NonNull<Slab>>>,
    /// Offset of the next unused slot, in bytes.
    used: Cell<u16>,
    pub(super) end: u16,
}

/// Offset of a slab's first slot, behind [`Slab`]: as many bytes lie in front of its payload as a header has.
const FIRST: usize = 32 - TAIL;

const _: () = assert!((FIRST + TAIL).is_multiple_of(UNIT) && size_of::<Slab>() <= FIRST);

/// Whether the block is a collector with slabs: it then has a reserved destructor number.
pub(super) fn is_collector(block: Block) -> bool {
    block.destructor_number() == COLLECTOR
}

/// The slot at offset `at` of a slab.
///
/// # Safety
/// The slab is live, and long enough.
#[inline]
unsafe fn slot_at(slab: NonNull<Slab>, at: usize) -> Block {
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
unsafe fn init_slot(slab: NonNull<Slab>, place: usize, stride: usize) -> Block {
    // SAFETY: this function's contract: the slot's slab is live.
    let slot = unsafe { slot_at(slab, place) };
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
fn set_live(slot: Block, size: usize, collector: Block) {
    let tail = slot.tail();
    let rest = tail.size.get() & !(u32::MAX << SIZE_SHIFT);
    tail.size.set(rest | (size as u32) << SIZE_SHIFT);
    tail.bits.set(live_bits(collector));
}

/// The bits of a live slot in its collector's colour.
#[inline]
fn live_bits(collector: Block) -> u16 {
    collector.colour() | COLLECTED << DESTRUCTOR_SHIFT
}

#[inline]
pub(super) fn bits(slot: Block) -> u16 {
    slot.tail().bits.get()
}

/// Marks a slot as free, and links it to the `next` free one. Keeps its word, which has the slot's length.
fn set_free(slot: Block, next: Option<Block>) {
    slot.tail().bits.set(0);
    // SAFETY: every slot has room for the link, and this one is free.
    unsafe { slot.payload().cast::<Option<Block>>().write(next) };
}

/// The free slot after this free one.
///
/// # Safety
/// The slot's slab is live, and the slot is free.
unsafe fn next_free(slot: Block) -> Option<Block> {
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
