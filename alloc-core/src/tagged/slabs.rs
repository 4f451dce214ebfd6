//! The slabs of a collector: contiguous slots of all sizes, and lists of free slots.
//!
//! A slab is freed with its last slot, except the newest slab, which is reused from its start. Slots are neither split nor joined, because
//! compilers request few different sizes.

use core::cell::Cell;
use core::ptr::NonNull;

use super::header::{Block, DYING};
use super::slot::{self, CLASS_COUNT, FIRST, FreeLinks, Slab};
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

    fn push(&self, slot: Block) {
        let Some(head) = self.free.get(slot::own_class(slot)) else {
            return; // no slot is longer
        };
        let next = head.replace(Some(slot));
        let links = FreeLinks {
            next: Cell::new(next),
            prev: Cell::new(None),
        };
        // SAFETY: every slot has room for the links, and this slot is free.
        unsafe { slot.payload().cast::<FreeLinks>().write(links) };
        if let Some(next) = next {
            // SAFETY: a slot in a list is free, and lies in a live slab.
            unsafe { slot::links(next) }.prev.set(Some(slot));
        }
    }

    /// Removes a free slot from its list.
    fn remove(&self, slot: Block) {
        // SAFETY: a slot in a list is free, and lies in a live slab.
        let links = unsafe { slot::links(slot) };
        let (next, prev) = (links.next.get(), links.prev.get());
        match prev {
            // SAFETY: as above.
            Some(prev) => unsafe { slot::links(prev) }.next.set(next),
            None => {
                if let Some(head) = self.free.get(slot::own_class(slot)) {
                    head.set(next);
                }
            }
        }
        if let Some(next) = next {
            // SAFETY: as above.
            unsafe { slot::links(next) }.prev.set(prev);
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
    // SAFETY: forwarded.
    let lists = unsafe { lists(collector) };
    let head = lists.free.get(slot::class(size))?;
    let (slot, slab) = match head.get() {
        Some(free) => {
            lists.remove(free);
            // SAFETY: a slot in a list lies in a live slab.
            (free, unsafe { slot::slab_of(free) })
        }
        None => {
            let newest = lists.newest.get()?;
            // SAFETY: forwarded.
            (unsafe { unused(newest, slot::stride(size)) }?, newest)
        }
    };
    slot::set_live(slot, size, collector);
    // SAFETY: as above.
    let live = unsafe { &slab.as_ref().live };
    live.set(live.get().wrapping_add(1));
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
    // SAFETY: forwarded.
    unsafe { further(collector) }?;
    // SAFETY: forwarded. A slab has room for the longest slot.
    unsafe { allocate(collector, size) }.ok_or(HostError::Misuse(Misuse::Held))
}

/// The next unused slot of a slab, if it has room for one.
///
/// # Safety
/// The slab is live.
#[inline]
unsafe fn unused(slab: NonNull<Slab>, stride: usize) -> Option<Block> {
    // SAFETY: forwarded.
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
    // SAFETY: forwarded.
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
    // SAFETY: forwarded. A callback of the allocator must not use this tree.
    let block = unsafe { owner.allocate(bytes, Fill::Undefined) }?;
    let new = block.payload().cast::<Slab>();
    let slab = Slab {
        older: Cell::new(older),
        newer: Cell::new(None),
        used: Cell::new(FIRST as u16),
        end: bytes as u16,
        live: Cell::new(0),
    };
    // SAFETY: the block is new, longer than this, and aligned to 16.
    unsafe { new.write(slab) };
    // SAFETY: as above: a block's payload.
    unsafe { block.block() }.set_destructor_number(tables::SLAB);
    if let Some(older) = older {
        // SAFETY: as above.
        unsafe { older.as_ref() }.newer.set(Some(new));
    }
    lists.newest.set(Some(new));
    Ok(())
}

/// Frees a slot. Does nothing if the slot is already free, or if its collector is being freed: then the slot is freed with its slab.
///
/// # Safety
/// The slot's slab is live, and only this thread uses its tree. The slot is not used after this.
pub(super) unsafe fn free(slot: Block, table: ThreadTable<'_>) {
    // SAFETY: forwarded.
    let collector = unsafe { slot::collector(slot) };
    let Some(collector) = collector.filter(|collector| !collector.has(DYING)) else {
        return;
    };
    if !slot.is_collected() {
        return;
    }
    // SAFETY: forwarded.
    let slab = unsafe { slot::slab_of(slot) };
    // SAFETY: the slot's slab is live.
    if unsafe { slab.as_ref() }.live.get() == 1 {
        // SAFETY: forwarded: this is the last live slot.
        unsafe { empty(collector, slab, table) };
    } else {
        // SAFETY: forwarded.
        unsafe { free_one(collector, slab, slot) };
    }
}

/// # Safety
/// As [`free`]; the slot is live, in this slab of the collector.
unsafe fn free_one(collector: Block, slab: NonNull<Slab>, slot: Block) {
    slot::set_free(slot);
    // SAFETY: forwarded.
    let live = unsafe { &slab.as_ref().live };
    live.set(live.get().wrapping_sub(1));
    // SAFETY: forwarded.
    unsafe { lists(collector) }.push(slot);
}

/// All slots of a slab.
///
/// # Safety
/// The slab is live as long as the iterator is used.
unsafe fn slots(slab: NonNull<Slab>) -> impl Iterator<Item = Block> {
    // SAFETY: forwarded.
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

/// Frees a slab whose slots are no longer used.
///
/// # Safety
/// `slab` belongs to `collector`, which is live. No slot of the slab is used after this. Slots that are not marked as free are in no list.
unsafe fn empty(collector: Block, slab: NonNull<Slab>, table: ThreadTable<'_>) {
    // SAFETY: forwarded.
    let lists = unsafe { lists(collector) };
    // SAFETY: the slab is live until the end of this function.
    for slot in unsafe { slots(slab) } {
        if slot.is_collected() {
            // If the slab stays, a second free of the slot finds it free.
            slot::set_free(slot);
        } else {
            lists.remove(slot);
        }
    }
    // SAFETY: forwarded.
    let state = unsafe { slab.as_ref() };
    let Some(newer) = state.newer.get() else {
        state.used.set(FIRST as u16);
        state.live.set(0);
        return;
    };
    let older = state.older.get();
    // SAFETY: a collector's slabs are live.
    unsafe { newer.as_ref() }.older.set(older);
    if let Some(older) = older {
        // SAFETY: as above.
        unsafe { older.as_ref() }.newer.set(Some(newer));
    }
    // SAFETY: a slab is the payload of a block.
    let block = unsafe { Block::of_payload(slab.cast()) };
    // SAFETY: nothing refers to the slab any more.
    unsafe { walk::free(block, table) };
}

/// Frees all slots that do not have the collector's colour.
///
/// # Safety
/// The block is a live collector with slabs, only this thread uses its tree, and those slots are not used after this.
pub(super) unsafe fn sweep(collector: Block, table: ThreadTable<'_>) {
    if collector.has(DYING) {
        return;
    }
    // SAFETY: forwarded.
    let mut next = unsafe { lists(collector) }.newest.get();
    let kept = slot::live_bits(collector);
    while let Some(slab) = next {
        // SAFETY: a collector's slabs are live.
        next = unsafe { slab.as_ref() }.older.get();
        // SAFETY: as above.
        if !unsafe { slots(slab) }.any(|slot| slot::bits(slot) == kept) {
            // SAFETY: forwarded.
            unsafe { empty(collector, slab, table) };
            continue;
        }
        // SAFETY: forwarded; a kept slot keeps the slab.
        unsafe { free_unmarked(collector, slab, kept) };
    }
}

/// Frees the slots of a slab that are neither free nor have these bits.
///
/// # Safety
/// As [`sweep`]; the slab is the collector's.
unsafe fn free_unmarked(collector: Block, slab: NonNull<Slab>, kept: u16) {
    // SAFETY: forwarded.
    let lists = unsafe { lists(collector) };
    let mut freed = 0_u16;
    // SAFETY: forwarded.
    for slot in unsafe { slots(slab) } {
        let bits = slot::bits(slot);
        if bits != kept && bits != slot::FREE {
            slot::set_free(slot);
            lists.push(slot);
            freed = freed.wrapping_add(1);
        }
    }
    // SAFETY: forwarded.
    let live = unsafe { &slab.as_ref().live };
    live.set(live.get().wrapping_sub(freed));
}
