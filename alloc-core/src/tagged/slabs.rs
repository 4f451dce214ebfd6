//! The slabs of a collector: contiguous slots of all sizes, and lists of free slots.
//!
//! Slots are neither split nor joined, because compilers request few different sizes. A sweep frees the slabs in which it leaves nothing, except
//! the newest one, which is used again from its start.

use core::cell::Cell;
use core::ptr::NonNull;

use super::header::{Block, DYING};
use super::slot::{self, CLASS_COUNT, FIRST, Slab};
use super::{Fill, TaggedBlock, tables, walk};
use crate::error::{HostError, Misuse};
use crate::threads::ThreadTable;

/// Bytes of a collector's first slab. With [`FRONT`] added, each further slab is twice as long as the previous slab, up to [`MAX_SLAB`].
const MIN_SLAB: usize = (4 << 10) - FRONT;
const MAX_SLAB: usize = (32 << 10) - FRONT;
/// Room for the header of the slab's block and the C library's header: a slab and both headers together fill a power of two.
const FRONT: usize = 64;

/// The payload of a collector with slabs.
#[repr(C)]
pub(super) struct SlabLists {
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
        if let Some(head) = self.free.get(slot::own_class(slot)) {
            slot::set_free(slot, head.get());
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
pub(super) unsafe fn allocate(collector: Block, size: usize) -> Option<Block> {
    if collector.has(DYING) {
        return None;
    }
    // SAFETY: this function's contract: a live collector with slabs, whose tree only this thread uses.
    let lists = unsafe { lists(collector) };
    let head = lists.free.get(slot::class(size))?;
    let slot = match head.get() {
        Some(free) => {
            // SAFETY: a slot in a list is free, and lies in a live slab.
            head.set(unsafe { slot::next_free(free) });
            free
        }
        // SAFETY: a collector's slabs are live.
        None => unsafe { unused(lists.newest.get()?, slot::stride(size)) }?,
    };
    slot::set_live(slot, size, collector);
    Some(slot)
}

/// As [`allocate`], from a new slab.
///
/// # Errors
/// [`Misuse::Dying`] if the collector is being freed; the domain's refusal of a slab.
///
/// # Safety
/// As [`allocate`].
#[cold]
pub(super) unsafe fn allocate_in_further(
    collector: Block,
    size: usize,
) -> Result<Block, HostError> {
    if collector.has(DYING) {
        return Err(HostError::Misuse(Misuse::Dying));
    }
    // SAFETY: this function's contract: a live collector with slabs, whose tree only this thread uses.
    unsafe { further(collector) }?;
    // SAFETY: this function's contract. A slab has room for the longest slot.
    unsafe { allocate(collector, size) }.ok_or(HostError::Misuse(Misuse::Held))
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
    Some(unsafe { slot::init(slab, at, stride) })
}

/// # Safety
/// As [`allocate`].
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
    unsafe { block.block() }.set_destructor_number(tables::SLAB);
    lists.newest.set(Some(new));
    Ok(())
}

/// Frees a slot, to be used again. Does nothing if the slot is already free, or if its collector is being freed: then the slot is freed with
/// its slab.
///
/// # Safety
/// The slot's slab is live, and only this thread uses its tree. The slot is not used after this.
pub(super) unsafe fn free(slot: Block) {
    // SAFETY: this function's contract.
    let collector = unsafe { slot::collector(slot) };
    if let Some(collector) =
        collector.filter(|collector| slot.is_collected() && !collector.has(DYING))
    {
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
        let slot = unsafe { slot::at(slab, at) };
        at = at.wrapping_add(slot::own_stride(slot));
        Some(slot)
    })
}

/// Frees all slots that do not have the collector's colour.
///
/// # Safety
/// The block is a live collector with slabs, only this thread uses its tree, and those slots are not used after this.
pub(super) unsafe fn sweep(collector: Block, table: ThreadTable<'_>) {
    if collector.has(DYING) {
        return;
    }
    // SAFETY: this function's contract.
    let lists = unsafe { lists(collector) };
    // All free slots are put into the lists anew, so that none of a freed slab is left in one.
    lists.free.iter().for_each(|head| head.set(None));
    let kept = slot::live_bits(collector);
    let mut newer: Option<&Slab> = None;
    let mut next = lists.newest.get();
    while let Some(slab) = next {
        // SAFETY: a collector's slabs are live.
        let state = unsafe { slab.as_ref() };
        next = state.older.get();
        // SAFETY: the slab is live.
        let all = || unsafe { slots(slab) };
        if all().any(|slot| slot::bits(slot) == kept) {
            all()
                .filter(|slot| slot::bits(*slot) != kept)
                .for_each(|slot| lists.push(slot));
        } else if let Some(newer) = newer {
            newer.older.set(next);
            // SAFETY: a slab is the payload of a block.
            let block = unsafe { Block::of_payload(slab.cast()) };
            // SAFETY: neither a list nor another slab refers to the slab any more.
            unsafe { walk::free(block, table) };
            continue;
        } else {
            // A slot that is wrongly freed again is known as free.
            all().for_each(|slot| slot::set_free(slot, None));
            state.used.set(FIRST as u16);
        }
        newer = Some(state);
    }
}
