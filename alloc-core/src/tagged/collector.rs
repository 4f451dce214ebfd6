//! Blocks that a mark-and-sweep collector frees, for a compiler that cannot tell when it stops using them.
//!
//! The collector is a block. Small blocks of an [initialised](GcBlocks::init) collector lie in its slabs, all others
//! are children with a reserved destructor number. The colour is one bit; the collector's is the colour of live blocks,
//! and each sweep flips it. A block has one colour, so a collected block cannot be a collector.
//!
//! A slab has contiguous slots of all sizes; the collector lists the free ones by size. They are neither split nor
//! joined, because compilers request few different sizes. A sweep frees the slabs in which it leaves nothing, except
//! the newest, which is used again from its start.
//!
//! A slot's tail has the same place as a block's, with domain 0: a payload's address is enough to tell one from the
//! other.
//!
//! The *slab rule* of the SAFETY comments: a collector's slabs, and so the slots in its lists, are live; only the
//! thread that uses the tree reaches them.
//!
//! ```text
//!   block of the collector: | header | SlabLists |
//!   child block, a slab:    | header | Slab, 24 | tail, 8 | payload, aligned to 16 | tail | payload | ..   unused |
//!   tail: word u32 | bits u16: COLLECTED and the colour, 0: free | 0 u16
//!   word: 16 bits, size | 16 bits, place of the payload in its slab, in bytes
//! ```

use core::cell::Cell;
use core::ptr::NonNull;

use super::header::{Block, COLLECTED, COLLECTOR, DESTRUCTOR_SHIFT, DYING, MARKED, SLAB, Tail};
use super::{Fill, TaggedBlock, tree};
use crate::error::{HostError, Misuse};
use crate::threads::ThreadTable;

/// A collector: a block below which collected blocks are allocated. A sweep does not free its other children.
///
/// # Safety of all its functions
/// The tree rule of [`TaggedBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct GcBlocks(TaggedBlock);

impl GcBlocks {
    /// The size that a block must have for [`init`](Self::init).
    pub const BLOCK_SIZE: usize = size_of::<SlabLists>();

    /// Makes a block a collector with slabs: its blocks of up to 512 bytes lie in slabs of 4 to 32 KiB, with 8 bytes in
    /// front. Such a block can be freed and has a size, a domain and a parent, the collector; it has no children, and
    /// cannot be resized or stolen. The collector has no destructor, and its children cannot be adopted.
    ///
    /// # Safety
    /// See the type. The block is new, without children, and has [`BLOCK_SIZE`](Self::BLOCK_SIZE) bytes without other
    /// use.
    #[must_use]
    pub unsafe fn init(block: TaggedBlock) -> Self {
        // SAFETY: the tree rule (`TaggedBlock`).
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

    /// Allocates a block that the sweep after the next [`begin_sweep`](Self::begin_sweep) frees unless it is
    /// [marked](Self::mark), or [`TaggedBlock::free`] earlier.
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`]; [`Misuse::Held`] if another collector collects this one's block; [`Misuse::Dying`]
    /// if this one has slabs and is being freed.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the tree rule (`TaggedBlock`).
        if let Some(new) = unsafe { self.allocate_in_slab(size, fill) } {
            return Ok(new);
        }
        // SAFETY: the tree rule (`TaggedBlock`).
        unsafe { self.allocate_further(size, fill) }
    }

    /// As [`allocate`](Self::allocate) if a slab has room, else does nothing. Calls no allocator, and no C library
    /// function except for filling memory.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate_in_slab(self, size: usize, fill: Fill) -> Option<TaggedBlock> {
        // SAFETY: the tree rule (`TaggedBlock`).
        let collector = unsafe { self.0.block() };
        if !has_slot_for(collector, size) || collector.has(DYING) {
            return None;
        }
        // SAFETY: the tree rule (`TaggedBlock`); a collector with slabs.
        let lists = unsafe { lists(collector) };
        let head = lists.free.get(class(size))?;
        let slot = match head.get() {
            Some(free) => {
                // SAFETY: the slab rule.
                head.set(unsafe { next_free(free) });
                free
            }
            // SAFETY: the slab rule.
            None => unsafe { unused(lists.newest.get()?, stride(size)) }?,
        };
        set_live(slot, size, collector);
        if fill == Fill::Zeros {
            // SAFETY: the slot has that many bytes.
            unsafe { slot.payload().write_bytes(0, size) };
        }
        Some(TaggedBlock::from_payload(slot.payload()))
    }

    /// # Safety
    /// See the type.
    #[inline(never)]
    unsafe fn allocate_further(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the tree rule (`TaggedBlock`).
        let collector = unsafe { self.0.block() };
        if has_slot_for(collector, size) {
            if collector.has(DYING) {
                return Err(HostError::Misuse(Misuse::Dying));
            }
            // SAFETY: the tree rule (`TaggedBlock`).
            unsafe { further(collector) }?;
            // SAFETY: the tree rule (`TaggedBlock`). A new slab has room for the longest slot.
            let new = unsafe { self.allocate_in_slab(size, fill) };
            return new.ok_or(HostError::Misuse(Misuse::Held));
        }
        if collector.is_collected() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        // SAFETY: the tree rule (`TaggedBlock`).
        let new = unsafe { self.0.allocate(size, fill) }?;
        // SAFETY: just allocated.
        let block = unsafe { new.block() };
        block.set_destructor_number(COLLECTED);
        paint(block, collector);
        Ok(new)
    }

    /// Makes all present blocks unmarked; those allocated from now on are marked. False, and nothing changed, if
    /// another collector collects this one's block.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn begin_sweep(self) -> bool {
        // SAFETY: the tree rule (`TaggedBlock`).
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

    /// Keeps a block of this collector in the present sweep. Nothing for one that is not collected.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn mark(self, block: TaggedBlock) {
        // SAFETY: the tree rule (`TaggedBlock`).
        let block = unsafe { block.block() };
        if block.is_collected() {
            // SAFETY: the tree rule (`TaggedBlock`).
            paint(block, unsafe { self.0.block() });
        }
    }

    /// Frees all unmarked blocks of this collector, with what is below them, newest first. O(blocks of the collector).
    ///
    /// # Safety
    /// See the type; and as [`TaggedBlock::free`] for the unmarked blocks.
    pub unsafe fn end_sweep(self) {
        // SAFETY: the tree rule (`TaggedBlock`).
        let collector = unsafe { self.0.block() };
        if collector.is_slot() {
            return;
        }
        if is_collector(collector) {
            // SAFETY: the tree rule (`TaggedBlock`).
            ThreadTable::with(|table| unsafe { sweep(collector, table) });
        }
        let is_dead = |block: &Block| {
            block.is_collected() && block.has(MARKED) != collector.has(MARKED) && !block.has(DYING)
        };
        let mut dead = tree::children(collector).filter(is_dead);
        let Some(first) = dead.next() else { return };
        // Chains the dead blocks, each below the next older one, and frees the oldest: no walk over siblings is under
        // way while allocators are called.
        let mut dying = first;
        let mut at = first.header().next.get();
        while let Some(block) = at {
            at = block.header().next.get();
            if is_dead(&block) {
                tree::move_below(dying, Some(block));
                dying = block;
            }
        }
        // SAFETY: the tree rule (`TaggedBlock`).
        ThreadTable::with(|table| unsafe { tree::free(dying, table) });
    }
}

fn has_slot_for(collector: Block, size: usize) -> bool {
    is_collector(collector) && size <= MAX_SIZE
}

fn paint(block: Block, collector: Block) {
    block.set_colour(collector.colour());
}

/// Bytes of the first slab. With [`FRONT`] added, each further one is twice as long as the last, up to [`MAX_SLAB`].
const MIN_SLAB: usize = (4 << 10) - FRONT;
const MAX_SLAB: usize = (32 << 10) - FRONT;
/// Room for the headers of the slab's block and of the C library: with both a slab fills a power of two.
const FRONT: usize = 64;

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
        if let Some(head) = self.free.get(class(size(slot))) {
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

/// The next unused slot of a slab, if it has room for one.
///
/// # Safety
/// The slab is live.
#[inline]
unsafe fn unused(slab: NonNull<Slab>, stride: usize) -> Option<Block> {
    // SAFETY: this function's contract.
    let state = unsafe { slab.as_ref() };
    let at = usize::from(state.used.get());
    let end = at.saturating_add(stride);
    if end > usize::from(state.end) {
        return None;
    }
    state.used.set(end as u16);
    // SAFETY: the slab has `stride` unused bytes from `at`.
    let tail = unsafe { slab.cast::<u8>().add(at) };
    let place = at.saturating_add(TAIL) as u32;
    // SAFETY: the slot's first bytes, aligned to 8.
    unsafe { tail.cast::<Tail>().write(Tail::of_slot(place, 0)) };
    // SAFETY: this function's contract.
    Some(unsafe { slot_at(slab, at) })
}

/// Adds a slab to a collector.
///
/// # Safety
/// The block is a live collector with slabs, and only this thread uses its tree.
unsafe fn further(collector: Block) -> Result<(), HostError> {
    // SAFETY: this function's contract.
    let lists = unsafe { lists(collector) };
    let older = lists.newest.get();
    let bytes = older.map_or(MIN_SLAB, |older| {
        // SAFETY: the slab rule.
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

/// Does nothing if the slot is already free.
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
    // SAFETY: this function's contract.
    let used = usize::from(unsafe { slab.as_ref() }.used.get());
    let mut at = FIRST;
    core::iter::from_fn(move || {
        if at >= used {
            return None;
        }
        // SAFETY: slots lie one after the other up to there.
        let slot = unsafe { slot_at(slab, at) };
        at = at.wrapping_add(stride(size(slot)));
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
    // All free slots are listed anew, so that none of a freed slab is left.
    lists.free.iter().for_each(|head| head.set(None));
    let kept = live_bits(collector);
    let mut newer: Option<&Slab> = None;
    let mut next = lists.newest.get();
    while let Some(slab) = next {
        // SAFETY: the slab rule.
        let state = unsafe { slab.as_ref() };
        next = state.older.get();
        // SAFETY: the slab rule.
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

/// The largest payload in a slab.
const MAX_SIZE: usize = 512;
/// Slots and slabs are multiples of this; payloads are aligned to it.
const UNIT: usize = 16;
const TAIL: usize = size_of::<Tail>();
/// A free slot has room for the link to the next one.
const MIN_STRIDE: usize = (TAIL + size_of::<Option<Block>>()).next_multiple_of(UNIT);
const CLASS_COUNT: usize = class(MAX_SIZE) + 1;

const SIZE_SHIFT: u32 = 16;

const _: () = assert!(MAX_SLAB <= u16::MAX as usize);

const fn stride(size: usize) -> usize {
    let stride = size.saturating_add(TAIL).next_multiple_of(UNIT);
    if stride < MIN_STRIDE {
        MIN_STRIDE
    } else {
        stride
    }
}

const fn class(size: usize) -> usize {
    stride(size).saturating_sub(MIN_STRIDE) / UNIT
}

#[repr(C)]
struct Slab {
    pub(super) older: Cell<Option<NonNull<Slab>>>,
    /// Offset of the next unused slot.
    used: Cell<u16>,
    pub(super) end: u16,
}

/// Offset of the first slot: as many bytes lie in front of its payload as a header has.
const FIRST: usize = 32 - TAIL;

const _: () = assert!((FIRST + TAIL).is_multiple_of(UNIT) && size_of::<Slab>() <= FIRST);

/// It has a reserved destructor number then.
pub(super) fn is_collector(block: Block) -> bool {
    block.destructor_number() == COLLECTOR
}

/// The slot at offset `at` of a slab.
///
/// # Safety
/// The slab is live, and long enough.
#[inline]
unsafe fn slot_at(slab: NonNull<Slab>, at: usize) -> Block {
    // SAFETY: this function's contract: the slot lies within the slab.
    let tail = unsafe { slab.cast::<u8>().add(at) };
    // SAFETY: this function's contract: the slot lies within the slab.
    let payload = unsafe { tail.add(TAIL) };
    // SAFETY: at least 32 bytes of the slab lie in front of every payload.
    unsafe { Block::of_payload(payload) }
}

#[inline]
pub(super) fn size(slot: Block) -> usize {
    (slot.tail().size.get() >> SIZE_SHIFT) as usize
}

/// Marks a slot as live with `size` bytes, in its collector's colour.
#[inline]
fn set_live(slot: Block, size: usize, collector: Block) {
    let tail = slot.tail();
    let place = tail.size.get() & u32::from(u16::MAX);
    tail.size.set(place | (size as u32) << SIZE_SHIFT);
    tail.bits.set(live_bits(collector));
}

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
    let place = slot.tail().size.get() & u32::from(u16::MAX);
    // SAFETY: the slab begins that many bytes before the payload.
    let slab = unsafe { slot.payload().sub(place as usize) };
    // SAFETY: a slab is the payload of a block.
    unsafe { Block::of_payload(slab) }
}

/// The collector that a slot was allocated by.
///
/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn collector(slot: Block) -> Option<Block> {
    // SAFETY: this function's contract.
    tree::parent(unsafe { slab(slot) })
}
