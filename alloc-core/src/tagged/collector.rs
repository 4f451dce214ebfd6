//! Blocks that a mark-and-sweep collector frees.
//!
//! Small blocks of an [initialised](GcBlocks::init) collector lie in its slabs, all others are children with a reserved
//! destructor number. The colour is one bit; the collector's is the colour of live blocks, and each sweep flips it. A
//! collected block cannot be a collector: it has one colour.
//!
//! A slab has contiguous slots of all sizes; the collector lists the free ones by size. They are neither split nor
//! joined: compilers request few sizes.
//!
//! A slot's tail has the same place as a block's, with domain 0.
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

/// A block below which collected blocks are allocated. A sweep does not free its other children.
///
/// # Safety of all its functions
/// The tree rule of [`TaggedBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[doc(alias("gc_ctx", "gc_context"))]
pub struct GcBlocks(TaggedBlock);

impl GcBlocks {
    /// The size that a block must have for [`init`](Self::init).
    pub const BLOCK_SIZE: usize = size_of::<SlabLists>();

    /// Makes a block a collector with slabs: its blocks of up to 512 bytes lie in slabs of 4 to 32 KiB, with 8 bytes in
    /// front. Such a block has a size, a domain and a parent, the collector; it has no children, and cannot be resized
    /// or stolen. The collector has no destructor, and its children cannot be adopted.
    ///
    /// # Safety
    /// See the type. The block is new, without children, and has [`BLOCK_SIZE`](Self::BLOCK_SIZE) bytes without other
    /// use.
    #[must_use]
    pub unsafe fn init(block: TaggedBlock) -> Self {
        // SAFETY: the tree rule.
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
    #[doc(alias("gc_alloc_size"))]
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the tree rule.
        if let Some(new) = unsafe { self.allocate_in_slab(size, fill) } {
            return Ok(new);
        }
        // SAFETY: the tree rule.
        unsafe { self.allocate_further(size, fill) }
    }

    /// As [`allocate`](Self::allocate) if a slab has room, else does nothing. Calls no allocator.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    #[must_use]
    pub unsafe fn allocate_in_slab(self, size: usize, fill: Fill) -> Option<TaggedBlock> {
        // SAFETY: the tree rule.
        let collector = unsafe { self.0.block() };
        if !has_slot_for(collector, size) || collector.has(DYING) {
            return None;
        }
        // SAFETY: the tree rule; a collector with slabs.
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

    #[inline(never)]
    unsafe fn allocate_further(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the tree rule.
        let collector = unsafe { self.0.block() };
        if has_slot_for(collector, size) {
            if collector.has(DYING) {
                return Err(HostError::Misuse(Misuse::Dying));
            }
            // SAFETY: the tree rule.
            unsafe { further(collector) }?;
            // SAFETY: the tree rule.
            let new = unsafe { self.allocate_in_slab(size, fill) };
            return new.ok_or(HostError::Misuse(Misuse::Held));
        }
        if collector.is_collected() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        // SAFETY: the tree rule.
        let new = unsafe { self.0.allocate(size, fill) }?;
        // SAFETY: just allocated.
        let block = unsafe { new.block() };
        block.set_destructor_number(COLLECTED);
        paint(block, collector);
        Ok(new)
    }

    /// Unmarks all present blocks; those allocated from now on are marked. False, and nothing changed, if another
    /// collector collects this one's block.
    ///
    /// # Safety
    /// See the type.
    #[doc(alias("gc_sweep_start"))]
    #[must_use]
    pub unsafe fn begin_sweep(self) -> bool {
        // SAFETY: the tree rule.
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

    /// Keeps a block of this collector in the present sweep; a block that is not collected stays as it is.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    #[doc(alias("gc_mark_live"))]
    pub unsafe fn mark(self, block: TaggedBlock) {
        // SAFETY: the tree rule.
        let block = unsafe { block.block() };
        if block.is_collected() {
            // SAFETY: the tree rule.
            paint(block, unsafe { self.0.block() });
        }
    }

    /// Frees all unmarked blocks of this collector, with what is below them. O(blocks of the collector).
    ///
    /// # Safety
    /// See the type; and as [`TaggedBlock::free`] for the unmarked blocks.
    #[doc(alias("gc_sweep_end"))]
    pub unsafe fn end_sweep(self) {
        // SAFETY: the tree rule.
        let collector = unsafe { self.0.block() };
        if collector.is_slot() {
            return;
        }
        if is_collector(collector) {
            // SAFETY: the tree rule.
            ThreadTable::with(|table| unsafe { sweep(collector, table) });
        }
        let is_dead =
            |block: &Block| block.is_collected() && block.has(MARKED) != collector.has(MARKED) && !block.has(DYING);
        let mut dead = tree::children(collector).filter(is_dead);
        let Some(first) = dead.next() else { return };
        // Allocators are called after the walk, when the oldest is freed.
        let mut dying = first;
        let mut at = first.header().next.get();
        while let Some(block) = at {
            at = block.header().next.get();
            if is_dead(&block) {
                tree::move_below(dying, Some(block));
                dying = block;
            }
        }
        // SAFETY: the tree rule.
        ThreadTable::with(|table| unsafe { tree::free(dying, table) });
    }
}

fn has_slot_for(collector: Block, size: usize) -> bool {
    is_collector(collector) && size <= MAX_SIZE
}

fn paint(block: Block, collector: Block) {
    block.set_colour(collector.colour());
}

/// With [`FRONT`] added, each further slab is twice as long, up to [`MAX_SLAB`].
const MIN_SLAB: usize = (4 << 10) - FRONT;
const MAX_SLAB: usize = (32 << 10) - FRONT;
/// Room for the headers of the block and of the C library: a slab fills a power of two.
const FRONT: usize = 64;

#[repr(C)]
struct SlabLists {
    newest: Cell<Option<NonNull<Slab>>>,
    free: [Cell<Option<Block>>; CLASS_COUNT],
}

impl SlabLists {
    pub(super) const fn new() -> Self {
        Self { newest: Cell::new(None), free: [const { Cell::new(None) }; CLASS_COUNT] }
    }

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
    // SAFETY: written by `init`; reached only through cells.
    unsafe { collector.payload().cast::<SlabLists>().as_ref() }
}

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

/// # Safety
/// The block is a live collector with slabs, and only this thread uses its tree.
unsafe fn further(collector: Block) -> Result<(), HostError> {
    // SAFETY: this function's contract.
    let lists = unsafe { lists(collector) };
    let older = lists.newest.get();
    let bytes = older.map_or(MIN_SLAB, |older| {
        // SAFETY: the slab rule.
        let last = usize::from(unsafe { older.as_ref() }.end);
        last.saturating_add(FRONT).saturating_mul(2).saturating_sub(FRONT).min(MAX_SLAB)
    });
    let owner = TaggedBlock::from_payload(collector.payload());
    // SAFETY: this function's contract.
    let block = unsafe { owner.allocate(bytes, Fill::Undefined) }?;
    let new = block.payload().cast::<Slab>();
    let slab = Slab { older: Cell::new(older), used: Cell::new(FIRST as u16), end: bytes as u16 };
    // SAFETY: the block is new, longer than this, and aligned to 16.
    unsafe { new.write(slab) };
    // SAFETY: the payload of the new block.
    unsafe { block.block() }.set_destructor_number(SLAB);
    lists.newest.set(Some(new));
    Ok(())
}

/// A free slot stays as it is.
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

/// # Safety
/// The block is a live collector with slabs, only this thread uses its tree, and those slots are not used after this.
unsafe fn sweep(collector: Block, table: ThreadTable<'_>) {
    if collector.has(DYING) {
        return;
    }
    // SAFETY: this function's contract.
    let lists = unsafe { lists(collector) };
    // No slot of a freed slab stays listed.
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
            all().filter(|slot| bits(*slot) != kept).for_each(|slot| lists.push(slot));
        } else if let Some(newer) = newer {
            newer.older.set(next);
            // SAFETY: a slab is the payload of a block.
            let block = unsafe { Block::of_payload(slab.cast()) };
            // SAFETY: nothing refers to the slab any more.
            unsafe { tree::free(block, table) };
            continue;
        } else {
            all().for_each(|slot| set_free(slot, None));
            state.used.set(FIRST as u16);
        }
        newer = Some(state);
    }
}

const MAX_SIZE: usize = 512;
const UNIT: usize = 16;
const TAIL: usize = size_of::<Tail>();
const MIN_STRIDE: usize = (TAIL + size_of::<Option<Block>>()).next_multiple_of(UNIT);
const CLASS_COUNT: usize = class(MAX_SIZE) + 1;

const SIZE_SHIFT: u32 = 16;

const _: () = assert!(MAX_SLAB <= u16::MAX as usize);

const fn stride(size: usize) -> usize {
    let stride = size.saturating_add(TAIL).next_multiple_of(UNIT);
    if stride < MIN_STRIDE { MIN_STRIDE } else { stride }
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

/// A header's length lies in front of the first slot's payload.
const FIRST: usize = 32 - TAIL;

const _: () = assert!((FIRST + TAIL).is_multiple_of(UNIT) && size_of::<Slab>() <= FIRST);

pub(super) fn is_collector(block: Block) -> bool {
    block.destructor_number() == COLLECTOR
}

/// # Safety
/// The slab is live, and long enough.
#[inline]
unsafe fn slot_at(slab: NonNull<Slab>, at: usize) -> Block {
    // SAFETY: this function's contract.
    let tail = unsafe { slab.cast::<u8>().add(at) };
    // SAFETY: this function's contract.
    let payload = unsafe { tail.add(TAIL) };
    // SAFETY: at least 32 bytes of the slab lie in front of every payload.
    unsafe { Block::of_payload(payload) }
}

#[inline]
pub(super) fn size(slot: Block) -> usize {
    (slot.tail().size.get() >> SIZE_SHIFT) as usize
}

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

/// The slot's word, which has its length, stays.
fn set_free(slot: Block, next: Option<Block>) {
    slot.tail().bits.set(0);
    // SAFETY: a free slot has room for the link.
    unsafe { slot.payload().cast::<Option<Block>>().write(next) };
}

/// # Safety
/// The slot's slab is live, and the slot is free.
unsafe fn next_free(slot: Block) -> Option<Block> {
    // SAFETY: written when the slot was freed.
    unsafe { slot.payload().cast::<Option<Block>>().read() }
}

/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn slab(slot: Block) -> Block {
    let place = slot.tail().size.get() & u32::from(u16::MAX);
    // SAFETY: the slab begins that many bytes before the payload.
    let slab = unsafe { slot.payload().sub(place as usize) };
    // SAFETY: a slab is the payload of a block.
    unsafe { Block::of_payload(slab) }
}

/// # Safety
/// The slot's slab is live.
pub(super) unsafe fn collector(slot: Block) -> Option<Block> {
    // SAFETY: this function's contract.
    tree::parent(unsafe { slab(slot) })
}
